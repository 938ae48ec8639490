"""Cascades from a file: what `analyze -o json|jsonl` and `observe cascade` print, or one cascade's JSON by itself.

In: a path, or "-" for stdin. Out: the newest revision of each cascade; what is no cascade is an error with its line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

import msgspec

from stream.cascade import FINAL, Cascade
from stream.errors import PausetraceError

Form = TypeVar("Form")


class CascadeFileError(PausetraceError):
    """A file does not hold cascades as they are published."""


def read_cascades(name: str) -> list[Cascade]:
    """The cascades of a file ("-": stdin); raises CascadeFileError."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as err:
        raise CascadeFileError(f"{name} cannot be read: {err.strerror}", "give a file, or - for stdin") from err
    return newest(parse_cascades(content, "stdin" if name == "-" else name))


def parse_cascades(content: bytes, name: str) -> list[Cascade]:
    """A JSON array of cascades, one cascade over any number of lines, or one a line."""
    text = content.removeprefix(b"\xef\xbb\xbf").strip()
    if text.startswith(b"["):
        return _decode(text, list[Cascade], name)
    try:
        return [msgspec.json.decode(text, type=Cascade)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        # One that is wrong by itself is told with its line below.
        lines = [(number, line) for number, line in enumerate(text.split(b"\n"), 1) if line.strip()]
        if len(lines) > 1 and not _begins_one(lines[0][1]):
            return [_decode(text, Cascade, name)]
        return [_decode(line, Cascade, f"{name}:{number}") for number, line in lines]


def newest(cascades: list[Cascade]) -> list[Cascade]:
    """Of several revisions of a cascade the last, a final one before all; without those that became part of another."""
    kept: dict[tuple[str, str], Cascade] = {}
    for cascade in cascades:
        before = kept.get((cascade.fabric, cascade.id))
        if before is None or _age(cascade) >= _age(before):
            kept[cascade.fabric, cascade.id] = cascade
    return [cascade for cascade in kept.values() if cascade.merged_into is None]


def _age(cascade: Cascade) -> float:
    return float("inf") if cascade.revision == FINAL else float(cascade.revision)


def _begins_one(line: bytes) -> bool:
    """Whether a line is a whole JSON value, rather than the first line of one."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _decode(content: bytes, form: type[Form], place: str) -> Form:
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise CascadeFileError(
            f"{place} holds no cascade: {err}", "give what `analyze -o json` or `observe cascade` prints"
        ) from err
