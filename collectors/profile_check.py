"""Checks of a profile beyond the types of its keys: patterns, measures, units, and what goes with what.

In: the structs of a profile and the place of each in its file. Out: nothing, or ConfigError with place, key and what is
allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from collectors.paths import parse_path
from collectors.pattern import Pattern
from collectors.profile import LAYOUT, Fact, Measured, Profile, Record, Row, Subscription, measures
from stream.errors import ConfigError
from stream.kinds import LINK_ERROR_CODES
from stream.topics import RAW

_UNITS_OF: Mapping[str, tuple[str, ...]] = {
    "ns": ("ns", "us", "ms", "s", "quanta"),
    "bytes": ("bytes", "cells"),
    "frames": ("frames", "packets"),
    "packets": ("packets", "frames"),
    "transitions": ("events", "frames", "packets"),
    "errors": ("events", "frames", "packets"),
    "flag": ("flag", "events"),
    "pause quanta": ("flag",),
}
"""By the unit of a record's measure, the units of leaves that can become it."""
_ONLY: Mapping[str, tuple[str, ...]] = {
    "PFC_WATCHDOG.storm": ("state", "found", "restored"),
    "PFC_XOFF.quanta": ("stopped",),
    "QUEUE_DEPTH": ("gauge", "peak_since_read", "peak_over_window"),
    "HEADROOM": ("gauge", "peak_since_read", "peak_over_window", "setting"),
}
"""The semantics that some measures or kinds take; all others are counters."""


def _refuse(place: str, key: str, message: str, allowed: str = LAYOUT) -> ConfigError:
    return ConfigError(f"{place}: {key}: {message}", allowed)


def _check_pattern(text: str, place: str, key: str = "path") -> Pattern:
    try:
        return Pattern(text)
    except ValueError as err:
        raise _refuse(place, key, str(err)) from err


def _measures(into: tuple[str, ...], place: str) -> list[Measured]:
    try:
        return measures(into)
    except ValueError as err:
        raise _refuse(place, "into", str(err)) from err


def _check_unit(measured: Measured, unit: str, word: str, place: str) -> None:
    measure = measured.kind.extra if measured.half else measured.kind.value
    allowed = _UNITS_OF.get(measure.unit, ())
    if unit not in allowed:
        raise _refuse(
            place, "unit", f"{unit} does not become the {measure.unit} of {word}", f"it takes {', '.join(allowed)}"
        )


def check_subscription(each: Subscription, place: str) -> None:
    if unknown := sorted(set(each.topics) - set(RAW)):
        raise _refuse(place, "topics", f"no rows go on {', '.join(unknown)}", f"choose from: {', '.join(RAW)}")
    for key, text in (("path", each.path), *(("alternatives", text) for text in each.alternatives)):
        try:
            parse_path(text)
        except ConfigError as err:
            raise _refuse(place, key, err.message, err.next_step) from err
        if not re.match(r"(?:[^/\[\]]+:)?/", text):
            raise _refuse(place, key, f"{text!r} does not begin with a slash", "write it like /a/b or origin:/a/b")


def check_row(row: Row, place: str) -> None:
    for text in row.paths:
        pattern = _check_pattern(text, place)
        dimensions = pattern.placeholders & {"priority", "queue", "group", "queue_name"}
        if len(dimensions) > 1:
            raise _refuse(place, "path", f"{text!r} tells {' and '.join(sorted(dimensions))}", "one of them is enough")
        if "port" not in pattern.placeholders and not row.port:
            raise _refuse(
                place, "path", f"{text!r} has no {{port}}", "write {port} where its name stands, or set `port`"
            )
    told = _measures(row.into, place)
    for word, measured in zip(row.into, told, strict=True):
        allowed = _ONLY.get(word) or _ONLY.get(measured.kind.name) or ("counter",)
        if word == "PFC_WATCHDOG.dropped_packets":
            allowed = ("counter",)
        if row.semantics not in allowed:
            raise _refuse(place, "semantics", f"{row.semantics} for {word}", f"it is one of {', '.join(allowed)}")
        _check_unit(measured, row.unit, word, place)
        if measured.kind.name == "LINK_ERRORS" and measured.half:
            raise _refuse(place, "into", "LINK_ERRORS.error_code is no leaf", "name it with `code`")
    if row.code and row.code not in LINK_ERROR_CODES.values():
        raise _refuse(place, "code", f"{row.code!r} is none", f"one of {', '.join(LINK_ERROR_CODES.values())}")
    if row.code and told[0].kind.name != "LINK_ERRORS":
        raise _refuse(place, "code", f"{told[0].kind.name} has no code", "only LINK_ERRORS has")
    if (row.semantics == "peak_over_window") != (row.window_ms > 0):
        raise _refuse(
            place, "window_ms", f"{row.window_ms} with {row.semantics}", "peak_over_window has one, and no other"
        )
    if row.window_of and row.semantics != "peak_over_window":
        raise _refuse(place, "window_of", f"with {row.semantics}", "only peak_over_window has a window")
    if row.unit == "cells" and row.scale == (1, 1):
        raise _refuse(place, "scale", "cells have a size", "scale = [BYTES_OF_A_CELL, 1]")
    for word, number in row.values.items():
        if row.semantics in ("state", "stopped") and number not in (0, 1):
            raise _refuse(place, "values", f"{word} = {number}", "1 is a storm or a stop, 0 none")


def check_record(record: Record, place: str) -> None:
    _check_pattern(record.path, place)
    told = _measures((record.into,), place)
    _check_unit(told[0], record.unit, record.into, place)
    if told[0].half:
        raise _refuse(
            place, "into", f"{record.into} is a second measure", "name the first; `extra` is the leaf of the second"
        )
    if record.priority and record.queue:
        raise _refuse(place, "queue", "beside priority", "one of them is enough")


_NEEDED: Mapping[str, tuple[str, ...]] = {
    "port_": ("port",), "peer_": ("port", "peer"), "dscp_": ("dscp",), "class_q": ("class",), "class_g": ("class",),
    "priority_": ("priority",), "term_": ("term",), "class_name_": ("class_name",),
}  # fmt: skip


def check_fact(fact: Fact, place: str) -> None:
    needed = next((names for start, names in _NEEDED.items() if fact.says.startswith(start)), ())
    for text in fact.paths:
        pattern = _check_pattern(text, place)
        # A neighbour without an id of its own is the only one of its port.
        missing = [name for name in needed if name not in pattern.placeholders and name != "peer"]
        if missing:
            raise _refuse(place, "path", f"{text!r} has no {{{missing[0]}}}", f"{fact.says} needs it")


def check_names(profile: Profile, where: str) -> None:
    names = [row.name for row in profile.row] + [record.name for record in profile.record]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}: [[row]] {name!r} is there twice", "give each row a name of its own")
    for text in profile.queue_names.patterns:
        try:
            groups = re.compile(text).groups
        except re.error as err:
            raise _refuse(f"{where}: [queue_names]", "patterns", f"{text!r}: {err}") from err
        if groups != 1:
            raise _refuse(f"{where}: [queue_names]", "patterns", f"{text!r} has {groups} groups", "one: the number")
