"""One place that turns what travels (batches, facts, roster changes, cascades) into Kafka values and back.

The topic decides the encoding: packed records on the raw and episode topics, JSON with a published schema elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stream import topics, wire
from stream.batch import MAX_EVENTS, Batch
from stream.cascade import Cascade, cascade_key
from stream.errors import WireError
from stream.facts import TOPIC_OF_FACT, Device, Fact, Flow, Link, fact_key
from stream.kinds import INT64_MAX
from stream.record import MAX_TIME_NS
from stream.roster import RosterChange, SourceDown, SourceUp, roster_key

Item = Batch | Fact | RosterChange | Cascade
"""Anything that a step takes in or gives out."""


class Encoded(NamedTuple):
    """A message to send: bare topic name, key and value."""

    topic: str
    key: bytes
    value: bytes


_encoder = msgspec.json.Encoder(order="sorted")
_fact_decoders: dict[str, msgspec.json.Decoder[Fact]] = {
    "device": msgspec.json.Decoder(Device),
    "link": msgspec.json.Decoder(Link),
    "flow": msgspec.json.Decoder(Flow),
}
_roster_decoder = msgspec.json.Decoder(RosterChange)
_cascade_decoder = msgspec.json.Decoder(Cascade)


def encode(item: Item) -> Encoded:
    """The Kafka message of an item; raises WireError for a batch that no reader would take."""
    if isinstance(item, Batch):
        return Encoded(item.stream.topic, item.key, wire.encode(item))
    if isinstance(item, Cascade):
        return Encoded("cascade", cascade_key(item), _encoder.encode(item))
    if isinstance(item, SourceUp | SourceDown):
        return Encoded("control", roster_key(item), _encoder.encode(item))
    return Encoded(TOPIC_OF_FACT[type(item)], fact_key(item), _encoder.encode(item))


def decode(topic: str, key: bytes | None, value: bytes | None) -> Item:
    """The item in a Kafka message of a bare topic name; raises WireError that says what is wrong."""
    if value is None:
        raise WireError(f"a value of none on {topic}")
    if topic in topics.PACKED:
        return wire.decode(topic, value, key)
    try:
        if topic in _fact_decoders:
            fact = _fact_decoders[topic].decode(value)
            _check_fact(fact)
            return fact
        if topic == "control":
            change = _roster_decoder.decode(value)
            _check_roster(change)
            return change
        if topic == "cascade":
            return _cascade_decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise WireError(f"not a value of topic {topic}: {err}") from err
    raise WireError(f"topic {topic} is not read by any step")


def _check_fact(fact: Fact) -> None:
    if not fact.fabric or "/" in fact.fabric or not fact.stream.source or not fact.stream.epoch:
        raise WireError("a fact without fabric, source or epoch")
    if not 0 <= fact.valid_from_ns <= MAX_TIME_NS or not 0 <= fact.stream.mark_ns <= INT64_MAX:
        raise WireError("a fact's valid_from_ns or mark_ns is out of range")
    if not 0 <= fact.stream.seq <= INT64_MAX - MAX_EVENTS:
        raise WireError(f"seq {fact.stream.seq} is not a sequence number")
    if isinstance(fact, Link) and not (
        fact.a_device and fact.a_port and fact.b_device and fact.b_port
        and 0 <= fact.speed_mbps < 1 << 40 and 0 <= fact.delay_ns < 1 << 40
    ):  # fmt: skip
        raise WireError("a link without four ends, or with a speed or delay out of range")
    if isinstance(fact, Flow):
        try:
            number = int(fact.flow, 16)
        except ValueError:
            number = 0
        if len(fact.flow) != 16 or number == 0:
            raise WireError(f"flow {fact.flow!r} is not 16 hex digits of a flow id")


def _check_roster(change: RosterChange) -> None:
    if not change.fabric or "/" in change.fabric or not change.source or not change.epoch:
        raise WireError("a roster change without fabric, source or epoch")
    at_ns = change.from_ns if isinstance(change, SourceUp) else change.at_ns
    if not 0 <= at_ns <= MAX_TIME_NS:
        raise WireError(f"a roster change at {at_ns} ns")
    for stream in change.streams:
        if stream.topic not in topics.BY_NAME:
            raise WireError(f"a roster change for topic {stream.topic!r}, which does not exist")
    if isinstance(change, SourceUp):
        if any(not 0 <= stream.period_ns < 1 << 40 for stream in change.streams):
            raise WireError("a stream's period_ns is out of range")
    elif any(not -1 <= stream.last_seq <= INT64_MAX - MAX_EVENTS for stream in change.streams):
        raise WireError("a stream's last_seq is not a sequence number")
