"""Decimal integers written as text, such as RFC 7951 has 64-bit counters in JSON: the canonical ones, and no others.

In: bytes and where to read. Out: what they are and their 64 bits. Eight digits are read at once.
"""

from __future__ import annotations

from collectors.compiled import Bytes, byte, inlined, inner, part, wide, word
from collectors.layout import BAD, INT, NONE, UINT

_ZEROS = 0x3030303030303030
_LOW_NIBBLES, _HIGH_NIBBLES, _SIXES = 0x0F0F0F0F0F0F0F0F, 0xF0F0F0F0F0F0F0F0 - (1 << 64), 0x0606060606060606


@inlined
def _eight_digits(data: Bytes, at: int, size: int) -> int:
    """The number that 0 to 8 decimal digits write, or BAD."""
    if size == 0:
        return wide(0)
    shift = 64 - 8 * size
    bits = word(data, at) if size == 8 else part(data, at, size) << shift | _ZEROS >> (64 - shift)
    bits ^= _ZEROS
    if ((bits & _LOW_NIBBLES) + _SIXES | bits) & _HIGH_NIBBLES != 0:
        return wide(BAD)
    # Digits to pairs, pairs to fours, fours to all eight; the first digit is in the lowest byte.
    bits = (bits & 0x000F000F000F000F) * 10 + (bits >> 8 & 0x000F000F000F000F)
    bits = (bits & 0x000000FF000000FF) * 100 + (bits >> 16 & 0x000000FF000000FF)
    return (bits & 0xFFFF) * 10000 + (bits >> 32)


@inlined
def short_integer(data: Bytes, at: int, end: int) -> int:
    """What `integer` says of 1 to 16 digits without a sign; BAD for all else."""
    digits = end - at
    if digits < 1 or digits > 16 or (digits > 1 and byte(data, at) == 48):
        return wide(BAD)
    high = _eight_digits(data, at, max(0, digits - 8))
    low = _eight_digits(data, max(at, end - 8), min(8, digits))
    if high < 0 or low < 0:
        return wide(BAD)
    return high * 100_000_000 + low


@inner
def integer(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """INT or UINT and its bits, where the text is a canonical integer of 64 bits (RFC 7950, 9.2.1); else NONE."""
    negative = at < end and byte(data, at) == 45
    first = at + 1 if negative else at
    digits = end - first
    if digits < 1 or digits > 20 or (digits > 1 and byte(data, first) == 48):
        return NONE, wide(0)
    if digits <= 16:
        value = short_integer(data, first, end)
        if value < 0:
            return NONE, wide(0)
        return INT, -value if negative else value
    value = wide(0)
    for i in range(first, min(end, first + 18)):
        digit = byte(data, i) - 48
        if digit < 0 or digit > 9:
            return NONE, wide(0)
        value = value * 10 + digit
    if digits <= 18:
        return INT, -value if negative else value
    rest = wide(0)
    for i in range(first + 18, end):
        digit = byte(data, i) - 48
        if digit < 0 or digit > 9:
            return NONE, wide(0)
        rest = rest * 10 + digit
    if digits == 19:
        # 922337203685477580|7 is the largest, one more the smallest.
        if value < 922337203685477580 or (value == 922337203685477580 and rest <= 7):
            value = value * 10 + rest
            return INT, -value if negative else value
        if negative:
            if value == 922337203685477580 and rest == 8:
                return INT, wide(-9223372036854775808)
            return NONE, wide(0)
        return UINT, (value - 922337203685477580) * 10 + (rest - 8) + wide(-9223372036854775808)
    # 184467440737095516|15 is the largest of 64 bits.
    if negative or value > 184467440737095516 or (value == 184467440737095516 and rest > 15):
        return NONE, wide(0)
    if value < 92233720368547758 or (value == 92233720368547758 and rest < 8):
        return INT, value * 100 + rest
    return UINT, (value - 92233720368547758) * 100 + (rest - 8) + wide(-9223372036854775808)
