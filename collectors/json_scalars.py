"""JSON scalars (RFC 8259): strings, numbers and literals, and numbers within strings as RFC 7951 writes them.

In: bytes and where to read. Out: what stands there and the place behind it, or BAD.
"""

from __future__ import annotations

import numpy as np

from collectors.compiled import Bytes, byte, inner, part, wide
from collectors.gnmi_fields import EXACT, POWERS
from collectors.layout import BAD, BOOL, ESCAPED, FLOAT, INEXACT, NONE, QUOTED, TEXT
from collectors.numerals import integer

_QUOTE, _BACKSLASH, _MINUS, _ZERO, _POINT = 34, 92, 45, 48, 46
_TRUE, _NULL, _ALSE = 0x65757274, 0x6C6C756E, 0x65736C61


@inner
def space(data: Bytes, at: int, end: int) -> int:
    """The place of the next byte that is no white space."""
    while at < end:
        one = byte(data, at)
        if one > 32 or not (one == 32 or one == 9 or one == 10 or one == 13):
            break
        at += 1
    return at


@inner
def string_end(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The place of the closing quote of a string whose inside begins here, or BAD; ESCAPED if it has escapes."""
    flags = 0
    while at < end:
        one = byte(data, at)
        if one == _QUOTE:
            return at, flags
        if one < 32:
            return BAD, 0
        at += 1
        if one == _BACKSLASH:
            flags = ESCAPED
            if at >= end:
                return BAD, 0
            one = byte(data, at)
            at += 1
            if one == 117:  # \uXXXX
                if end - at < 4:
                    return BAD, 0
                for i in range(at, at + 4):
                    digit = byte(data, i)
                    if not (48 <= digit <= 57 or 65 <= digit <= 70 or 97 <= digit <= 102):
                        return BAD, 0
                at += 4
            elif one not in (34, 92, 47, 98, 102, 110, 114, 116):
                return BAD, 0
    return BAD, 0


@inner
def _digits_end(data: Bytes, at: int, end: int) -> int:
    while at < end and 48 <= byte(data, at) <= 57:
        at += 1
    return at


@inner
def _number_end(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """The place behind a number, or BAD; whether it has neither fraction nor exponent."""
    if at < end and byte(data, at) == _MINUS:
        at += 1
    behind = _digits_end(data, at, end)
    if behind == at or (behind - at > 1 and byte(data, at) == _ZERO):
        return BAD, False
    at, whole = behind, True
    if at < end and byte(data, at) == _POINT:
        behind = _digits_end(data, at + 1, end)
        if behind == at + 1:
            return BAD, False
        at, whole = behind, False
    if at < end and byte(data, at) in (69, 101):
        at += 1
        if at < end and byte(data, at) in (43, 45):
            at += 1
        behind = _digits_end(data, at, end)
        if behind == at:
            return BAD, False
        at, whole = behind, False
    return at, whole


@inner
def _real(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Bits of the double nearest to a number, and 0; or INEXACT where that takes more than one operation on doubles."""
    negative = byte(data, at) == _MINUS
    if negative:
        at += 1
    digits, scale = wide(0), 0
    fraction = False
    while at < end:
        one = byte(data, at)
        if one == _POINT:
            fraction = True
        elif one in (69, 101):
            break
        else:
            digits = digits * 10 + (one - 48)
            if digits > EXACT:
                return wide(0), INEXACT
            if fraction:
                scale -= 1
        at += 1
    if at < end:
        at += 1
        sign = 1
        if byte(data, at) in (43, 45):
            sign = 44 - byte(data, at)
            at += 1
        power = 0
        while at < end:
            power = power * 10 + (byte(data, at) - 48)
            if power > 999:
                return wide(0), INEXACT
            at += 1
        scale += sign * power
    if scale <= -len(POWERS) or scale >= len(POWERS):
        return wide(0), INEXACT
    value = np.float64(digits)
    value = value * POWERS[scale] if scale >= 0 else value / POWERS[-scale]
    return wide(np.float64(-value if negative else value).view(np.int64)), 0


@inner
def json_scalar(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Sort (or BAD), flags, bits, begin and end of the text (of a string: within its quotes), the place behind."""
    bad = (BAD, 0, wide(0), at, at, at)
    if at >= end:
        return bad
    one = byte(data, at)
    if one == _QUOTE:
        first = at + 1
        last, flags = string_end(data, first, end)
        if last < 0:
            return bad
        if first < last and (48 <= byte(data, first) <= 57 or byte(data, first) == _MINUS):
            sort, value = integer(data, first, last)
            if sort != NONE:
                return sort, QUOTED, value, first, last, last + 1
            behind, whole = _number_end(data, first, last)
            if behind == last and not whole and 48 <= byte(data, last - 1) <= 57:
                plain = True
                for i in range(first, last):
                    plain = plain and byte(data, i) not in (69, 101)
                if plain:
                    value, inexact = _real(data, first, last)
                    return FLOAT, QUOTED | inexact, value, first, last, last + 1
        return TEXT, flags, wide(0), first, last, last + 1
    if one == _MINUS or 48 <= one <= 57:
        behind, whole = _number_end(data, at, end)
        if behind < 0:
            return bad
        if whole:
            sort, value = integer(data, at, behind)
            if sort != NONE:
                return sort, 0, value, at, behind, behind
        value, inexact = _real(data, at, behind)
        return FLOAT, inexact, value, at, behind, behind
    left = end - at
    if left >= 4 and part(data, at, 4) == _TRUE:
        return BOOL, 0, wide(1), at, at + 4, at + 4
    if left >= 4 and part(data, at, 4) == _NULL:
        return NONE, 0, wide(0), at, at + 4, at + 4
    if left >= 5 and one == 102 and part(data, at + 1, 4) == _ALSE:
        return BOOL, 0, wide(0), at, at + 5, at + 5
    return bad
