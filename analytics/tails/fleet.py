"""The tails of a fleet's counters: which ports, NICs and queues stand out from their peers, while a mean says nothing.

In: rows in any order, and what role each port has. Out: `Tail`s. Pure: the same rows give the same tails, however they
came, since rows of one tick of a series are added up in whole numbers before anything is scored.

A series stands out in a tick if it is 3.5 robust standard deviations above its peers, and as far above its own past or
in CUSUM's alarm; as long as a past is not known, that of its peers is enough. It is told from three ticks in a row on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from analytics.tails import past, peers
from analytics.tails.series import Tails
from stream import kinds
from stream.batch import Batch
from stream.errors import PausetraceError
from stream.kinds import BY_NAME, SIDE_RX, SIDE_TX, UNKNOWN

Ints = npt.NDArray[np.int64]

TICKS_IN_A_ROW = 3
MAX_ROWS = 50_000_000
"""Rows held at a time: 24 bytes each."""
SECOND_NS = 1_000_000_000


class TooManyRowsError(PausetraceError):
    """More rows than are held at a time."""


class Measure(NamedTuple):
    """A measure of series: which rows it comes from, and what is so little that it is no deviation.

    `rate`: the rows' first measure by the time of their windows, in `unit`; else the largest of the tick.
    """

    name: str
    kind: int
    side: int
    rate: bool
    unit: str
    per: float
    least: float


# fmt: off
MEASURES: tuple[Measure, ...] = (
    Measure("stopped", kinds.PFC_PAUSED, SIDE_RX, True, "% of the time", 100.0, 1.0),
    Measure("stops its peer", kinds.PFC_PAUSED, SIDE_TX, True, "% of the time", 100.0, 1.0),
    Measure("pause frames received", kinds.PFC_FRAMES, SIDE_RX, True, "frames/s", SECOND_NS, 10.0),
    Measure("pause frames sent", kinds.PFC_FRAMES, SIDE_TX, True, "frames/s", SECOND_NS, 10.0),
    Measure("ECN marks", kinds.ECN_MARKED, SIDE_TX, True, "packets/s", SECOND_NS, 100.0),
    Measure("queue peak", kinds.QUEUE_DEPTH, SIDE_TX, False, "bytes", 1.0, 50_000.0),
    Measure("link errors", kinds.LINK_ERRORS, SIDE_RX, True, "errors/s", SECOND_NS, 1.0),
    Measure("RDMA errors", BY_NAME["RDMA_ERRORS"].code, 0, True, "errors/s", SECOND_NS, 1.0),
    Measure("PCIe stalls", BY_NAME["PCIE_STALL"].code, 0, True, "% of the time", 100.0, 1.0),
    Measure("CPU throttling", BY_NAME["CPU_THROTTLE"].code, 0, True, "times/s", SECOND_NS, 1.0),
)
# fmt: on
RELATIVE = 0.1
"""A tenth of the median is no deviation either: loads of peers differ by so much."""


class Tail(msgspec.Struct, frozen=True):
    """A series that stood out, at its worst tick.

    `peer_mean`, `peer_median`: of all its peers in that tick, itself included; `mean_before`: their mean over all
    other ticks. So a mean that has hardly moved stands beside a series that has. `against_past` is null where its past
    was not known.
    """

    measure: str
    unit: str
    device: str
    port: str
    priority: int
    role: str
    peers: int
    since_ns: int
    until_ns: int
    ticks: int
    worst_ns: int
    value: float
    peer_median: float
    peer_mean: float
    mean_before: float | None
    against_peers: float
    against_past: float | None


class Fleet:
    """The counters of one fabric, by ticks of a period."""

    def __init__(self, period_ns: int, role_of: Callable[[str, str], str]) -> None:
        if period_ns <= 0:
            raise ValueError("a period lasts some time")
        self._period_ns = period_ns
        self._role_of = role_of
        self._names: list[dict[tuple[str, str, int], int]] = [{} for _ in MEASURES]
        self._rows: list[list[tuple[Ints, Ints, Ints, Ints]]] = [[] for _ in MEASURES]
        """By measure: tick, series, value and window of rows."""
        self.rows = 0

    def take(self, batch: Batch) -> None:
        """Takes the rows of a batch in; raises TooManyRowsError where they are too many to hold."""
        for number, measure in enumerate(MEASURES):
            events = batch.events[batch.events["kind"] == measure.kind]
            # Some sources know no side: theirs is what their device did.
            side = events["side"]
            events = events[((side == measure.side) | (side == kinds.SIDE_NONE)) & (events["value"] != UNKNOWN)]
            if measure.rate:
                events = events[events["span_ns"] > 0]
            if not len(events):
                continue
            self.rows += len(events)
            if self.rows > MAX_ROWS:
                raise TooManyRowsError(
                    f"more than {MAX_ROWS:,} rows of counters are held at no time", "choose fewer: --from and --to"
                )
            code = events["port"].astype(np.int64) * 256 + events["priority"]
            codes, place = np.unique(code, return_inverse=True)
            names = self._names[number]
            series = np.array(
                [
                    names.setdefault((batch.stream.device, batch.ports[each >> 8], each & 255), len(names))
                    for each in codes.tolist()
                ],
                np.int64,
            )
            # A window that ends with its tick belongs to it.
            tick = (events["time_ns"] - 1) // self._period_ns
            self._rows[number].append(
                (tick, series[place], events["value"].astype(np.int64), events["span_ns"].astype(np.int64))
            )

    def finish(self) -> list[Tail]:
        """All tails, the farthest from their peers first."""
        found = [tail for number in range(len(MEASURES)) for tail in self._tails(number)]
        return sorted(found, key=lambda t: (-t.against_peers, t.measure, t.device, t.port, t.priority))

    def _tails(self, number: int) -> list[Tail]:
        measure, rows = MEASURES[number], self._rows[number]
        if not rows:
            return []
        # By names, so that nothing depends on who came first.
        keys = sorted(self._names[number])
        rank = np.empty(len(keys), np.int64)
        rank[[self._names[number][key] for key in keys]] = np.arange(len(keys))
        tick, series, value, span = (np.concatenate(column) for column in zip(*rows, strict=True))
        series = rank[series]
        roles = [f"{self._role_of(device, port)}, priority {priority}" for device, port, priority in keys]
        roles = [role.removesuffix(f", priority {kinds.NO_PRIORITY}") for role in roles]
        names, groups = np.unique(np.array(roles), return_inverse=True)
        tails = Tails(groups, least=measure.least, relative=RELATIVE)
        runs = _Runs(len(keys), len(names))
        order = np.argsort(tick, kind="stable")
        ticks, begins = np.unique(tick[order], return_index=True)
        for now, of in zip(ticks.tolist(), np.split(order, begins[1:]), strict=True):
            total = np.zeros(len(keys), np.int64)
            window = np.zeros(len(keys), np.int64)
            np.add.at(window, series[of], np.maximum(span[of], 1))
            if measure.rate:
                np.add.at(total, series[of], value[of])
                samples = np.divide(total, window, out=np.full(len(keys), np.nan), where=window > 0) * measure.per
            else:
                np.maximum.at(total, series[of], value[of])
                samples = np.where(window > 0, total, np.nan).astype(np.float64)
            runs.take(now, samples, tails, groups)
        return [self._tail(measure, keys[s], roles[s], int(groups[s]), s, runs) for s in runs.told()]

    def _tail(self, measure: Measure, key: tuple[str, str, int], role: str, group: int, s: int, runs: _Runs) -> Tail:
        median, mean, count = runs.peers_at[s]
        others = runs.mean_ticks[group] - 1
        return Tail(
            measure=measure.name,
            unit=measure.unit,
            device=key[0],
            port=key[1],
            priority=key[2],
            role=role,
            peers=int(count),
            since_ns=int(runs.since[s]) * self._period_ns,
            until_ns=(int(runs.until[s]) + 1) * self._period_ns,
            ticks=int(runs.ticks[s]),
            worst_ns=(int(runs.worst_tick[s]) + 1) * self._period_ns,
            value=float(runs.value[s]),
            peer_median=float(median),
            peer_mean=float(mean),
            mean_before=float((runs.means[group] - mean) / others) if others > 0 else None,
            against_peers=float(runs.worst[s]),
            against_past=None if np.isnan(runs.against_past[s]) else float(runs.against_past[s]),
        )


class _Runs:
    """For how many ticks in a row series have stood out, and where they did so most."""

    def __init__(self, series: int, groups: int) -> None:
        self._row = np.zeros(series, np.int64)
        self.since = np.zeros(series, np.int64)
        self.until = np.zeros(series, np.int64)
        self.ticks = np.zeros(series, np.int64)
        self.worst = np.zeros(series)
        self.worst_tick = np.zeros(series, np.int64)
        self.value = np.zeros(series)
        self.against_past = np.full(series, np.nan)
        self.peers_at = np.zeros((series, 3))
        self.means = np.zeros(groups)
        self.mean_ticks = np.zeros(groups, np.int64)
        self._told = np.zeros(series, np.bool_)

    def take(self, tick: int, samples: npt.NDArray[np.float64], tails: Tails, groups: Ints) -> None:
        """A tick, which `tails` has not scored yet."""
        scores = tails.take(tick, samples)
        own = scores.against_past
        out = scores.against_peers >= past.FAR
        out &= np.isnan(own) | (own >= past.FAR) | (tails.rising >= past.ALARM)
        seen = ~np.isnan(samples)
        begun = out & (self._row == 0)
        # What was not seen neither goes on nor ends.
        self._row = np.where(out, self._row + 1, np.where(seen, 0, self._row))
        fresh = begun & ~self._told
        self.since[fresh], self.ticks[fresh] = tick, 0
        self.worst[fresh] = 0.0
        self.ticks[out] += 1
        self.until[out] = tick
        self._told |= self._row >= TICKS_IN_A_ROW
        of_groups = tails.of_groups
        known = ~np.isnan(of_groups[:, peers.MEAN])
        self.means[known] += of_groups[known, peers.MEAN]
        self.mean_ticks[known] += 1
        more = np.flatnonzero(out & (scores.against_peers > self.worst))
        self.worst[more], self.worst_tick[more] = scores.against_peers[more], tick
        self.value[more], self.against_past[more] = samples[more], own[more]
        of = groups[more]
        for column, which in enumerate((peers.MEDIAN, peers.MEAN, peers.COUNTED)):
            self.peers_at[more, column] = of_groups[of, which]

    def told(self) -> list[int]:
        """The series that stood out for TICKS_IN_A_ROW."""
        return np.flatnonzero(self._told).tolist()
