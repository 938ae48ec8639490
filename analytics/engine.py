"""The state of one fabric's cascades: takes settled episode rows in, drives the kernel, hands over what has closed.

Everything here is a function of rows and facts in event time; how they were batched cannot matter.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from analytics import layout
from analytics.announced import Announced
from analytics.asked_names import AskedNames, names_a_port
from analytics.flows import KnownFlows
from analytics.groups import carry_groups
from analytics.kernel import run
from analytics.ledger import Ledger, Ledgers
from analytics.membership import find, living
from analytics.noted import Noted
from analytics.order import in_order
from analytics.renames import carry_names
from analytics.rows import pause_rows, with_window_rows
from analytics.topology import PRIORITIES, Topology
from analytics.victims import FlowRows, SentByFlows
from stream.facts import Device, Flow, Link
from stream.identity import Standing
from stream.record import Events

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Closed:
    """A cascade that has closed (or, in a provisional run, is still open): its slot, id, times and ledger."""

    slot: int
    id: str
    start_ns: int
    end_ns: int
    ledger: Ledger
    still_open: bool


class Engine:
    """One fabric."""

    def __init__(self, fabric: str, counters: Counter[str]) -> None:
        self.fabric = fabric
        self.topology = Topology()
        self.counters = counters
        self.flows = KnownFlows()
        self.noted = Noted()
        self.ledgers = Ledgers()
        self.sent = SentByFlows()
        self.cursor_ns = layout.NEVER
        self._needed_ns = layout.NEVER
        self.next_expiry_ns = layout.FOREVER
        self._rows: Ints = np.zeros((0, layout.ROW_COLUMNS), np.int64)
        self._row_flows: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.queues = layout.new_state(0, layout.Q_COLUMNS)
        self.roots: Ints = np.zeros((0, layout.MAX_ROOTS), np.int64)
        self.shares: npt.NDArray[np.float64] = np.zeros((0, layout.MAX_ROOTS))
        self.devices = layout.new_state(0, layout.D_COLUMNS)
        self.ports = layout.new_state(0, layout.P_COLUMNS)
        self.slots = layout.new_state(0, layout.S_COLUMNS)
        self.free_slots: list[int] = []
        self._groups: Ints = np.zeros(0, np.int64)
        """The sibling groups to which the state of ports belongs."""
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

    def places(self, names: AskedNames, numbers: Ints) -> Ints:
        """The ports that pairs of names mean by the facts known."""
        self._grow()
        place = self.topology.place
        new = [place(*pair) for pair in names.pairs[len(self._places) :]]
        self._places = np.append(self._places, np.array(new, np.int64)) if new else self._places
        return self._places[numbers]

    def add_rows(
        self, events: Events, ports: Ints, announced: Announced, horizon_ns: int, parts: Sequence[str] = ()
    ) -> None:
        """Takes settled rows in; `ports` are indices of the topology, `parts` the names of parts of hosts.

        Of a pause the rx row is used where the told device itself reported when the pause began, else the sender's tx
        row one link delay later, never both. Windows longer than `horizon_ns` take effect at their end.
        """
        self._grow()
        pauses = pause_rows(events, ports, self.topology, announced, self.counters)
        (self._rows, self._row_flows), at = with_window_rows(
            ((self._rows, self._row_flows), pauses),
            events, ports, horizon_ns, self.cursor_ns, self.flows, self.topology, self.counters,
        )  # fmt: skip
        self.counters["readings_not_kept"] += self.noted.take(events, ports, self.topology, horizon_ns, parts)
        self._count_unresolved(self._unresolved_names(events, ports))
        of_flows = at.start + np.flatnonzero(self._rows[at, layout.ROW_TYPE] == layout.FLOW)
        columns = (layout.ROW_QUEUE, layout.ROW_START, layout.ROW_END, layout.ROW_AMOUNT)
        self.sent.add(FlowRows(self._row_flows[of_flows], *(self._rows[of_flows, column] for column in columns)))

    def advance(self, until_ns: int, keep_ns: int, on_closed: Callable[[Closed], None]) -> None:
        """Takes all rows before `until_ns` into account; `on_closed` sees each cascade `keep_ns` after its end.

        It is called while the state is that of the moment, so what it reads does not depend on how far this call goes.
        """
        until_ns = min(until_ns, layout.FOREVER)
        self._grow()
        if len(self._rows):
            due = self._rows[:, layout.ROW_TIME] < until_ns
            order = in_order(self._rows, self._row_flows, self.topology.port_rank, np.flatnonzero(due))
            rows, flows = self._rows[order], self._row_flows[order]
            self._rows, self._row_flows = self._rows[~due], self._row_flows[~due]
            of_flows = np.flatnonzero(rows[:, layout.ROW_TYPE] == layout.FLOW)
            rows[of_flows, layout.ROW_ID] = of_flows
            self._run(rows, flows, until_ns, keep_ns, on_closed)
        if until_ns > self.next_expiry_ns:
            self._take_expired(until_ns, keep_ns, on_closed)
        self.cursor_ns = max(self.cursor_ns, until_ns)
        firsts = self.slots[self._slots_in_use(), layout.S_FIRST_NS]
        self._needed_ns = min(int(firsts.min(initial=layout.FOREVER)), self.cursor_ns) - keep_ns
        self.noted.forget(self._needed_ns, self.cursor_ns - keep_ns)
        dropped = self.sent.forget(self._needed_ns, self.cursor_ns, self.topology)
        self.counters["flow_windows_dropped"] += dropped

    def still_open(self, now_ns: int) -> list[Closed]:
        """The cascades that have not closed, with open pauses up to `now_ns`. It books on the ledgers: use a copy."""
        for queue in np.flatnonzero(self.queues[:, layout.Q_ORDER]).tolist():
            slot = find(self.slots, int(self.queues[queue, layout.Q_SLOT]))
            start_ns = int(self.queues[queue, layout.Q_A])
            pause_ns = max(0, now_ns - start_ns)
            count = int(self.queues[queue, layout.Q_ROOTS])
            blames = [
                [slot, queue, root, round(share * pause_ns)]
                for root, share in zip(
                    self.roots[queue, :count].tolist(), self.shares[queue, :count].tolist(), strict=True
                )
            ]
            self.ledgers.book(
                np.zeros((0, layout.L_EDGE_COLUMNS), np.int64),
                np.array([[slot, queue, start_ns, pause_ns, 1, self.queues[queue, layout.Q_PAUSER]]], np.int64),
                np.array(blames, np.int64).reshape(-1, layout.L_BLAME_COLUMNS),
            )
        still = [self._closed(slot, True, now_ns) for slot in self._slots_in_use().tolist()]
        return sorted(still, key=lambda cascade: (cascade.start_ns, cascade.id))

    def copy(self) -> Engine:
        """A copy that can be advanced on its own; the topology is shared until a fact changes it."""
        twin = copy.copy(self)
        twin.counters = Counter()
        twin.ledgers = self.ledgers.copy()
        twin._shares_topology = True
        twin.sent = self.sent.copy()
        twin.noted, twin._counted = self.noted.copy(), set(self._counted)
        for name in ("queues", "roots", "shares", "devices", "ports", "slots"):
            setattr(twin, name, getattr(self, name).copy())
        twin.free_slots = list(self.free_slots)
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
        return state | {
            "topology": self.topology.state(), "ledgers": self.ledgers.state(), "cursor_ns": self.cursor_ns,
            "next_expiry_ns": self.next_expiry_ns, "free_slots": self.free_slots, "stale": self._stale,
            "noted": self.noted.state(), "sent": self.sent.state(),
            "needed_ns": self._needed_ns, "flows": self.flows.state(),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        """Continues from `state()`."""
        for name in _STATE_ARRAYS:
            setattr(self, name, state[name])
        self.topology = Topology.of_state(state["topology"])
        self.ledgers.load(state["ledgers"])
        self.cursor_ns, self.next_expiry_ns = state["cursor_ns"], state["next_expiry_ns"]
        self.free_slots, self._stale = state["free_slots"], state["stale"]
        self.noted = Noted.of_state(state["noted"])
        self.sent.load(state["sent"])
        self._needed_ns = state["needed_ns"]
        self.flows = KnownFlows.of_state(state["flows"])

    def beginnings(self) -> set[tuple[int, int]]:
        """When and with which told queue each cascade began that is not over."""
        slots = self.slots[self._slots_in_use()]
        return set(map(tuple, slots[:, [layout.S_FIRST_NS, layout.S_FIRST_QUEUE]].tolist()))

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
        queues = len(self.topology.ports) * PRIORITIES - len(self.queues)
        if queues > 0:
            never = {f"c{column}": layout.NEVER for column in (
                layout.Q_B, layout.Q_BIN_START, layout.Q_BIN_END, layout.Q_OLD_END, layout.Q_ROOT_LAST)}  # fmt: skip
            none = {f"c{column}": -1 for column in (layout.Q_SLOT, layout.Q_ROOT_OWNER)}
            self.queues = np.concatenate((self.queues, layout.new_state(queues, layout.Q_COLUMNS, **never, **none)))
            self.roots = np.concatenate((self.roots, np.zeros((queues, layout.MAX_ROOTS), np.int64)))
            self.shares = np.concatenate((self.shares, np.zeros((queues, layout.MAX_ROOTS))))
            grown = layout.new_state(
                len(self.topology.ports) - len(self.ports), layout.P_COLUMNS,
                c2=layout.NEVER, c4=layout.NEVER, c5=layout.NEVER,
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
            topology, self._rows, self.queues, self.roots, self.shares, self.devices, max(self.cursor_ns, 0)
        )
        self._rows = np.concatenate((self._rows, ends))
        self._row_flows = np.concatenate((self._row_flows, np.zeros(len(ends), np.uint64)))
        self.noted.carry(topology)

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
        widest = int(np.diff(links.fan_start).max(initial=1))
        edges = np.zeros((capacity * widest, layout.L_EDGE_COLUMNS), np.int64)
        closes = np.zeros((2 * capacity, layout.L_CLOSE_COLUMNS), np.int64)
        blames = np.zeros((2 * capacity * layout.MAX_ROOTS, layout.L_BLAME_COLUMNS), np.int64)
        flows = np.zeros((4096, layout.L_FLOW_COLUMNS), np.int64)
        joins = np.zeros((capacity * (layout.MAX_ROOTS + widest), layout.L_JOIN_COLUMNS), np.int64)
        start = 0
        while start < len(rows):
            free = self._free_slots(capacity)
            counts = np.zeros(layout.N_COUNTS, np.int64)
            counts[layout.N_FREE], counts[layout.N_NEXT_EXPIRY] = len(free), self.next_expiry_ns
            state = layout.State(self.queues, self.roots, self.shares, self.devices, self.ports, self.slots)
            run(
                rows, start, until_ns, keep_ns, state, links,
                layout.Told(edges, closes, blames, flows, joins, counts),
                layout.new_work(free, capacity, widest, max(len(self.queues), len(self.devices))),
            )  # fmt: skip
            start = int(counts[layout.N_ROWS])
            self.free_slots = free[: counts[layout.N_FREE]].tolist()
            self.next_expiry_ns = int(counts[layout.N_NEXT_EXPIRY])
            self.counters["pauses_without_open"] += int(counts[layout.N_UNMATCHED])
            self.counters["pauses_without_close"] += int(counts[layout.N_REOPENED])
            self.counters["pauses_on_unknown_links"] += int(counts[layout.N_NO_LINK])
            for lives, ends in joins[: counts[layout.N_JOINS]].tolist():
                self.ledgers.join(lives, ends, self.cascade_id(ends))
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
        closed = [self._closed(slot, False, int(self.slots[slot, layout.S_LAST_NS])) for slot in ended]
        for cascade in sorted(closed, key=lambda cascade: (cascade.end_ns, cascade.start_ns, cascade.id)):
            on_closed(cascade)
            self.ledgers.by_slot.pop(cascade.slot, None)
        self._release(ended)

    def _release(self, ended: list[int]) -> None:
        """Frees the slots of closed cascades and of those that were joined to them."""
        if not ended:
            return
        used = np.flatnonzero(self.slots[:, layout.S_PARENT] >= 0)
        gone = used[np.isin(living(self.slots, used), ended)][::-1]
        self.slots[gone] = 0
        self.slots[gone, layout.S_PARENT] = -1
        for state, column in (
            (self.queues, layout.Q_SLOT), (self.queues, layout.Q_ROOT_OWNER), (self.devices, layout.D_ROOT_OWNER),
            (self.devices, layout.D_UNKNOWN_OWNER),
        ):  # fmt: skip
            state[np.isin(state[:, column], gone), column] = -1
        self.free_slots += gone.tolist()

    def _closed(self, slot: int, still_open: bool, end_ns: int) -> Closed:
        start_ns = int(self.slots[slot, layout.S_FIRST_NS])
        # A stream may go down, by its clock, before its last pause began.
        end_ns = max(start_ns, end_ns)
        return Closed(slot, self.cascade_id(slot), start_ns, end_ns, self.ledgers.open(slot), still_open)


_STATE_ARRAYS = ("queues", "roots", "shares", "devices", "ports", "slots", "_rows", "_row_flows", "_groups")
