"""A profile's TOML file to its structs.

In: bytes. Out: a `Profile`, or ConfigError with file, row, key and what is allowed there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import msgspec

from collectors.profile import (
    LAYOUT,
    Fact,
    Mode,
    Profile,
    Record,
    Row,
    Says,
    Semantics,
    Side,
    SpeedUnit,
    Status,
    Subscription,
    Unit,
)
from collectors.profile_check import check_fact, check_names, check_record, check_row, check_subscription
from stream.errors import ConfigError


def read_profile(data: bytes, where: str) -> Profile:
    """The profile in a TOML file; raises ConfigError with file, row, key and what is allowed there."""
    try:
        told = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise ConfigError(f"{where}: {err}", "correct the file; it is TOML 1.0 in UTF-8") from err
    except RecursionError as err:
        raise ConfigError(f"{where}: tables or arrays stand in each other too deep", LAYOUT) from err
    tables: dict[str, Any] = {}
    for key, (of, check) in _SORTS.items():
        entries = told.pop(key, [])
        if not isinstance(entries, list):
            raise ConfigError(f"{where}: {key} is no list of tables", f"begin each with [[{key}]]")
        tables[key] = []
        for number, entry in enumerate(entries, 1):
            place = f"{where}: {_place(key, number, entry)}"
            tables[key].append(_converted(entry, of, place))
            check(tables[key][-1], place)
        tables[key] = tuple(tables[key])
    profile = msgspec.structs.replace(_converted(told, Profile, where), **tables)
    check_names(profile, where)
    return profile


_SORTS: Mapping[str, tuple[type[msgspec.Struct], Callable[[Any, str], None]]] = {
    "subscribe": (Subscription, check_subscription),
    "row": (Row, check_row),
    "fact": (Fact, check_fact),
    "record": (Record, check_record),
}
StructT = TypeVar("StructT", bound=msgspec.Struct)
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")


def _converted(told: Any, of: type[StructT], place: str) -> StructT:
    try:
        return msgspec.convert(told, of)
    except msgspec.ValidationError as err:
        message = str(err)
        fields = {field.name: field.type for field in msgspec.structs.fields(of)}
        if unknown := _UNKNOWN_FIELD.search(message):
            raise ConfigError(f"{place}: there is no key {unknown[1]!r}", f"keys are {', '.join(fields)}") from err
        key = (re.search(r"`\$\.(\w+)", message) or ["", ""])[1]
        allowed = ", ".join(map(str, get_args(fields.get(key)))) if fields.get(key) in _WORDS else LAYOUT
        raise ConfigError(
            f"{place}: {message}", allowed if allowed == LAYOUT else f"{key} is one of {allowed}"
        ) from err


_WORDS = (Semantics, Unit, Side, Status, Mode, Says, SpeedUnit)


def _place(key: str, number: int, entry: Any) -> str:
    named = entry.get("name") or entry.get("path") if isinstance(entry, dict) else None
    return f"[[{key}]] {number}{f' ({named})' if named else ''}"
