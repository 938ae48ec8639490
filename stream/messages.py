"""One place that turns what travels (batches, facts, roster changes, cascades) into Kafka values and back.

The topic decides the encoding: packed records on the raw and episode topics, JSON with a published schema elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from stream import topics, wire
from stream.batch import MARK_END, Batch
from stream.cascade import Cascade, cascade_key
from stream.errors import WireError
from stream.facts import Fact, Flow, Idle, Link, fact_key, fact_stream
from stream.kinds import NO_PRIORITY
from stream.record import MAX_TIME_NS
from stream.roster import RosterChange, roster_key

JsonItem = Fact | Idle | RosterChange | Cascade
Item = Batch | JsonItem
"""Anything that a step takes in or gives out."""


class Encoded(NamedTuple):
    """A message to send: bare topic name, key and value."""

    topic: str
    key: bytes
    value: bytes


_encoder = msgspec.json.Encoder(order="sorted")
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    "control": msgspec.json.Decoder(RosterChange),
    "cascade": msgspec.json.Decoder(Cascade),
}
# One decoder for all facts, so that a fact says in its text what it is, as the schemas demand.
_decoders.update(dict.fromkeys(topics.FACTS, msgspec.json.Decoder(Fact | Idle)))


def encode(item: Item, *, checked: bool = False) -> Encoded:
    """The Kafka message of an item; raises WireError for an item that `decode` would not take.

    With `checked` the rows of a batch have been looked at, and an idle value is of a stream that the roster told of.
    """
    if isinstance(item, Batch):
        value = wire.encode(item, rows_checked=checked)
        return Encoded(item.stream.topic, item.key, value)
    topic = _topic(item)
    try:
        encoded = Encoded(topic, _key(item), _encoder.encode(item))
    except UnicodeEncodeError as err:
        raise WireError(f"a value of topic {topic} does not encode: {err}") from err
    if not (checked and isinstance(item, Idle)):
        decode(*encoded)
    return encoded


def decode(topic: str, key: bytes | None, value: bytes | None) -> Item:
    """The item in a Kafka message of a bare topic name; raises WireError that says what is wrong.

    A tombstone of a compacted topic holds no item: the caller leaves it out before.
    """
    if value is None:
        raise WireError(f"a message without a value on topic {topic}")
    if key is None:
        raise WireError(f"a message without a key on topic {topic}")
    if topic in topics.PACKED:
        return wire.decode(topic, value, key)
    decoder = _decoders.get(topic)
    if decoder is None:
        raise WireError(f"topic {topic} is not read by any step")
    try:
        item: JsonItem = decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise WireError(f"not a value of topic {topic}: {str(err)[:200]}") from err
    if topic != _topic(item):
        raise WireError(f"a value of topic {_topic(item)} on topic {topic}")
    if key != _key(item):
        raise WireError(f"key {key[:80]!r} is not that of the value, {_key(item)[:80]!r}")
    _check(item)
    return item


def _topic(item: JsonItem) -> str:
    if isinstance(item, Cascade):
        return "cascade"
    return "control" if isinstance(item, RosterChange) else fact_stream(item).topic


def _key(item: JsonItem) -> bytes:
    if isinstance(item, Cascade):
        return cascade_key(item)
    return roster_key(item) if isinstance(item, RosterChange) else fact_key(item)


def _check(item: JsonItem) -> None:
    """The rules that the structs' own ranges cannot say."""
    if isinstance(item, RosterChange):
        _check_roster(item)
    elif isinstance(item, Cascade):
        if item.start_ns > item.end_ns:
            raise WireError(f"a cascade that starts at {item.start_ns} ns and ends at {item.end_ns} ns")
    else:
        if MAX_TIME_NS < item.stream.mark_ns < MARK_END:
            raise WireError(f"mark_ns {item.stream.mark_ns} is later than any time")
        if isinstance(item, Link) and (item.a_device, item.a_port) == (item.b_device, item.b_port):
            raise WireError(f"a link from {item.a_device}:{item.a_port} to itself")
        if isinstance(item, Flow) and 7 < item.priority < NO_PRIORITY:
            raise WireError(f"a flow of priority {item.priority}, which is not 0-7 or {NO_PRIORITY}")


def _check_roster(change: RosterChange) -> None:
    for stream in change.streams:
        if stream.topic not in topics.PACKED and stream.topic not in topics.FACTS:
            raise WireError(f"a roster change for topic {stream.topic!r}, which has no streams")
        if (stream.device == "") != (stream.topic in topics.FACTS):
            raise WireError(f"a stream of topic {stream.topic} and device {stream.device!r}: facts have none, rows one")
    if len({(stream.topic, stream.device) for stream in change.streams}) < len(change.streams):
        raise WireError("a roster change that names a stream twice")
