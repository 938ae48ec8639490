"""Readings of leaves become measures: counters their deltas, peaks and gauges windows, all in the units of records.

In: columns of readings of one profile's targets. Out: columns of halves of rows, and what PFC watchdogs said.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from collectors.fleet import Fleet, halves_of
from collectors.path_map import (
    COUNTER,
    FOUND,
    GAUGE,
    OF_QUANTA,
    OF_TIME,
    PEAK_OVER_WINDOW,
    PEAK_SINCE_READ,
    QUANTUM_BITS,
    RESTORED,
    SETTING,
    STATE,
    STOPPED,
)
from stream.kinds import BY_NAME, ESTIMATED, GAP, INT64_MAX, PFC_XOFF, PFC_XON, UNKNOWN

Column = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

PFC_WATCHDOG = BY_NAME["PFC_WATCHDOG"].code
_WINDOWED = np.isin(np.arange(256), (COUNTER, FOUND, RESTORED, PEAK_SINCE_READ))
"""By semantics, whether a reading ends a window that the one before it began."""
_AT_ONCE = np.isin(np.arange(256), (GAUGE, PEAK_OVER_WINDOW, STATE))
_MOST_SPEED = 1 << 31


class Readings(NamedTuple):
    """Columns of what was read, in the order in which it came."""

    slot: Column
    leaf: Column
    value: Column
    time_ns: Column
    seen_ns: Column
    quality: Column

    def of(self, which: npt.NDArray[np.int64] | Bools) -> Readings:
        """Some of the rows."""
        return Readings(*(column[which] for column in self))


class Halves(NamedTuple):
    """Columns of halves of rows: `half` 0 is the first measure; `alone` says whether it makes a row by itself."""

    slot: Column
    group: Column
    half: Column
    alone: Column
    value: Column
    span_ns: Column
    time_ns: Column
    seen_ns: Column
    quality: Column

    def of(self, which: npt.NDArray[np.int64] | Bools) -> Halves:
        """Some of the rows."""
        return Halves(*(column[which] for column in self))


class WatchdogNews(NamedTuple):
    """Columns of what watchdogs said that is new: a STATE (value = storm), or counts that rose (COUNTER: of drops)."""

    slot: Column
    group: Column
    semantics: Column
    value: Column
    span_ns: Column
    time_ns: Column
    seen_ns: Column
    quality: Column


class Edges(NamedTuple):
    """Columns of queues that were stopped (PFC_XOFF) and may send again (PFC_XON), instants."""

    slot: Column
    group: Column
    kind: Column
    time_ns: Column
    seen_ns: Column
    quality: Column


def measure(fleet: Fleet, read: Readings, counted: Counter[str]) -> tuple[Halves, WatchdogNews, Edges]:
    """What the readings tell; `counted` gets what was left out."""
    leaves = fleet.paths.leaves
    series = fleet.series_at(read.slot, read.leaf)
    semantics = leaves.semantics[read.leaf]
    stopped = np.flatnonzero(semantics == STOPPED)
    edges = _edges(fleet, read.of(stopped), series[stopped])
    setting = np.flatnonzero(semantics == SETTING)
    _keep_settings(fleet, read.of(setting))
    windowed = np.flatnonzero(_WINDOWED[semantics])
    rows, span_ns, value, quality = _windows(fleet, read.of(windowed), series[windowed], semantics[windowed])
    at_once = np.flatnonzero(_AT_ONCE[semantics])
    rows = np.concatenate((windowed[rows], at_once))
    peak = semantics[at_once] == PEAK_OVER_WINDOW
    span_ns = np.concatenate((span_ns, np.where(peak, leaves.window_ns[read.leaf[at_once]], 0)))
    value = np.concatenate((value, np.minimum(read.value[at_once], np.uint64(INT64_MAX)).astype(np.int64)))
    quality = np.concatenate((quality, np.where(peak, ESTIMATED, 0).astype(np.uint8)))
    if len(at_once):
        order = np.argsort(rows, kind="stable")
        rows, span_ns, value, quality = rows[order], span_ns[order], value[order], quality[order]
    told = read.of(rows)
    quality = quality | told.quality | leaves.quality[told.leaf]
    value, quality = _in_units(fleet, told, value, span_ns, quality, counted)
    half, which = halves_of(fleet.paths, told.leaf)
    halves = Halves(
        told.slot[which],
        fleet.paths.halves.group[half].astype(np.int64),
        fleet.paths.halves.half[half],
        fleet.paths.halves.alone[half],
        value[which],
        np.minimum(span_ns, told.time_ns)[which],
        told.time_ns[which],
        told.seen_ns[which],
        quality[which],
    )
    of_watchdog = fleet.paths.groups.kind[halves.group] == PFC_WATCHDOG
    news = _news(fleet, halves.of(of_watchdog), leaves.semantics[told.leaf][which][of_watchdog])
    return halves.of(~of_watchdog), news, edges


def _keep_settings(fleet: Fleet, read: Readings) -> None:
    half, which = halves_of(fleet.paths, read.leaf)
    leaves = fleet.paths.leaves
    value = np.minimum(read.value, np.uint64(INT64_MAX)).astype(np.int64)
    scaled = _scaled(value, leaves.numerator[read.leaf], leaves.denominator[read.leaf])
    fleet.setting[read.slot[which], fleet.paths.halves.group[half]] = scaled[which]


def _edges(fleet: Fleet, read: Readings, series: Ints) -> Edges:
    """The changes of whether queues are stopped. What was not seen between two sessions is a gap."""
    paths, known = fleet.paths, fleet.series
    order = np.argsort(series, kind="stable")
    read, series = read.of(order), series[order]
    now = read.value.astype(np.int8)
    first = np.concatenate(([True], series[1:] != series[:-1]))[: len(series)]
    before = np.where(first, known.stopped[series], np.concatenate(([np.int8(-1)], now[:-1]))[: len(series)])
    other_session = first & (known.session[series] != fleet.session[read.slot])
    last = np.concatenate((first[1:], [True]))[: len(series)]
    known.stopped[series[last]] = now[last]
    known.session[series] = fleet.session[read.slot]
    # A queue that may send when it is looked at first has told nothing of a pause.
    changed = np.flatnonzero((now != before) & ((now == 1) | (before == 1)))
    changed = changed[np.argsort(order[changed])]
    leaf = read.leaf[changed]
    half = paths.leaves.first_half[leaf]
    gap = np.where(other_session[changed], GAP, 0).astype(np.uint8)
    return Edges(
        read.slot[changed],
        paths.halves.group[half].astype(np.int64),
        np.where(now[changed] == 1, PFC_XOFF, PFC_XON),
        read.time_ns[changed],
        read.seen_ns[changed],
        read.quality[changed] | paths.leaves.quality[leaf] | gap,
    )


def _windows(fleet: Fleet, read: Readings, series: Ints, semantics: Bytes) -> tuple[Ints, Ints, Ints, Bytes]:
    """Of each reading that ends a window its place, span, value and quality.

    A peak that reading clears has windows as a counter has: from one reading to the next, none before the first.
    """
    peak = semantics == PEAK_SINCE_READ
    deltas = fleet.series.counters.take(series, read.time_ns, np.where(peak, np.uint64(0), read.value))
    rows = deltas.row
    quality = deltas.quality.copy()
    # What lies between two sessions was not read, however short it was.
    quality[fleet.series.session[series[rows]] != fleet.session[read.slot[rows]]] |= GAP
    fleet.series.session[series] = fleet.session[read.slot]
    of_peak = peak[rows]
    seen = np.minimum(read.value[rows], np.uint64(INT64_MAX)).astype(np.int64)
    # Whoever else reads it clears it too, so that a part of its window may be missing.
    quality[of_peak] |= ESTIMATED
    return rows, deltas.span_ns, np.where(of_peak, seen, deltas.value), quality


def _in_units(
    fleet: Fleet, read: Readings, value: Ints, span_ns: Ints, quality: Bytes, counted: Counter[str]
) -> tuple[Ints, Bytes]:
    """The values in the units of records."""
    leaves = fleet.paths.leaves
    numerator, denominator = leaves.numerator[read.leaf], leaves.denominator[read.leaf]
    bound = leaves.bound[read.leaf]
    quanta = bound == OF_QUANTA
    known = value != UNKNOWN
    if quanta.any():
        # 512 bit times are 512,000 / speed in Mb/s of nanoseconds.
        speed = np.minimum(fleet.speed_mbps[read.slot, leaves.port[read.leaf]], _MOST_SPEED)
        no_speed = quanta & known & (speed <= 0)
        counted["rows_of_unknown_speed"] += int(no_speed.sum())
        numerator = np.where(quanta, numerator * QUANTUM_BITS * 1000, numerator)
        denominator = np.where(quanta, denominator * np.maximum(speed, 1), denominator)
        value = np.where(no_speed, UNKNOWN, value)
        known &= ~no_speed
    told = np.where(known, _scaled(np.where(known, value, 0), numerator, denominator), UNKNOWN)
    # More pause than time: the count is older than its stamp says.
    beyond = known & ((bound == OF_TIME) | quanta) & (told > span_ns) & (span_ns > 0)
    counted["times_beyond_their_window"] += int(beyond.sum())
    quality[beyond] |= ESTIMATED
    return told, quality


def _scaled(value: Ints, numerator: Ints, denominator: Ints) -> Ints:
    """Value * numerator / denominator, rounded up so that something never becomes nothing; INT64_MAX at most."""
    if (numerator == denominator).all():
        return value
    whole, rest = np.divmod(value, denominator)
    room = INT64_MAX // numerator - 1
    part = (
        -(-(rest * numerator) // denominator) if int(denominator.max()) <= INT64_MAX // int(numerator.max()) else rest
    )
    return np.where(whole > room, INT64_MAX, np.minimum(whole, room) * numerator + part)


def _news(fleet: Fleet, told: Halves, semantics: Bytes) -> WatchdogNews:
    """What of it is new: another state, or a count that rose."""
    state = semantics == STATE
    before = fleet.storm[told.slot, told.group]
    rose = (told.value > 0) & ~state
    news = rose | (state & (told.value != before) & (told.value >= 0))
    # Within one batch a state may go and come back: then all of its rows are looked at.
    changed = {*zip(told.slot[news & state].tolist(), told.group[news & state].tolist(), strict=True)}
    if changed:
        places = zip(told.slot.tolist(), told.group.tolist(), strict=True)
        news |= state & (told.value >= 0) & np.array([place in changed for place in places], np.bool_)
    kept = told.of(news)
    return WatchdogNews(
        kept.slot, kept.group, semantics[news], kept.value, kept.span_ns, kept.time_ns, kept.seen_ns, kept.quality
    )
