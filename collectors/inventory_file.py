"""Reads inventory files: TOML with includes, each value with the file and line that it came from, secrets from files.

In: the path of a file. Out: tables of settings by section, and every file that they depend on.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stream.errors import ConfigError

MAX_FILES = 1000
SECTIONS = ("collect", "defaults", "groups", "targets")


class Place(NamedTuple):
    """Where a table stands."""

    file: Path
    keys: tuple[str, ...]

    def error(self, key: str, message: str, next_step: str) -> ConfigError:
        """An error that begins with file, line and key."""
        keys = (*self.keys, key) if key else self.keys
        return ConfigError(f"{self.file}:{_line(self.file, keys)}: {'.'.join(keys)}: {message}", next_step)


class Table(NamedTuple):
    """One table of settings as it stands in a file."""

    place: Place
    settings: Mapping[str, Any]


@dataclass(slots=True)
class Watched:
    """What an inventory depends on: files, some of which may be missing, and patterns of more with their folders."""

    files: list[Path] = field(default_factory=list)
    includes: list[tuple[Path, str]] = field(default_factory=list)


@dataclass(slots=True)
class Files:
    """All tables of a file and of what it includes."""

    collect: Table
    defaults: Table
    groups: dict[str, Table] = field(default_factory=dict)
    targets: dict[str, Table] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)


def read_files(path: Path, watched: Watched) -> Files:
    """Reads a file and what it includes; raises ConfigError with file, line and key. `watched` gets what was met."""
    none = Table(Place(path, ()), {})
    files = Files(none, none, watched=watched)
    _read(path, files, main=True)
    return files


def _read(path: Path, files: Files, *, main: bool) -> None:
    if len(files.watched.files) >= MAX_FILES:
        raise ConfigError(f"{path}: more than {MAX_FILES} inventory files", "check `include` for more than was meant")
    if path in files.watched.files:
        return
    files.watched.files.append(path)
    data = _parsed(path)
    for section, value in data.items():
        place = Place(path, (section,))
        if section not in SECTIONS:
            raise place.error("", "there is no such section", f"sections are {', '.join(SECTIONS)}")
        if not isinstance(value, dict):
            raise place.error("", "is no table", f"write [{section}] and its settings below")
        if section in ("collect", "defaults"):
            if not main:
                raise place.error("", f"[{section}] stands in the first file alone", "move it there")
            setattr(files, section, Table(place, value))
            continue
        known = files.groups if section == "groups" else files.targets
        for name, settings in value.items():
            own = Place(path, (section, name))
            if name in known:
                raise own.error("", f"is there already, in {known[name].place.file}", "give each a name of its own")
            if not isinstance(settings, dict):
                raise own.error("", "is no table", f"write [{section}.{name}] and its settings below")
            known[name] = Table(own, settings)
    if main:
        for pattern in _patterns(files.collect):
            files.watched.includes.append((path.parent, pattern))
            try:
                found = included(path.parent, pattern)
            except (OSError, ValueError, IndexError, NotImplementedError) as err:
                raise files.collect.place.error(
                    "include", f"{pattern!r} names no files: {err}", 'write it like include = ["targets.d/*.toml"]'
                ) from err
            if not found and not _WILD.search(pattern):
                raise files.collect.place.error("include", f"{path.parent / pattern}: no such file", "check the path")
            for file in found:
                _read(file, files, main=False)


_WILD = re.compile(r"[*?\[]")


def included(folder: Path, pattern: str) -> list[Path]:
    """The files that an include of an inventory in this folder means now, in order. Raises as `Path.glob` does."""
    absolute = Path(pattern)
    if not absolute.is_absolute():
        return sorted(folder.glob(pattern))
    return sorted(Path(absolute.anchor).glob(str(absolute.relative_to(absolute.anchor))))


def _patterns(collect: Table) -> list[str]:
    include = collect.settings.get("include", [])
    if not isinstance(include, list) or not all(isinstance(pattern, str) and pattern for pattern in include):
        raise collect.place.error("include", "is no list of file names", 'write it like include = ["targets.d/*.toml"]')
    return include


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as err:
        raise ConfigError(f"{path}: no such file", "`docs/collectors.md` shows how to write one") from err
    except OSError as err:
        raise ConfigError(f"{path}: {err.strerror}", "check its name, and that the file may be read") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path}: not UTF-8 at byte {err.start}", "save the file as UTF-8") from err
    except tomllib.TOMLDecodeError as err:
        line = re.search(r"line (\d+)", str(err))
        raise ConfigError(f"{path}{f':{line[1]}' if line else ''}: not TOML: {err}", "see https://toml.io") from err
    except RecursionError as err:
        raise ConfigError(f"{path}: tables or arrays stand in each other too deep", "write it flat") from err


_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([\"']?)([^\"'=\[\]]+?)\1\s*=")


def _line(path: Path, keys: tuple[str, ...]) -> int:
    """The line of a key, or of the nearest table around it that has a line of its own."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        return 1
    table: tuple[str, ...] = ()
    best, found = 1, 0
    for number, line in enumerate(lines, 1):
        if header := _HEADER.match(line):
            here = table = _dotted(header[1])
        elif key := _KEY.match(line):
            here = (*table, *_dotted(key[2]))
        else:
            continue
        shared = next((at for at, pair in enumerate(zip(here, keys, strict=False)) if pair[0] != pair[1]), len(keys))
        shared = min(shared, len(here))
        if shared > found:
            best, found = number, shared
    return best


def _dotted(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", text))
