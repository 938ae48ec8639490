"""Patterns of gNMI paths: which paths a row of a profile means, and what their parts say (port, priority, queue).

In: a pattern as a profile writes it, `/interfaces/interface[name={port}]/.../priority[index={priority}]/in-frames`.
Out: what is captured of a path that matches. Elements and key values may hold placeholders; `*` is any text without a
meaning, `...` any number of elements. A key that the pattern does not name may have any value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Keys = tuple[tuple[str, str], ...]
Element = tuple[str, Keys]

PLACEHOLDERS: Mapping[str, str] = {
    "port": r".+",
    "priority": r"[0-7]",
    "queue": r"[0-9]{1,3}",
    "group": r"[0-9]{1,3}",
    "queue_name": r".+",
    "peer": r".+",
    "lag": r".+?",
    "dscp": r"[0-9]{1,2}",
    "class": r"[0-7]",
    "class_name": r".+",
    "term": r".+",
}
"""What a placeholder may stand for. A port or a term that is written several times is joined by "/"."""
_JOINED = ("port", "term", "peer")

ANY_DEPTH = "..."
_PART = re.compile(r"\{([^{}]*)\}|(\*)|([^{}*]+)")
_MODULE = re.compile(r"[A-Za-z_][\w.-]*:(?=[A-Za-z_])")


def without_module(name: str) -> str:
    """The name of an element or key without the YANG module or prefix in front (`openconfig-lldp:lldp`)."""
    return _MODULE.sub("", name, count=1)


@dataclass(frozen=True, slots=True)
class _Text:
    """A literal, or text with placeholders."""

    literal: str | None
    regex: re.Pattern[str] | None
    names: tuple[str, ...]

    def read(self, text: str, captured: dict[str, str]) -> bool:
        """Whether the text fits; adds what it says."""
        if self.regex is None:
            return text == self.literal
        found = self.regex.fullmatch(text)
        if found is None:
            return False
        for name, value in zip(self.names, found.groups(), strict=True):
            if name in captured and name in _JOINED:
                captured[name] = f"{captured[name]}/{value}" if captured[name] != value else value
            elif captured.setdefault(name, value) != value:
                return False
        return True


@dataclass(frozen=True, slots=True)
class _ElementPattern:
    name: _Text
    keys: tuple[tuple[str, _Text], ...]

    def read(self, element: Element, captured: dict[str, str]) -> bool:
        name, keys = element
        if not self.name.read(name, captured):
            return False
        values = dict(keys)
        return all(key in values and text.read(values[key], captured) for key, text in self.keys)


class Pattern:
    """One pattern. Raises ValueError, which says what is wrong with it."""

    def __init__(self, text: str) -> None:
        self.text = text
        if not text.startswith("/") or text == "/":
            raise ValueError(f"{text!r} is no path: it begins with / and has elements")
        self._elements: tuple[_ElementPattern | None, ...] = tuple(
            None if part == ANY_DEPTH else _element(part) for part in split_path(text)
        )
        if self._elements[-1] is None:
            raise ValueError(f"{text!r} ends with {ANY_DEPTH}: its last element is the leaf")
        self.placeholders = frozenset(
            name
            for element in self._elements
            if element is not None
            for part in (element.name, *(text for _, text in element.keys))
            for name in part.names
        )

    @property
    def leaf(self) -> str | None:
        """The name of the last element, None if it holds placeholders."""
        last = self._elements[-1]
        return None if last is None else last.name.literal

    def list_keys(self) -> dict[str, tuple[str, ...]]:
        """Of each element with keys, its name and theirs."""
        return {
            element.name.literal: tuple(key for key, _ in element.keys)
            for element in self._elements
            if element is not None and element.keys and element.name.literal is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its elements that are literal, from the root on."""
        told = (None if element is None else element.name.literal for element in self._elements)
        return tuple(name for name in told if name is not None)

    def match(self, elements: Sequence[Element]) -> dict[str, str] | None:
        """What the path's parts say, by placeholder; None if it does not fit."""
        return self._match(elements, 0, 0, {})

    def _match(
        self, elements: Sequence[Element], at: int, mine: int, captured: dict[str, str]
    ) -> dict[str, str] | None:
        while mine < len(self._elements):
            pattern = self._elements[mine]
            if pattern is None:
                # What follows fits as near to the beginning as it can.
                for start in range(at, len(elements)):
                    found = self._match(elements, start, mine + 1, dict(captured))
                    if found is not None:
                        return found
                return None
            if at >= len(elements) or not pattern.read(elements[at], captured):
                return None
            at, mine = at + 1, mine + 1
        return captured if at == len(elements) else None


def split_path(text: str) -> list[str]:
    """The elements of a path or pattern as written; a slash within brackets is part of a key's value."""
    parts, depth, part = [], 0, ""
    for letter in text[1:]:
        depth += (letter == "[") - (letter == "]")
        if letter == "/" and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    if depth:
        raise ValueError(f"{text!r} has a [ without its ]")
    parts.append(part)
    if "" in parts:
        raise ValueError(f"{text!r} has an empty element")
    return parts


def _element(text: str) -> _ElementPattern:
    name, *keys = re.split(r"\[(?=[^\[\]]*\])", text)
    told = []
    for key in keys:
        label, equals, value = key.removesuffix("]").partition("=")
        if not key.endswith("]") or not equals or not label or not value:
            raise ValueError(f"{text!r}: a key is written [name=value]")
        told.append((label, _text(value)))
    return _ElementPattern(_text(name), tuple(told))


def _text(text: str) -> _Text:
    regex, names, literal = "", [], True
    end = 0
    for found in _PART.finditer(text):
        if found.start() != end:
            break
        end = found.end()
        name, star, plain = found.groups()
        if name is not None:
            if name not in PLACEHOLDERS:
                raise ValueError(f"{text!r}: {{{name}}} is none of {', '.join(f'{{{each}}}' for each in PLACEHOLDERS)}")
            names.append(name)
            regex += f"({PLACEHOLDERS[name]})"
            literal = False
        elif star:
            regex += ".*"
            literal = False
        else:
            regex += re.escape(plain)
    if end != len(text):
        raise ValueError(f"{text!r} has a {{ or }} without its other half")
    return _Text(text, None, ()) if literal else _Text(None, re.compile(regex, re.DOTALL), tuple(names))
