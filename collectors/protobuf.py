"""The parts of protobuf's wire format (protobuf.dev, "Encoding") that gNMI needs, and gNMI's Update and TypedValue in it.

In: bytes and where to read. Out: what stands there and the place behind it, or BAD for all that the protobuf library had
better judge: what is malformed, groups, fields that must be merged, two values of one oneof.
"""

from __future__ import annotations

import math

import numpy as np

from collectors.compiled import Bytes, byte, kernel, part, word
from collectors.layout import (
    ANY,
    BAD,
    BOOL,
    BYTES,
    FLOAT,
    INT,
    JSON,
    LEAFLIST,
    NONE,
    NUMERAL,
    TEXT,
    UINT,
)

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_HIGH_BITS = 0x8080808080808080 - (1 << 64)
_HIGH_BITS_BUT_LAST = 0x0080808080808080
_ZEROS = 0x3030303030303030
_LOW_NIBBLES, _HIGH_NIBBLES, _SIXES = 0x0F0F0F0F0F0F0F0F, 0xF0F0F0F0F0F0F0F0 - (1 << 64), 0x0606060606060606
_LARGEST_SIZE = (1 << 31) - 1
EXACT = 1 << 53
POWERS = np.array([10.0**power for power in range(23)])
"""Those that a double holds exactly."""


@kernel
def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A number of at most 64 bits; a longer one is BAD."""
    value = np.int64(0)
    for shift in range(0, 70, 7):
        if at >= end:
            return np.int64(0), BAD
        one = byte(data, at)
        at += 1
        if shift == 63 and one > 1:
            return np.int64(0), BAD
        value |= (one & 127) << shift
        if one < 128:
            return value, at
    return np.int64(0), BAD


@kernel
def whole_varint(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """A number that takes exactly these bytes, and whether it does."""
    size = end - at
    if size < 1 or size > 8:
        value, behind = varint(data, at, end)
        return value, behind == end
    # All at once, without a branch on the size, which no processor would guess.
    bits = word(data, at) if size == 8 else part(data, at, size)
    if bits & _HIGH_BITS != _HIGH_BITS_BUT_LAST >> (8 * (8 - size)) & _HIGH_BITS:
        return np.int64(0), False
    bits = bits & 0x007F007F007F007F | (bits & 0x7F007F007F007F00) >> 1
    bits = bits & 0x00003FFF00003FFF | (bits & 0x3FFF00003FFF0000) >> 2
    return bits & 0x000000000FFFFFFF | (bits & 0x0FFFFFFF00000000) >> 4, True


@kernel
def short_varint(data: Bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """A tag or a length: at most five bytes, and no more than `most`."""
    if at < end:
        one = byte(data, at)
        if one < 128:
            return one, at + 1
    value = np.int64(0)
    for shift in range(0, 35, 7):
        if at >= end:
            return np.int64(0), BAD
        one = byte(data, at)
        at += 1
        value |= (one & 127) << shift
        if one < 128:
            if value > most:
                return np.int64(0), BAD
            return value, at
    return np.int64(0), BAD


@kernel
def tag(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Number and wire type of a field."""
    value, at = short_varint(data, at, end, 0xFFFFFFFF)
    if value >> 3 == 0:
        return np.int64(0), np.int64(0), BAD
    return value >> 3, value & 7, at


@kernel
def length(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where that which has its length in front begins and ends."""
    size, at = short_varint(data, at, end, _LARGEST_SIZE)
    if at < 0 or size > end - at:
        return np.int64(0), BAD
    return at, at + size


@kernel
def skipped(data: Bytes, at: int, end: int, wire: int) -> int:
    """The place behind a field that means nothing to us."""
    if wire == VARINT:
        _, at = varint(data, at, end)
        return at
    if wire == LENGTH:
        _, at = length(data, at, end)
        return at
    if wire == FIXED64:
        at += 8
    elif wire == FIXED32:
        at += 4
    else:
        return BAD
    return at if at <= end else BAD


@kernel
def is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Whether the bytes are well-formed UTF-8 (Unicode 16.0, table 3-7)."""
    while at < end:
        if end - at >= 8 and word(data, at) & _HIGH_BITS == 0:
            at += 8
            continue
        one = byte(data, at)
        at += 1
        if one < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= one <= 0xDF:
            more = 1
        elif 0xE0 <= one <= 0xEF:
            more = 2
            if one == 0xE0:
                low = 0xA0
            elif one == 0xED:
                high = 0x9F
        elif 0xF0 <= one <= 0xF4:
            more = 3
            if one == 0xF0:
                low = 0x90
            elif one == 0xF4:
                high = 0x8F
        else:
            return False
        if end - at < more:
            return False
        for _ in range(more):
            following = byte(data, at)
            if following < low or following > high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True


@kernel
def _eight_digits(data: Bytes, at: int, size: int) -> int:
    """The number that 0 to 8 decimal digits write, or BAD."""
    if size == 0:
        return np.int64(0)
    if size == 8:
        bits = word(data, at)
    else:
        bits = part(data, at, size) << (64 - 8 * size) | _ZEROS >> (8 * size)
    bits ^= _ZEROS
    if ((bits & _LOW_NIBBLES) + _SIXES | bits) & _HIGH_NIBBLES != 0:
        return np.int64(BAD)
    # Digits to pairs, pairs to fours, fours to all eight; the first digit is in the lowest byte.
    bits = (bits & 0x000F000F000F000F) * 10 + (bits >> 8 & 0x000F000F000F000F)
    bits = (bits & 0x000000FF000000FF) * 100 + (bits >> 16 & 0x000000FF000000FF)
    return (bits & 0xFFFF) * 10000 + (bits >> 32)


@kernel
def integer(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """INT or UINT and its bits, where the text is a canonical decimal integer of 64 bits (RFC 7950, 9.2.1); else NONE."""
    negative = at < end and byte(data, at) == 45
    first = at + 1 if negative else at
    digits = end - first
    if digits < 1 or digits > 20 or (digits > 1 and byte(data, first) == 48):
        return NONE, np.int64(0)
    if digits <= 16:
        high = _eight_digits(data, first, max(0, digits - 8))
        low = _eight_digits(data, max(first, end - 8), min(8, digits))
        if high < 0 or low < 0:
            return NONE, np.int64(0)
        value = high * 100_000_000 + low
        return INT, -value if negative else value
    value = np.int64(0)
    for i in range(first, min(end, first + 18)):
        digit = byte(data, i) - 48
        if digit < 0 or digit > 9:
            return NONE, np.int64(0)
        value = value * 10 + digit
    if digits <= 18:
        return INT, -value if negative else value
    rest = np.int64(0)
    for i in range(first + 18, end):
        digit = byte(data, i) - 48
        if digit < 0 or digit > 9:
            return NONE, np.int64(0)
        rest = rest * 10 + digit
    if digits == 19:
        # 922337203685477580|7 is the largest, one more the smallest.
        if value < 922337203685477580 or (value == 922337203685477580 and rest <= 7):
            value = value * 10 + rest
            return INT, -value if negative else value
        if negative:
            if value == 922337203685477580 and rest == 8:
                return INT, np.int64(-9223372036854775808)
            return NONE, np.int64(0)
        return UINT, (value - 922337203685477580) * 10 + (rest - 8) + np.int64(-9223372036854775808)
    # 184467440737095516|15 is the largest of 64 bits.
    if negative or value > 184467440737095516 or (value == 184467440737095516 and rest > 15):
        return NONE, np.int64(0)
    if value < 92233720368547758 or (value == 92233720368547758 and rest < 8):
        return INT, value * 100 + rest
    return UINT, (value - 92233720368547758) * 100 + (rest - 8) + np.int64(-9223372036854775808)


@kernel
def _decimal(data: Bytes, at: int, end: int) -> tuple[float, int]:
    """Decimal64: digits and the number of them behind the point."""
    digits = precision = np.int64(0)
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


@kernel
def _is_any(data: Bytes, at: int, end: int) -> bool:
    """Whether it is a google.protobuf.Any."""
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return False
        if wire == LENGTH:
            first, at = length(data, at, end)
            if at < 0 or (field == 1 and not is_utf8(data, first, at)):
                return False
        else:
            at = skipped(data, at, end, wire)
            if at < 0:
                return False
    return True


@kernel
def scalar(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """TypedValue: sort, form (field number, 0 for none), flags, bits of the value, begin and end of a slice. Sort may be BAD.

    A leaf-list's elements are not looked at.
    """
    sort, form, flags = NONE, np.int64(0), 0
    value = first = last = np.int64(0)
    bad = (BAD, np.int64(0), 0, np.int64(0), np.int64(0), np.int64(0))
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
                number = np.int64(1) if number != 0 else np.int64(0)
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
                value = np.float64(real).view(np.int64)
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
                value = np.float64(np.uint32(bits).view(np.float32)).view(np.int64)
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


@kernel
def _is_leaflist(data: Bytes, at: int, end: int) -> bool:
    """Whether it is a ScalarArray of scalars; one of leaf-lists is none."""
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return False
        if wire == LENGTH:
            first, at = length(data, at, end)
            if at < 0:
                return False
            if field == 1 and scalar(data, first, at)[0] in (BAD, LEAFLIST):
                return False
        else:
            at = skipped(data, at, end, wire)
            if at < 0:
                return False
    return True


@kernel
def update(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Update: sort, form, flags, bits, begin and end of the value's slice; duplicates; begin and end of the path."""
    path = path_end = at
    value = value_end = np.int64(-1)
    duplicates = np.int64(0)
    paths = 0
    bad = (BAD, np.int64(0), 0, np.int64(0), np.int64(0), np.int64(0), np.int64(0), at, at)
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
        return NONE, np.int64(0), 0, np.int64(0), np.int64(0), np.int64(0), duplicates, path, path_end
    sort, form, flags, bits, first, last = scalar(data, value, value_end)
    if sort == LEAFLIST and not _is_leaflist(data, first, last):
        return bad
    return sort, form, flags, bits, first, last, duplicates, path, path_end


@kernel
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


@kernel
def response(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """SubscribeResponse: number of the field of its oneof (0 for none), begin and end of the Notification. Or BAD."""
    found = first = last = np.int64(0)
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return BAD, first, last
        known = np.int64(0)
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
