"""The slow, obvious reader of a SubscribeResponse, by the protobuf library and recursion: the twin of collectors.wire.

In: raw bytes. Out: what the message is and its rows as plain Python objects.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # in no stub
from typing import Any

from google.protobuf.message import DecodeError

from collectors.messages import gnmi_pb2

FORMS = {field.name: field.number for field in gnmi_pb2.TypedValue.DESCRIPTOR.fields}
MOST_DEPTH, STACK_DEPTH = 16, 64
LONGEST = 4096
SPACE = " \t\n\r"

Elements = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
Row = tuple[str, Elements, str, str, int, int, Any]
"""Origin, elements, op, sort, form, duplicates, value."""


@dataclass
class PlainMessage:
    """Status, and of a Notification all else."""

    status: str
    time_ns: int = 0
    atomic: bool = False
    target: str = ""
    rows: list[Row] = field(default_factory=list)


def read(raw: bytes, list_keys: Mapping[str, tuple[str, ...]]) -> PlainMessage:
    """What the message says."""
    try:
        message = gnmi_pb2.SubscribeResponse.FromString(raw)
    except DecodeError:
        return PlainMessage("MALFORMED")
    which = message.WhichOneof("response")
    if which != "update":
        return PlainMessage({None: "EMPTY", "sync_response": "SYNC", "error": "ERROR"}[which])
    said = message.update
    plain = PlainMessage("OK", said.timestamp, said.atomic, said.prefix.target)
    for update in said.update:
        origin, elements = joined(said.prefix, update.path)
        for below, sort, form, value in values(update, elements, list_keys):
            plain.rows.append((origin, below, "UPDATE", sort, form, update.duplicates, value))
    for path in said.delete:
        plain.rows.append((*joined(said.prefix, path), "DELETE", "NONE", 0, 0, None))
    return plain


def joined(prefix: gnmi_pb2.Path, path: gnmi_pb2.Path) -> tuple[str, Elements]:
    """Origin and elements of a path below a prefix."""
    return path.origin or prefix.origin, elements_of(prefix) + elements_of(path)


def elements_of(path: gnmi_pb2.Path) -> Elements:
    """Names with sorted keys; of the deprecated form only names without keys are known here."""
    if path.elem or not path.element:
        return tuple((element.name, tuple(sorted(element.key.items()))) for element in path.elem)
    return tuple((name, ()) for name in path.element)


def values(
    update: gnmi_pb2.Update, elements: Elements, list_keys: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[Elements, str, int, Any]]:
    """Elements, sort, form and value of each row of an update."""
    typed = update.val
    if update.HasField("value") and not update.HasField("val"):
        typed = typed_of(update.value)
    which = typed.WhichOneof("value")
    if which is None:
        yield elements, "NONE", 0, None
        return
    form, value = FORMS[which], getattr(typed, which)
    if which in ("json_val", "json_ietf_val"):
        try:
            rows = [(below, sort, form, leaf) for below, sort, leaf in json_rows(value, elements, list_keys)]
        except ValueError:
            rows = [(elements, "JSON", form, value)]
        yield from rows
    elif which in ("int_val", "uint_val"):
        yield elements, "INT" if value < 2**63 else "UINT", form, value
    elif which == "bool_val":
        yield elements, "BOOL", form, value
    elif which in ("float_val", "double_val"):
        yield elements, "FLOAT", form, value
    elif which == "decimal_val":
        exact = value.precision <= 308
        yield elements, "FLOAT", form, float(value.digits) / math.pow(10.0, value.precision) if exact else 0.0
    elif which in ("string_val", "ascii_val"):
        yield elements, "TEXT", form, value
    elif which == "leaflist_val":
        yield elements, "LEAFLIST", form, [plain_value(element) for element in value.element]
    elif which == "any_val":
        yield elements, "ANY", form, (value.type_url, value.value)
    else:
        yield elements, "BYTES", form, value


def typed_of(value: gnmi_pb2.Value) -> gnmi_pb2.TypedValue:
    """What the deprecated Value would be today."""
    names = gnmi_pb2.Encoding.keys()
    name = names[value.type] if 0 <= value.type < len(names) else "BYTES"
    if name == "ASCII":
        try:
            return gnmi_pb2.TypedValue(ascii_val=value.value.decode())
        except UnicodeDecodeError:
            name = "BYTES"
    form = {"JSON": "json_val", "JSON_IETF": "json_ietf_val", "PROTO": "proto_bytes"}.get(name, "bytes_val")
    return gnmi_pb2.TypedValue(**{form: value.value})


def plain_value(typed: gnmi_pb2.TypedValue) -> Any:
    """The value of an element of a leaf-list."""
    which = typed.WhichOneof("value")
    if which is None or which == "leaflist_val":
        return None
    value = getattr(typed, which)
    return value if isinstance(value, int | float | str | bytes) and not which.startswith("json") else which


def json_rows(
    raw: bytes, elements: Elements, list_keys: Mapping[str, tuple[str, ...]]
) -> list[tuple[Elements, str, Any]]:
    """Elements, sort and value of each leaf of a JSON text; ValueError for what is none, or has an escape in a name."""
    text = raw.decode()
    node, behind = parsed(text, skipped(text, 0), 1)
    if skipped(text, behind) != len(text):
        raise ValueError("more behind the value")
    return list(leaves(node, elements, list_keys, 1))


@dataclass
class Node:
    """A JSON value: "object" with (name, node), "array" with nodes, or "scalar"; and the text it was written as.

    A name with an escape is None.
    """

    kind: str
    inside: Any
    text: str


def skipped(text: str, at: int) -> int:
    """The place of the next character that is no white space."""
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def parsed(text: str, at: int, depth: int) -> tuple[Node, int]:
    """The value that begins here and the place behind it."""
    begin = at
    if text[at : at + 1] == "{":
        require(depth < STACK_DEPTH)
        members: list[tuple[str | None, Node]] = []
        at = skipped(text, at + 1)
        while text[at : at + 1] != "}" or members:
            require(text[at : at + 1] == '"')
            name, behind = scanstring(text, at + 1, True)
            is_plain = "\\" not in text[at:behind]
            at = skipped(text, behind)
            require(text[at : at + 1] == ":")
            member, at = parsed(text, skipped(text, at + 1), depth + 1)
            members.append((name if is_plain else None, member))
            at = skipped(text, at)
            if text[at : at + 1] == "}":
                break
            require(text[at : at + 1] == ",")
            at = skipped(text, at + 1)
        return Node("object", members, text[begin : at + 1]), at + 1
    if text[at : at + 1] == "[":
        require(depth < STACK_DEPTH)
        elements: list[Node] = []
        at = skipped(text, at + 1)
        while text[at : at + 1] != "]" or elements:
            element, at = parsed(text, at, depth + 1)
            elements.append(element)
            at = skipped(text, at)
            if text[at : at + 1] == "]":
                break
            require(text[at : at + 1] == ",")
            at = skipped(text, at + 1)
        return Node("array", elements, text[begin : at + 1]), at + 1
    if text[at : at + 1] == '"':
        _, behind = scanstring(text, at + 1, True)
        return Node("scalar", None, text[at:behind]), behind
    found = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?").match(text, at)
    require(found is not None)
    assert found
    return Node("scalar", None, found[0]), found.end()


def require(holds: bool) -> None:
    """Raises ValueError."""
    if not holds:
        raise ValueError("no JSON")


def leaves(
    node: Node, elements: Elements, list_keys: Mapping[str, tuple[str, ...]], depth: int
) -> Iterator[tuple[Elements, str, Any]]:
    """Elements, sort and value of each leaf."""
    if node.kind == "scalar":
        yield (elements, *scalar(node.text))
    elif depth > MOST_DEPTH:
        yield elements, "JSON", json.loads(node.text)
    elif node.kind == "object":
        for name, member in node.inside:
            require(name is not None)
            yield from leaves(member, (*elements, (name, ())), list_keys, depth + 1)
    elif not node.inside or node.inside[0].kind != "object":
        scalars = all(element.kind == "scalar" for element in node.inside)
        yield elements, "LEAFLIST" if scalars else "JSON", json.loads(node.text)
    else:
        name, keys = elements[-1] if elements else ("", ())
        wanted = () if keys else list_keys.get(name.rpartition(":")[2], ())
        for place, element in enumerate(node.inside):
            found = dict(keys)
            if element.kind == "object":
                for member_name, member in element.inside:
                    bare = (member_name or "").rpartition(":")[2]
                    if bare in wanted and member.kind == "scalar":
                        found[bare] = key_text(member.text)
            if found == dict(keys):
                found["#"] = str(place)
            within = (*elements[:-1], (name, tuple(sorted(found.items()))))
            yield from leaves(element, within, list_keys, depth + 1)


def key_text(text: str) -> str:
    """A scalar as the value of a key."""
    if text[0] != '"':
        return text
    return str(json.loads(text)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def scalar(text: str) -> tuple[str, Any]:
    """Sort and value of a scalar."""
    if text in ("true", "false"):
        return "BOOL", text == "true"
    if text == "null":
        return "NONE", None
    inside = text.strip('"') if text[0] == '"' else text
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", inside) and -(2**63) <= int(inside) < 2**64:
        return "INT" if int(inside) < 2**63 else "UINT", int(inside)
    if text[0] != '"' or re.fullmatch(r"-?(0|[1-9][0-9]*)\.[0-9]+", inside):
        return "FLOAT", float(inside)
    return "TEXT", key_text(text)
