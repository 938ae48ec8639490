"""The packed Kafka value: a batch to bytes and back, with every length, index and range checked on the way in.

Layout: `PTB1`, u2 record size, u2 schema version, u4 count, u4 length of names, names (msgpack), zeros up to a multiple
of 8, records. The length of names leaves the zeros out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from stream import kinds, topics
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.errors import WireError
from stream.ranges import MAX_SOURCE_CHARS, Count, FabricName, MarkNs, Name, Seq
from stream.record import EVENT, FIELDS, MAX_TIME_NS, RECORD_BYTES, SCHEMA_VERSION, WORDS, Events, Words

MAGIC = b"PTB1"
HEADER = struct.Struct("<4sHHII")
MAX_RECORD_BYTES = 1024
"""No schema version will need more; a larger size is corruption."""
MAX_NAMES_BYTES = 1 << 20
MAX_PORTS = 4096
"""Four times as many as the rows can name: a publisher may send a device's whole table, a step keeps state for each."""
MAX_TEXT_CHARS = 4096

Text = tuple[Annotated[int, msgspec.Meta(ge=0, lt=MAX_EVENTS)], Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]]


class Names(msgspec.Struct, frozen=True):
    """What the rows of a value share. Unknown fields of later versions are ignored."""

    source: Name
    epoch: Name
    seq: Seq
    mark_ns: MarkNs
    lost: Count
    fabric: FabricName
    device: Name
    ports: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_PORTS)]
    texts: Annotated[tuple[Text, ...], msgspec.Meta(max_length=MAX_EVENTS)] = ()


class _Names(msgspec.Struct, frozen=True):
    """The same with the ports as they came: a device sends the same ones again and again."""

    source: Name
    epoch: Name
    seq: Seq
    mark_ns: MarkNs
    lost: Count
    fabric: FabricName
    device: Name
    ports: msgspec.Raw
    texts: Annotated[tuple[Text, ...], msgspec.Meta(max_length=MAX_EVENTS)] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Names)
_raw_decoder = msgspec.msgpack.Decoder(_Names)
_KNOWN_PORTS, _KNOWN_PORTS_BYTES = 256, 8192
"""Lists of ports kept decoded, and the longest of them: whoever may write must not fill our memory."""
_known_ports: dict[bytes, tuple[str, ...]] = {}

_LAST_WORD = 48
"""Offset of the record's last 8 bytes: device, port, kind, priority, side, quality."""
# The bytes of a record with every integer unsigned; fields of the last word also as one number.
_UNSIGNED = np.dtype(
    {
        "names": [name for name, *_ in FIELDS] + ["last_word", "kind_priority"],
        "formats": [numpy_type.replace("i", "u") for _, numpy_type, *_ in FIELDS] + ["<u8", "<u2"],
        "offsets": [EVENT.fields[name][1] for name, *_ in FIELDS if EVENT.fields] + [_LAST_WORD, _LAST_WORD + 4],
    }
)

_UNKNOWN_KIND, _WRONG_TOPIC, _WRONG_PRIORITY = 1, 2, 4


def _flaws(topic: str) -> npt.NDArray[np.uint8]:
    # Indexed by the two adjacent bytes kind and priority as one little-endian number.
    flaws = np.full((256, 256), _WRONG_PRIORITY, np.uint8)
    flaws[[*range(8), kinds.NO_PRIORITY]] = 0
    for code in range(256):
        kind = kinds.BY_CODE.get(code)
        if kind is None:
            flaws[:, code] |= _UNKNOWN_KIND
        elif topic not in ("episode", kind.topic) and kind.topic:  # episode also forwards what correlate needs
            flaws[:, code] |= _WRONG_TOPIC
    return flaws.ravel()


def _limits(measure: str, edge: str) -> npt.NDArray[np.int64]:
    table = np.zeros(256, np.int64)
    for kind in kinds.KINDS:
        table[kind.code] = getattr(getattr(kind, measure), edge)
    return table


_FLAWS = {topic: _flaws(topic) for topic in topics.PACKED}
"""What is wrong with kind and priority of a row by themselves on each topic, by kind + 256 * priority; 0 = nothing."""
_LOW = {measure: _limits(measure, "low") for measure in ("value", "extra")}
_HIGH = {measure: _limits(measure, "high") for measure in ("value", "extra")}
_LIMITS = np.stack([table[measure] for measure in ("value", "extra") for table in (_LOW, _HIGH)])
"""Lowest and highest value and extra of each kind, of shape (4, 256)."""

CompiledLook = Callable[[Words, int, npt.NDArray[np.uint8], npt.NDArray[np.int64]], bool]
"""From words of rows, number of ports, the topic's flaws and the limits to whether a row breaks a rule."""
_compiled_look: CompiledLook | None = None
_UNKNOWN_UNSIGNED = np.uint64(kinds.UNKNOWN % (1 << 64))
_HIGH_VALUE, _HIGH_EXTRA = _HIGH["value"].view(np.uint64), _HIGH["extra"].view(np.uint64)


def encode(batch: Batch, *, rows_checked: bool = False) -> bytes:
    """The Kafka value of a batch; raises WireError for a batch that `decode` would not take or not give back.

    Where rows of unknown kind were left out, rows of kind 0 stand for them, so that the others keep their numbers. With
    `rows_checked` the rows have been looked at by `check_rows`, and their names alone are looked at.
    """
    if batch.events.dtype != EVENT:
        raise WireError("the rows are not of the record's dtype", "make them with stream.record.empty_events")
    value = assemble(batch)
    if rows_checked:
        _, _, _, _, names_bytes = HEADER.unpack_from(value)
        _decode_names(batch.stream.topic, value[HEADER.size : HEADER.size + names_bytes])
        return value
    skipped = decode(batch.stream.topic, value, batch.key).skipped
    if skipped != batch.skipped:
        raise WireError(f"{skipped} rows of unknown kind, of which the batch counts {batch.skipped}")
    return value


def assemble(batch: Batch) -> bytes:
    """The bytes of a batch whose rows a reader has checked already; `encode` without a look at what it wrote."""
    stream, events, texts = batch.stream, batch.events, batch.texts
    if batch.positions is not None:
        events = np.zeros(len(batch.events) + batch.skipped, EVENT)
        events[batch.positions] = batch.events
        texts = tuple((int(batch.positions[row]), text) for row, text in texts)
    count = len(events)
    if count > MAX_EVENTS:
        raise WireError(f"{count} events in one value", f"send at most {MAX_EVENTS}")
    try:
        packed = _encoder.encode(
            Names(stream.source, stream.epoch, batch.seq, batch.mark_ns, batch.lost, stream.fabric, stream.device,
                  batch.ports, texts)
        )  # fmt: skip
    except (UnicodeEncodeError, OverflowError, TypeError) as err:
        raise WireError(f"the names do not encode ({err})") from err
    padding = bytes(-len(packed) % 8)
    value = HEADER.pack(MAGIC, RECORD_BYTES, SCHEMA_VERSION, count, len(packed)) + packed + padding
    return value + events.tobytes()


def decode(topic: str, value: bytes, key: bytes | None = None) -> Batch:
    """The batch in a Kafka value of `topic` (without its prefix); raises WireError that says what is wrong.

    Rows of unknown kind are left out and counted in `skipped`; a longer record of a later version is read by its
    stride. The rows are a read-only view of `value`.
    """
    flaws = _FLAWS.get(topic)
    if flaws is None:
        raise WireError(f"topic {topic} has no packed values")
    if len(value) < HEADER.size:
        raise WireError(f"a value of {len(value)} bytes is shorter than the header of {HEADER.size}")
    magic, record_bytes, version, count, names_bytes = HEADER.unpack_from(value)
    if magic != MAGIC:
        raise WireError(f"the value begins with {magic!r}, not {MAGIC!r}")
    if version < 1:
        raise WireError(f"schema version {version} does not exist")
    if not RECORD_BYTES <= record_bytes <= MAX_RECORD_BYTES or (version == 1 and record_bytes != RECORD_BYTES):
        raise WireError(f"a record size of {record_bytes} bytes does not fit schema version {version}")
    if count > MAX_EVENTS:
        raise WireError(f"{count} events in one value; at most {MAX_EVENTS} are allowed")
    if names_bytes > MAX_NAMES_BYTES:
        raise WireError(f"a names length of {names_bytes} bytes")
    names_end = HEADER.size + names_bytes
    rows_start = names_end + -names_bytes % 8
    expected = rows_start + count * record_bytes
    if len(value) != expected:
        raise WireError(f"a value of {len(value)} bytes whose header promises {expected}")
    if any(value[names_end:rows_start]):
        raise WireError("the names are not padded with zeros")
    names = _decode_names(topic, value[HEADER.size : names_end])
    stream = StreamKey(names.fabric, names.source, names.epoch, topic, names.device)
    if key is not None and key != f"{stream.fabric}/{stream.device}".encode():
        raise WireError(f"key {key[:80]!r} is not that of device {stream.fabric}/{stream.device}")
    for row, _ in names.texts:
        if row >= count:
            raise WireError(f"a text belongs to row {row} of {count}")
    events: Events = np.ndarray((count,), EVENT, value, rows_start, (record_bytes,))
    if count:
        if _compiled_look is not None and record_bytes == RECORD_BYTES:
            rows: Words = np.ndarray((count, WORDS), np.int64, value, rows_start)
            flawed = _compiled_look(rows, len(names.ports), flaws, _LIMITS)
        else:
            flawed = plain_look(topic, events, len(names.ports))
        if flawed:
            return _examined(stream, names, events)
    return Batch(stream, names.seq, names.mark_ns, names.ports, events, names.lost, names.texts)


def check_rows(topic: str, events: Events, port_count: int) -> None:
    """Raises WireError for rows that no reader of `topic` would take, so that a source hears of them at once."""
    if not len(events) or not plain_look(topic, events, port_count):
        return
    unknown = _FLAWS[topic].take(events["kind"]) & _UNKNOWN_KIND != 0
    for what, wrong in [("its kind does not exist", unknown), *_checks(topic, events, port_count)]:
        if wrong.any():
            raise WireError(f"row {int(wrong.argmax())}: {what}")


def _decode_names(topic: str, packed: bytes) -> Names:
    try:
        raw = _raw_decoder.decode(packed)
        packed_ports = bytes(raw.ports)
        ports = _known_ports.get(packed_ports)
        if ports is not None:
            names = Names(
                raw.source, raw.epoch, raw.seq, raw.mark_ns, raw.lost, raw.fabric, raw.device, ports, raw.texts
            )
        else:
            names = _decoder.decode(packed)
            _remember_ports(packed_ports, names.ports)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise WireError(f"the names are not those of a batch ({str(err)[:200]})") from err
    if len(names.source) > MAX_SOURCE_CHARS and topic != "episode":
        raise WireError(f"a source's name of {len(names.source)} characters; at most {MAX_SOURCE_CHARS} are allowed")
    if MAX_TIME_NS < names.mark_ns < MARK_END:
        raise WireError(f"mark_ns {names.mark_ns} is later than any time")
    return names


def _remember_ports(packed: bytes, ports: tuple[str, ...]) -> None:
    if len(packed) <= _KNOWN_PORTS_BYTES:
        if len(_known_ports) >= _KNOWN_PORTS:
            _known_ports.clear()
        _known_ports[packed] = ports


def tables(topic: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """What a compiled look at rows of a topic takes: flaws by kind and priority, and limits by kind."""
    return _FLAWS[topic], _LIMITS


def look_by(compiled: CompiledLook | None) -> CompiledLook | None:
    """From now on `decode` looks at rows by this function, or by NumPy if it is None; returns the one used before."""
    global _compiled_look
    before, _compiled_look = _compiled_look, compiled
    return before


def plain_look(topic: str, events: Events, port_count: int) -> bool:
    """Whether rows, of which there are some, need a closer look: False only if every rule of `_checks` holds.

    Few passes: seen as unsigned, a negative number is larger than any limit.
    """
    rows: npt.NDArray[Any] = events.view(_UNSIGNED)
    if np.count_nonzero(_FLAWS[topic].take(rows["kind_priority"])):
        return True
    ored = int(np.bitwise_or.reduce(rows["last_word"]))
    device, side = ored & 0xFFFF, ored >> 48 & 0xFF
    if device or (side > kinds.SIDE_TX and np.maximum.reduce(rows["side"]) > kinds.SIDE_TX):
        return True
    time, kind = rows["time_ns"], rows["kind"]
    return bool(
        np.maximum.reduce(rows["port"]) >= port_count
        or np.maximum.reduce(time) > MAX_TIME_NS
        or np.maximum.reduce(rows["seen_ns"]) > MAX_TIME_NS
        or np.count_nonzero(rows["span_ns"] > time) > 0
        or _outside(rows["value"], _HIGH_VALUE.take(kind))
        or _outside(rows["extra"], _HIGH_EXTRA.take(kind))
    )


def _outside(number: npt.NDArray[np.uint64], high: npt.NDArray[np.uint64]) -> bool:
    above = np.count_nonzero(number > high)
    return bool(above and above != np.count_nonzero(number == _UNKNOWN_UNSIGNED))


def _examined(stream: StreamKey, names: Names, events: Events) -> Batch:
    """The batch without its rows of unknown kind; raises WireError for the first rule that another row breaks."""
    unknown = _FLAWS[stream.topic].take(events["kind"]) & _UNKNOWN_KIND != 0
    positions = np.flatnonzero(~unknown)
    kept = events[positions]
    for what, wrong in _checks(stream.topic, kept, len(names.ports)):
        if wrong.any():
            raise WireError(f"row {positions[wrong.argmax()]}: {what}")
    skipped = len(events) - len(kept)
    if not skipped:
        return Batch(stream, names.seq, names.mark_ns, names.ports, events, names.lost, names.texts)
    new_row = {old: new for new, old in enumerate(positions.tolist())}
    texts = tuple((new_row[row], text) for row, text in names.texts if row in new_row)
    return Batch(stream, names.seq, names.mark_ns, names.ports, kept, names.lost, texts, skipped, positions)


def _checks(topic: str, events: Events, port_count: int) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    kind, priority, time, seen, span = (events[name] for name in ("kind", "priority", "time_ns", "seen_ns", "span_ns"))
    checks = [
        ("its kind does not belong on the topic", _FLAWS[topic].take(kind) & _WRONG_TOPIC != 0),
        ("its device is beyond the names", events["device"] != 0),
        ("its port is beyond the names", events["port"] >= port_count),
        ("its priority is not 0-7 or 255", (priority > 7) & (priority != kinds.NO_PRIORITY)),
        ("its side is not 0-2", events["side"] > kinds.SIDE_TX),
        ("its time_ns is out of range", (time < 0) | (time > MAX_TIME_NS)),
        ("its seen_ns is out of range", (seen < 0) | (seen > MAX_TIME_NS)),
        ("its span_ns is out of range", (span < 0) | (span > time)),
    ]
    for measure in ("value", "extra"):
        number = events[measure]
        outside = (number < _LOW[measure].take(kind)) | (number > _HIGH[measure].take(kind))
        checks.append((f"its {measure} is out of the kind's range", outside & (number != kinds.UNKNOWN)))
    return checks
