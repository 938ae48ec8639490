"""Flows that provably meet no contention and no pause: they leave the stepper and end by a formula.

In: ways and sizes of flows that begin together, and rates of links. Out: which of them are express, and what they did.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulation.fabric.compiled import Floats, Ints

Bools = npt.NDArray[np.bool_]


def greatest_share(source: Ints, wire_bytes: Ints) -> Floats:
    """The greatest part of its source's rate that each flow ever has: the smaller ones of the same source end first."""
    order = np.lexsort((-wire_bytes, source))
    first = np.append(True, source[order][1:] != source[order][:-1])
    starts = np.flatnonzero(first)
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    # Of flows of one size all go on to the end.
    same = np.append(wire_bytes[order][1:] == wire_bytes[order][:-1], False) & ~np.append(first[1:], True)
    peers = rank + 1
    for place in np.flatnonzero(same)[::-1]:
        peers[place] = peers[place + 1]
    share = np.empty(len(order))
    share[order] = 1 / peers
    return share


def express(paths: Ints, wire_bytes: Ints, rates_mbps: Ints, taken: Bools, barred: Bools) -> Bools:
    """Which of the flows are express.

    `paths` are links by flow and hop, -1 behind the end; `rates_mbps` the least rate of each link while they go on;
    `taken` links carry other traffic too, `barred` flows must not be express.
    """
    links = len(rates_mbps)
    there = paths >= 0
    source = paths[:, 0]
    share = greatest_share(source, wire_bytes) * rates_mbps[source]
    offered = np.bincount(paths[there], np.broadcast_to(share[:, None], paths.shape)[there], links)
    bad = taken | (offered > rates_mbps * (1 + 1e-9))
    # A source never gives more than its own rate, whatever each flow may have at most.
    bad[source] = taken[source]
    bad[source[barred]] = True
    hops = np.arange(paths.shape[1])
    while True:
        on_way = bad[paths] & there
        last = np.where(on_way.any(axis=1), paths.shape[1] - 1 - on_way[:, ::-1].argmax(axis=1), -1)
        # What lies before a link that can stop it can be stopped too.
        stopped = np.unique(paths[(hops <= last[:, None]) & there])
        if bad[stopped].all():
            return last < 0
        bad[stopped] = True


class Passed(NamedTuple):
    """By flow: ticks, as the stepper would have them, of the last packet at its end; ticks that a source needed."""

    done: Ints
    sending: Floats


def passed(source: Ints, wire_bytes: Ints, starts: Ints, rate_per_tick: Floats, delay_ticks: Ints) -> Passed:
    """When express flows end. Those of one source begin together and share its rate evenly, as long as each has some.

    `rate_per_tick` is the source's in bytes, `delay_ticks` that of the whole way.
    """
    order = np.lexsort((wire_bytes, source))
    sizes = wire_bytes[order].astype(np.float64)
    first = np.append(True, source[order][1:] != source[order][:-1])
    begins = np.flatnonzero(first)
    count = np.repeat(np.diff(np.append(begins, len(order))), np.diff(np.append(begins, len(order))))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    before = np.where(first, 0.0, np.append(0.0, sizes[:-1]))
    parts = (sizes - before) * (count - rank)
    total = np.cumsum(parts)
    total -= np.repeat(total[begins] - parts[begins], np.diff(np.append(begins, len(order))))
    sending = np.empty(len(order))
    sending[order] = total / rate_per_tick[order]
    done = starts + np.ceil(sending).astype(np.int64) - 1 + delay_ticks
    return Passed(done, sending)


def bytes_by_bin(
    paths: Ints, wire_bytes: Ints, starts: Ints, sending: Floats, delays: Ints, bin_ticks: int, links: int
) -> dict[int, Ints]:
    """Bytes of express flows by bin and link, each spread evenly over the time that the flow takes to pass.

    `starts` and `sending` in ticks, `delays` of each link. Sums are exact.
    """
    there = paths >= 0
    lag = np.cumsum(np.where(there, delays[paths], 0), axis=1)
    begin = starts[:, None] + np.concatenate((np.zeros((len(paths), 1), np.int64), lag[:, :-1]), axis=1)
    link, size = paths[there], np.broadcast_to(wire_bytes[:, None], paths.shape)[there]
    begin, length = begin[there], np.broadcast_to(np.maximum(sending, 1.0)[:, None], paths.shape)[there]
    found: dict[int, Ints] = {}
    if not len(link):
        return found
    before = np.zeros(len(link), np.int64)
    for number in range(int(begin.min()) // bin_ticks, int((begin + length).max()) // bin_ticks + 1):
        until = (size * np.clip(((number + 1) * bin_ticks - begin) / length, 0.0, 1.0)).astype(np.int64)
        found[number] = np.bincount(link, until - before, links).astype(np.int64)
        before = until
    return found
