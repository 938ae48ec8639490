"""The slow, obvious reader of a packed value, written from the format's description alone.

In: topic, key and value. Out: what the value says as plain Python objects, or `Refused`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from stream.kinds import BY_CODE, UNKNOWN

INT64_MAX = 2**63 - 1
MAX_TIME_NS = 2**62
ROW = struct.Struct("<qqqqqQHHBBBB")
ROW_FIELDS = (
    "time_ns", "seen_ns", "span_ns", "value", "extra", "flow", "device", "port", "kind", "priority", "side", "quality",
)  # fmt: skip
PACKED_TOPICS = ("pfc", "ecn", "queue", "flowbytes", "pcie", "kernel", "host", "episode")

Row = tuple[int, ...]


class Refused(Exception):  # noqa: N818 - an outcome of reading, not an error
    """The value breaks a rule of the format."""


@dataclass
class PlainBatch:
    """A packed value in plain objects; `kept` are the positions of the rows of known kind."""

    source: str
    epoch: str
    seq: int
    mark_ns: int
    lost: int
    fabric: str
    device: str
    ports: list[str]
    texts: list[tuple[int, str]]
    count: int
    rows: list[Row]
    kept: list[int]


def read(topic: str, key: bytes | None, value: bytes) -> PlainBatch:
    """What the value says; raises Refused."""
    _require(topic in PACKED_TOPICS, "topic")
    _require(len(value) >= 16, "header")
    magic, record_bytes, version, count, names_bytes = struct.unpack_from("<4sHHII", value)
    _require(magic == b"PTB1" and version >= 1, "magic or version")
    _require(record_bytes == 56 if version == 1 else 56 <= record_bytes <= 1024, "record size")
    _require(count <= 1024 and names_bytes <= 2**20, "count or length of names")
    padded = (names_bytes + 7) // 8 * 8
    _require(len(value) == 16 + padded + count * record_bytes, "length")
    _require(value[16 + names_bytes : 16 + padded].strip(b"\0") == b"", "padding")
    batch = _names(topic, value[16 : 16 + names_bytes], count)
    _require(key is None or key == (batch.fabric + "/" + batch.device).encode(), "key")
    for position in range(count):
        row = ROW.unpack_from(value, 16 + padded + position * record_bytes)
        if row[8] in BY_CODE:
            _check_row(topic, row, len(batch.ports))
            batch.rows.append(row)
            batch.kept.append(position)
    index = {position: row for row, position in enumerate(batch.kept)}
    batch.texts = [(index[position], text) for position, text in batch.texts if position in index]
    return batch


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(what)


def _check_row(topic: str, row: Row, port_count: int) -> None:
    time, seen, span, value, extra, _, device, port, code, priority, side, _ = row
    kind = BY_CODE[code]
    _require(kind.topic in ("", topic) or topic == "episode", "topic of the kind")
    _require(device == 0 and port < port_count, "index")
    _require(priority <= 7 or priority == 255, "priority")
    _require(side <= 2, "side")
    _require(0 <= time <= MAX_TIME_NS and 0 <= seen <= MAX_TIME_NS and 0 <= span <= time, "time")
    _require(value == UNKNOWN or kind.value.low <= value <= kind.value.high, "value")
    _require(extra == UNKNOWN or kind.extra.low <= extra <= kind.extra.high, "extra")


def _names(topic: str, packed: bytes, count: int) -> PlainBatch:
    reader = MsgpackReader(packed)
    fields = reader.struct_fields(
        {
            b"source": reader.name, b"epoch": reader.name, b"seq": reader.integer, b"mark_ns": reader.integer,
            b"lost": reader.integer, b"fabric": reader.name, b"device": reader.name, b"ports": reader.ports,
            b"texts": reader.texts,
        }
    )  # fmt: skip
    _require(reader.at == len(packed), "bytes after the names")
    fields.setdefault("texts", [])
    _require(len(fields) == 9, "a field is missing")
    batch = PlainBatch(**fields, count=count, rows=[], kept=[])  # type: ignore[arg-type]
    _require(len(batch.source) <= (256 if topic == "episode" else 224), "source")
    _require("/" not in batch.fabric, "fabric")
    _require(0 <= batch.seq <= INT64_MAX - 1024 and 0 <= batch.lost <= INT64_MAX, "seq or lost")
    _require(0 <= batch.mark_ns <= MAX_TIME_NS or batch.mark_ns == INT64_MAX, "mark_ns")
    _require(all(0 <= row < count for row, _ in batch.texts), "a text's row")
    return batch


class MsgpackReader:
    """Reads msgpack (github.com/msgpack/msgpack, spec.md) front to back; every method takes one object and moves on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct_fields(self, readers: dict[bytes, object]) -> dict[str, object]:
        """A map with string keys: the fields that are known, the last one where a key comes twice."""
        tag = self._byte()
        _require(0x80 <= tag <= 0x8F or tag in (0xDE, 0xDF), "not a map")
        fields: dict[str, object] = {}
        for _ in range(self._size(tag, 0x80, 0x0F, {0xDE: 2, 0xDF: 4})):
            key = self._string()
            if key in readers:
                fields[key.decode()] = readers[key]()  # type: ignore[operator]
            else:
                self._skip(0)
        return fields

    def name(self) -> str:
        """A string of 1 to 256 characters."""
        text = self.text()
        _require(1 <= len(text) <= 256, "length of a name")
        return text

    def text(self) -> str:
        """Any string in UTF-8."""
        try:
            return self._string().decode("utf-8", "strict")
        except UnicodeDecodeError as err:
            raise Refused("not UTF-8") from err

    def ports(self) -> list[str]:
        """At most 4,096 names."""
        count = self._array()
        _require(count <= 4096, "too many ports")
        return [self.name() for _ in range(count)]

    def texts(self) -> list[tuple[int, str]]:
        """At most 1,024 pairs of row and text."""
        count = self._array()
        _require(count <= 1024, "too many texts")
        pairs = []
        for _ in range(count):
            _require(self._array() == 2, "not a pair")
            row, text = self.integer(), self.text()
            _require(0 <= row < 1024 and len(text) <= 4096, "text")
            pairs.append((row, text))
        return pairs

    def integer(self) -> int:
        """Any integer; a float is none, not even 1.0."""
        tag = self._byte()
        if tag <= 0x7F or tag >= 0xE0:
            return tag if tag <= 0x7F else tag - 256
        _require(0xCC <= tag <= 0xD3, "not an integer")
        size = 1 << (tag & 3)
        return int.from_bytes(self._take(size), "big", signed=tag >= 0xD0)

    def _take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        _require(len(taken) == size, "truncated msgpack")
        self.at += size
        return taken

    def _byte(self) -> int:
        return self._take(1)[0]

    def _size(self, tag: int, fixed: int, mask: int, sized: dict[int, int]) -> int:
        if tag in sized:
            return int.from_bytes(self._take(sized[tag]), "big")
        _require(tag & ~mask == fixed, "wrong type")
        return tag & mask

    def _string(self) -> bytes:
        return self._take(self._size(self._byte(), 0xA0, 0x1F, {0xD9: 1, 0xDA: 2, 0xDB: 4}))

    def _array(self) -> int:
        return self._size(self._byte(), 0x90, 0x0F, {0xDC: 2, 0xDD: 4})

    def _skip(self, depth: int) -> None:
        _require(depth < 200, "nested too deeply")
        tag = self._byte()
        if tag <= 0x7F or tag >= 0xE0 or tag in (0xC0, 0xC2, 0xC3):
            return
        if 0x80 <= tag <= 0x9F or 0xDC <= tag <= 0xDF:
            is_map = tag <= 0x8F or tag >= 0xDE
            size = tag & 0x0F if tag <= 0x9F else int.from_bytes(self._take(4 if tag & 1 else 2), "big")
            for _ in range(size * (2 if is_map else 1)):
                self._skip(depth + 1)
            return
        _require(tag != 0xC1, "a tag that is never used")
        self._take(self._scalar_bytes(tag))

    def _scalar_bytes(self, tag: int) -> int:
        if tag <= 0xBF:
            return tag & 0x1F
        if tag in (0xCA, 0xCB):
            return 4 if tag == 0xCA else 8
        if 0xCC <= tag <= 0xD3:
            return int(1 << (tag & 3))
        if 0xD4 <= tag <= 0xD8:
            return 1 + (1 << (tag - 0xD4))
        first = {0xC4: 0xC4, 0xC5: 0xC4, 0xC6: 0xC4, 0xC7: 0xC7, 0xC8: 0xC7, 0xC9: 0xC7}.get(tag, 0xD9)
        return int.from_bytes(self._take(1 << (tag - first)), "big") + (first == 0xC7)
