"""One CSV file of a trace folder as columns, plain or gzipped; every error names the file, the line and a next step.

In: a path and the columns that must be there. Out: columns as NumPy arrays; columns that nobody asks for are ignored.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, TextIO, TypeVar

import numpy as np
import numpy.typing as npt

from stream.errors import TraceError
from stream.record import MAX_TIME_NS

Ints = npt.NDArray[np.int64]
LAYOUT = "docs/trace-format.md describes the layout"

K = TypeVar("K", str, tuple[str, str])


class TraceTable:
    """The rows of one file, column by column as text."""

    def __init__(self, path: Path, columns: dict[str, tuple[str, ...]], count: int) -> None:
        self.path = path
        self.columns = columns
        self.count = count

    def place(self, row: int) -> str:
        """File and line of a row counted from 0; the header is line 1 of the file."""
        return f"{self.path}:{row + 2}"

    def fail(self, row: int, message: str, next_step: str = LAYOUT) -> NoReturn:
        """Raises TraceError for a row counted from 0."""
        raise TraceError(f"{self.place(row)}: {message}", next_step)

    def has(self, column: str) -> bool:
        """Whether an optional column is there."""
        return column in self.columns

    def texts(self, column: str) -> tuple[str, ...]:
        """The column as it stands."""
        return self.columns[column]

    def ints(self, column: str, low: int = 0, high: int = MAX_TIME_NS, empty: int | None = None) -> Ints:
        """The column as whole numbers from low to high; an empty cell is `empty`, or an error if that is None."""
        texts = self.columns[column]
        if empty is not None and "" in texts:
            texts = tuple(text or str(empty) for text in texts)
        try:
            numbers = np.fromiter(map(int, texts), np.int64, self.count)
        except (ValueError, OverflowError):
            self._fail_number(column, texts)
        wrong = (numbers < low) | (numbers > high)
        if empty is not None:
            wrong &= numbers != empty
        if wrong.any():
            row = int(wrong.argmax())
            self.fail(row, f"{column} is {numbers[row]}, outside {low} to {high}")
        return numbers

    def _fail_number(self, column: str, texts: tuple[str, ...]) -> NoReturn:
        for row, text in enumerate(texts):
            try:
                np.int64(int(text))
            except ValueError:
                self.fail(row, f"{column} is {text!r}, not a whole number")
            except OverflowError:
                self.fail(row, f"{column} is {text}, beyond 64 bits")
        raise AssertionError(f"{column} has no wrong number")  # pragma: no cover

    def indices(self, columns: str | tuple[str, str], index: Mapping[K, int], unknown: str) -> Ints:
        """For each row, what `index` holds for the value of the column or pair of columns.

        A value that it does not hold is an error, which `unknown` explains ("no such device in devices.csv").
        """
        names = (columns,) if isinstance(columns, str) else columns
        cells = [self.columns[name] for name in names]
        keys = cells[0] if isinstance(columns, str) else zip(*cells, strict=True)
        numbers = np.fromiter((index.get(key, -1) for key in keys), np.int64, self.count)  # type: ignore[arg-type]
        if (numbers < 0).any():
            row = int((numbers < 0).argmax())
            shown = ", ".join(f"{name} {self.columns[name][row]!r}" for name in names)
            self.fail(row, f"{shown}: {unknown}")
        return numbers


def first_again(*keys: Ints) -> int | None:
    """The first row that has all keys of one before it, of which it would be a second telling; None if none has."""
    order = np.lexsort(keys)
    again = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
    # Of equal keys, lexsort leaves the rows in their order.
    return int(order[1:][again].min()) if again.any() else None


def find_table(folder: Path, name: str) -> Path | None:
    """Path of `name`.csv or `name`.csv.gz in the folder, None if neither is there.

    Whatever bears the name is the file, even what cannot be read: evidence that exists must not count as absent.
    """
    plain, packed = folder / f"{name}.csv", folder / f"{name}.csv.gz"
    found = [path for path in (plain, packed) if exists(path)]
    if len(found) == 2:
        raise TraceError(f"{plain} and {packed.name} are both there", "remove one of them")
    return found[0] if found else None


def exists(path: Path) -> bool:
    """Whether the folder has an entry of this name: a file, a folder, or a link that leads nowhere."""
    return os.path.lexists(path)


def read_file(path: Path) -> bytes:
    """The bytes of a regular file: of a pipe or a device nobody knows when it ends. Raises TraceError, OSError."""
    _require_file(path)
    return path.read_bytes()


def read_json(path: Path) -> bytes:
    """As `read_file`, less the byte order mark with which some editors begin a file."""
    return read_file(path).removeprefix(codecs.BOM_UTF8)


def _require_file(path: Path) -> None:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise TraceError(f"{path} is a pipe or a device, not a file", LAYOUT)


def _open_text(path: Path) -> TextIO:
    _require_file(path)
    # Spreadsheets begin their CSV with a byte order mark.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", newline="", encoding="utf-8-sig")
    return path.open(newline="", encoding="utf-8-sig")


def read_table(path: Path, required: tuple[str, ...]) -> TraceTable:
    """The file's columns; raises TraceError if it cannot be read or lacks a required column."""
    try:
        with _open_text(path) as file:
            rows = list(csv.reader(file, strict=True))
    except FileNotFoundError as err:
        raise TraceError(f"{path} is a link that leads nowhere", "mend or remove it") from err
    except IsADirectoryError as err:
        raise TraceError(f"{path} is a folder, not a file", LAYOUT) from err
    except PermissionError as err:
        raise TraceError(f"{path} cannot be read: {err.strerror}", "let this user read it: chmod, chown") from err
    except (OSError, EOFError, zlib.error) as err:
        raise TraceError(f"{path} cannot be read: {err}", "copy the file again") from err
    except UnicodeDecodeError as err:
        raise TraceError(f"{path} is not UTF-8 text: {err}", LAYOUT) from err
    except csv.Error as err:
        raise TraceError(f"{path} is not CSV: {err}", LAYOUT) from err
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise TraceError(f"{path}:1: the file is empty", f"its first line names the columns: {','.join(required)}")
    header, body = rows[0], rows[1:]
    missing = [column for column in required if column not in header]
    if missing:
        raise TraceError(f"{path}:1: column {', '.join(missing)} is missing", LAYOUT)
    if len(set(header)) != len(header):
        raise TraceError(f"{path}:1: two columns have the same name", LAYOUT)
    widths = np.fromiter(map(len, body), np.int64, len(body))
    odd = np.flatnonzero(widths != len(header))
    if len(odd):
        table = TraceTable(path, {}, len(body))
        table.fail(int(odd[0]), f"{widths[odd[0]]} cells, but the header names {len(header)} columns")
    cells = zip(*body, strict=True) if body else ((),) * len(header)
    return TraceTable(path, dict(zip(header, cells, strict=True)), len(body))
