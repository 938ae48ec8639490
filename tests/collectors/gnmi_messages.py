"""Random SubscribeResponses, written field by field so that all that protobuf allows occurs, and then damaged.

In: a seed. Out: raw messages; about half are what a device sends, the others have what none should.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

VARINT, FIXED64, LENGTH, GROUP, FIXED32 = 0, 1, 2, 3, 5
NAMES = (
    "interfaces",
    "interface",
    "state",
    "counters",
    "in-octets",
    "qos:queues",
    "queue",
    "If-list",
    "Ü",
    "",
    "a/b",
    "a[b]",
)
KEYS = ("name", "index", "queue-name", "é")
VALUES = ("Ethernet1", "Ethernet1/1", "3", "a]b\\c", "", "ü" * 20, "0")
TEXTS = (
    "",
    "up",
    "7",
    "-12",
    "007",
    "18446744073709551615",
    "9223372036854775808",
    "naïve",
    "x" * 300,
    "\u20ac" * 9,
    "1.5",
)
INTEGERS = (0, 1, 7, 127, 128, 16383, 16384, 2**31 - 1, 2**32, 2**53 + 1, 2**56, 2**63 - 1, 2**63, 2**64 - 1)
JSON_NUMBERS = (
    "0", "-0", "7", "-3", "12345678", "123456789", "1234567890123456", "12345678901234567", "123456789012345678",
    "1234567890123456789", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "99999999999999999999",
    "123456789012345678901234567890", "1.5", "-0.1", "0.30000000000000004", "1e5", "1E-3", "2.5e+10", "1e22", "1e23",
    "1e400", "-1e-400", "9007199254740993.0", "123456789.123456789123", "0.000001", "01", "1.", ".5", "-", "+1", "1e",
)  # fmt: skip
JSON_STRINGS = ("", "up", "a\\nb", "\\u00e9", "\\ud800", "\\x", "\\u12g4", "00:11", "1.2.3.4", "ü", "\t", "-1-2", "1e5")
LIST_KEYS = {"If-list": ("name",), "queues": ("index", "queue-name")}


_SHORT = [bytes([value]) for value in range(128)]


def varint(value: int) -> bytes:
    """An integer of 64 bits, a negative one by its two's complement."""
    if 0 <= value < 128:
        return _SHORT[value]
    value %= 1 << 64
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


class Writer:
    """Bytes of messages. `odd` is how often, in 1, something is written that no device should send."""

    def __init__(self, rng: random.Random, odd: float) -> None:
        self.rng, self.odd = rng, odd

    def is_odd(self, share: float = 1.0) -> bool:
        return self.odd > 0 and self.rng.random() < self.odd * share

    def varint(self, value: int, longest: int = 10) -> bytes:
        if not self.odd or (drawn := self.rng.random()) >= self.odd * 0.12:
            return varint(value)
        if drawn < self.odd * 0.02:
            return self.rng.choice((b"\x80", b"\xff")) * (longest - 1) + self.rng.choice(
                (b"\x00", b"\x01", b"\x02", b"\x7f")
            )
        written, more = bytearray(varint(value)), self.rng.randrange(longest + 1)
        written[-1] |= 128 if more else 0
        return bytes(written) + b"\x80" * (more - 1) + (b"\x00" if more else b"")

    def tag(self, number: int, wire: int) -> bytes:
        return self.varint(number << 3 | wire, 5)

    def number(self, field: int, value: int) -> bytes:
        return self.tag(field, VARINT) + self.varint(value)

    def bytes_of(self, field: int, inside: bytes) -> bytes:
        if not self.odd:
            return varint(field << 3 | LENGTH) + varint(len(inside)) + inside
        size = len(inside) + (self.rng.choice((-1, 1, 100, 1 << 31)) if self.is_odd(0.02) else 0)
        return self.tag(field, LENGTH) + self.varint(size, 5) + inside

    def text(self, field: int, text: str) -> bytes:
        raw = text.encode()
        if self.is_odd(0.05):
            raw += self.rng.choice(
                (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98\x80")
            )
        return self.bytes_of(field, raw)

    def unknown(self) -> bytes:
        rng = self.rng
        number = (
            rng.choice((0, 1, 2, 3, 4, 5, 7, 15, 16, 99, 2**29 - 1, 2**29))
            if self.is_odd(0.3)
            else rng.randrange(16, 40)
        )
        wire = rng.randrange(8) if self.is_odd() else rng.choice((VARINT, FIXED64, LENGTH, FIXED32))
        head = self.tag(number, wire)
        if wire == VARINT:
            return head + self.varint(rng.choice(INTEGERS))
        if wire == FIXED64:
            return head + rng.randbytes(8)
        if wire == FIXED32:
            return head + rng.randbytes(4)
        if wire == GROUP:
            return head + self.unknown() + self.tag(number + (1 if self.is_odd(0.1) else 0), 4)
        return head + (self.varint(3) + b"abc" if wire == LENGTH else b"")

    def message(self, fields: list[bytes]) -> bytes:
        """Fields in their order; oddly with others among them, some twice, or in another order."""
        if self.is_odd():
            for _ in range(self.rng.randrange(3)):
                fields.insert(self.rng.randint(0, len(fields)), self.unknown())
            if fields and self.is_odd(0.5):
                fields.insert(self.rng.randint(0, len(fields)), self.rng.choice(fields))
            if self.is_odd(0.3):
                self.rng.shuffle(fields)
        return b"".join(fields)

    def path(self, most: int = 4, target: str | None = None) -> bytes:
        rng = self.rng
        fields = []
        if self.is_odd(0.1):
            fields += [self.text(1, rng.choice(NAMES[:5])) for _ in range(rng.randrange(3))]
        if rng.random() < 0.1:
            fields.append(self.text(2, rng.choice(("openconfig", "", "a:b"))))
        for _ in range(rng.randint(0, most)):
            inside = [self.text(1, rng.choice(NAMES if self.is_odd() else NAMES[:8]))]
            count = rng.choice((0, 0, 0, 1, 2))
            keys = rng.sample(KEYS, count) if count else ()
            inside += [
                self.bytes_of(2, self.message([self.text(1, key), self.text(2, rng.choice(VALUES))])) for key in keys
            ]
            fields.append(self.bytes_of(3, self.message(inside)))
        if target is not None:
            fields.append(self.text(4, target))
        return self.message(fields)

    def json_text(self, depth: int = 0) -> str:
        rng = self.rng
        pad = rng.choice(("", "", "", " ", "\n\t"))
        kind = rng.randrange(8)
        if kind < 2 and depth < 5:
            names = [
                f'"{rng.choice((*NAMES[:8], "name", "m:name", "index", "SAI_PORT_STAT_PFC_3_RX_PKTS"))}"'
                for _ in range(rng.randrange(4))
            ]
            if self.is_odd(0.1):
                names.append('"a\\n"')
            members = [f"{pad}{name}{pad}:{pad}{self.json_text(depth + 1)}" for name in names]
            return "{" + f"{pad},".join(members) + pad + "}"
        if kind == 2 and depth < 5:
            return "[" + ",".join(self.json_text(depth + 1) for _ in range(rng.randrange(4))) + pad + "]"
        if kind < 5:
            number = (
                str(rng.getrandbits(rng.randrange(1, 70)))
                if rng.random() < 0.5
                else rng.choice(JSON_NUMBERS[: None if self.is_odd() else -7])
            )
            return f'"{number}"' if rng.random() < 0.5 else number
        if kind == 5:
            return rng.choice(
                ("true", "false", "null", "nul", "True") if self.is_odd(0.3) else ("true", "false", "null")
            )
        return '"' + (rng.choice(JSON_STRINGS) if self.is_odd() else "up") + '"'

    def json_bytes(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.1:
            entries = [{"name": f"eth{i}", "x": i} for i in range(3)]
            return json.dumps({rng.choice(("If-list", "qos:queues", "others")): entries}).encode()
        if self.is_odd(0.1):
            depth = rng.choice((15, 16, 17, 40, 63, 64, 65, 200))
            opening, closing = rng.choice((('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")))
            return (opening * depth + rng.choice(("1", "", '"x"')) + closing * depth).encode()
        raw = self.json_text().encode()
        return damaged(rng, raw) if self.is_odd(0.3) else raw

    def typed_value(self, nested: int = 0) -> bytes:
        rng = self.rng
        kind = rng.choice((1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11, 12, 13, 14, 0))
        if nested and kind == 8 and not (self.is_odd(0.1) and nested < 3):
            kind = 3
        integer = rng.choice(INTEGERS) if rng.random() < 0.5 else rng.getrandbits(rng.randrange(1, 64))
        fields: list[bytes] = []
        if kind in (1, 12):
            fields = [self.text(kind, rng.choice(TEXTS))]
        elif kind in (2, 3):
            fields = [self.number(kind, rng.choice((integer, -integer)) if kind == 2 else integer)]
        elif kind == 4:
            fields = [self.number(4, rng.choice((0, 1, 1, integer if self.is_odd() else 1)))]
        elif kind in (5, 13):
            fields = [self.bytes_of(kind, rng.randbytes(rng.randrange(20)))]
        elif kind == 6:
            fields = [self.tag(6, FIXED32) + rng.randbytes(4)]
        elif kind == 14:
            fields = [self.tag(14, FIXED64) + rng.randbytes(8)]
        elif kind == 7:
            inside = [
                self.number(1, rng.choice((integer, -integer))),
                self.number(2, rng.choice((0, 1, 3, 18, 22, 23, 300, 400))),
            ]
            fields = [self.bytes_of(7, self.message(inside[: rng.choice((1, 2, 2, 2))]))]
        elif kind == 8:
            elements = [self.bytes_of(1, self.typed_value(nested + 1)) for _ in range(rng.randrange(4))]
            fields = [self.bytes_of(8, self.message(elements))]
        elif kind == 9:
            fields = [
                self.bytes_of(9, self.message([self.text(1, "type.example/x"), self.bytes_of(2, rng.randbytes(9))]))
            ]
        elif kind in (10, 11):
            fields = [self.bytes_of(kind, self.json_bytes())]
        if self.is_odd(0.1):
            fields.append(self.typed_value(nested + 1))
        return self.message(fields)

    def update(self) -> bytes:
        rng = self.rng
        fields = [self.bytes_of(1, self.path())]
        if self.is_odd(0.05):
            fields.append(
                self.bytes_of(2, self.message([self.bytes_of(1, self.json_bytes()), self.number(2, rng.randrange(7))]))
            )
        if not self.is_odd(0.1):
            fields.append(self.bytes_of(3, self.typed_value()))
        if rng.random() < 0.1:
            fields.append(self.number(4, rng.choice(INTEGERS) if self.is_odd() else rng.randrange(1000)))
        return self.message(fields)

    def notification(self) -> bytes:
        rng = self.rng
        fields = [self.number(1, rng.choice((0, -1, 1_700_000_000_000_000_000 + rng.getrandbits(40))))]
        if rng.random() < 0.7:
            fields.append(self.bytes_of(2, self.path(3, rng.choice((None, "leaf1", "leaf2", "", "Ü")))))
        if self.is_odd(0.05):
            fields.append(self.text(3, "alias"))
        fields += [self.bytes_of(4, self.update()) for _ in range(rng.randrange(5))]
        fields += [self.bytes_of(5, self.path()) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        if rng.random() < 0.2:
            fields.append(self.number(6, rng.randrange(2)))
        return self.message(fields)

    def response(self) -> bytes:
        rng = self.rng
        kind = rng.random()
        if kind < 0.9:
            fields = [self.bytes_of(1, self.notification())]
        elif kind < 0.95:
            fields = [self.number(3, rng.randrange(2))]
        elif kind < 0.98:
            fields = []
        else:
            fields = [self.bytes_of(4, self.message([self.number(1, 5), self.text(2, "no such path")]))]
        if rng.random() < 0.1:
            registered = self.message([self.number(1, 1), self.bytes_of(2, rng.randbytes(6))])
            inside = self.bytes_of(1, registered) if not self.is_odd() else self.unknown()
            fields.append(self.bytes_of(5, self.message([inside])))
        return self.message(fields)


def damaged(rng: random.Random, raw: bytes) -> bytes:
    """The bytes with some changed, put in, taken out or doubled."""
    damage = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randint(0, len(damage))
        kind = rng.randrange(5)
        if kind == 0 and at < len(damage):
            damage[at] = rng.randrange(256)
        elif kind == 1 and at < len(damage):
            damage[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            damage[at:at] = rng.randbytes(rng.choice((1, 1, 2, 9)))
        elif kind == 3:
            del damage[at : at + rng.choice((1, 1, 2, 9))]
        else:
            damage[at:at] = damage[at : at + rng.choice((1, 4, 30))]
    return bytes(damage)


def messages(seed: int, count: int) -> Iterator[bytes]:
    """So many: of three, one is as devices send it, one is odd, and one is damaged or cut short."""
    rng = random.Random(seed)
    plain, odd = Writer(rng, 0.0), Writer(rng, 0.0)
    for i in range(count):
        odd.odd = rng.choice((0.02, 0.05, 0.2))
        if i % 3 == 0:
            yield plain.response()
        elif i % 3 == 1:
            yield odd.response()
        else:
            raw = rng.choice((plain, odd)).response()
            yield damaged(rng, raw) if i % 2 else raw[: rng.randint(0, len(raw))]
