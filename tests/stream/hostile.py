"""Hostile Kafka messages: packed values that begin valid and are broken where the format has a seam; seeded.

In: a seed. Out: messages of every packed topic, some of which are still valid; nothing here says which.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Raw, msgpack

from stream.kinds import KINDS

PACKED_TOPICS = ("pfc", "ecn", "queue", "flowbytes", "pcie", "kernel", "host", "episode")
ROW_FIELDS = (
    "time_ns", "seen_ns", "span_ns", "value", "extra", "flow", "device", "port", "kind", "priority", "side", "quality",
)  # fmt: skip
FIELD_BITS = (64, 64, 64, 64, 64, 64, 16, 16, 8, 8, 8, 8)
ROW = struct.Struct("<QQQQQQHHBBBB")
NOW_NS = 1_790_000_000_000_000_000

EXTREMES = (
    0, 1, -1, 2, 7, 8, 127, 128, 254, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**53, 2**62 - 1, 2**62, 2**62 + 1,
    2**63 - 1025, 2**63 - 1024, 2**63 - 1, -(2**63), 1 - 2**63,
)  # fmt: skip


class Message(NamedTuple):
    """A Kafka message by the topic's bare name, and what was done to it."""

    topic: str
    key: bytes | None
    value: bytes
    how: str


def _nested(depth: int, opening: bytes) -> Raw:
    return Raw(opening * depth + b"\xc0")


ODD_OBJECTS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, math.nan, math.inf, 2**63, 2**64 - 1, -(2**63), "", "1", "x" * 224,
    "x" * 225, "x" * 256, "x" * 257, "é" * 256, "😀" * 256, "a\0b", "a/b", "/", "\n", b"bytes", [], [[]], {}, {"a": 1},
    ["p"], ["p", "p"], [""], [None], [1], [1.0], ["p" * 257], [b"p"], [[0, "text"]], [[1, "text"]], [[-1, "text"]],
    [[0.0, "text"]], [[0, 1]], [[0]], [[0, "a", "b"]], [[1023, "x"]], [[1024, "x"]], [[2**63, "x"]], [[0, "x" * 4097]],
    [{"0": "x"}],
    Raw(b"\xc1"), Raw(b"\xa1\xff"), Raw(b"\xa3\xed\xa0\x80"), Raw(b"\xa2\xc0\x80"), Raw(b"\x91\xa1\xff"),
    Raw(b"\xdd\xff\xff\xff\xff"), Raw(b"\xdc\xff\xff"), Raw(b"\xdf\xff\xff\xff\xff"), Raw(b"\xdb\xff\xff\xff\xff"),
    Raw(b"\xc6\xff\xff\xff\xff"), Raw(b"\xc9\xff\xff\xff\xff\x01"), Raw(b"\xd6\xff\xff\xff\xff\xff"),
    Raw(b"\xcf" + bytes(7) + b"\x01"), Raw(b"\xd3" + b"\xff" * 8), Raw(b"\xca\x3f\x80\x00\x00"), Raw(b"\xd4\x05\x00"),
    Raw(b"\xd9\x01s"), Raw(b"\xda\x00\x01s"), Raw(b"\xdb\x00\x00\x00\x01s"), Raw(b"\xdc\x00\x01\xa1p"),
    _nested(20, b"\x91"), _nested(5_000, b"\x91"), _nested(5_000, b"\x81\xa1a"), _nested(5_000, b"\x81"),
)  # fmt: skip
NAME_FIELDS = ("source", "epoch", "seq", "mark_ns", "lost", "fabric", "device", "ports", "texts")


@dataclass
class Draft:
    """A value in parts that can be broken one by one; `build` puts them together as they are."""

    topic: str
    rows: list[list[int]]
    names: list[tuple[Any, Any]]
    key: bytes | None
    magic: bytes = b"PTB1"
    record_bytes: int = 56
    version: int = 1
    count: int | None = None
    names_bytes: int | None = None
    packed_names: bytes | None = None
    row_tail: bytes = b""
    padding: bytes | None = None
    how: list[str] = field(default_factory=list)

    def build(self) -> bytes:
        """The value's bytes; numbers wrap into their fields."""
        packed = self.packed_names if self.packed_names is not None else pack_map(self.names)
        count = len(self.rows) if self.count is None else self.count
        names_bytes = len(packed) if self.names_bytes is None else self.names_bytes
        header = struct.pack(
            "<4sHHII", self.magic, self.record_bytes & 0xFFFF, self.version & 0xFFFF, count & 0xFFFF_FFFF,
            names_bytes & 0xFFFF_FFFF,
        )  # fmt: skip
        padding = bytes(-len(packed) % 8) if self.padding is None else self.padding
        rows = b"".join(
            ROW.pack(*(n & ((1 << bits) - 1) for n, bits in zip(row, FIELD_BITS, strict=True))) + self.row_tail
            for row in self.rows
        )
        return header + packed + padding + rows


def pack_map(pairs: list[tuple[Any, Any]]) -> bytes:
    """A msgpack map of the pairs as they are: keys may repeat and be of any type."""
    size = bytes([0x80 + len(pairs)]) if len(pairs) < 16 else b"\xde" + len(pairs).to_bytes(2, "big")
    return size + b"".join(msgpack.encode(part) for pair in pairs for part in pair)


def valid(rng: random.Random, topic: str | None = None, most_rows: int = 6) -> Draft:
    """A value that every reader takes."""
    topic = topic or rng.choice(PACKED_TOPICS)
    ports = [f"Ethernet{i}" for i in range(rng.randint(1, 4))]
    codes = [kind for kind in KINDS if topic == "episode" or kind.topic in ("", topic)]
    rows = []
    for i in range(rng.randint(0, most_rows)):
        kind = rng.choice(codes)
        value = rng.choice((kind.value.low, kind.value.high, rng.randint(kind.value.low, kind.value.high), -(2**63)))
        extra = rng.choice((kind.extra.low, kind.extra.high, rng.randint(kind.extra.low, kind.extra.high), -(2**63)))
        rows.append(
            [NOW_NS + i, NOW_NS + 1000, rng.choice((0, 10_000_000)), value, extra, rng.getrandbits(64), 0,
             rng.randrange(len(ports)), kind.code, rng.choice((0, 3, 7, 255)), rng.randint(0, 2), rng.getrandbits(7)]
        )  # fmt: skip
    texts = [[row, f"text {row}"] for row in range(len(rows)) if rng.random() < 0.1]
    names = ("gnmi:leaf-1", "boot-1", rng.getrandbits(40), NOW_NS, 0, "dc-1", "leaf-1", ports, texts)
    return Draft(topic, rows, list(zip(NAME_FIELDS, names, strict=True)), b"dc-1/leaf-1")


def _header(rng: random.Random, draft: Draft) -> None:
    part = rng.choice(("magic", "record_bytes", "version", "count", "names_bytes", "padding"))
    if part == "magic":
        draft.magic = rng.choice((b"PTB0", b"PTB2", b"ptb1", b"\0\0\0\0", b"\x1bLua", rng.randbytes(4)))
    elif part == "record_bytes":
        draft.record_bytes = rng.choice((0, 1, 8, 48, 55, 57, 64, 112, 1023, 1024, 1025, 32_768, 65_535))
    elif part == "version":
        draft.version = rng.choice((0, 2, 3, 255, 65_535))
    elif part == "count":
        near = len(draft.rows) + rng.choice((-2, -1, 1, 2))
        draft.count = rng.choice((near, near, 0, 1024, 1025, 2**16, 2**31 - 1, 2**31, 2**32 - 1))
    elif part == "names_bytes":
        size = len(pack_map(draft.names))
        wrong = (size - 8, size - 1, size + 1, size + 7, size + 8, 0, 1, 2**20, 2**20 + 8, 2**31, 2**32 - 1)
        draft.names_bytes = rng.choice(wrong)
    else:
        draft.padding = rng.choice((b"", b"\x01", bytes(8), b"\x01" * (-len(pack_map(draft.names)) % 8)))
    draft.how.append(part)


def _field_of_names(rng: random.Random, draft: Draft) -> None:
    at = rng.randrange(len(draft.names))
    name = draft.names[at][0]
    if rng.random() < 0.3 and name in ("seq", "mark_ns", "lost"):
        odd: Any = rng.choice(EXTREMES)
    else:
        odd = rng.choice(ODD_OBJECTS)
    draft.names[at] = (name, odd)
    draft.how.append(f"{name} odd")


def _shape_of_names(rng: random.Random, draft: Draft) -> None:
    what = rng.choice(
        ("drop", "twice", "unknown field", "odd key", "array", "cut", "tail", "scalar", "shuffled", "deep")
    )
    if what == "drop":
        del draft.names[rng.randrange(len(draft.names))]
    elif what == "twice":
        draft.names.append((rng.choice(draft.names)[0], rng.choice(ODD_OBJECTS)))
    elif what == "unknown field":
        draft.names.insert(
            rng.randrange(len(draft.names)), (rng.choice(("later", "", "a\0", "s")), rng.choice(ODD_OBJECTS))
        )
    elif what == "odd key":
        draft.names[0] = (
            rng.choice((0, None, b"source", [], Raw(b"\xa1\xff"), "Source", "source\0", _nested(5_000, b"\x91"))),
            "s",
        )
    elif what == "array":
        draft.packed_names = msgpack.encode([value for _, value in draft.names])
    elif what in ("cut", "tail"):
        packed = pack_map(draft.names)
        draft.packed_names = (
            packed[: rng.randrange(len(packed))] if what == "cut" else packed + rng.choice((b"\0", b"\xc0", packed))
        )
    elif what == "scalar":
        draft.packed_names = msgpack.encode(rng.choice(ODD_OBJECTS))
    elif what == "shuffled":
        rng.shuffle(draft.names)
    else:
        draft.packed_names = bytes(_nested(rng.choice((900, 5_000, 100_000)), rng.choice((b"\x91", b"\x81\xa1a"))))
    draft.how.append(f"names {what}")


def _field_of_a_row(rng: random.Random, draft: Draft) -> None:
    if not draft.rows:
        draft.rows.append([NOW_NS, NOW_NS, 0, 0, 0, 0, 0, 0, 1, 3, 1, 1])
    row = rng.choice(draft.rows)
    at = rng.randrange(len(ROW_FIELDS))
    row[at] = rng.choice((*EXTREMES, row[at] + 1, row[at] - 1, row[at] ^ (1 << rng.randrange(FIELD_BITS[at]))))
    draft.how.append(f"row {ROW_FIELDS[at]}")


def _measure_at_its_limit(rng: random.Random, draft: Draft) -> None:
    kind = rng.choice(KINDS)
    row = [NOW_NS, NOW_NS, 0, 0, 0, 0, 0, 0, kind.code, 255, 0, 0]
    at, measure = rng.choice(((3, kind.value), (4, kind.extra)))
    row[at] = rng.choice((measure.low - 1, measure.low, measure.high, measure.high + 1, -(2**63)))
    draft.rows.insert(rng.randint(0, len(draft.rows)), row)
    draft.how.append(f"{kind.name} at a limit")


def _unknown_kinds(rng: random.Random, draft: Draft) -> None:
    for row in draft.rows:
        if rng.random() < 0.5:
            row[8] = rng.choice((0, 6, 15, 63, 200, 255))
            row[rng.randrange(8)] = rng.choice(EXTREMES)
    draft.how.append("unknown kinds")


def _later_version(rng: random.Random, draft: Draft) -> None:
    tail = rng.choice((8, 8, 8, 1, 3, 968))
    draft.version, draft.record_bytes = rng.choice((2, 3, 65_535)), 56 + tail
    draft.row_tail = rng.randbytes(tail)
    draft.how.append("later version")


def _wrong_key(rng: random.Random, draft: Draft) -> None:
    draft.key = rng.choice(
        (b"", b"dc-1", b"dc-1/", b"/leaf-1", b"dc-1/leaf-2", b"dc-1/leaf-1\0", b"\xff\xfe", rng.randbytes(300))
    )
    draft.how.append("key")


def _many(rng: random.Random, draft: Draft) -> None:
    what = rng.choice(("rows", "ports", "texts"))
    if what == "rows":
        size = rng.choice((512, 1024, 1025))
        draft.rows = [[NOW_NS + i, NOW_NS, 0, 0, 0, 0, 0, 0, 1, 3, 1, 1] for i in range(size)]
        draft.topic = "pfc"
    else:
        size = rng.choice((4096, 4097, 70_000) if what == "ports" else (1024, 1025, 70_000))
        one = b"\xa1p" if what == "ports" else b"\x92\x00\xa1t"
        draft.names = [(name, Raw(b"\xdd" + size.to_bytes(4, "big") + one * size) if name == what else value)
                       for name, value in draft.names]  # fmt: skip
    draft.how.append(f"{size} {what}")


Breaker = Callable[[random.Random, Draft], None]
BREAKERS: tuple[tuple[Breaker, float], ...] = (
    (_header, 20), (_field_of_names, 30), (_shape_of_names, 15), (_field_of_a_row, 40), (_measure_at_its_limit, 15),
    (_unknown_kinds, 8), (_later_version, 8), (_wrong_key, 4), (_many, 0.2),
)  # fmt: skip
BYTE_BREAKERS = ("cut", "extend", "flip", "overwrite", "drop", "double", "noise")


def broken_bytes(rng: random.Random, value: bytes) -> tuple[bytes, str]:
    """The value damaged without regard to its structure, and how."""
    how = rng.choice(BYTE_BREAKERS)
    at = rng.randrange(len(value) + 1)
    if how == "cut":
        return value[:at], how
    if how == "extend":
        return value + rng.randbytes(rng.choice((1, 8, 55, 56, 57, 5000))), how
    if how == "flip":
        damaged = bytearray(value)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        return bytes(damaged), how
    if how == "overwrite":
        return value[:at] + rng.randbytes(rng.randint(1, 16)) + value[at + 16 :], how
    if how == "drop":
        return value[:at] + value[at + rng.randint(1, 56) :], how
    if how == "double":
        return value + value, how
    return rng.randbytes(at), how


def hostile_messages(seed: int, count: int) -> Iterator[Message]:
    """`count` messages of packed topics, the same for the same seed."""
    rng = random.Random(seed)
    breakers, weights = zip(*BREAKERS, strict=True)
    for _ in range(count):
        draft = valid(rng)
        for breaker in rng.choices(breakers, weights, k=rng.choice((1, 1, 1, 2, 3))):
            breaker(rng, draft)
        value, how = draft.build(), ", ".join(draft.how)
        if value and rng.random() < 0.1:
            value, damage = broken_bytes(rng, value)
            how += f", {damage}"
        yield Message(draft.topic, draft.key, value, how)
