"""Sets of a switch's ports as bits, so that a walk over a fan-out meets only ports that are in it.

A set is some words of 32 bits (each in an int64: no sign to mind), one bit a port in the order of the fan-out.
"""

from __future__ import annotations

import numpy as np

from analytics.compiled import kernel
from analytics.layout import Bools, Ints

WORD_BITS = 32
ALL = (1 << WORD_BITS) - 1

_DE_BRUIJN = 0x077CB531
"""A de Bruijn sequence: multiplied by a power of two, its upper five bits tell which (Leiserson, Prokop and Randall,
1998, "Using de Bruijn sequences to index a 1 in a computer word")."""
_NUMBERS = np.zeros(WORD_BITS, np.int64)
for _number in range(WORD_BITS):
    _NUMBERS[(_DE_BRUIJN << _number & ALL) >> 27] = _number


@kernel
def number_of(bit: int) -> int:
    """The number of a bit."""
    return _NUMBERS[(bit * _DE_BRUIJN & ALL) >> 27]


def words_of(counts: Ints) -> Ints:
    """How many words a set of so many ports takes."""
    return -(-counts // WORD_BITS)


def packed(members: Bools) -> Ints:
    """The words of sets: of each row of `members` (rows, ports), one behind the other."""
    rows, ports = members.shape
    padded = np.zeros((rows, int(words_of(np.array(ports))) * WORD_BITS), np.bool_)
    padded[:, :ports] = members
    return np.packbits(padded, axis=1, bitorder="little").view("<u4").astype(np.int64).ravel()
