"""The layout of the running kernel's structs and tracepoints, read from its BTF (/sys/kernel/btf/vmlinux).

In: the file's bytes. Out: offsets of members, and the structs that a tracepoint's arguments point to. BTF is the
kernel's own description of its types (Documentation/bpf/btf.rst), so that no header of another kernel can be wrong.
"""

from __future__ import annotations

import struct
from pathlib import Path

VMLINUX = Path("/sys/kernel/btf/vmlinux")
_MAGIC = 0xEB9F
_POINTER, _ARRAY, _STRUCT, _UNION, _ENUM, _TYPEDEF = 2, 3, 4, 5, 6, 8
_FUNCTION, _FUNCTION_PROTOTYPE, _VARIABLE, _DATA_SECTION, _DECLARATION_TAG, _ENUM64 = 12, 13, 14, 15, 17, 19
_QUALIFIERS = (_TYPEDEF, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
# Bytes behind the 12 of every type: (each, for each of its vlen things) by kind.
_BEHIND = {
    1: (4, 0), _ARRAY: (12, 0), _STRUCT: (0, 12), _UNION: (0, 12), _ENUM: (0, 8), _FUNCTION_PROTOTYPE: (0, 8),
    _VARIABLE: (4, 0), _DATA_SECTION: (0, 12), _DECLARATION_TAG: (4, 0), _ENUM64: (0, 12),
}  # fmt: skip


class Btf:
    """The types of one kernel. Raises ValueError for bytes that are no BTF."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 24 or struct.unpack_from("<H", data)[0] != _MAGIC:
            raise ValueError("this is no BTF of a little-endian kernel")
        header, types, types_bytes, strings, strings_bytes = struct.unpack_from("<IIIII", data, 4)
        self._data, self._strings = data, data[header + strings : header + strings + strings_bytes]
        self._places = self._find_places(header + types, header + types + types_bytes)
        self._ids: dict[tuple[str, int], int] = {}

    def _find_places(self, place: int, end: int) -> list[int]:
        places, unpack, data = [0], struct.Struct("<I").unpack_from, self._data
        plain = {kind: each for kind, (each, per) in _BEHIND.items() if not per}
        while place < end:
            places.append(place)
            (info,) = unpack(data, place + 4)
            kind = info >> 24 & 31
            if kind in _BEHIND and kind not in plain:
                place += 12 + _BEHIND[kind][1] * (info & 0xFFFF)
            else:
                place += 12 + plain.get(kind, 0)
        return places

    def _type(self, number: int) -> tuple[int, int, int, int]:
        """Place, kind, count of things and size or type of the type with this number."""
        place = self._places[number]
        info, size_or_type = struct.unpack_from("<II", self._data, place + 4)
        return place, info >> 24 & 31, info & 0xFFFF, size_or_type

    def _name(self, offset: int) -> str:
        return self._strings[offset : self._strings.index(b"\0", offset)].decode()

    def _find(self, name: str, kind: int) -> int | None:
        """Number of the type with this name and kind."""
        if (name, kind) not in self._ids:
            offset = self._strings.find(b"\0" + name.encode() + b"\0") + 1
            if not offset:
                return None
            wanted, unpack, data = offset, struct.Struct("<II").unpack_from, self._data
            for number, place in enumerate(self._places[1:], 1):
                named, info = unpack(data, place)
                if named == wanted and info >> 24 & 31 == kind:
                    self._ids[name, kind] = number
                    break
            else:
                return None
        return self._ids[name, kind]

    def struct_number(self, structure: str) -> int | None:
        """The number by which the kernel knows a struct."""
        return self._find(structure, _STRUCT)

    def function_number(self, function: str) -> int | None:
        """The number by which the kernel knows one of its functions that programs may call."""
        return self._find(function, _FUNCTION)

    def member_offset(self, structure: str, member: str) -> int | None:
        """Bytes from the struct's start to a member, also one of an anonymous struct or union in it."""
        number = self._find(structure, _STRUCT)
        bits = None if number is None else self._member_bits(number, member)
        return None if bits is None else bits // 8

    def _member_bits(self, number: int, member: str) -> int | None:
        place, _, count, _ = self._type(number)
        bit_fields = struct.unpack_from("<I", self._data, place + 4)[0] >> 31
        for each in range(count):
            name, kind, bits = struct.unpack_from("<III", self._data, place + 12 + 12 * each)
            bits = bits & 0xFFFFFF if bit_fields else bits
            if name and self._name(name) == member:
                return int(bits)
            if not name and self._type(kind)[1] in (_STRUCT, _UNION):
                inner = self._member_bits(kind, member)
                if inner is not None:
                    return int(bits) + inner
        return None

    def arguments(self, tracepoint: str) -> list[str] | None:
        """What the tracepoint's arguments point to: names of structs, "" for anything else. None: there is no such."""
        number = self._find(f"btf_trace_{tracepoint}", _TYPEDEF)
        if number is None:
            return None
        prototype = self._type(self._type(number)[3])[3]  # typedef -> pointer -> prototype
        place, _, count, _ = self._type(prototype)
        found = [struct.unpack_from("<II", self._data, place + 12 + 8 * each)[1] for each in range(count)]
        return [self._pointed_to(each) for each in found[1:]]  # the first is the tracepoint's own data

    def _pointed_to(self, number: int) -> str:
        pointers = 0
        while number:
            place, kind, _, size_or_type = self._type(number)
            if kind == _STRUCT:
                return self._name(struct.unpack_from("<I", self._data, place)[0]) if pointers == 1 else ""
            if kind != _POINTER and kind not in _QUALIFIERS:
                return ""
            pointers += kind == _POINTER
            number = size_or_type
        return ""


def has_tracepoint(data: bytes, tracepoint: str) -> bool:
    """Whether the kernel of this BTF has a tracepoint, without a walk over its types."""
    return b"\0btf_trace_" + tracepoint.encode() + b"\0" in data
