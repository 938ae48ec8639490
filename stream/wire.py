"""The packed Kafka value: a batch to bytes and back, with every length, index and range checked on the way in.

Layout: `PTB1`, u2 record size, u2 schema version, u4 count, u4 length of names, names (msgpack, padded to 8), records.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from stream import kinds
from stream.batch import MAX_EVENTS, Batch, StreamKey
from stream.errors import WireError
from stream.record import EVENT, MAX_TIME_NS, RECORD_BYTES, SCHEMA_VERSION

MAGIC = b"PTB1"
HEADER = struct.Struct("<4sHHII")
MAX_RECORD_BYTES = 1024
"""No schema version will need more; a larger size is corruption."""
MAX_NAMES_BYTES = 1 << 20
MAX_PORTS = 65_536
MAX_NAME_CHARS = 256


class Names(msgspec.Struct, frozen=True):
    """What the rows of a value share. Unknown fields of later versions are ignored."""

    source: str
    epoch: str
    seq: int
    mark_ns: int
    lost: int
    fabric: str
    device: str
    ports: tuple[str, ...]
    texts: tuple[tuple[int, str], ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Names)


def _limits(measure: str, edge: str) -> np.ndarray:
    table = np.zeros(256, np.int64)
    for kind in kinds.KINDS:
        table[kind.code] = getattr(getattr(kind, measure), edge)
    return table


_KNOWN = np.zeros(256, bool)
_KNOWN[list(kinds.BY_CODE)] = True
_VALUE_LOW, _VALUE_HIGH = _limits("value", "low"), _limits("value", "high")
_EXTRA_LOW, _EXTRA_HIGH = _limits("extra", "low"), _limits("extra", "high")


def encode(batch: Batch) -> bytes:
    """The Kafka value of a batch; raises WireError for a batch that no reader would take."""
    count = len(batch.events)
    if count > MAX_EVENTS:
        raise WireError(f"{count} events in one value", f"send at most {MAX_EVENTS}")
    if batch.events.dtype != EVENT:
        raise WireError("the rows are not of the record's dtype", "make them with stream.record.empty_events")
    stream = batch.stream
    names = _encoder.encode(
        Names(stream.source, stream.epoch, batch.seq, batch.mark_ns, batch.lost, stream.fabric, stream.device,
              batch.ports, batch.texts)
    )  # fmt: skip
    names += bytes(-len(names) % 8)
    header = HEADER.pack(MAGIC, RECORD_BYTES, SCHEMA_VERSION, count, len(names))
    return header + names + batch.events.tobytes()


def decode(topic: str, value: bytes, key: bytes | None = None) -> Batch:
    """The batch in a Kafka value of `topic` (without its prefix); raises WireError that says what is wrong.

    Rows of unknown kind are left out and counted in `skipped`; a longer record of a later version is read by its stride.
    """
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
    if names_bytes > MAX_NAMES_BYTES or names_bytes % 8:
        raise WireError(f"a names length of {names_bytes} bytes")
    expected = HEADER.size + names_bytes + count * record_bytes
    if len(value) != expected:
        raise WireError(f"a value of {len(value)} bytes whose header promises {expected}")
    names = _decode_names(value[HEADER.size : HEADER.size + names_bytes])
    stream = StreamKey(names.fabric, names.source, names.epoch, topic, names.device)
    if key is not None and key != f"{stream.fabric}/{stream.device}".encode():
        raise WireError(f"key {key[:80]!r} is not that of device {stream.fabric}/{stream.device}")
    events: np.ndarray = np.ndarray(
        (count,), EVENT, buffer=value, offset=HEADER.size + names_bytes, strides=(record_bytes,)
    )
    return _checked(stream, names, events)


def _decode_names(packed: bytes) -> Names:
    # msgpack has no end mark and the names are padded with zeros, so the padding is cut off by trying: a valid
    # object never ends in the padding byte 0x00 by more than 7, and each cut is at most one byte shorter.
    error: Exception | None = None
    for cut in range(min(8, len(packed))):
        if cut and packed[-cut] != 0:
            break
        try:
            names = _decoder.decode(packed[: len(packed) - cut])
        except msgspec.DecodeError as err:
            error = err
            continue
        _check_names(names)
        return names
    raise WireError(f"the names are not those of a batch ({error})") from error


def _check_names(names: Names) -> None:
    if not names.source or not names.epoch or not names.fabric or not names.device:
        raise WireError("source, epoch, fabric or device is empty")
    if max(map(len, (names.source, names.epoch, names.fabric, names.device))) > MAX_NAME_CHARS:
        raise WireError(f"source, epoch, fabric or device is longer than {MAX_NAME_CHARS} characters")
    if "/" in names.fabric:
        raise WireError("a fabric's name has no '/', which ends it in the key")
    if not 0 <= names.seq <= kinds.INT64_MAX - MAX_EVENTS:
        raise WireError(f"seq {names.seq} is not a sequence number")
    if not 0 <= names.mark_ns <= kinds.INT64_MAX or not 0 <= names.lost <= kinds.INT64_MAX:
        raise WireError(f"mark_ns {names.mark_ns} or lost {names.lost} is out of range")
    if len(names.ports) > MAX_PORTS or any(not 0 < len(port) <= MAX_NAME_CHARS for port in names.ports):
        raise WireError("the port names are too many, too long or empty")


def _checked(stream: StreamKey, names: Names, events: np.ndarray) -> Batch:
    count = len(events)
    positions = None
    skipped = 0
    if count:
        known = _KNOWN[events["kind"]]
        if not known.all():
            positions = np.flatnonzero(known)
            skipped = count - len(positions)
            events = events[positions]
        _check_rows(events, len(names.ports))
    if any(not 0 <= row < max(count, 1) for row, _ in names.texts):
        raise WireError("a text belongs to a row that does not exist")
    return Batch(stream, names.seq, names.mark_ns, names.ports, events, names.lost, names.texts, skipped, positions)


def _check_rows(events: np.ndarray, port_count: int) -> None:
    kind, time, span = events["kind"], events["time_ns"], events["span_ns"]
    value, extra = events["value"], events["extra"]
    priority = events["priority"]
    checks = (
        ("device index beyond the names", events["device"] != 0),
        ("port index beyond the names", events["port"] >= port_count),
        ("priority that is not 0-7 or 255", (priority > 7) & (priority != kinds.NO_PRIORITY)),
        ("side that is not 0-2", events["side"] > 2),
        ("time_ns out of range", (time < 0) | (time > MAX_TIME_NS)),
        ("span_ns out of range", (span < 0) | (span > time)),
        ("value out of its kind's range",
         ((value < _VALUE_LOW[kind]) | (value > _VALUE_HIGH[kind])) & (value != kinds.UNKNOWN)),
        ("extra out of its kind's range",
         ((extra < _EXTRA_LOW[kind]) | (extra > _EXTRA_HIGH[kind])) & (extra != kinds.UNKNOWN)),
    )  # fmt: skip
    for what, wrong in checks:
        if wrong.any():
            raise WireError(f"row {int(wrong.argmax())} has a {what}")
