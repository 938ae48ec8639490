"""Raw SubscribeResponse messages of many targets to columns, in one call for all that waits.

In: the bytes as they came from gRPC and the number of each one's target. Out: Columns. What the compiled pass does not
read plainly is judged by the protobuf library; nothing that a device sends raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from collectors.columns import Columns
from collectors.compiled import PAD
from collectors.layout import (
    ANY,
    BOOL,
    BYTES,
    DELETE,
    DONE,
    EMPTY,
    ERROR,
    FLOAT,
    FROM_LIBRARY,
    INEXACT,
    INT,
    JSON,
    LEAFLIST,
    M_AT,
    M_FIRST_ROW,
    M_LIBRARY,
    M_SIZE,
    M_STATUS,
    M_TARGET,
    MALFORMED,
    MALFORMED_JSON,
    MESSAGE_WORDS,
    NONE,
    NUMERAL,
    OK,
    QUOTED,
    ROOM_FOR_ROWS,
    ROW,
    ROW_WORDS,
    S_BYTES_LAID,
    S_FIRST,
    S_INEXACT,
    S_LEAST_TARGET,
    S_MOST_BYTES,
    S_MOST_ROWS,
    S_MOST_TARGET,
    S_PENDING,
    S_ROWS,
    S_STOP,
    S_UNUSUAL,
    SYNC,
    TEXT,
    TOO_LARGE,
    UINT,
    UNREAD,
    UPDATE,
    WANTED,
)
from collectors.paths import PathTable
from collectors.rewriting import written_plainly
from collectors.scan import lay_out, scan

__all__ = [
    "ANY", "BOOL", "BYTES", "DELETE", "EMPTY", "ERROR", "FLOAT", "INT", "JSON", "LEAFLIST", "MALFORMED",
    "MALFORMED_JSON", "NONE", "NUMERAL", "OK", "QUOTED", "SYNC", "TEXT", "TOO_LARGE", "UINT", "UPDATE", "Columns",
    "Decoder",
]  # fmt: skip

_PAD = bytes(PAD)
_NONE_PENDING = 1 << 62
_BYTES_A_ROW = 20
"""What a row takes on the wire, or more: room for rows is made by it, and grows where a batch has more."""
_MOST_BATCH_BYTES = 1 << 30


class Decoder:
    """One for a process: its table of paths learns from all targets.

    A message of more than `max_message_bytes`, or that would make more than `max_rows`, is TOO_LARGE and not read.
    """

    def __init__(self, paths: PathTable, max_message_bytes: int = 4 << 20, max_rows: int = 1 << 18) -> None:
        self.paths = paths
        self.max_message_bytes, self.max_rows = max_message_bytes, max_rows
        self.counters: Counter[str] = Counter()
        self._refused = np.zeros(0, np.int64)

    def refused(self, target: int) -> int:
        """How many rows of this target were left out because their paths had no room."""
        return int(self._refused[target]) if target < len(self._refused) else 0

    def decode(self, messages: Sequence[bytes], targets: Sequence[int] | npt.NDArray[np.integer]) -> Columns:
        """Columns of a batch; `targets[i]` is the number, from 0 on, of the target that message i came from."""
        count, state = len(messages), self.paths.state
        read = np.zeros((count + 1, MESSAGE_WORDS), np.int64)
        if len(targets) != count:
            raise ValueError(f"{count} messages of {len(targets)} targets: each has one")
        read[:-1, M_SIZE] = np.fromiter(map(len, messages), np.int64, count)
        read[:-1, M_TARGET] = targets
        state[S_MOST_BYTES], state[S_MOST_ROWS] = self.max_message_bytes, self.max_rows
        state[S_UNUSUAL] = 0
        lay_out(read, state)
        if state[S_BYTES_LAID] > _MOST_BATCH_BYTES or state[S_LEAST_TARGET] < 0:
            raise ValueError(
                f"a batch of {state[S_BYTES_LAID]} bytes, least target {state[S_LEAST_TARGET]}: "
                f"decode at most {_MOST_BATCH_BYTES} bytes at once, and number targets from 0 on"
            )
        self.paths.make_room_for(int(state[S_MOST_TARGET]))
        errors: dict[int, str] = {}
        data, rows = self._read(np.frombuffer(bytearray().join([*messages, _PAD]), np.uint8), read, errors)
        columns = Columns(rows.reshape(-1).view(ROW)[: state[S_ROWS]], read, data, self.paths.target_names, errors)
        self.counters["messages"] += count
        self.counters["rows"] += int(state[S_ROWS])
        if state[S_INEXACT]:
            _read_floats(columns)
        if state[S_UNUSUAL]:
            self._count(columns, read[:-1, M_TARGET])
        return columns

    def _read(
        self, data: npt.NDArray[np.uint8], read: npt.NDArray[np.int64], errors: dict[int, str]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Fills `read`; answers the bytes, with those that the library wrote behind them, and the rows.

        What is new, be it a spelling or a message for the library, is dealt with after a pass for the whole of the
        batch; then it is read again from the first message that had it.
        """
        paths, state = self.paths, self.paths.state
        rows = np.empty((64 + len(data) // _BYTES_A_ROW, ROW_WORDS), np.int64)
        state[S_FIRST] = state[S_ROWS] = state[S_INEXACT] = 0
        while True:
            state[S_PENDING] = _NONE_PENDING
            scan(data, read, paths.spellings, paths.entries, paths.slots, paths.targets, rows, state)
            if state[S_STOP] == ROOM_FOR_ROWS:
                rows = np.concatenate((rows, np.empty_like(rows)))
            elif state[S_STOP] != DONE:
                paths.grow()
            pending = int(state[S_PENDING])
            if pending == _NONE_PENDING:
                if state[S_STOP] == DONE:
                    return data, rows
                continue
            self.counters["new_spellings"] += paths.resolve()
            data = self._ask_library(data, read, errors)
            state[S_FIRST], state[S_ROWS] = pending, read[pending, M_FIRST_ROW]
            again = read[pending:-1]
            again[again[:, M_STATUS] <= EMPTY, M_STATUS] = UNREAD

    def _ask_library(
        self, data: npt.NDArray[np.uint8], read: npt.NDArray[np.int64], errors: dict[int, str]
    ) -> npt.NDArray[np.uint8]:
        """Has the messages that the kernel wanted judged; answers the bytes with what was written behind them."""
        end = len(data) - PAD
        parts = [data[:end]]
        for message in np.flatnonzero(read[:-1, M_LIBRARY] & WANTED):
            self.paths.state[S_UNUSUAL] += 1
            one = read[message]
            if one[M_LIBRARY] & FROM_LIBRARY:
                one[M_STATUS], one[M_LIBRARY] = MALFORMED, FROM_LIBRARY
                self.counters["unreadable_messages"] += 1
                continue
            one[M_LIBRARY] = FROM_LIBRARY
            try:
                raw, error = written_plainly(data[one[M_AT] : one[M_AT] + one[M_SIZE]].tobytes())
            except DecodeError:
                one[M_STATUS] = MALFORMED
                continue
            self.counters["fallback_messages"] += 1
            if error:
                one[M_STATUS], errors[int(message)] = ERROR, error
                continue
            one[M_AT], one[M_SIZE] = end, len(raw)
            parts.append(np.frombuffer(raw, np.uint8))
            end += len(raw)
        if len(parts) == 1:
            return data
        return np.concatenate((*parts, np.frombuffer(_PAD, np.uint8)))

    def _count(self, columns: Columns, targets: npt.NDArray[np.int64]) -> None:
        counters, status, refused = self.counters, columns.status, columns.refused
        counters["malformed_messages"] += int((status == MALFORMED).sum())
        counters["too_large_messages"] += int((status == TOO_LARGE).sum())
        counters["error_messages"] += int((status == ERROR).sum())
        counters["malformed_json"] += int((columns.flags & MALFORMED_JSON != 0).sum())
        counters["paths_refused"] += int(refused.sum())
        if len(self._refused) < len(self.paths.targets):
            self._refused = np.concatenate(
                (self._refused, np.zeros(len(self.paths.targets) - len(self._refused), np.int64))
            )
        np.add.at(self._refused, targets, refused)


def _read_floats(columns: Columns) -> None:
    """The few numbers of JSON whose nearest double takes more than one operation to find."""
    rows = columns.rows
    for row in np.flatnonzero(rows["flags"] & INEXACT):
        rows["fval"][row] = float(columns.raw(int(row)))
        rows["flags"][row] &= ~np.uint8(INEXACT)
