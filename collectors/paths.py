"""Paths of gNMI: as canonical elements, as text for people and files, and as the number that rows know them by.

In: raw spellings that the kernels met (collectors.spellings), each of them read here once, with the protobuf library.
Out: numbers from 0 on, one for each path whatever its spelling: order of keys, what of it the prefix holds, which
target it is of.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from collectors.compiled import PAD
from collectors.layout import (
    BYTES_AN_ENTRY,
    E_AT,
    E_LIST,
    E_OWNER,
    E_PATH,
    E_SIZE,
    ENTRY_WORDS,
    INVALID,
    KEY,
    LIST,
    MEMBER,
    NAME,
    NO_ROOM,
    OWNER_BIT,
    PATH,
    PLACE,
    PLACE_BIT,
    PREFIX,
    REFUSED,
    ROOT,
    S_BYTES,
    S_ENTRIES,
    S_MOST_A_TARGET,
    S_MOST_ENTRIES,
    S_SEED,
    STATE_WORDS,
    T_ENTRIES,
    TARGET_WORDS,
    UNRESOLVED,
)
from collectors.messages import gnmi_pb2
from collectors.spellings import looked_up, place
from stream.errors import ConfigError

Ints = npt.NDArray[np.int64]
Keys = tuple[tuple[str, str], ...]
Element = tuple[str, Keys]

PLACE_KEY = "#"
"""Key of an entry of a JSON list that is not known to have keys: its place, from 0."""


_IN_ORIGIN, _IN_NAME = re.compile(r"[\\:/[]"), re.compile(r"[\\/[\]]")
_IN_KEY, _IN_VALUE = re.compile(r"[\\=\]]"), re.compile(r"[\\\]]")
_SLASH = re.compile("/")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PARTS = {
    stops: re.compile(rf"((?:[^{re.escape(stops)}\\]++|\\.)*+)(?:([{re.escape(stops)}])|\Z)", re.DOTALL)
    for stops in ("/[:", "/[", "=", "]")
}


class Path(NamedTuple):
    """Elements are names with their keys, sorted by name; a prefix's target is no part of it."""

    origin: str
    elems: tuple[Element, ...]


def path_text(path: Path) -> str:
    r"""As in the gNMI path conventions: /interfaces/interface[name=Ethernet1], the origin in front as `origin:/...`.

    A backslash takes its meaning from the byte behind it. A name of nothing, which no device should send, is `[]`.
    """
    origin = f"{_escaped(_IN_ORIGIN, path.origin)}:" if path.origin else ""
    return origin + ("".join([_element_text(name, keys) for name, keys in path.elems]) or "/")


def _element_text(name: str, keys: Keys) -> str:
    text = f"/{_escaped(_IN_NAME, name) or '[]'}"
    for key, value in keys:
        text += f"[{_escaped(_IN_KEY, key)}={_escaped(_IN_VALUE, value)}]"
    return text


def _escaped(special: re.Pattern[str], text: str) -> str:
    return special.sub(r"\\\g<0>", text) if special.search(text) else text


def parse_path(text: str) -> Path:
    """A path of a file or of `path_text`; it may lack the first slash, or have one at its end. Raises ConfigError."""
    path = _read(text)
    if any(not key for _, keys in path.elems for key, _ in keys):
        raise _Reader(text).error("has a key without a name")
    return path


def _read(text: str) -> Path:
    """What `path_text` wrote, whatever a device called things."""
    reader = _Reader(text)
    origin = ""
    name, stop = reader.until("/[:")
    if stop == ":" and reader.rest().startswith("/"):
        origin, (name, stop) = name, reader.until("/[")
        if not origin:
            raise reader.error("has an empty origin")
    elif stop == ":":
        more, stop = reader.until("/[")
        name = f"{name}:{more}"
    if stop == "/" and not name:
        name, stop = reader.until("/[")
    elements: list[Element] = []
    while name or stop:
        keys: dict[str, str] = {}
        empty = not name
        while stop == "[":
            if reader.rest().startswith("]"):
                empty = False
                reader.at += 1
            else:
                key, ends = reader.until("=")
                value, closes = reader.until("]")
                if not ends or not closes:
                    raise reader.error("has a key that is not [name=value]")
                if key in keys:
                    raise reader.error(f"has the key {key} twice in one element")
                keys[key] = value
            behind, stop = reader.until("/[")
            if behind:
                raise reader.error(f"goes on with {behind!r} behind a key")
        if empty:
            raise reader.error("has an element without a name")
        elements.append((name, tuple(sorted(keys.items()))))
        if not stop:
            break
        name, stop = reader.until("/[")
    return Path(origin, tuple(elements))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def until(self, stops: str) -> tuple[str, str]:
        """What stands before the next of these characters, without escapes, and that character ('' at the end)."""
        part = _PARTS[stops].match(self.text, self.at)
        if part is None:
            raise self.error("ends in a backslash")
        self.at = part.end()
        found, stop = part.groups("")
        return _ESCAPE.sub(r"\g<1>", found) if "\\" in found else found, stop

    def rest(self) -> str:
        return self.text[self.at :]

    def error(self, what: str) -> ConfigError:
        return ConfigError(f"path {self.text!r} {what}", "write it as /interfaces/interface[name=Ethernet1]/state")


class PathTable:
    """Numbers of paths, and the spellings they have been met in.

    `limit` bounds the spellings of all targets, `per_target` those that one target may bring: rows beyond are left out
    and counted, and no target takes another's room. Targets of one model share spellings. `list_keys` says of JSON
    lists, by name (without that of a module), which leaves of an entry are its keys.
    """

    def __init__(
        self, limit: int = 1 << 18, per_target: int = 1 << 16, list_keys: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.limit, self.per_target = limit, per_target
        self.list_keys = dict(list_keys or {})
        if limit < 1 or per_target < 1:
            raise ValueError(f"no table of paths: {limit} in all and {per_target} a target")
        for name, keys in self.list_keys.items():
            if not keys or any(not key or "|" in key or ":" in key for key in keys):
                raise ValueError(f"no keys of a list: {name}: {keys}")
        self.generation = -1
        self.targets = np.zeros((0, TARGET_WORDS), np.int64)
        self.renew()

    def renew(self) -> None:
        """Forgets all paths: numbers begin anew, and with them a generation."""
        self.generation += 1
        self.target_names: list[str] = []
        self._texts: list[str] = []
        self._ids: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._parent: tuple[int, Path] = (UNRESOLVED, Path("", ()))
        self.spellings = np.zeros(1 << 14, np.uint8)
        self.entries = np.zeros((1 << 8, ENTRY_WORDS), np.int64)
        self.slots = np.full(1 << 9, -1, np.int32)
        self.state = np.zeros(STATE_WORDS, np.int64)
        self.state[S_SEED] = secrets.randbits(62)
        self.targets[:] = 0
        # The entry of nothing, then one for each list: neither is anyone's.
        self.state[S_ENTRIES] = self._resolved = 1
        self.entries[ROOT, E_PATH] = self._id_of(Path("", ()))
        own = np.zeros((1, TARGET_WORDS), np.int64)
        self.state[S_MOST_ENTRIES] = self.state[S_MOST_A_TARGET] = 1 << 30
        self._lists: dict[str, int] = {}
        for name, keys in self.list_keys.items():
            raw = np.frombuffer(f"|{'|'.join(keys)}|".encode() + bytes(PAD), np.uint8).copy()
            entry = NO_ROOM
            while entry == NO_ROOM:
                entry = looked_up(
                    raw, 0, len(raw) - PAD, LIST, 0, self.spellings, self.entries, self.slots, own, self.state
                )  # fmt: skip
                if entry == NO_ROOM:
                    self.grow()
            if entry == REFUSED:
                raise ValueError(f"the keys of list {name} are too long")
            self._lists[name] = entry
        self.state[S_MOST_ENTRIES] = self.state[S_ENTRIES] + self.limit
        self.state[S_MOST_A_TARGET] = self.per_target
        self.resolve()

    def __len__(self) -> int:
        return len(self._texts)

    def path(self, path_id: int) -> Path:
        """The path of a number, made anew from its text."""
        return _read(self._texts[path_id])

    def text(self, path_id: int) -> str:
        """The path of a number as text."""
        return self._texts[path_id]

    def introduced(self, target: int) -> int:
        """How many spellings this target has brought."""
        return int(self.targets[target, T_ENTRIES]) if target < len(self.targets) else 0

    def release(self, target: int) -> None:
        """The number goes to another target, which begins with nothing to its charge."""
        if target < len(self.targets):
            self.targets[target] = 0

    def make_room_for(self, target: int) -> None:
        """Makes room for targets up to this number."""
        if target >= len(self.targets):
            more = np.zeros((max(16, target + 1 - len(self.targets), len(self.targets)), TARGET_WORDS), np.int64)
            self.targets = np.concatenate((self.targets, more))

    def grow(self) -> None:
        """Gives the arrays of spellings twice the room where they are short of it."""
        count, used = int(self.state[S_ENTRIES]), int(self.state[S_BYTES])
        if count >= len(self.entries):
            self.entries = np.concatenate((self.entries, np.zeros_like(self.entries)))
        if used + BYTES_AN_ENTRY * 64 > len(self.spellings):
            self.spellings = np.concatenate((self.spellings, np.zeros_like(self.spellings)))
        if 2 * count >= len(self.slots):
            self.slots = slots_of(self.entries[:count], 2 * len(self.slots))

    def resolve(self) -> int:
        """Finds the paths of new spellings; answers how many there were."""
        first, end = self._resolved, int(self.state[S_ENTRIES])
        for entry in range(first, end):
            self.entries[entry, E_PATH], self.entries[entry, E_LIST] = self._resolve(entry)
        self._resolved = end
        return end - first

    def _resolve(self, entry: int) -> tuple[int, int]:
        """Number of the path and entry of the list that it is, or 0."""
        owner = int(self.entries[entry, E_OWNER])
        begin = int(self.entries[entry, E_AT])
        raw = self.spellings[begin : begin + int(self.entries[entry, E_SIZE])].tobytes()
        sort = owner & ((1 << OWNER_BIT) - 1)
        if sort in (LIST, NAME):
            return (self._name_of(raw) if sort == NAME else 0), 0
        above = int(self.entries[owner >> OWNER_BIT & 0xFFFFFFFF, E_PATH])
        try:
            path = self._continued(above, sort, raw, owner >> PLACE_BIT)
        except (DecodeError, ValueError):
            return INVALID, 0
        name, keys = path.elems[-1] if path.elems else ("", ())
        return self._id_of(path), 0 if keys else self._lists.get(name.rpartition(":")[2], 0)

    def _continued(self, above: int, sort: int, raw: bytes, place: int) -> Path:
        if above < 0:
            raise ValueError("it continues what is no path")
        if self._parent[0] != above:
            self._parent = (above, self.path(above))
        origin, elems = self._parent[1]
        if sort in (PREFIX, PATH):
            more = gnmi_pb2.Path.FromString(raw)
            return Path(more.origin or origin, elems + _elements(more))
        if sort == MEMBER:
            return Path(origin, (*elems, (raw.decode(), ())))
        assert sort in (KEY, PLACE)
        name, keys = elems[-1] if elems else ("", ())
        key = (PLACE_KEY, str(place)) if sort == PLACE else _member(raw)
        return Path(origin, (*elems[:-1], (name, tuple(sorted({**dict(keys), key[0]: key[1]}.items())))))

    def _id_of(self, path: Path) -> int:
        text = path_text(path)
        number = self._ids.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return number

    def _name_of(self, raw: bytes) -> int:
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            return INVALID
        number = self._names.setdefault(name, len(self.target_names))
        if number == len(self.target_names):
            self.target_names.append(name)
        return number


def _elements(path: gnmi_pb2.Path) -> tuple[Element, ...]:
    """Those of a message; `element`, the deprecated form, has an element's text in each string."""
    if path.elem or not path.element:
        return tuple([(elem.name, tuple(sorted(elem.key.items())) if elem.key else ()) for elem in path.elem])
    elements: list[Element] = []
    for text in path.element:
        try:
            read = parse_path(f"/{_escaped(_SLASH, text)}").elems
        except ConfigError:
            read = ()
        elements.append(read[0] if len(read) == 1 else (text, ()))
    return tuple(elements)


def _member(raw: bytes) -> tuple[str, str]:
    """Name, without that of a module, and value of a JSON member that is a list's key."""
    ((name, value),) = json.loads(b"{" + raw + b"}", parse_int=str, parse_float=str).items()
    if value is None or isinstance(value, bool):
        value = json.dumps(value)
    text = str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return name.rpartition(":")[2], text


def slots_of(entries: Ints, size: int) -> npt.NDArray[np.int32]:
    """A table of so many slots that finds all entries but that of nothing."""
    slots = np.full(size, -1, np.int32)
    place(entries, slots)
    return slots
