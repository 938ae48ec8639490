"""What `evaluate --degrade` may be told, such as skew=1ms,loss=.1,missing=root,drop=host_pcie.csv.

In: the text. Out: a `Degradation`, or a ConfigError that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any, NoReturn

import msgspec

from simulation.degrade import Degradation
from simulation.polling import INCIDENT, RUN, Polling
from simulation.trace import OPTIONAL_FILES
from stream.errors import ConfigError

_UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION = re.compile(rf"(-?(?:\d+\.?\d*|\.\d+))({'|'.join(_UNITS_NS)})")
_MAX_NS = 10**18
"""Beyond, times would leave what 64 bits hold."""
_MAX_FACTOR = 1000
"""Beyond, the speeds of today's links, in Mb/s, would lose their third digit."""

FORM = "write it like skew=1ms,loss=.1,missing=root,drop=host_pcie.csv (docs/evaluation.md)"


def parse_degradation(text: str) -> Degradation:
    """The degradation that one --degrade asks for; raises ConfigError."""
    fields: dict[str, Any] = {}
    polling: dict[str, Any] = {}
    dropped: set[str] = set()
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key == "drop":
            dropped.add(_file(text, value))
            continue
        if key not in _PARTS:
            _fail(text, f"{part.strip()!r} is none of {', '.join((*_PARTS, 'drop'))}", FORM)
        name, parse = _PARTS[key]
        to = polling if key in OF_POLLS else fields
        if name in to:
            _fail(text, f"{key} is there twice", "give each once, or several --degrade")
        if bool(equals) != (key not in WITHOUT_VALUE):
            _fail(text, f"{key} takes {'no value' if equals else 'a value'}", FORM)
        to[name] = parse(text, value)
    return msgspec.structs.replace(
        Degradation(text), drop=frozenset(dropped), polling=_polling(text, polling), **fields
    )


def _polling(text: str, parts: dict[str, Any]) -> Polling | None:
    if not parts:
        return None
    if "period" not in parts:
        asked = [key for key in OF_POLLS if _PARTS[key][0] in parts]
        _fail(text, f"{', '.join(asked)} without a period of polls", "add period=run, incident/4 or a duration")
    by, number = parts.pop("period")
    if by:
        return Polling(by=by, parts=number, **parts)
    return Polling(period_ns=number, **parts)


def _period(text: str, value: str) -> tuple[str, int]:
    """What decides the period, "" for nothing but the duration; and the duration, or of what decides the parts."""
    if value == RUN:
        return RUN, 1
    by, _, parts = value.partition("/")
    if by == INCIDENT and parts.isascii() and parts.isdigit() and 1 <= int(parts) <= _MAX_FACTOR:
        return INCIDENT, int(parts)
    period_ns = _duration_ns(text, value)
    if period_ns <= 0:
        _fail(text, f"a period of {value} is none", "give period=run, incident/4 or more than 0")
    return "", period_ns


def _pad(text: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and 2 <= int(value) <= _MAX_FACTOR):
        _fail(text, f"{value!r} is no whole number from 2 to {_MAX_FACTOR}", "write it like pad=20")
    return int(value)


def _fail(text: str, message: str, next_step: str) -> NoReturn:
    raise ConfigError(f"--degrade {text}: {message}", next_step)


def _duration_ns(text: str, value: str) -> int:
    match = _DURATION.fullmatch(value)
    if match is None or abs(Decimal(match[1])) * _UNITS_NS[match[2]] > _MAX_NS:
        _fail(text, f"{value!r} is no duration", f"write a number with {', '.join(_UNITS_NS)}, such as 1ms")
    return int(Decimal(match[1]) * _UNITS_NS[match[2]])


def _deviation_ns(text: str, value: str) -> int:
    deviation_ns = _duration_ns(text, value)
    if deviation_ns <= 0:
        _fail(text, f"a deviation of {value} is none", "give more than 0, such as skew=1ms")
    return deviation_ns


def _probability(text: str, value: str) -> float:
    number = _number(value)
    if not 0 < number <= 1:
        _fail(text, f"{value!r} is no probability", "give more than 0 and at most 1, such as loss=.1")
    return number


def _factor(text: str, value: str) -> float:
    number = _number(value)
    if not 1 / _MAX_FACTOR <= number <= _MAX_FACTOR:
        _fail(text, f"{value!r} is no factor", f"give a number from {1 / _MAX_FACTOR} to {_MAX_FACTOR}, such as 2")
    return number


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        return -1.0
    return number if isfinite(number) else -1.0


def _device(text: str, value: str) -> str:
    if not value:
        _fail(text, "missing names no device", "give a device's name, random or root")
    return value


def _file(text: str, value: str) -> str:
    name = value.removesuffix(".gz").removesuffix(".csv")
    if name not in OPTIONAL_FILES:
        _fail(
            text, f"{value!r} is no file to drop", f"choose from: {', '.join(f'{one}.csv' for one in OPTIONAL_FILES)}"
        )
    return name


_PARTS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "skew": ("skew_ns", _deviation_ns),
    "loss": ("loss", _probability),
    "loss_each": ("loss_each", _probability),
    "resets": ("resets", _probability),
    "missing": ("missing", _device),
    "renamed": ("renamed", lambda text, value: True),
    "shifted": ("shifted_ns", _duration_ns),
    "scaled": ("scaled", _factor),
    "period": ("period", _period),
    "unaligned": ("unaligned", lambda text, value: True),
    "poll_loss": ("loss", _probability),
    "frames_only": ("frames_only", lambda text, value: True),
    "rx_only": ("rx_only", lambda text, value: True),
    "pad": ("pad", _pad),
}
"""Each part's field of `Degradation` or `Polling`, and how its value is read; `drop` may be given several times."""
OF_POLLS = ("period", "unaligned", "poll_loss", "frames_only", "rx_only", "pad")
WITHOUT_VALUE = ("renamed", "unaligned", "frames_only", "rx_only")
