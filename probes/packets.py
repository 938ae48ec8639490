"""The probe of packets: single pauses as they pass, and by flow ECN codepoints, bytes, CNPs and NAKs once a window.

In: the ring and maps of bpf/packets.bpf.c, speeds of ports. Out: rows of pfc (PFC_XOFF, PFC_XON; reduced: PFC_FRAMES),
ecn, flowbytes and host (RDMA_ERRORS), and facts about flows.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from probes.flows import FLOW, FLOW_KEY, NO_PCP, Opened
from probes.grown import Grown
from probes.latency import RING_FULL
from probes.maps import Map
from probes.pause_timers import PauseTimers
from probes.poller import LOOK_AGAIN_NS
from probes.probe import Lost, Reading, Rows
from probes.ring import Ring
from probes.sources import SINGLE_PAUSES_SLOT
from probes.watched_ports import MAX_PORTS, PORT_KEY, WatchedPorts
from stream import kinds
from stream.facts import DSCPS, Fact, PriorityMaps
from stream.priorities import sort_dscp
from stream.record import Events, empty_events, joined, picked

IDLE_NS = 60_000_000_000
"""A flow that no packet came of for so long is forgotten, so that others find room."""
CROWDED_IDLE_NS = 5_000_000_000
"""The same while more than 3/4 of the room is taken."""
TOPICS = ("pfc", "ecn", "flowbytes", "host")
PORT = np.dtype([(name, "<u8") for name in (
    "pfc_frames", "pause_frames", "truncated_frames",
)] + [(name, "<u8", 9) for name in ("xoff", "xon", "quanta", "untold")] + [("unlisted", FLOW)])  # fmt: skip
WHOLE_PORT = 8
SEQUENCE_NAK, RNR_NAK, OTHER_NAK = 1, 2, 12
"""Codes of RDMA_ERROR_CODES."""
_COUNTERS = FLOW.names[2:13] if FLOW.names else ()
_PLACE = {name: place for place, name in enumerate(_COUNTERS)}
_WORD = 0x9E3779B97F4A7C15
_UNTOLD = PORT.fields["untold"][1] // 8 if PORT.fields else 0


class Counted(NamedTuple):
    """What was counted of flows up to now: `keys` of dtype FLOW_KEY, `values` of dtype FLOW."""

    keys: npt.NDArray[Any]
    values: npt.NDArray[Any]


class PacketsProbe:
    """Packets of the watched interfaces. `counted` is of interfaces that come, go, or cannot be looked at."""

    def __init__(
        self,
        ring: Ring,
        flows: Map,
        ports: Map,
        settings: Map,
        watched: WatchedPorts,
        opened: Opened,
        *,
        window_ns: int,
        read_priorities: Callable[[], PriorityMaps | None],
        hit_ns: int,
        released: Callable[[], None],
    ) -> None:
        self._ring, self._flows, self._ports, self._settings = ring, flows, ports, settings
        self._watched, self._opened, self._released = watched, opened, released
        self.counted = watched.counted
        self._window_ns, self._hit_ns = window_ns, hit_ns
        self._read_priorities, self._sorted_ns = read_priorities, 0
        self._sort(0)
        self._flows_grown = Grown(len(_COUNTERS))
        self._ports_grown = Grown(PORT.itemsize // 8)
        self._timers = PauseTimers(MAX_PORTS)
        self._speeds_mbps = self._read_speeds()
        self._window_from_ns = self._read_ns = 0
        self._closed = False

    def read(self, now_ns: int) -> Reading:
        """Pauses since the last read and, once a window, what flows and ports counted in it."""
        before_ns, self._read_ns = self._read_ns or now_ns, now_ns
        pauses, lost = self._ring.drain()
        names = tuple(self._watched.names)
        rows: list[Rows] = []
        facts: list[Fact] = []
        kernel_ns = 0
        ended = self._timers.ended(self._pause_rows(pauses, now_ns), self._speeds_mbps, now_ns)
        if len(ended):
            rows.append(Rows("pfc", ended, names))
        if not self._window_from_ns:
            self._window_from_ns = now_ns
        elif now_ns - self._window_from_ns >= self._window_ns * 3 // 4:
            windows, facts, packets = self._windows(now_ns, now_ns - self._window_from_ns)
            rows += windows
            kernel_ns = packets * self._hit_ns
            self._watched.forget_gone()
            if not 0 <= now_ns - self._sorted_ns < LOOK_AGAIN_NS:
                self._sort(now_ns)
            self._speeds_mbps = self._read_speeds()
            self._window_from_ns = now_ns
        losses = [Lost("pfc", lost, RING_FULL, before_ns, now_ns)] if lost else []
        if unseen := self._watched.look(now_ns):
            self._speeds_mbps = self._read_speeds()
            since_ns = min(each.since_ns for each in unseen)
            losses += [Lost(topic, len(unseen), kinds.SOURCE_NOT_READ, since_ns, now_ns) for topic in TOPICS]
        return Reading(rows, losses, facts, kernel_ns)

    def _sort(self, now_ns: int) -> None:
        """Looks how this host sorts packets without a tag into priorities."""
        self._sorted_ns = now_ns
        maps = self._read_priorities() or PriorityMaps()
        self._priority_of = np.array([sort_dscp(dscp, maps).priority for dscp in range(DSCPS)], np.uint8)
        self._quality = kinds.ESTIMATED if maps.dscp_to_priority is None else 0

    def _read_speeds(self) -> npt.NDArray[np.int64]:
        """Speed of each interface in Mb/s, 0 where it tells none."""
        return np.array([max(speed_mbps(name), 0) if name else 0 for name in self._watched.names], np.int64)

    def _pause_rows(self, events: Events, now_ns: int) -> Events:
        events = picked(events, np.argsort(events["time_ns"], kind="stable"))
        indexes = events["device"].astype(np.uint32) | events["port"].astype(np.uint32) << np.uint32(16)
        events["port"] = self._watched.numbers(indexes)
        events["device"] = 0
        events["seen_ns"] = np.maximum(now_ns, events["time_ns"])
        return events

    def flow_counters(self) -> Counted:
        """All flows that the program knows, with their counters since each began; gives up those that are idle."""
        keys, values = self._flows.entries(FLOW_KEY)
        idle_ns = CROWDED_IDLE_NS if len(keys) * 4 > self._flows.max_entries * 3 else IDLE_NS
        bound_ns = time.monotonic_ns() - idle_ns
        for row in np.flatnonzero(values["last_ns"].astype(np.int64) < bound_ns).tolist():
            try:
                values[row] = self._flows.lookup(keys[row].tobytes(), delete=True)
            except KeyError:
                continue
            self._opened.forget(int(values["id"][row]))
        return Counted(keys, values)

    def port_counters(self) -> Counted:
        """What each side of each interface counted since the program was attached: dtypes PORT_KEY and PORT."""
        return Counted(*self._ports.entries(PORT_KEY))

    def _windows(self, now_ns: int, span_ns: int) -> tuple[list[Rows], list[Fact], int]:
        paused, unlisted = self._of_ports(now_ns, span_ns)
        listed = self.flow_counters()
        keys = np.concatenate((listed.keys, unlisted.keys))
        values = np.concatenate((listed.values, unlisted.values))
        counts = _words(values)[:, 2 : 2 + len(_COUNTERS)]
        place = _words(keys)[:, 5]
        growth = self._flows_grown.since(values["id"] ^ place * np.uint64(_WORD), counts).astype(np.int64)
        tagged = keys["pcp"] != NO_PCP
        priority = np.where(tagged, keys["pcp"], self._priority_of[keys["dscp"]])
        quality = np.where(tagged, 0, self._quality)
        priority[len(listed.keys) :], quality[len(listed.keys) :] = kinds.NO_PRIORITY, 0
        facts: list[Fact] = [
            fact
            for row in np.flatnonzero(growth[: len(listed.keys), _PLACE["packets"]]).tolist()
            if (fact := self._opened.fact(
                int(values["id"][row]), keys["tuple"][row].tobytes(), now_ns - span_ns, int(priority[row])
            ))
        ]  # fmt: skip

        def rows(kind: str, chosen: npt.NDArray[np.bool_], flow: str = "id") -> Events:
            found = empty_events(int(chosen.sum()))
            found["kind"], found["span_ns"] = kinds.BY_NAME[kind].code, span_ns
            found["time_ns"] = found["seen_ns"] = now_ns
            found["flow"], found["side"] = values[flow][chosen], keys["side"][chosen]
            found["port"] = self._watched.numbers(keys["ifindex"][chosen])
            found["priority"], found["quality"] = priority[chosen], quality[chosen]
            return found

        def column(name: str) -> npt.NDArray[np.int64]:
            return growth[:, _PLACE[name]]

        able = column("ect_0") + column("ect_1") + column("ce") > 0
        marked = rows("ECN_MARKED", able)
        marked["value"], marked["extra"] = column("ce")[able], column("packets")[able]
        slowing = column("cnps") > 0
        slowed = rows("CNP", slowing, "slows")
        slowed["value"] = column("cnps")[slowing]
        leaving = (keys["side"] == kinds.SIDE_TX) & (column("packets") > 0)
        sent = rows("FLOW_BYTES", leaving)
        sent["value"], sent["extra"] = column("bytes")[leaving], column("packets")[leaving]
        refused: list[Events] = []
        for name, code in (("sequence_naks", SEQUENCE_NAK), ("rnr_naks", RNR_NAK), ("other_naks", OTHER_NAK)):
            chosen = column(name) > 0
            naks = rows("RDMA_ERRORS", chosen)
            naks["value"], naks["extra"] = column(name)[chosen], code
            refused.append(naks)
        names = tuple(self._watched.names)
        told = [
            Rows("pfc", paused, names),
            Rows("ecn", joined([marked, slowed]), names),
            Rows("flowbytes", sent, names),
            Rows("host", joined(refused), names),
        ]
        return [each for each in told if len(each.events)], facts, int(column("packets").sum())

    def _of_ports(self, now_ns: int, span_ns: int) -> tuple[Events, Counted]:
        """Pause frames that were not told one by one, by priority; and what found no room, as one flow 0 a port."""
        keys, values = self.port_counters()
        number = keys["ifindex"].astype(np.uint64) << np.uint64(8) | keys["side"].astype(np.uint64)
        growth = self._ports_grown.since(number, _words(values)).astype(np.int64)
        frames = growth[:, _UNTOLD : _UNTOLD + 9]
        port, priority = np.nonzero(frames)
        paused = empty_events(len(port))
        paused["kind"], paused["span_ns"] = kinds.BY_NAME["PFC_FRAMES"].code, span_ns
        paused["time_ns"] = paused["seen_ns"] = now_ns
        paused["port"], paused["side"] = self._watched.numbers(keys["ifindex"])[port], keys["side"][port]
        paused["value"], paused["extra"] = frames[port, priority], kinds.UNKNOWN
        paused["priority"] = np.where(priority == WHOLE_PORT, kinds.NO_PRIORITY, priority)
        flow_keys = np.zeros(len(keys), FLOW_KEY)
        flow_keys["ifindex"], flow_keys["side"] = keys["ifindex"], keys["side"]
        flows = values["unlisted"].copy()
        flows["id"] = flows["slows"] = 0
        return paused, Counted(flow_keys, flows)

    def reduce(self) -> bool:
        """No single pauses any more: pause frames are counted by priority, flows go on.

        The program itself tells each frame in one of the two ways, so that none is told twice or not at all.
        """
        tell_single_pauses(self._settings, 0)
        return True

    def restore(self) -> None:
        """Single pauses again."""
        tell_single_pauses(self._settings, 1)

    def close(self) -> None:
        """Detaches; may be called twice."""
        self._watched.close()
        if not self._closed:
            self._closed = True
            self._ring.close()
            self._flows.close()
            self._released()


def tell_single_pauses(settings: Map, flag: int) -> None:
    """Has the program tell pauses one by one (1), which it does not do at first, or count them (0)."""
    settings.update(struct.pack("=I", SINGLE_PAUSES_SLOT), struct.pack("=Q", flag))


def speed_mbps(interface: str) -> int:
    """The speed that an interface says it has; 0 or less where it does not know."""
    try:
        return int(Path(f"/sys/class/net/{interface}/speed").read_text())
    except (OSError, ValueError):
        return 0


def _words(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Rows as their 64-bit words."""
    return np.ascontiguousarray(rows).view(np.uint64).reshape(len(rows), rows.dtype.itemsize // 8)
