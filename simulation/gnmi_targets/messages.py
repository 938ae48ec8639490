"""gNMI messages as a target makes them: notifications from paths and values, in every encoding that devices use.

In: paths as text, Python values. Out: SubscribeResponses as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pygnmi.spec.v080 import gnmi_pb2

Elem = tuple[str, Mapping[str, str]]
Value = Any
"""bool, int (negative ones are int_val), float, Decimal, str, bytes, list of those, or a Mapping (JSON alone)."""


def elems_of(text: str) -> list[Elem]:
    """Elements of a path such as /interfaces/interface[name=Ethernet1/1]/state, with \\] and \\\\ inside of keys."""
    elems: list[Elem] = []
    name = ""
    keys: dict[str, str] = {}
    at = 0
    while at < len(text):
        char = text[at]
        if char == "/":
            if name:
                elems.append((name, keys))
            name, keys = "", {}
            at += 1
        elif char == "[":
            equals = text.index("=", at)
            value, end = "", equals + 1
            while text[end] != "]":
                end += text[end] == "\\"
                value += text[end]
                end += 1
            keys[text[at + 1 : equals]] = value
            at = end + 1
        else:
            name += char
            at += 1
    if name:
        elems.append((name, keys))
    return elems


def put_path(into: Any, elems: Iterable[Elem], *, old_elements: bool = False) -> None:
    """Fills a gnmi.Path; `old_elements` uses the deprecated list of strings as well as it can."""
    for name, keys in elems:
        if old_elements:
            into.element.append(name + "".join(f"[{key}={value}]" for key, value in sorted(keys.items())))
            continue
        elem = into.elem.add(name=name)
        for key, value in keys.items():
            elem.key[key] = value


def put_value(into: Any, value: Value, encoding: str = "PROTO") -> None:
    """Fills a gnmi.TypedValue as the encoding wants it; JSON_IETF quotes 64-bit numbers (RFC 7951, 6.1)."""
    if encoding in ("JSON", "JSON_IETF"):
        text = json.dumps(_json(value, ietf=encoding == "JSON_IETF"), separators=(",", ":")).encode()
        setattr(into, "json_val" if encoding == "JSON" else "json_ietf_val", text)
    elif isinstance(value, bool):
        into.bool_val = value
    elif isinstance(value, int):
        if value < 0:
            into.int_val = value
        else:
            into.uint_val = value
    elif isinstance(value, float):
        into.double_val = value
    elif isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        into.decimal_val.digits, into.decimal_val.precision = number, -int(exponent)
    elif isinstance(value, bytes):
        into.bytes_val = value
    elif isinstance(value, str):
        into.string_val = value
    elif isinstance(value, Mapping):
        raise TypeError("an object has no PROTO encoding")
    else:
        for part in value:
            put_value(into.leaflist_val.element.add(), part)


def _json(value: Value, *, ietf: bool) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return str(value) if ietf else value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _json(part, ietf=ietf) for key, part in value.items()}
    if isinstance(value, float):
        return value
    return [_json(part, ietf=ietf) for part in value]


def notification(
    time_ns: int,
    updates: Sequence[tuple[str, Value]],
    *,
    deletes: Sequence[str] = (),
    prefix: str = "",
    target: str = "",
    origin: str = "",
    encoding: str = "PROTO",
    old_elements: bool = False,
    duplicates: int = 0,
    extension: bytes = b"",
) -> bytes:
    """A SubscribeResponse with one Notification; paths are relative to the prefix."""
    response = gnmi_pb2.SubscribeResponse()
    told = response.update
    told.timestamp = time_ns
    if prefix or target or origin:
        put_path(told.prefix, elems_of(prefix))
        told.prefix.target, told.prefix.origin = target, origin
    for path, value in updates:
        update = told.update.add(duplicates=duplicates)
        put_path(update.path, elems_of(path), old_elements=old_elements)
        put_value(update.val, value, encoding)
    for path in deletes:
        put_path(told.delete.add(), elems_of(path))
    if extension:
        added = response.extension.add()
        added.registered_ext.id, added.registered_ext.msg = 1, extension
    made: bytes = response.SerializeToString()
    return made


def sync() -> bytes:
    """The SubscribeResponse that ends the first dump."""
    made: bytes = gnmi_pb2.SubscribeResponse(sync_response=True).SerializeToString()
    return made


def capabilities(
    models: Sequence[tuple[str, str, str]] = (("openconfig-interfaces", "OpenConfig working group", "3.0.0"),),
    encodings: Sequence[str] = ("PROTO", "JSON_IETF", "JSON"),
    version: str = "0.8.0",
) -> bytes:
    """A CapabilityResponse; models are name, organization and version."""
    response = gnmi_pb2.CapabilityResponse(gNMI_version=version)
    for name, organization, model_version in models:
        response.supported_models.add(name=name, organization=organization, version=model_version)
    response.supported_encodings.extend(gnmi_pb2.Encoding.Value(name) for name in encodings)
    made: bytes = response.SerializeToString()
    return made
