"""Protobuf's wire format (protobuf.dev, "Encoding"): varints, tags, lengths, UTF-8.

In: bytes and where to read. Out: what stands there and the place behind it, or BAD.
"""

from __future__ import annotations

from collectors.compiled import Bytes, byte, inlined, inner, part, wide, word
from collectors.layout import BAD

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_HIGH_BITS, _HIGH_BITS_BUT_LAST = 0x8080808080808080 - (1 << 64), 0x0080808080808080
_LARGEST_SIZE = (1 << 31) - 1


@inner
def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A number of at most 64 bits; a longer one is BAD."""
    value = wide(0)
    for shift in range(0, 70, 7):
        if at >= end:
            return wide(0), BAD
        one = byte(data, at)
        at += 1
        if shift == 63 and one > 1:
            return wide(0), BAD
        value |= (one & 127) << shift
        if one < 128:
            return value, at
    return wide(0), BAD


@inlined
def whole_varint(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """A number that takes exactly these bytes, at most eight, and whether it does.

    All at once, without a branch on the size, which no processor would guess.
    """
    size = end - at
    if size < 1 or size > 8:
        return wide(0), False
    bits = word(data, at) if size == 8 else part(data, at, size)
    if bits & _HIGH_BITS != _HIGH_BITS_BUT_LAST >> (8 * (8 - size)) & _HIGH_BITS:
        return wide(0), False
    bits = bits & 0x007F007F007F007F | (bits & 0x7F007F007F007F00) >> 1
    bits = bits & 0x00003FFF00003FFF | (bits & 0x3FFF00003FFF0000) >> 2
    return bits & 0x000000000FFFFFFF | (bits & 0x0FFFFFFF00000000) >> 4, True


@inner
def short_varint(data: Bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """A tag or a length: at most five bytes, and no more than `most`."""
    if at < end:
        one = byte(data, at)
        if one < 128:
            return one, at + 1
    value = wide(0)
    for shift in range(0, 35, 7):
        if at >= end:
            return wide(0), BAD
        one = byte(data, at)
        at += 1
        value |= (one & 127) << shift
        if one < 128:
            if value > most:
                return wide(0), BAD
            return value, at
    return wide(0), BAD


@inner
def tag(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Number and wire type of a field."""
    value, at = short_varint(data, at, end, 0xFFFFFFFF)
    if value >> 3 == 0:
        return wide(0), wide(0), BAD
    return value >> 3, value & 7, at


@inner
def length(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where that which has its length in front begins and ends."""
    size, at = short_varint(data, at, end, _LARGEST_SIZE)
    if at < 0 or size > end - at:
        return wide(0), BAD
    return at, at + size


@inner
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


@inner
def next_field(data: Bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """A field whole: its number, its wire type, where its content begins, and the place behind it, or BAD."""
    number, wire, at = tag(data, at, end)
    if at < 0:
        return number, wire, at, at
    if wire == LENGTH:
        begin, behind = length(data, at, end)
        return number, wire, begin, behind
    return number, wire, at, skipped(data, at, end, wire)


@inner
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
