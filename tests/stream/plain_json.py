"""The slow, obvious reader of a JSON topic's value: Python's json, the published schema, then a few rules."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from stream.cascade import Cascade
from stream.facts import Device, Flow, Idle, Link
from stream.roster import RosterChange
from tests.stream.plain_wire import INT64_MAX, MAX_TIME_NS, PACKED_TOPICS, Refused

FACT_TOPICS = ("device", "link", "flow")

# JSON Schema takes 1.0 for an integer; a field of ours that is an integer is written as one.
_strict_types = Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
)
_Validator = extend(Draft202012Validator, type_checker=_strict_types)  # type: ignore[no-untyped-call]  # has no types
_VALIDATORS = {
    topic: _Validator(msgspec.json.schema(item))
    for topic, item in (
        ("device", Device | Idle), ("link", Link | Idle), ("flow", Flow | Idle), ("control", RosterChange),
        ("cascade", Cascade),
    )
}  # fmt: skip


class Unspecified(Exception):  # noqa: N818 - an outcome of reading, not an error
    """JSON leaves open what such a text means, and so do we: the reader may take or refuse it."""


def read(topic: str, key: bytes, value: bytes) -> dict[str, Any]:
    """What the value says; raises Refused, or Unspecified."""
    try:
        text = value.decode()
    except UnicodeDecodeError as err:
        raise Unspecified("not UTF-8, perhaps in a field that nobody knows") from err
    try:
        item = json.loads(text, parse_constant=_no_constant, parse_int=_integer, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as err:
        raise Refused(f"not JSON: {err}") from err
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as err:
        raise Unspecified("half a surrogate pair, perhaps in a field that nobody knows") from err
    for error in _VALIDATORS[topic].iter_errors(item):
        raise Refused(error.message[:200])
    _check(topic, item)
    if key != _key(topic, item):
        raise Refused("key")
    return dict(item)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _integer(digits: str) -> int:
    # Python reads no longer number; this one is out of every field's range too, and harmless where no field is.
    return int(digits[:4000])


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise Unspecified("a key comes twice")
    return dict(pairs)


def _key(topic: str, item: dict[str, Any]) -> bytes:
    if item.get("fact") == "idle":
        return "{}/@{source}/{epoch}".format(item["fabric"], **item["stream"]).encode()
    tail = {
        "device": "{device}@{valid_from_ns}",
        "link": "{a_device}:{a_port}-{b_device}:{b_port}@{valid_from_ns}",
        "flow": "{flow}@{valid_from_ns}",
        "control": "{source}",
        "cascade": "{id}",
    }[topic]
    return (item["fabric"] + "/" + tail.format(**item)).encode()


def _check(topic: str, item: dict[str, Any]) -> None:
    holds = True
    if topic in FACT_TOPICS:
        mark_ns = item["stream"]["mark_ns"]
        holds = mark_ns <= MAX_TIME_NS or mark_ns == INT64_MAX
    if topic in FACT_TOPICS and item["fact"] == "idle":
        holds = holds and item["topic"] == topic
        topic = "idle"
    if topic == "link":
        holds = holds and (item["a_device"], item["a_port"]) != (item["b_device"], item["b_port"])
    elif topic == "flow":
        holds = holds and item.get("priority", 255) in (*range(8), 255)
    elif topic == "cascade":
        holds = item["start_ns"] <= item["end_ns"]
    elif topic == "control":
        streams = [(stream["topic"], stream.get("device", "")) for stream in item["streams"]]
        holds = len(set(streams)) == len(streams) and all(
            (name in PACKED_TOPICS and device) or (name in FACT_TOPICS and not device) for name, device in streams
        )
    if not holds:
        raise Refused("a rule of the topic")
