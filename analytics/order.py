"""The order in which the kernel takes rows: by time, and at one instant by type, place and contents, never by arrival.

In: rows (columns ROW_* of analytics.layout), the flow of each, the rank of each port. Out: copies of them in order.
"""

from __future__ import annotations

from typing import NamedTuple

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

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Flows = npt.NDArray[np.uint64]


class Chosen(NamedTuple):
    """Rows that are due: their places in ascending order, and of each its time and its type."""

    places: Ints
    times_ns: Ints
    types: Ints
    least_ns: int
    most_ns: int


def choose(rows: Ints, until_ns: int, due: Bools | None = None) -> Chosen:
    """The rows from before a time, or those of a mask."""
    places, times_ns, types = (np.empty(len(rows), np.int64) for _ in range(3))
    told = _choose(rows, until_ns, due if due is not None else np.zeros(0, np.bool_), places, times_ns, types)
    count, least, most = map(int, told)
    return Chosen(places[:count], times_ns[:count], types[:count], least, most)


def pick_in_order(rows: Ints, flows: Flows, port_rank: Ints, chosen: Chosen, out: Ints, out_flows: Flows) -> None:
    """Writes the chosen rows in the order of event time; ties by type, names (`port_rank`), start, order, amount, flow.

    `out` and `out_flows` have room for just those. What is chosen is worked in: its places alone are as before.
    """
    spare, sorted_ = np.empty_like(chosen.places), np.empty_like(chosen.places)
    passes = -(-((chosen.most_ns - chosen.least_ns).bit_length() + TYPE_BITS) // DIGIT_BITS)
    if passes <= MOST_PASSES:
        order, keys = chosen.places.copy(), chosen.types
        _with_times(chosen.times_ns, chosen.least_ns, keys)
        starts = np.empty((passes, DIGITS), np.int64)
        if _sort_keys(keys, order, chosen.times_ns, spare, starts):
            keys, order, spare = chosen.times_ns, spare, order
    else:
        by_time = np.argsort(chosen.times_ns, kind="stable")
        keys, order = chosen.times_ns[by_time], chosen.places[by_time]
    # Of rows polled together some few have one time: to sort all rows by each column takes several times as long.
    _pick(rows, flows, port_rank, keys, order, sorted_, spare, out, out_flows)


@kernel
def _choose(rows: Ints, until_ns: int, due: Bools, places: Ints, times_ns: Ints, types: Ints) -> tuple[int, int, int]:
    """Fills the columns of `Chosen`; returns how many there are, and the least and the largest time (0, 0: none)."""
    count, least, most = 0, 0, 0
    for row in range(len(rows)):
        time_ns = rows[row, ROW_TIME]
        if not (due[row] if len(due) > 0 else time_ns < until_ns):
            continue
        places[count], times_ns[count], types[count] = row, time_ns, rows[row, ROW_TYPE]
        least = time_ns if count == 0 else min(least, time_ns)
        most = time_ns if count == 0 else max(most, time_ns)
        count += 1
    return count, least, most


@kernel
def _with_times(times_ns: Ints, least: int, keys: Ints) -> None:
    """Makes keys of types: a row's time after the least one, with its type behind."""
    for place in range(len(keys)):
        keys[place] += times_ns[place] - least << TYPE_BITS


@kernel
def _sort_keys(keys: Ints, order: Ints, other_keys: Ints, other_order: Ints, starts: Ints) -> bool:
    """Sorts keys from 0 on, and `order` with them, digit by digit from the lowest; equal ones stay as they come.

    `starts` has a line for each digit. Returns whether they stand in the other arrays in the end.
    """
    for number in range(len(starts)):
        for digit in range(DIGITS):
            starts[number, digit] = 0
    for place in range(len(keys)):
        key = keys[place]
        for number in range(len(starts)):
            starts[number, key & DIGITS - 1] += 1
            key >>= DIGIT_BITS
    for number in range(len(starts)):
        total = 0
        for digit in range(DIGITS):
            starts[number, digit], total = total, total + starts[number, digit]
        shift = number * DIGIT_BITS
        for place in range(len(keys)):
            bucket = index(keys[place] >> shift & DIGITS - 1)
            to = index(starts[number, bucket])
            other_keys[to], other_order[to] = keys[place], order[place]
            starts[number, bucket] += 1
        keys, order, other_keys, other_order = other_keys, other_order, keys, order
    return len(starts) % 2 == 1


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
