"""Which profiles there are, and which one fits a device by its Capabilities.

In: the package's own profiles/*.toml, a folder or file of the user's, and a device's models. Out: a `Profile`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec

from collectors.profile import LAYOUT, Fact, Profile, Record, Row, Subscription
from collectors.profile_file import read_profile
from stream.errors import ConfigError

BUILT_IN = Path(__file__).parent / "profiles"
_MOST_LEVELS = 8


class Model(Protocol):
    """A model of Capabilities."""

    @property
    def name(self) -> str: ...

    @property
    def organization(self) -> str: ...


class Capabilities(Protocol):
    """What of Capabilities is looked at."""

    @property
    def models(self) -> tuple[Model, ...]: ...


def names(folder: Path | None = None) -> tuple[str, ...]:
    """The profiles that can be named, a folder of the user's among them."""
    found = {path.stem for each in _folders(folder) for path in each.glob("*.toml")}
    return tuple(sorted(found))


def load(name_or_file: str, folder: Path | None = None) -> Profile:
    """A profile by its name or file, with all that it extends; raises ConfigError with file, row and key.

    A file of the user's folder goes before a built-in one of its name, and may extend that.
    """
    profile = _load(name_or_file, folder, ())
    if not profile.subscribe:
        raise ConfigError(f"profile {name_or_file!r}: there is no [[subscribe]]: it asks for nothing", LAYOUT)
    return profile


def own_files(name_or_file: str, folder: Path | None = None) -> list[Path]:
    """The user's files that a profile is read from, as far as they are there and can be read."""
    found: tuple[Path, ...] = ()
    name = name_or_file
    while name and len(found) < _MOST_LEVELS:
        try:
            path = _find(name, folder, found)
            found = (*found, path)
            name = _read(path, path.stat().st_mtime_ns).extends
        except (ConfigError, OSError):
            if not found and name.endswith(".toml"):
                found = (Path(name),)
            break
    return [path for path in found if path.parent != BUILT_IN]


def own(name: str) -> Profile:
    """What a built-in profile says itself, without what it extends."""
    path = BUILT_IN / f"{name}.toml"
    return _read(path, path.stat().st_mtime_ns)


def detect(capabilities: Capabilities, folder: Path | None = None) -> str | None:
    """The name of the profile that fits the models of a device; None if none does."""
    best: tuple[int, str] | None = None
    for name in names(folder):
        match = load(name, folder).match
        fits = any(_fits(model, match.models, match.organizations) for model in capabilities.models)
        if fits and (best is None or (match.rank, name) > best):
            best = match.rank, name
    return None if best is None else best[1]


def list_keys(profiles: Iterable[Profile]) -> Mapping[str, tuple[str, ...]]:
    """The keys of all lists of these profiles: what the decoder tells entries of JSON arrays apart by."""
    keys: dict[str, tuple[str, ...]] = {}
    for profile in profiles:
        for name, told in profile.list_keys.items():
            keys[name] = tuple(dict.fromkeys((*keys.get(name, ()), *told)))
    return keys


def _fits(model: Model, names: tuple[str, ...], organizations: tuple[str, ...]) -> bool:
    by_name = any(fnmatchcase(model.name.lower(), pattern.lower()) for pattern in names)
    by_organization = any(fnmatchcase(model.organization.lower(), pattern.lower()) for pattern in organizations)
    return by_name or by_organization


def _folders(folder: Path | None) -> tuple[Path, ...]:
    return (BUILT_IN,) if folder is None else (folder, BUILT_IN)


def _load(name_or_file: str, folder: Path | None, below: tuple[Path, ...]) -> Profile:
    path = _find(name_or_file, folder, below)
    if len(below) >= _MOST_LEVELS:
        raise ConfigError(f"{path}: extends more than {_MOST_LEVELS} profiles, one by one", "leave some out")
    profile = _read(path, path.stat().st_mtime_ns)
    if not profile.extends:
        return profile
    return _extended(_load(profile.extends, folder, (*below, path)), profile)


def _find(name_or_file: str, folder: Path | None, below: tuple[Path, ...]) -> Path:
    if "/" in name_or_file or name_or_file.endswith(".toml"):
        places = [Path(name_or_file) if not below else below[-1].parent / name_or_file]
    else:
        places = [each / f"{name_or_file}.toml" for each in _folders(folder)]
    for place in places:
        if place.is_file() and place not in below:
            return place
    who = f"{below[-1]}: extends {name_or_file!r}, which" if below else f"profile {name_or_file!r}"
    again = any(place in below for place in places)
    if again:
        raise ConfigError(f"{who} extends it", "a profile does not extend itself")
    raise ConfigError(f"{who} is not there", f"profiles are {', '.join(names(folder))}, or give a .toml file")


@cache
def _read(path: Path, _changed_ns: int) -> Profile:
    try:
        data = path.read_bytes()
    except OSError as err:
        raise ConfigError(f"{path} cannot be read: {err.strerror}", LAYOUT) from err
    profile = read_profile(data, str(path))
    if profile.name != path.stem:
        raise ConfigError(f"{path}: name: {profile.name!r} is not the file's", f"name = {path.stem!r}")
    return profile


_EXTENDED: dict[tuple[int, int], tuple[Profile, Profile, Profile]] = {}
"""By the identities of a profile and of what it extends: both, which keeps these identities theirs, and the whole."""


def _extended(base: Profile, own: Profile) -> Profile:
    """The whole of a profile and of what it extends; the same one each time, as those who follow targets rely on."""
    if (known := _EXTENDED.get((id(base), id(own)))) is None:
        known = _EXTENDED.setdefault((id(base), id(own)), (base, own, _whole(base, own)))
    return known[2]


def _whole(base: Profile, own: Profile) -> Profile:
    """The profile with what it does not say itself from the one that it extends."""

    def kept(of_base: tuple[Row, ...] | tuple[Record, ...], of_own: Iterable[str]) -> list[Row | Record]:
        said = set(of_own)
        return [
            entry
            for entry in of_base
            if entry.name not in said and not any(fnmatchcase(entry.name, each) for each in own.without)
        ]

    paths = {*own.without, *(each.path for each in own.subscribe)}
    told_facts = {path for fact in own.fact for path in fact.paths}
    facts: list[Fact] = [fact for fact in base.fact if not told_facts.intersection(fact.paths)]
    subscriptions: list[Subscription] = [each for each in base.subscribe if each.path not in paths]
    return msgspec.structs.replace(
        own,
        subscribe=(*own.subscribe, *subscriptions),
        row=(*own.row, *kept(base.row, (row.name for row in own.row))),
        fact=(*own.fact, *facts),
        record=(*own.record, *kept(base.record, (record.name for record in own.record))),
        queue_names=own.queue_names if own.queue_names.patterns or own.queue_names.numbers else base.queue_names,
    )
