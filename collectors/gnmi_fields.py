"""gNMI's SubscribeResponse, Update and TypedValue (gnmi.proto 0.8.0) where they lie in a message.

In: bytes and where to read. Out: what stands there, or BAD for all that the protobuf library had better judge: what is
malformed, groups, fields that must be merged, two values of one oneof, what is deprecated.
"""

from __future__ import annotations

import math

import numpy as np

from collectors.compiled import Bytes, byte, inner, wide, word
from collectors.layout import ANY, BAD, BOOL, BYTES, FLOAT, INT, JSON, LEAFLIST, NONE, NUMERAL, TEXT, UINT
from collectors.numerals import integer
from collectors.protobuf import FIXED32, FIXED64, LENGTH, VARINT, is_utf8, length, next_field, skipped, tag, varint

EXACT = 1 << 53
"""Integers up to this are doubles."""
POWERS = np.array([10.0**power for power in range(23)])
"""Those that a double holds exactly."""


@inner
def _decimal(data: Bytes, at: int, end: int) -> tuple[float, int]:
    """Decimal64: digits and the number of them behind the point."""
    digits = precision = wide(0)
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return 0.0, BAD
        if wire == VARINT and field <= 2:
            value, at = varint(data, at, end)
            if field == 1:
                digits = value
            else:
                precision = value & 0xFFFFFFFF
        else:
            at = skipped(data, at, end, wire)
        if at < 0:
            return 0.0, BAD
    if precision < len(POWERS):
        return np.float64(digits) / POWERS[precision], at
    return np.float64(digits) / math.pow(10.0, np.float64(precision)) if precision <= 308 else 0.0, at


@inner
def _is_any(data: Bytes, at: int, end: int) -> bool:
    """Whether it is a google.protobuf.Any."""
    while at < end:
        field, wire, first, at = next_field(data, at, end)
        if at < 0 or (field == 1 and wire == LENGTH and not is_utf8(data, first, at)):
            return False
    return True


@inner
def scalar(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """TypedValue: sort (or BAD), form (field number, 0 for none), flags, bits of the value, begin and end of a slice.

    A leaf-list's elements are not looked at.
    """
    sort, form, flags = NONE, wide(0), 0
    value = first = last = wide(0)
    bad = (BAD, wide(0), 0, wide(0), wide(0), wide(0))
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return bad
        found = NONE
        if wire == VARINT:
            number, at = varint(data, at, end)
            if at < 0:
                return bad
            if field == 3:
                found = UINT if number < 0 else INT
            elif field == 2:
                found = INT
            elif field == 4:
                found = BOOL
                number = wide(1) if number != 0 else wide(0)
            if found != NONE:
                value = number
        elif wire == LENGTH:
            begin, at = length(data, at, end)
            if at < 0:
                return bad
            if field in (1, 12):
                found = TEXT
                if not is_utf8(data, begin, at):
                    return bad
                whole, number = integer(data, begin, at)
                if whole == INT:
                    flags, value = NUMERAL, number
            elif field in (10, 11):
                found = JSON
            elif field in (5, 13):
                found = BYTES
            elif field == 8:
                found = LEAFLIST
            elif field == 7:
                found = FLOAT
                real, behind = _decimal(data, begin, at)
                if behind < 0:
                    return bad
                value = wide(np.float64(real).view(np.int64))
            elif field == 9:
                found = ANY
                if not _is_any(data, begin, at):
                    return bad
            if found not in (NONE, FLOAT):
                first, last = begin, at
        elif wire == FIXED32:
            if end - at < 4:
                return bad
            if field == 6:
                found = FLOAT
                bits = byte(data, at) | byte(data, at + 1) << 8 | byte(data, at + 2) << 16 | byte(data, at + 3) << 24
                value = wide(np.float64(np.uint32(bits).view(np.float32)).view(np.int64))
            at += 4
        elif wire == FIXED64:
            if end - at < 8:
                return bad
            if field == 14:
                found = FLOAT
                value = word(data, at)
            at += 8
        else:
            return bad
        if found != NONE:
            if sort != NONE:
                return bad
            sort, form = found, field
    return sort, form, flags, value, first, last


@inner
def _is_leaflist(data: Bytes, at: int, end: int) -> bool:
    """Whether it is a ScalarArray of scalars; one of leaf-lists is none."""
    while at < end:
        field, wire, first, at = next_field(data, at, end)
        if at < 0 or (field == 1 and wire == LENGTH and scalar(data, first, at)[0] in (BAD, LEAFLIST)):
            return False
    return True


@inner
def update(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Update: sort, form, flags, bits, begin and end of the value's slice; duplicates; begin and end of the path."""
    path = path_end = at
    value = value_end = wide(-1)
    duplicates = wide(0)
    paths = 0
    bad = (BAD, wide(0), 0, wide(0), wide(0), wide(0), wide(0), at, at)
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return bad
        if wire == LENGTH:
            begin, at = length(data, at, end)
            if at < 0:
                return bad
            if field == 1:
                path, path_end = begin, at
                paths += 1
            elif field == 3:
                if value >= 0:
                    return bad
                value, value_end = begin, at
            elif field == 2:
                return bad
        elif wire == VARINT and field == 4:
            duplicates, at = varint(data, at, end)
            duplicates &= 0xFFFFFFFF
        else:
            at = skipped(data, at, end, wire)
        if at < 0:
            return bad
    if paths > 1:
        return bad
    if value < 0:
        return NONE, wide(0), 0, wide(0), wide(0), wide(0), duplicates, path, path_end
    sort, form, flags, bits, first, last = scalar(data, value, value_end)
    if sort == LEAFLIST and not _is_leaflist(data, first, last):
        return bad
    return sort, form, flags, bits, first, last, duplicates, path, path_end


@inner
def _is_extension(data: Bytes, at: int, end: int) -> bool:
    """Whether it is a gnmi_ext.Extension with a RegisteredExtension of number and bytes alone, such as Junos sends."""
    field, wire, at = tag(data, at, end)
    if at < 0 or field != 1 or wire != LENGTH:
        return False
    at, behind = length(data, at, end)
    if behind != end:
        return False
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0 or not ((field == 1 and wire == VARINT) or (field == 2 and wire == LENGTH)):
            return False
        at = skipped(data, at, end, wire)
        if at < 0:
            return False
    return True


@inner
def response(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """SubscribeResponse: number of the field of its oneof (0 for none), begin and end of the Notification. Or BAD."""
    found = first = last = wide(0)
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return BAD, first, last
        known = wide(0)
        if wire == LENGTH:
            begin, at = length(data, at, end)
            if at < 0 or field == 4 or (field == 5 and not _is_extension(data, begin, at)):
                return BAD, first, last
            if field == 1:
                known, first, last = field, begin, at
        else:
            if wire == VARINT and field == 3:
                known = field
            at = skipped(data, at, end, wire)
            if at < 0:
                return BAD, first, last
        if known != 0:
            if found != 0:
                return BAD, first, last
            found = known
    return found, first, last
