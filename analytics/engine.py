"""The state of one fabric's cascades: takes settled episode rows in, drives the kernel, hands over what has closed.

Everything here is a function of rows and facts in event time; how they were batched cannot matter.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from analytics import layout
from analytics.announced import Announced
from analytics.asked_names import AskedNames, names_a_port
from analytics.closed import Closed as Closed
from analytics.flows import KnownFlows
from analytics.groups import carry_groups
from analytics.impossible import impossible
from analytics.kernel import run
from analytics.ledger import Ledgers
from analytics.membership import forget_slots, living
from analytics.noted import Noted
from analytics.pause_logs import PauseLogs
from analytics.port_sets import ALL
from analytics.port_windows import PortWindows
from analytics.renames import carry_names
from analytics.row_store import RowStore
from analytics.rows import add_window_rows
from analytics.sampled import Sampled
from analytics.tellers import Tellers
from analytics.told_pauses import ToldPauses
from analytics.topology import PRIORITIES, Topology
from analytics.victims import SentByFlows
from analytics.waiting import Named
from stream.facts import Device, Flow, Link
from stream.identity import Standing
from stream.record import Events, picked

Ints = npt.NDArray[np.int64]


class Engine:
    """One fabric."""

    def __init__(self, fabric: str, counters: Counter[str]) -> None:
        self.fabric = fabric
        self.topology = Topology()
        self.counters = counters
        self.flows = KnownFlows()
        self.logs = PauseLogs()
        self._ahead: Ints = np.zeros(0, np.int64)
        """By device, how far its clock is ahead."""
        self.noted = Noted()
        self.told_pauses = ToldPauses()
        self.tellers = Tellers()
        self.ledgers = Ledgers()
        self.sent = SentByFlows()
        self.port_windows = PortWindows()
        self.sampled = Sampled(fabric)
        self.cursor_ns = layout.NEVER
        self._needed_ns = layout.NEVER
        self.next_expiry_ns = layout.FOREVER
        self._rows = RowStore()
        self.queues = layout.new_state(0, layout.Q_COLUMNS)
        self.roots: Ints = np.zeros((0, layout.MAX_ROOTS), np.int64)
        self.shares: npt.NDArray[np.float64] = np.zeros((0, layout.MAX_ROOTS))
        self.missed = layout.new_state(0, layout.MS_COLUMNS)
        self.devices = layout.new_state(0, layout.D_COLUMNS)
        self.ports = layout.new_state(0, layout.P_COLUMNS)
        self.slots = layout.new_state(0, layout.S_COLUMNS)
        self.free_slots: list[int] = []
        self._released: list[int] = []
        """Slots that queues and devices may still name: none outside of `_advance`."""
        self._groups: Ints = np.zeros(0, np.int64)
        """The sibling groups to which the state of ports belongs."""
        self.filled: Ints = np.zeros(0, np.int64)
        """All may be filled where nothing is known, so that it is no part of what a snapshot keeps."""
        self._room: tuple[tuple[int, int, int], layout.Told, layout.Work] | None = None
        self.wanted: Callable[[str], bool] | None = None
        """If given, only cascades whose ids it takes are told of when they close or are still open."""
        self._stale = False
        self._shares_topology = False
        self._places: Ints = np.zeros(0, np.int64)
        """By the number of a pair of names, the port that it means by the facts known."""
        self._counted: set[tuple[str, str]] = set()
        """Names that do not resolve and were counted."""

    def add_fact(self, fact: Device | Link, from_ns: int | None = None) -> None:
        """Takes a device or link in, valid for the rows that come after."""
        if self._shares_topology:
            self.topology, self._shares_topology = self.topology.copy(), False
        self.topology.add(fact, from_ns)
        self._stale = True

    def add_flow(self, flow: Flow, from_ns: int) -> None:
        """Takes a version of a flow in that holds from a time on."""
        self.flows.add(flow, from_ns, self._needed_ns)

    def placed(self, events: Events, numbers: Ints, names: AskedNames, announced: Announced) -> tuple[Events, Ints]:
        """The rows that count, of those that come next in event time, and the ports that their names mean by now."""
        places = self._places_of(names)
        sources = names.source_of(numbers)

        def has_ended(port: int, source: str, time_ns: int) -> bool:
            device = self.topology.devices[self.topology.ports[port][0]]
            return announced.has_ended(device, source, time_ns, self.topology.names)

        events, ports, left_out = self.tellers.chosen(events, places[numbers], sources, names.sources, has_ended)
        self.counters["pauses_told_by_others"] += left_out
        untrue = impossible(events)
        if untrue.any():
            self.counters["paused_beyond_the_window"] += int(untrue.sum())
            events, ports = picked(events, ~untrue), ports[~untrue]
        return events, ports

    def add_rows(
        self, events: Events, ports: Ints, announced: Announced, horizon_ns: int, parts: Sequence[str] = ()
    ) -> None:
        """Takes settled rows in; `ports` are indices of the topology, `parts` the names of parts of hosts.

        Windows longer than `horizon_ns` take effect at their end.
        """
        self._grow()
        self.logs.take(events, ports, self.topology, announced, self.counters)
        self._add_window_rows([Named(events, ports)], horizon_ns)
        self._note(events, ports, horizon_ns, parts)
        self.sampled.take(events, ports, self.topology, announced, horizon_ns)

    def add_windows(self, parts: Sequence[Named], names: AskedNames, announced: Announced, horizon_ns: int) -> None:
        """Takes settled rows in that are of windows alone (analytics.rows.glance), in parts as they came.

        Each is read by one kernel after the other while it is near the processor: all in one piece they never are.
        """
        places = self._places_of(names)
        self._grow()
        placed = [Named(events, places[numbers]) for events, numbers in parts]
        self._add_window_rows(placed, horizon_ns)
        for events, ports in placed:
            self.sampled.take_windows(events, ports, self.topology, announced, horizon_ns)
            unresolved = self.topology.unresolved[ports]
            if unresolved.any():
                self._note(picked(events, unresolved), ports[unresolved], horizon_ns, ())

    def _places_of(self, names: AskedNames) -> Ints:
        """By the number of a pair of names, the port that it means."""
        self._grow()
        place = self.topology.place
        new = [place(*pair) for pair in names.pairs[len(self._places) :]]
        self._places = np.append(self._places, np.array(new, np.int64)) if new else self._places
        return self._places

    def _add_window_rows(self, parts: Sequence[Named], horizon_ns: int) -> None:
        newest_ns = add_window_rows(
            self._rows, parts, horizon_ns, self.cursor_ns, self.flows, self.topology, self.counters
        )
        self.noted.newest_ns = max(self.noted.newest_ns, newest_ns)

    def _note(self, events: Events, ports: Ints, horizon_ns: int, parts: Sequence[str]) -> None:
        self.counters["readings_not_kept"] += self.noted.take(events, ports, self.topology, horizon_ns, parts)
        self._count_unresolved(self._unresolved_names(events, ports))

    def add_pauses(self, rows: Ints) -> None:
        """Takes the kernel's rows of pauses in, one sequence a queue and on one clock."""
        self._rows.add(rows)
        self.told_pauses.take(rows)
        self.sampled.take_stops(rows)

    def advance(self, until_ns: int, keep_ns: int, on_closed: Callable[[Closed], None]) -> None:
        """Takes all rows before `until_ns` into account; `on_closed` sees each cascade `keep_ns` after its end.

        It is called while the state is that of the moment, so what it reads does not depend on how far this call goes.
        Rows have to be there up to LAG_NS (analytics.pause_logs) later, since pauses are told by what comes after them.
        """
        self._grow()
        for turn_ns in self.logs.turns(until_ns, self.topology):
            if len(released := self.logs.release(turn_ns, self.topology, self.counters)):
                self.add_pauses(released)
            self._ahead = self.logs.clocks.table(len(self.topology.devices))
            self._advance(min(turn_ns, layout.FOREVER), keep_ns, on_closed)

    def _advance(self, until_ns: int, keep_ns: int, on_closed: Callable[[Closed], None]) -> None:
        self._grow()
        if len(self._rows):
            rows, flows = self._rows.take(until_ns, self.topology.port_rank, self._due(until_ns))
            self.sent.take(rows, flows)
            self.port_windows.take(rows)
            self._run(rows, flows, until_ns, keep_ns, on_closed)
        if until_ns > self.next_expiry_ns:
            self._take_expired(until_ns, keep_ns, on_closed)
        self._free_released()
        self.cursor_ns = max(self.cursor_ns, until_ns)
        self._needed_ns = min(self.oldest_ns(), self.cursor_ns) - keep_ns
        self.noted.forget(self._needed_ns, self.cursor_ns - keep_ns)
        dropped = self.told_pauses.forget(self._needed_ns, self.cursor_ns - keep_ns)
        self.counters["told_pauses_dropped"] += dropped
        dropped = self.sent.forget(self._needed_ns, self.cursor_ns, self.topology)
        self.counters["flow_windows_dropped"] += dropped
        dropped = self.port_windows.forget(self._needed_ns, self.cursor_ns - keep_ns)
        self.counters["port_windows_dropped"] += dropped

    def _due(self, until_ns: int) -> npt.NDArray[np.bool_] | None:
        """Which rows are from before a time, where clocks are not in step: their windows are set right; else None."""
        rows = self._rows.rows
        if not self._ahead.any():
            return None
        shift = self._ahead[self.topology.port_device[rows[:, layout.ROW_QUEUE] // PRIORITIES]]
        shift[rows[:, layout.ROW_TYPE] > layout.DEPTH] = 0
        due: npt.NDArray[np.bool_] = rows[:, layout.ROW_TIME] - shift < until_ns
        for column in (layout.ROW_TIME, layout.ROW_START, layout.ROW_END):
            rows[due, column] -= shift[due]
        return due

    def still_open(self, now_ns: int) -> list[Closed]:
        """The cascades that have not closed, with open pauses up to `now_ns`. It books on the ledgers: use a copy."""
        queues = np.flatnonzero(self.queues[:, layout.Q_ORDER])
        slots = living(self.slots, self.queues[queues, layout.Q_SLOT])
        start_ns, pauser = self.queues[queues, layout.Q_A], self.queues[queues, layout.Q_PAUSER]
        pause_ns = np.maximum(now_ns - start_ns, 0)
        # What has not ended lasts up to now by all that is known; that an end was lost shows where nobody tells more.
        marks = np.full_like(queues, layout.MARK_GUESSED | layout.MARK_COUNTED | layout.MARK_UNLOGGED)
        blamed = np.arange(layout.MAX_ROOTS) < self.queues[queues, layout.Q_ROOTS][:, None]
        of, number = np.nonzero(blamed)
        blamed_ns = np.rint(self.shares[queues[of], number] * pause_ns[of]).astype(np.int64)
        self.ledgers.book(
            np.zeros((0, layout.L_EDGE_COLUMNS), np.int64),
            np.stack((slots, queues, start_ns, pause_ns, marks, pauser, start_ns + pause_ns), axis=1),
            np.stack((slots[of], queues[of], self.roots[queues[of], number], blamed_ns), axis=1),
        )
        still = [
            self._closed(slot, True, now_ns)
            for slot in self._slots_in_use().tolist()
            if self.wanted is None or self.wanted(self.cascade_id(slot))
        ]
        polled = self.sampled.still_open(self.topology)
        still += [closed for closed in polled if self.wanted is None or self.wanted(closed.id)]
        return sorted(still, key=lambda cascade: (cascade.start_ns, cascade.id))

    def copy(self) -> Engine:
        """A copy that can be advanced on its own; the topology is shared until a fact changes it."""
        twin = copy.copy(self)
        twin.counters = Counter()
        twin.ledgers = self.ledgers.copy()
        twin._shares_topology = True
        twin.sent = self.sent.copy()
        twin.sampled = self.sampled.copy()
        twin.logs = self.logs.copy()
        twin.told_pauses = self.told_pauses.copy()
        twin.port_windows = self.port_windows.copy()
        twin.noted, twin.tellers, twin._counted = self.noted.copy(), self.tellers.copy(), set(self._counted)
        twin._rows = self._rows.copy()
        for name in ("queues", "roots", "shares", "missed", "devices", "ports", "slots", "filled"):
            setattr(twin, name, getattr(self, name).copy())
        twin.free_slots, twin._released = list(self.free_slots), []
        return twin

    def next_life(self) -> Engine:
        """An engine for what comes after all sources have gone: it knows the fabric and its flows, and no row."""
        fresh = Engine(self.fabric, self.counters)
        fresh.topology, fresh._stale = self.topology.of_facts_alone(), True
        fresh.flows = self.flows.last_alone()
        fresh._counted = set(self._counted)
        fresh._grow()
        return fresh

    def state(self) -> dict[str, Any]:
        """Plain structures and arrays for a snapshot."""
        state: dict[str, Any] = {name: getattr(self, name) for name in _STATE_ARRAYS}
        rows, row_flows = self._rows.state()
        return state | {
            "_rows": rows, "_row_flows": row_flows,
            "topology": self.topology.state(), "ledgers": self.ledgers.state(), "cursor_ns": self.cursor_ns,
            "next_expiry_ns": self.next_expiry_ns, "free_slots": self.free_slots, "stale": self._stale,
            "noted": self.noted.state(), "tellers": self.tellers.state(), "sent": self.sent.state(),
            "needed_ns": self._needed_ns, "flows": self.flows.state(),
            "logs": self.logs.state(), "told_pauses": self.told_pauses.state(),
            "port_windows": self.port_windows.state(), "sampled": self.sampled.state(),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        """Continues from `state()`."""
        for name in _STATE_ARRAYS:
            setattr(self, name, state[name])
        self._rows.load([state["_rows"], state["_row_flows"]])
        self.filled = self.filled[:0]
        self.topology = Topology.of_state(state["topology"])
        self.ledgers.load(state["ledgers"])
        self.cursor_ns, self.next_expiry_ns = state["cursor_ns"], state["next_expiry_ns"]
        self.free_slots, self._stale = state["free_slots"], state["stale"]
        self.noted = Noted.of_state(state["noted"])
        self.told_pauses.load(state["told_pauses"])
        self.port_windows.load(state["port_windows"])
        self.tellers = Tellers.of_state(state["tellers"])
        self.sent.load(state["sent"])
        self._needed_ns = state["needed_ns"]
        self.logs = PauseLogs.of_state(state["logs"])
        self.sampled = Sampled.of_state(state["sampled"])
        self.flows = KnownFlows.of_state(state["flows"])

    def oldest_ns(self) -> int:
        """When the oldest of the cascades began that are not over; FOREVER where there is none."""
        oldest_ns = int(self.slots[self._slots_in_use(), layout.S_FIRST_NS].min(initial=layout.FOREVER))
        return min(oldest_ns, self.sampled.oldest_ns())

    def beginnings(self) -> set[tuple[int, int]]:
        """When and with which told queue each cascade began that is not over."""
        slots = self.slots[self._slots_in_use()]
        beginnings = set(map(tuple, slots[:, [layout.S_FIRST_NS, layout.S_FIRST_QUEUE]].tolist()))
        return beginnings | self.sampled.beginnings()

    def cascade_id(self, slot: int) -> str:
        """The id of the cascade in a slot: a hash of the fabric and of its first pause's queue and start."""
        device, port, priority = self.topology.queue_name(int(self.slots[slot, layout.S_FIRST_QUEUE]))
        first_ns = int(self.slots[slot, layout.S_FIRST_NS])
        text = "\0".join((self.fabric, device, port, str(priority), str(first_ns)))
        return f"{xxhash.xxh3_64_intdigest(text.encode()):016x}"

    def _grow(self) -> None:
        """Makes the arrays cover every name that has been met, and lets names mean what the facts say."""
        topology = self.topology
        rebuilt, self._stale = self._stale, False
        if rebuilt:
            topology.rebuild()
            self._places = self._places[:0]
            self._count_unresolved(topology.conflicting_ends)
        elif not topology.complete():
            topology.extend()
        words = int(topology.word_start[-1]) * PRIORITIES
        if rebuilt or words != len(self.filled):
            self.filled = np.full(words, ALL)
        queues = len(self.topology.ports) * PRIORITIES - len(self.queues)
        if queues > 0:
            never = {f"c{column}": layout.NEVER for column in (
                layout.Q_B, layout.Q_BIN_START, layout.Q_BIN_END, layout.Q_OLD_END, layout.Q_ROOT_LAST)}  # fmt: skip
            none = {f"c{column}": -1 for column in (layout.Q_SLOT, layout.Q_ROOT_OWNER)}
            self.queues = np.concatenate((self.queues, layout.new_state(queues, layout.Q_COLUMNS, **never, **none)))
            self.roots = np.concatenate((self.roots, np.zeros((queues, layout.MAX_ROOTS), np.int64)))
            self.shares = np.concatenate((self.shares, np.zeros((queues, layout.MAX_ROOTS))))
            self.missed = np.concatenate((self.missed, np.zeros((queues, layout.MS_COLUMNS), np.int64)))
            grown = layout.new_state(
                len(self.topology.ports) - len(self.ports), layout.P_COLUMNS,
                c2=layout.NEVER, c4=layout.NEVER, c5=layout.NEVER, c7=layout.NEVER,
            )  # fmt: skip
            self.ports = np.concatenate((self.ports, grown))
        devices = len(self.topology.devices) - len(self.devices)
        if devices > 0:
            grown = layout.new_state(devices, layout.D_COLUMNS, c1=layout.NEVER, c2=-1, c3=-1)
            self.devices = np.concatenate((self.devices, grown))
        if self._groups is not topology.port_group:
            carry_groups(self.ports, self._groups, topology, self.queues, self.roots, self.shares, self.cursor_ns)
            self._groups = topology.port_group
        if rebuilt and topology.moved_ports:
            self._carry_names()

    def _carry_names(self) -> None:
        topology = self.topology
        ends = carry_names(
            topology, self._rows.rows, self.queues, self.roots, self.shares, self.devices, max(self.cursor_ns, 0)
        )
        self._rows.add(ends)
        self.noted.carry(topology)
        self.told_pauses.carry(topology)
        self.port_windows.carry(topology)
        self.logs.carry(topology)
        self.sampled.carry(topology)

    def _unresolved_names(self, events: Events, ports: Ints) -> set[tuple[str, str]]:
        """Names of ports in rows that do not resolve."""
        unresolved = self.topology.unresolved[ports]
        if not unresolved.any():
            return set()
        used = np.unique(ports[unresolved & names_a_port(events)]).tolist()
        return {self.topology.queue_name(port * PRIORITIES)[:2] for port in used}

    def _count_unresolved(self, names: set[tuple[str, str]]) -> None:
        for name in names - self._counted:
            conflicting = self.topology.names.resolve(*name).standing == Standing.CONFLICTING
            self.counters["names_conflicting" if conflicting else "names_unknown"] += 1
        self._counted |= names

    def _run(
        self,
        rows: Ints,
        flow_ids: npt.NDArray[np.uint64],
        until_ns: int,
        keep_ns: int,
        on_closed: Callable[[Closed], None],
    ) -> None:
        links = self.topology.links()
        capacity = self._ledger_rows(rows)
        room, work = self._take_room(capacity, int(np.diff(links.fan_start).max(initial=1)))
        edges, closes, blames, flows, joins, counts = room
        start = 0
        while start < len(rows):
            free = self._free_slots(capacity)
            counts[:] = 0
            counts[layout.N_FREE], counts[layout.N_NEXT_EXPIRY] = len(free), self.next_expiry_ns
            state = layout.State(
                self.queues, self.roots, self.shares, self.missed, self.devices, self.ports, self.slots, self.filled
            )
            run(rows, start, until_ns, keep_ns, state, links, room, work._replace(free=free))
            start = int(counts[layout.N_ROWS])
            self.free_slots = free[: counts[layout.N_FREE]].tolist()
            self.next_expiry_ns = int(counts[layout.N_NEXT_EXPIRY])
            self.counters["pauses_without_open"] += int(counts[layout.N_UNMATCHED])
            self.counters["pauses_without_close"] += int(counts[layout.N_REOPENED])
            self.counters["pauses_on_unknown_links"] += int(counts[layout.N_NO_LINK])
            joined = joins[: counts[layout.N_JOINS]]
            self.ledgers.join(joined, [self.cascade_id(ends) for ends in joined[:, 1].tolist()])
            told = (
                edges[: counts[layout.N_EDGES]],
                closes[: counts[layout.N_CLOSES]],
                blames[: counts[layout.N_BLAMES]],
            )
            for part in (*told, flows[: counts[layout.N_FLOWS]]):
                part[:, 0] = living(self.slots, part[:, 0].copy())
            self.ledgers.book(*told)
            self.ledgers.book_flows(flows[: counts[layout.N_FLOWS]], flow_ids, rows[:, layout.ROW_AMOUNT])
            if start < len(rows) and int(rows[start, layout.ROW_TIME]) > self.next_expiry_ns:
                self._take_expired(int(rows[start, layout.ROW_TIME]), keep_ns, on_closed)

    def _take_room(self, pauses: int, widest: int) -> tuple[layout.Told, layout.Work]:
        """Ledgers and room to work in, made once: to make them for each tick costs more than to fill them."""
        roots = max(len(self.queues), len(self.devices))
        if self._room is not None:
            had = self._room[0]
            if pauses <= had[0] and widest <= had[1] and roots <= had[2]:
                return self._room[1:]
            pauses, widest, roots = max(pauses, had[0]), max(widest, had[1]), max(roots, had[2])
        sizes = (pauses, widest, roots)
        self._room = sizes, layout.new_told(pauses, widest), layout.new_work(pauses, widest, roots)
        return self._room[1:]

    def _ledger_rows(self, rows: Ints) -> int:
        """Pause rows that one run may meet: the limit, or all of one instant if that is more."""
        pauses = rows[rows[:, layout.ROW_TYPE] >= layout.CLOSE, layout.ROW_TIME]
        most = int(np.unique(pauses, return_counts=True)[1].max(initial=1)) if len(pauses) else 1
        return max(min(len(pauses), layout.LEDGER_PAUSES), most)

    def _free_slots(self, wanted: int) -> Ints:
        missing = wanted - len(self.free_slots)
        if missing > 0:
            first = len(self.slots)
            self.slots = np.concatenate((self.slots, layout.new_state(missing, layout.S_COLUMNS, c4=-1)))
            self.free_slots = [*range(first + missing - 1, first - 1, -1), *self.free_slots]
        return np.array(self.free_slots, np.int64)

    def _slots_in_use(self) -> Ints:
        """Slots of cascades that have not closed, those joined to another left out."""
        return np.flatnonzero(self.slots[:, layout.S_PARENT] == np.arange(len(self.slots)))

    def _take_expired(self, now_ns: int, keep_ns: int, on_closed: Callable[[Closed], None]) -> None:
        used = self._slots_in_use()
        idle = used[self.slots[used, layout.S_OPEN] == 0]
        last_ns = self.slots[idle, layout.S_LAST_NS]
        over = last_ns + keep_ns < now_ns
        self.next_expiry_ns = int((last_ns[~over] + keep_ns).min(initial=layout.FOREVER))
        ended = idle[over].tolist()
        closed = [
            self._closed(slot, False, int(self.slots[slot, layout.S_LAST_NS]))
            for slot in ended
            if self.wanted is None or self.wanted(self.cascade_id(slot))
        ]
        for cascade in sorted(closed, key=lambda cascade: (cascade.end_ns, cascade.start_ns, cascade.id)):
            on_closed(cascade)
        self.ledgers.drop(ended)
        self._release(ended)

    def _release(self, ended: list[int]) -> None:
        """Releases the slots of closed cascades and of those that were joined to them; they are not free so far."""
        if not ended:
            return
        over = np.zeros(len(self.slots) + 1, np.bool_)  # the last one stands for those that have none
        over[ended] = True
        used = np.flatnonzero(self.slots[:, layout.S_PARENT] >= 0)
        gone = used[over[living(self.slots, used)]][::-1]
        self.slots[gone] = 0
        self.slots[gone, layout.S_PARENT] = -1
        self._released += gone.tolist()

    def _free_released(self) -> None:
        """Frees slots that were released, all at one time, since it takes a look at every queue."""
        if not self._released:
            return
        released = np.zeros(len(self.slots), np.bool_)
        released[self._released] = True
        forget_slots(released, self.queues, self.devices)
        self.free_slots += self._released
        self._released = []

    def _closed(self, slot: int, still_open: bool, end_ns: int) -> Closed:
        start_ns = int(self.slots[slot, layout.S_FIRST_NS])
        # A stream may go down, by its clock, before its last pause began.
        end_ns = max(start_ns, end_ns)
        return Closed(slot, self.cascade_id(slot), start_ns, end_ns, self.ledgers.of(slot), still_open)


_STATE_ARRAYS = ("queues", "roots", "shares", "missed", "devices", "ports", "slots", "_groups")
