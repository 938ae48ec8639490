"""A fabric that runs: the arrays that the kernel works on, and plain functions in front of it.

In: `Wires`, flows with their ways, `Settings`. Out: `Fabric`, to be run from tick to tick, and what it logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulation.fabric import layout as at
from simulation.fabric.kernel import advance
from simulation.fabric.settings import Settings
from simulation.fabric.wires import Ints, Wires

FIRST_SLABS = 4096
FIRST_ROWS = 4096
BYTES_OF_ACK = 60


@dataclass(frozen=True, slots=True, eq=False)
class FlowTable:
    """Flows by row: links of the way (flows, hops), -1 behind its end; wire bytes; place among the priorities."""

    paths: Ints
    wire_bytes: Ints
    priority: Ints
    ack_paths: Ints | None = None
    """The ways of the acknowledgements, needed where there are some."""


class Counts(NamedTuple):
    """Totals since the start, by queue, but for `peak_bytes`: the greatest depth since the last call."""

    tx_bytes: Ints
    rx_bytes: Ints
    peak_bytes: Ints
    tx_marked: Ints
    rx_marked: Ints
    rx_xoffs: Ints
    tx_xoffs: Ints
    paused_ticks: Ints
    lost_packets: Ints


class Fabric:
    """The state of a run. `now` is its tick; a queue is `link * priorities + priority`."""

    def __init__(self, wires: Wires, flows: FlowTable, settings: Settings) -> None:
        if settings.acks and flows.ack_paths is None:
            raise ValueError("acknowledgements need ways of their own")
        self.wires, self.settings = wires, settings
        self.priorities = len(settings.priorities)
        links = len(wires.source)
        self.queues = links * self.priorities
        self.flow_count = len(flows.wire_bytes)
        self.state = np.zeros(at.STATE_SIZE, np.int64)
        self.out = np.zeros((self.queues, 16), np.int64)
        self.into = np.zeros((self.queues, 16), np.int64)
        self.rare = np.zeros((self.queues, 8), np.int64)
        self.node = np.zeros((wires.node_count, 8), np.int64)
        self._lay_links()
        self._lay_nodes()
        self._lay_flows(flows)
        self._lay_rings()
        self._lay_state()
        self._grow_slabs(FIRST_SLABS + 2 * int(self.state[at.SLABS_MARGIN]))
        self.starts = np.zeros((0, 2), np.int64)
        self._log: list[Ints] = []
        self._contents: list[Ints] = []

    @property
    def now(self) -> int:
        """The tick that is next."""
        return int(self.state[at.NOW])

    @property
    def waiting(self) -> int:
        """Flows that are waited for and not done."""
        return int(self.state[at.WAITING])

    def per_tick(self, mbps: int) -> int:
        """A rate in thousandths of a byte a tick."""
        return mbps * self.settings.tick_ns // 8

    def queue_of(self, link: int, priority: int = 0) -> int:
        """The queue of a link and a place among the priorities."""
        return link * self.priorities + priority

    def _lay_links(self) -> None:
        wires, settings, count = self.wires, self.settings, self.priorities
        self.delay = np.maximum(np.rint(wires.delay_ns / settings.tick_ns).astype(np.int64), 1)
        out, into = self.out, self.into
        out[:, at.OUT_HEAD] = out[:, at.OUT_TAIL] = -1
        out[:, at.OUT_RATE] = np.repeat(wires.speed_mbps * settings.tick_ns // 8, count)
        out[:, at.OUT_NODE] = np.repeat(wires.source, count)
        is_source = np.zeros(len(wires.source), np.int64)
        is_source[wires.from_host] = 1
        out[:, at.OUT_IS_SOURCE] = np.repeat(is_source, count)
        # A NIC marks nothing, and a host's own queue is no queue of the fabric.
        marks = (wires.source < len(wires.topology.devices)) & (is_source == 0)
        if settings.dcqcn:
            for column, depth in ((at.OUT_KMIN, settings.kmin_bytes), (at.OUT_KMAX, settings.kmax_bytes)):
                scaled = depth * wires.speed_mbps // 100_000
                out[:, column] = np.repeat(np.where(marks, scaled, 0), count)
        into[:, at.IN_NODE] = np.repeat(wires.target, count)
        into[:, at.IN_DELAY] = np.repeat(self.delay, count)
        into[:, at.IN_IS_SINK] = np.repeat(np.isin(wires.target, wires.hosts), count)
        faster = np.floor(np.log2(np.maximum(wires.speed_mbps / settings.line_mbps, 1))).astype(np.int64)
        into[:, at.IN_SHIFT] = np.repeat(np.maximum(3 - faster, 0), count)
        headroom = 3 * wires.speed_mbps * wires.delay_ns // 8000
        overrun = wires.speed_mbps * settings.tick_ns * (2 * self.delay + 3) // 8000 + 4 * settings.packet_bytes
        into[:, at.IN_LIMIT] = np.repeat(np.maximum(headroom, overrun), count)
        self._headroom = headroom

    def _lay_nodes(self) -> None:
        wires, node, count = self.wires, self.node, self.priorities
        self.egresses = np.argsort(wires.source, kind="stable")
        degree = np.bincount(wires.source, minlength=wires.node_count)
        ingresses = np.bincount(wires.target, minlength=wires.node_count)
        node[:, at.NODE_EGRESSES] = degree
        node[:, at.NODE_OFFSET] = np.cumsum(degree) - degree
        cells = degree * ingresses * count
        cells[wires.hosts] = 0
        node[:, at.NODE_MATRIX] = np.cumsum(cells) - cells
        self.held = np.zeros(max(int(cells.sum()), 1), np.int32)
        self.edges = np.zeros(len(self.held), np.int64)
        place = np.empty(len(wires.source), np.int64)
        place[self.egresses] = np.arange(len(place)) - node[wires.source[self.egresses], at.NODE_OFFSET]
        self.out[:, at.OUT_PLACE] = np.repeat(place, count)
        order = np.argsort(wires.target, kind="stable")
        first = np.cumsum(ingresses) - ingresses
        place[order] = np.arange(len(place)) - first[wires.target[order]]
        self.into[:, at.IN_PLACE] = np.repeat(place, count) * count + np.tile(np.arange(count), len(place))
        buffers = np.full(wires.node_count, self.settings.buffer_bytes, np.int64)
        buffers[len(wires.topology.devices) :] = self.settings.nic_buffer_bytes
        kept = np.bincount(wires.target, self._headroom + at.RESERVE_BYTES, wires.node_count).astype(np.int64)
        node[:, at.NODE_POOL] = buffers - kept * count
        is_buffer = np.ones(wires.node_count, np.bool_)
        is_buffer[wires.hosts] = False
        if (node[is_buffer, at.NODE_POOL] <= 0).any():
            raise ValueError("a buffer is smaller than the headroom of its ports")
        self.active = np.zeros(len(wires.source), np.int64)
        self.busy = np.zeros(wires.node_count, np.int64)
        node[:, at.NODE_STAMP] = -1

    def _lay_flows(self, flows: FlowTable) -> None:
        settings, own = self.settings, self.flow_count
        rows = own * (2 if settings.acks else 1)
        self.path = np.full((rows, at.MAX_HOPS), -1, np.int32)
        self.flow = np.zeros((rows, 32), np.int64)
        self.pace = np.zeros((rows, 4), np.float64)
        ways = [flows.paths] if flows.ack_paths is None or not settings.acks else [flows.paths, flows.ack_paths]
        for part, way in enumerate(ways):
            queues = np.where(way >= 0, way * self.priorities + flows.priority[:, None], -1)
            self.path[part * own : (part + 1) * own, : way.shape[1]] = queues
        flow = self.flow
        flow[:own, at.FLOW_TOTAL] = flows.wire_bytes
        flow[:, at.FLOW_PACKET] = settings.packet_bytes
        flow[own:, at.FLOW_PACKET] = BYTES_OF_ACK
        flow[:, at.FLOW_QUEUE] = self.path[:, 0]
        flow[:, at.FLOW_GATE] = flow[:, at.FLOW_GATED] = flow[:, at.FLOW_DONE] = -1
        ticks = np.where(flows.paths >= 0, self.delay[flows.paths], 0).sum(axis=1)
        flow[:own, at.FLOW_BASE_NS] = ticks * settings.tick_ns
        self.pace[:, at.PACE_RATE] = self.per_tick(settings.line_mbps)
        self.first_links = flows.paths[:, 0]
        counts = np.bincount(self.path[:own, 0], minlength=self.queues)
        self.rare[:, at.RARE_FLOW_OFFSET] = np.cumsum(counts) - counts
        self.senders = np.zeros(max(own, 1), np.int64)

    def _lay_rings(self) -> None:
        slots = int(self.delay.max()) + 2
        nodes = self.wires.node_count
        self.arriving = np.full((slots, nodes, 2), -1, np.int32)
        self.at_node = np.zeros((slots, nodes + 1), np.int32)
        # A queue can stop, go on and repeat in one tick.
        self.frames = np.zeros((slots, 3 * self.queues + 1), np.int32)
        self.wheel = np.full(at.WHEEL, -1, np.int64)
        self.timer = np.zeros((3 * self.queues, 2), np.int64)

    def _lay_state(self) -> None:
        settings, state = self.settings, self.state
        state[at.RANDOM] = (settings.seed * 2_654_435_761 + 12_345) % 2_147_483_646 + 1
        state[at.TICK_NS] = settings.tick_ns
        state[at.PRIORITIES] = self.priorities
        state[at.ACK_OFFSET] = self.flow_count if settings.acks else 0
        # What runs out within a tick has one.
        state[at.QUANTA] = -(-settings.pause_quanta * 512 * 1000 // (settings.line_mbps * settings.tick_ns))
        state[at.HAS_DCQCN] = settings.dcqcn
        state[at.MARK_PPM] = round(settings.mark_ratio * 1e6)
        state[at.LINE_RATE] = self.per_tick(settings.line_mbps)
        state[at.ACK_BYTES] = BYTES_OF_ACK
        state[at.HAS_PARTS] = settings.contents
        state[at.PACKET_CREDIT] = settings.packet_bytes * 1000
        least = BYTES_OF_ACK if settings.acks else settings.packet_bytes
        packets = self.out[:: self.priorities, at.OUT_RATE] // (least * 1000) + 3 + self.priorities
        state[at.SLABS_MARGIN] = 2 * min(int(packets.sum()), 40 * len(packets))
        state[at.PAUSE_MARGIN] = 3 * self.queues
        state[at.FREE_SLAB] = -1
        self.slab = np.zeros((0, 8), np.int32)
        self.pauses = np.zeros((FIRST_ROWS + 3 * self.queues, 3), np.int64)
        self.parts = np.zeros((FIRST_ROWS + len(self.edges), 4), np.int64)

    def _grow_slabs(self, count: int) -> None:
        first = len(self.slab)
        new = np.zeros((count, 8), np.int32)
        new[:, at.SLAB_NEXT] = np.arange(first + 1, first + count + 1)
        new[-1, at.SLAB_NEXT] = self.state[at.FREE_SLAB]
        self.slab = np.concatenate((self.slab, new))
        self.state[at.FREE_SLAB] = first
        self.state[at.FREE_SLABS] += count

    def set_rate(self, link: int, mbps: int) -> None:
        """Changes the rate of a link; buffers and thresholds stay as configured, as they do in a switch."""
        first = self.queue_of(link)
        self.out[first : first + self.priorities, at.OUT_RATE] = self.per_tick(mbps)

    def set_errors(self, link: int, ratio: float) -> None:
        """Has a part of the link's packets lost."""
        first = self.queue_of(link)
        self.into[first : first + self.priorities, at.IN_ERROR_PPM] = round(ratio * 1e6)

    def set_paths(self, flows: Ints, paths: Ints) -> None:
        """Has flows that are not under way take other ways from the same sources."""
        priority = self.flow[flows, at.FLOW_QUEUE] % self.priorities
        width = paths.shape[1]
        self.path[flows] = -1
        self.path[flows, :width] = np.where(paths >= 0, paths * self.priorities + priority[:, None], -1)

    def start(self, flows: Ints, ticks: Ints, *, waited: bool = True) -> None:
        """Has flows begin, or begin again, at ticks that are not over; `run` waits for those that are `waited` for."""
        columns = {at.FLOW_SENT: 0, at.FLOW_DELIVERED: 0, at.FLOW_DONE: -1, at.FLOW_IS_WAITED: int(waited)}
        for column, value in columns.items():
            self.flow[flows, column] = value
        self.flow[flows, at.FLOW_LEFT] = self.flow[flows, at.FLOW_TOTAL]
        self.flow[flows, at.FLOW_START] = ticks
        self.state[at.WAITING] += len(flows) if waited else 0
        pending = self.starts[self.state[at.NEXT_START] :]
        starts = np.concatenate((pending, np.stack((ticks, flows), axis=1)))
        self.starts = np.ascontiguousarray(starts[np.argsort(starts[:, 0], kind="stable")])
        self.state[at.NEXT_START], self.state[at.STARTS] = 0, len(self.starts)

    def run(self, until: int) -> bool:
        """Runs to a tick, or until all flows that are waited for are done; gives whether they were."""
        while True:
            why = advance(
                until, self.out, self.into, self.rare, self.node, self.slab, self.flow, self.pace, self.path,
                self.held, self.edges, self.egresses, self.active, self.senders, self.busy, self.frames, self.arriving,
                self.at_node, self.wheel, self.timer, self.starts, self.pauses, self.parts, self.state,
            )  # fmt: skip
            if why == at.NO_SLABS:
                self._grow_slabs(max(len(self.slab), int(self.state[at.SLABS_MARGIN])))
            elif why == at.LOG_FULL:
                self._empty_logs()
            else:
                return bool(why == at.ALL_DONE)

    def _empty_logs(self) -> None:
        for log, parts, rows in ((self._log, self.pauses, at.PAUSES), (self._contents, self.parts, at.PARTS)):
            log.append(parts[: self.state[rows]].copy())
            self.state[rows] = 0

    def pause_log(self) -> Ints:
        """All pauses so far as the stopped side saw them: tick, queue, 1 at its begin and 0 at its end."""
        self._empty_logs()
        self._log = [np.concatenate(self._log)]
        return self._log[0]

    def contents_log(self) -> Ints:
        """What was in the buffer at each XOFF: tick of the decision, queue stopped, egress queue, bytes."""
        self._empty_logs()
        self._contents = [np.concatenate(self._contents)]
        return self._contents[0]

    def counts(self) -> Counts:
        """The counters of all queues at this moment; peaks are reset."""
        paused = self.out[:, at.OUT_PAUSED] > 0
        ticks = self.into[:, at.IN_PAUSED_TICKS] + np.where(paused, self.now - self.into[:, at.IN_PAUSED_SINCE], 0)
        peak = self.out[:, at.OUT_PEAK].copy()
        self.out[:, at.OUT_PEAK] = self.out[:, at.OUT_BYTES]
        return Counts(
            tx_bytes=self.out[:, at.OUT_TX_BYTES].copy(),
            rx_bytes=self.into[:, at.IN_RX_BYTES].copy(),
            peak_bytes=peak,
            tx_marked=self.into[:, at.IN_TX_MARKED].copy(),
            rx_marked=self.rare[:, at.RARE_RX_MARKED].copy(),
            rx_xoffs=self.rare[:, at.RARE_RX_XOFFS].copy(),
            tx_xoffs=self.into[:, at.IN_XOFFS].copy(),
            paused_ticks=ticks,
            lost_packets=self.rare[:, at.RARE_LOST_PACKETS].copy(),
        )

    def in_flight_bytes(self) -> int:
        """Bytes of data that are on links now."""
        total = 0
        for s in self.arriving[:, :, 0].ravel().tolist():
            while s >= 0:
                is_data = not self.settings.acks or self.slab[s, at.SLAB_FLOW] < self.flow_count
                total += int(self.slab[s, at.SLAB_BYTES]) if is_data else 0
                s = int(self.slab[s, at.SLAB_NEXT])
        return total

    def queued_bytes(self) -> int:
        """Bytes of data that lie in egress queues now."""
        total = 0
        for s in self.out[:, at.OUT_HEAD].tolist():
            while s >= 0:
                is_data = not self.settings.acks or self.slab[s, at.SLAB_FLOW] < self.flow_count
                total += int(self.slab[s, at.SLAB_BYTES]) if is_data else 0
                s = int(self.slab[s, at.SLAB_NEXT])
        return total
