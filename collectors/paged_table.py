"""A table of which most cells hold nothing: a row takes memory where something was put into it, and nowhere else.

In: rows and columns as arrays of equal length. Out: what the cells hold. One device that brings thousands of ports
widens every row of its profile, but takes pages for its own alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

PAGE_BITS = 8
"""Columns of a page."""
_IN_PAGE = (1 << PAGE_BITS) - 1
_NOTHING = 0
"""The page of all cells that hold nothing: it is read and never written."""


class PagedTable:
    """`table[rows, columns]` reads and writes; both lie within what was reserved."""

    def __init__(self, dtype: npt.DTypeLike, nothing: int) -> None:
        self._nothing = nothing
        self._cells: npt.NDArray[Any] = np.full((1, 1 << PAGE_BITS), nothing, dtype)
        self._page_of: npt.NDArray[np.int32] = np.zeros((0, 0), np.int32)
        self._free: list[int] = []

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns that there is room for."""
        rows, pages = self._page_of.shape
        return rows, pages << PAGE_BITS

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return self._cells.nbytes + self._page_of.nbytes

    def reserve(self, rows: int, columns: int) -> None:
        """Makes room for so many rows and columns at least."""
        pages = (columns + _IN_PAGE) >> PAGE_BITS
        had_rows, had_pages = self._page_of.shape
        if had_rows >= rows and had_pages >= pages:
            return
        wide = had_pages if pages <= had_pages else max(pages, had_pages * 3 // 2)
        grown = np.full((max(rows, had_rows), wide), _NOTHING, np.int32)
        grown[:had_rows, :had_pages] = self._page_of
        self._page_of = grown

    def __getitem__(self, at: tuple[Any, Any]) -> npt.NDArray[Any]:
        rows, columns = at
        columns = np.asarray(columns)
        found: npt.NDArray[Any] = self._cells[self._page_of[rows, columns >> PAGE_BITS], columns & _IN_PAGE]
        return found

    def __setitem__(self, at: tuple[Any, Any], values: Any) -> None:
        page, column = self._written(*at)
        self._cells[page, column] = values

    def add_bits(self, rows: Ints, columns: npt.NDArray[np.integer], bits: npt.NDArray[np.uint8]) -> None:
        """Sets bits of cells, of which some may be named several times."""
        cells = self._written(rows, columns)
        np.bitwise_or.at(self._cells, cells, bits)

    def row(self, row: int) -> tuple[Ints, npt.NDArray[Any]]:
        """The columns of a row that hold something, and what they hold."""
        pages = np.flatnonzero(self._page_of[row])
        held = self._cells[self._page_of[row, pages]]
        page, column = np.nonzero(held != self._nothing)
        return (pages[page] << PAGE_BITS) + column, held[page, column]

    def clear(self, row: int) -> None:
        """The row holds nothing from now on."""
        pages = self._page_of[row][self._page_of[row] != _NOTHING]
        self._cells[pages] = self._nothing
        self._free += pages.tolist()
        self._page_of[row] = _NOTHING

    def _written(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        """The cells, with pages of their own."""
        rows, columns = np.broadcast_arrays(rows, columns)
        place = columns >> PAGE_BITS
        page = self._page_of[rows, place]
        if (page == _NOTHING).any():
            new = np.unique((rows.astype(np.int64) << 32 | place)[page == _NOTHING])
            self._page_of[new >> 32, new & 0xFFFFFFFF] = self._take(len(new))
            page = self._page_of[rows, place]
        return page, columns & _IN_PAGE

    def _take(self, count: int) -> list[int]:
        """Pages that hold nothing."""
        if (more := count - len(self._free)) > 0:
            had = len(self._cells)
            grown = np.full((had + max(more, had // 2), 1 << PAGE_BITS), self._nothing, self._cells.dtype)
            grown[:had] = self._cells
            self._cells = grown
            self._free += range(len(grown) - 1, had - 1, -1)
        return [self._free.pop() for _ in range(count)]
