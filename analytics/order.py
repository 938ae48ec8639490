"""The order in which the kernel takes rows: by time, and at one instant by type, place and contents, never by arrival.

In: rows (columns ROW_* of analytics.layout), the flow of each, the rank of each port. Out: copies of them in order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analytics.compiled import index, inlined, kernel
from analytics.layout import ROW_AMOUNT, ROW_COLUMNS, ROW_ORDER, ROW_QUEUE, ROW_START, ROW_TIME, ROW_TYPE
from analytics.topology import PRIORITIES

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
TYPE_BITS = 3
"""What the type of a row takes behind its time."""
AT_ONCE = 256
"""Rows of 64 bytes that are copied and then looked at again: half of a processor's nearest cache."""
MOST_PASSES = 4
"""Times that wait together span seconds, 2**33 ns, where a digit at a time is quicker than to compare."""

Ints = npt.NDArray[np.int64]
Flows = npt.NDArray[np.uint64]


def pick_in_order(rows: Ints, flows: Flows, port_rank: Ints, chosen: Ints, out: Ints, out_flows: Flows) -> None:
    """Writes the chosen rows in the order of event time; ties by type, names (`port_rank`), start, order, amount, flow.

    `out` and `out_flows` have room for just those.
    """
    order, spare, keys = chosen.copy(), np.empty_like(chosen), np.empty_like(chosen)
    least, most = map(int, _times(rows, chosen, keys))
    passes = -(-((most - least).bit_length() + TYPE_BITS) // DIGIT_BITS)
    if passes <= MOST_PASSES:
        _with_types(rows, chosen, least, keys)
        _sort_keys(keys, order, np.empty_like(chosen), spare, np.empty(DIGITS, np.int64), passes)
    else:
        by_time = np.argsort(keys, kind="stable")
        keys, order = keys[by_time], order[by_time]
    # Of rows polled together some few have one time: to sort all rows by each column takes several times as long.
    _pick(rows, flows, port_rank, keys, order, np.empty_like(chosen), spare, out, out_flows)


@kernel
def _times(rows: Ints, chosen: Ints, keys: Ints) -> tuple[int, int]:
    """Fills `keys` with the times of the chosen rows; returns the least and the largest (0, 0: there are none)."""
    least = most = rows[chosen[0], ROW_TIME] if len(chosen) else 0
    for place in range(len(chosen)):
        time_ns = rows[index(chosen[place]), index(ROW_TIME)]
        least, most = min(least, time_ns), max(most, time_ns)
        keys[place] = time_ns
    return least, most


@kernel
def _with_types(rows: Ints, chosen: Ints, least: int, keys: Ints) -> None:
    """Makes keys of times: what they are after the least one, with the type of the row behind."""
    for place in range(len(chosen)):
        keys[place] = (keys[place] - least << TYPE_BITS) + rows[index(chosen[place]), index(ROW_TYPE)]


@kernel
def _sort_keys(keys: Ints, order: Ints, spare_keys: Ints, spare: Ints, starts: Ints, passes: int) -> None:
    """Sorts keys from 0 on, and `order` with them, digit by digit from the lowest; equal ones stay as they come."""
    for number in range(passes):
        shift = number * DIGIT_BITS
        for digit in range(DIGITS):
            starts[digit] = 0
        for place in range(len(keys)):
            starts[keys[place] >> shift & DIGITS - 1] += 1
        total = 0
        for digit in range(DIGITS):
            starts[digit], total = total, total + starts[digit]
        for place in range(len(keys)):
            bucket = index(keys[place] >> shift & DIGITS - 1)
            to = index(starts[bucket])
            spare_keys[to], spare[to] = keys[place], order[place]
            starts[bucket] += 1
        for place in range(len(keys)):
            keys[place], order[place] = spare_keys[place], spare[place]


@kernel
def _pick(
    rows: Ints, flows: Flows, port_rank: Ints, keys: Ints, order: Ints, sorted_: Ints, spare: Ints, out: Ints,
    out_flows: Flows,
) -> None:  # fmt: skip
    """Copies rows in the order of their keys, and sorts those of one key while they are in the processor's cache.

    `order` says from where, `sorted_` and `spare` are as long.
    """
    begin = 0
    while begin < len(keys):
        end = min(begin + AT_ONCE, len(keys))
        while end < len(keys) and keys[end] == keys[end - 1]:
            end += 1
        for place in range(begin, end):
            row, to = index(order[place]), index(place)
            for column in range(ROW_COLUMNS):
                out[to, index(column)] = rows[row, index(column)]
            out_flows[to] = flows[row]
        _sort_ties(rows, flows, port_rank, keys, order, sorted_, spare, out, out_flows, begin, end)
        begin = end


@inlined
def _sort_ties(
    rows: Ints, flows: Flows, port_rank: Ints, keys: Ints, order: Ints, sorted_: Ints, spare: Ints, out: Ints,
    out_flows: Flows, first: int, last: int,
) -> None:  # fmt: skip
    """Sorts each run of one key, of those from `first` to before `last`, in `out` by merging."""
    begin = first
    while begin < last:
        end = begin + 1
        while end < last and keys[end] == keys[begin]:
            end += 1
        if end - begin > 1:
            for place in range(begin, end):
                sorted_[place] = place
        width = 1
        while width < end - begin:
            for low in range(begin, end, 2 * width):
                middle, high = min(low + width, end), min(low + 2 * width, end)
                left, right = low, middle
                for place in range(low, high):
                    if left < middle and (
                        right >= high or not _comes_first(out, out_flows, port_rank, sorted_[right], sorted_[left])
                    ):
                        spare[place] = sorted_[left]
                        left += 1
                    else:
                        spare[place] = sorted_[right]
                        right += 1
            for place in range(begin, end):
                sorted_[place] = spare[place]
            width *= 2
        if end - begin > 1:
            for place in range(begin, end):
                row = order[sorted_[place]]
                if sorted_[place] != place:
                    for column in range(ROW_COLUMNS):
                        out[place, column] = rows[row, column]
                    out_flows[place] = flows[row]
        begin = end


@inlined
def _comes_first(rows: Ints, flows: Flows, port_rank: Ints, one: int, other: int) -> bool:
    """Whether a row comes before another of the same time, or time and type."""
    if rows[one, ROW_TYPE] != rows[other, ROW_TYPE]:
        return rows[one, ROW_TYPE] < rows[other, ROW_TYPE]
    if rows[one, ROW_QUEUE] != rows[other, ROW_QUEUE]:
        rank, other_rank = (
            port_rank[rows[one, ROW_QUEUE] // PRIORITIES],
            port_rank[rows[other, ROW_QUEUE] // PRIORITIES],
        )
        if rank != other_rank:
            return rank < other_rank
        return rows[one, ROW_QUEUE] < rows[other, ROW_QUEUE]
    for column in (ROW_START, ROW_ORDER, ROW_AMOUNT):
        if rows[one, column] != rows[other, column]:
            return rows[one, column] < rows[other, column]
    return flows[one] < flows[other]
