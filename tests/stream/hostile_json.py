"""Hostile JSON values: facts, roster changes and cascades that begin valid and are broken by field or by byte; seeded.

In: a seed. Out: messages of every JSON topic that steps read, some of which are still valid.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from stream import messages
from tests.stream.hostile import Message, broken_bytes
from tests.stream.sample_items import SAMPLES

Path = tuple[str | int, ...]


class Token(str):
    """A piece of JSON, or of what only looks like it, that is written as it is."""

    __slots__ = ()


ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 8, 254, 255, 256, 65_535, 65_536, 2**24 - 1, 2**24, 2**40 - 1, 2**40, 1_000_000,
    1_000_001, 2**53, 2**62, 2**62 + 1, 2**63 - 1025, 2**63 - 1024, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1,
    10**30, "", "x", "a/b", "x" * 224, "x" * 225, "x" * 256, "x" * 257, "é" * 256, "final", "final\n",
    "0" * 16, "f" * 16, "F" * 16, "0x" + "f" * 14, "f" * 15, " " + "f" * 15, "f_" * 8, "٣" * 16, "a\0b",
    "pfc", "device", "control", "nonsense", [], [[]], {}, [{}], {"a": 1}, ["x"], [1], [None],
    "link", "SOURCE_UP", "SOURCE_DOWN",
    Token("1.0"), Token("1.5"), Token("1e3"), Token("1E-3"), Token("1e400"), Token("-0"), Token("01"), Token("+1"),
    Token("0x10"), Token("NaN"), Token("-Infinity"), Token("nul"), Token("9" * 4000), Token("9" * 5000), Token("'x'"),
    Token('"\\ud800"'), Token('"\\udc00x"'), Token('"\\ud83d\\ude00"'), Token('"\\u0000"'), Token('"\\x41"'),
    Token('"'), Token('"a\tb"'), Token("[" * 5_000 + "]" * 5_000), Token('{"a":' * 5_000 + "1" + "}" * 5_000),
    Token("[" * 5_000),
    Token(""), Token(","), Token("//"), Token("[1,]"), Token('{"a":1,}'), Token('"\udcff"'),
    Token('"\udced\udca0\udc80"'),
)  # fmt: skip
BIG = (
    Token("[" + ",".join(['"x"'] * 70_000) + "]"),
    Token("[" + ",".join(["{}"] * 70_000) + "]"),
    Token('"' + "x" * 1_000_000 + '"'),
    Token("[" * 200_000),
)


def dump(value: object) -> bytes:
    """JSON of the value; an object may be a list of pairs in a tuple, so that keys can repeat."""
    return _text(value).encode("utf-8", "surrogateescape")


def _text(value: object) -> str:
    if isinstance(value, Token):
        return value
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple):
        return "{" + ",".join(f"{_text(key)}:{_text(part)}" for key, part in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A copy made of lists and objects that can be broken without harm to the next value."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _paths(value: object, here: Path = ()) -> Iterator[Path]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*here, key)
        yield from _paths(part, (*here, key))


def _break_one(rng: random.Random, value: Any) -> str:
    paths = list(_paths(value))
    if not paths:
        return "nothing left"
    path = rng.choice(paths)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    what = rng.choices(("odd", "drop", "unknown field", "twice", "big"), (60, 10, 10, 10, 0.3))[0]
    if what in ("odd", "big"):
        parent[path[-1]] = _plain(rng.choice(ODD if what == "odd" else BIG))
    elif what == "drop":
        del parent[path[-1]]
    elif what == "unknown field" and isinstance(parent, dict):
        parent[rng.choice(("later", "", "fact2", "s"))] = _plain(rng.choice(ODD))
    elif isinstance(parent, dict):
        # The same key in the text of the object, before or after the first.
        key = str(path[-1])
        parent[Token(json.dumps(key))] = _plain(rng.choice(ODD))
    else:
        parent.append(_plain(rng.choice(parent)))
    return f"{'.'.join(map(str, path))} {what}"


def hostile_json_messages(seed: int, count: int) -> Iterator[Message]:
    """`count` messages of JSON topics, the same for the same seed."""
    rng = random.Random(seed)
    samples = [(messages.encode(item), _plain(msgspec.to_builtins(item))) for item in SAMPLES.values()]
    for _ in range(count):
        (topic, key, _), plain = rng.choice(samples)
        value = _plain(plain)
        how = [_break_one(rng, value) for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3)))]
        data = dump(value)
        if rng.random() < 0.15:
            data, damage = broken_bytes(rng, data)
            how.append(damage)
        if rng.random() < 0.03:
            key = rng.choice((b"", b"dc-1", b"\xff", key + b"\0", key[:-1], rng.randbytes(300)))
            how.append("key")
        yield Message(topic, key, data, ", ".join(how))
