"""The values of decoded rows as numbers, whatever their encoding was.

In: columns of the decoder, and which rows. Out: 64-bit readings and which of them are numbers; texts, each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from collectors.wire import BOOL, FLOAT, INT, NUMERAL, TEXT, UINT, Columns

Ints = npt.NDArray[np.int64]
Readings = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_LONGEST_WORD = 32
"""Longer texts are no words of a profile."""


def readings(columns: Columns, rows: Ints) -> tuple[Readings, Bools]:
    """Each row's number, and whether it is one that is not negative; fractions are rounded."""
    sort = columns.sort[rows]
    value = columns.ival[rows].view(np.uint64)
    numeral = (sort == TEXT) & ((columns.flags[rows] & NUMERAL) != 0)
    signed = (sort == INT) | (sort == BOOL) | numeral
    good = (sort == UINT) | (signed & (value < np.uint64(1 << 63)))
    fractions = np.flatnonzero(sort == FLOAT)
    if len(fractions):
        told = np.rint(columns.fval[rows[fractions]])
        fits = np.isfinite(told) & (told >= 0) & (told < 2.0**63)
        value[fractions] = np.where(fits, told, 0).astype(np.uint64)
        good[fractions] = fits
    return value, good


def words(columns: Columns, rows: Ints, numbers: Mapping[str, int]) -> tuple[Ints, Bools]:
    """The number of each row's word, and whether the profile has the word."""
    length = columns.length[rows].astype(np.int64)
    good = (columns.sort[rows] == TEXT) & (length <= _LONGEST_WORD)
    data = columns.data
    at = columns.start[rows].astype(np.int64)[:, None] + np.arange(_LONGEST_WORD)
    inside = (np.arange(_LONGEST_WORD) < length[:, None]) & good[:, None]
    text = np.where(inside, data[np.minimum(at, max(len(data) - 1, 0))], 0).astype(np.uint8) if len(data) else inside
    packed = np.ascontiguousarray(text, np.uint8).view(f"S{_LONGEST_WORD}").ravel()
    number = np.zeros(len(rows), np.int64)
    known = np.zeros(len(rows), np.bool_)
    for word, told in numbers.items():
        same = packed == word.encode()
        number[same], known[same] = told, True
    return number, good & known


def text(columns: Columns, row: int) -> str:
    """The row's value as text: of a text as it is, of a number in digits; "" for what is neither."""
    sort = int(columns.sort[row])
    if sort == TEXT:
        return columns.text(row)
    if sort in (INT, BOOL):
        return str(int(columns.ival[row]))
    if sort == UINT:
        return str(int(columns.ival[row]) & ((1 << 64) - 1))
    return repr(float(columns.fval[row])) if sort == FLOAT else ""


def several(columns: Columns, row: int) -> list[Any]:
    """The members of a leaf-list or JSON array, none of one that does not parse or is nested without end."""
    try:
        return columns.values(row)
    except (ValueError, RecursionError):
        return []
