"""A fabric's messages for benchmarks: 16 leaves and 16 spines of 128 ports, polled ten times a second.

Numbers are drawn so that they compress no better than a network's: bytes are log-normal, ports are read one after
another at uneven times, every second one host is slow and stops the ports that lead to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from stream import kinds, wire
from stream.batch import Batch, StreamKey
from stream.capture_manifest import PartitionPlan, Range
from stream.capture_message import NS_PER_MS, Captured
from stream.facts import Device, Fact, FactStream, Flow, Link, Port
from stream.messages import Item, encode
from stream.offset_gaps import PartitionId
from stream.partitioner import partition_of
from stream.record import Events, empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from stream.topics import BY_NAME

LEAVES = SPINES = 16
PORTS = 128
UPLINKS = PORTS // 2
FLOWS = 256
TICK_NS = 100_000_000
PAUSED_NS = 3_600_000
"""All pauses of a tick are over so long after it began."""
START_NS = 1_796_000_000_000_000_000
FABRIC, SOURCE, EPOCH = "dc-1", "gnmi", "boot-7"
TOPICS = ("queue", "flowbytes", "ecn", "pfc")
PRIORITY = 3

DEVICES = tuple(f"{role}-{number:02d}.dc1.example" for role in ("leaf", "spine") for number in range(16))
PORT_NAMES = tuple(f"Ethernet{number * 4}" for number in range(PORTS))
EVENTS_PER_TICK = 23_600
"""Roughly."""


class FabricSource:
    """Messages of about so many events, as `stream.capture` reads them; `spent_s` is the CPU time of making them."""

    cluster_id = "generated"
    embedded = True

    def __init__(self, events: int, seed: int = 1) -> None:
        self.ticks = max(1, round(events / EVENTS_PER_TICK))
        self.spent_s = 0.0
        self._rng = np.random.default_rng(seed)
        self._flows = self._rng.integers(1, 1 << 63, (len(DEVICES), FLOWS), np.uint64)
        self._flow_ports = self._rng.integers(0, PORTS, (len(DEVICES), FLOWS))
        self._last_read = np.full((len(DEVICES), PORTS), START_NS)
        self._seq = dict.fromkeys(((topic, device) for topic in TOPICS for device in DEVICES), 0)
        self._facts: dict[str, tuple[Fact, ...]] = {
            "device": tuple(_devices()), "link": tuple(_links()), "flow": tuple(self._flow_facts()),
        }  # fmt: skip
        self._offsets: dict[PartitionId, int] = {}

    def plan(self, topics: Sequence[str], _wanted: Range) -> tuple[PartitionPlan, ...]:
        """One message a device, topic and tick; the roster and the facts."""
        counts = dict.fromkeys(
            (PartitionId(topic, number) for topic in topics for number in range(BY_NAME[topic].partitions)), 0
        )
        for topic in TOPICS:
            for device in DEVICES:
                counts[_partition(topic, _key(device))] += self.ticks
        counts[PartitionId("control", 0)] = 3
        for topic, facts in self._facts.items():
            counts[PartitionId(topic, 0)] = len(facts)
        return tuple(PartitionPlan(*partition, 0, count) for partition, count in counts.items())

    def first_offsets(self, partitions: Sequence[PartitionId]) -> dict[PartitionId, int]:
        """All are there."""
        return dict.fromkeys(partitions, 0)

    def read(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        """Everything in the order of time."""
        context = [self._message(item, START_NS) for item in self._context()]
        yield [*context]
        for tick in range(self.ticks):
            begun_s = time.process_time()
            messages = self._tick(START_NS + tick * TICK_NS)
            self.spent_s += time.process_time() - begun_s
            yield [*messages]
        end_ns = START_NS + self.ticks * TICK_NS
        down = tuple(StreamDown(topic, device, seq - 1) for (topic, device), seq in self._seq.items())
        yield [self._message(SourceDown(FABRIC, SOURCE, EPOCH, end_ns, down), end_ns)]
        yield [plan.id for plan in partitions]

    def _context(self) -> list[Item]:
        rows = [StreamUp(topic, device, 0 if topic == "pfc" else TICK_NS * 2) for topic in TOPICS for device in DEVICES]
        up = SourceUp(FABRIC, SOURCE, EPOCH, START_NS, (*map(StreamUp, self._facts), *rows))
        ends = tuple(StreamDown(topic, "", len(facts) - 1) for topic, facts in self._facts.items())
        down = SourceDown(FABRIC, SOURCE, EPOCH, START_NS, ends)
        return [up, *(fact for facts in self._facts.values() for fact in facts), down]

    def _flow_facts(self) -> Iterator[Flow]:
        stream = FactStream(SOURCE, EPOCH, 0, START_NS)
        for number, flow in enumerate(self._flows.ravel().tolist()):
            source, destination = (_host(int(host)) for host in self._rng.integers(0, LEAVES * UPLINKS, 2))
            own = msgspec.structs.replace(stream, seq=number)
            yield Flow(FABRIC, f"{flow:016x}", source, destination, "", "", 17, 49_152, 4791, START_NS, own)

    def _message(self, item: Item, time_ns: int) -> Captured:
        topic, key, value = encode(item)
        return self._stamped(topic, key, value, time_ns)

    def _stamped(self, topic: str, key: bytes, value: bytes, time_ns: int) -> Captured:
        partition = _partition(topic, key)
        offset = self._offsets.get(partition, 0)
        self._offsets[partition] = offset + 1
        return Captured(*partition, offset, time_ns // NS_PER_MS, "create", key, (), value)

    def _tick(self, start_ns: int) -> list[Captured]:
        # Behind the pauses of this tick, so that the counters have them.
        read_ns = start_ns + PAUSED_NS + np.cumsum(self._rng.integers(5_000, 40_000, (len(DEVICES), PORTS)), axis=1)
        span_ns = read_ns - self._last_read
        self._last_read = read_ns
        slow = int(self._rng.integers(0, LEAVES * UPLINKS)) if start_ns // TICK_NS % 10 == 0 else None
        made = {
            "queue": self._queues(read_ns, span_ns),
            "flowbytes": self._flow_bytes(read_ns, span_ns),
            "ecn": self._marks(read_ns, span_ns),
            "pfc": self._pauses(read_ns, span_ns, start_ns, slow),
        }
        messages = []
        for topic, rows_of_devices in made.items():
            for device, rows in zip(DEVICES, rows_of_devices, strict=True):
                seen_ns = start_ns + int(self._rng.integers(10_000_000, 16_000_000))
                rows["seen_ns"] = seen_ns
                seq = self._seq[topic, device]
                self._seq[topic, device] = seq + len(rows)
                stream = StreamKey(FABRIC, SOURCE, EPOCH, topic, device)
                # Nothing older than this poll follows; the next one begins a tick later.
                batch = Batch(stream, seq, start_ns + TICK_NS, PORT_NAMES, rows)
                messages.append(self._stamped(topic, batch.key, wire.assemble(batch), seen_ns + 2_000_000))
        return messages

    def _queues(self, read_ns: np.ndarray, span_ns: np.ndarray) -> list[Events]:
        shape = (len(DEVICES), PORTS)
        rows = empty_events(3 * len(DEVICES) * PORTS).reshape(len(DEVICES), PORTS, 3)
        rows["time_ns"], rows["span_ns"] = read_ns[:, :, None], span_ns[:, :, None]
        rows["port"] = np.arange(PORTS)[None, :, None]
        rows["kind"] = [kinds.PORT_BYTES, kinds.PORT_BYTES, kinds.QUEUE_DEPTH]
        rows["side"] = [kinds.SIDE_TX, kinds.SIDE_RX, kinds.SIDE_TX]
        rows["value"][:, :, :2] = self._rng.lognormal(19, 1.5, (*shape, 2))
        rows["extra"][:, :, :2] = rows["value"][:, :, :2] // self._rng.integers(900, 4200, (*shape, 2))
        rows["priority"][:, :, 2] = PRIORITY
        rows["value"][:, :, 2] = self._rng.lognormal(10, 2, shape) // 256 * 256
        rows["extra"][:, :, 2] = kinds.UNKNOWN
        return [each.ravel()[each["value"].ravel() > 0] for each in rows]

    def _flow_bytes(self, read_ns: np.ndarray, span_ns: np.ndarray) -> list[Events]:
        rows = empty_events(len(DEVICES) * FLOWS).reshape(len(DEVICES), FLOWS)
        rows["time_ns"] = np.take_along_axis(read_ns, self._flow_ports, 1)
        rows["span_ns"] = np.take_along_axis(span_ns, self._flow_ports, 1)
        rows["kind"], rows["side"], rows["priority"] = kinds.FLOW_BYTES, kinds.SIDE_TX, PRIORITY
        rows["flow"], rows["port"] = self._flows, self._flow_ports
        rows["value"] = self._rng.lognormal(16, 1.5, rows.shape)
        rows["extra"] = rows["value"] // self._rng.integers(900, 4200, rows.shape)
        return [each[np.argsort(each["time_ns"], kind="stable")] for each in rows]

    def _marks(self, read_ns: np.ndarray, span_ns: np.ndarray) -> list[Events]:
        rows = empty_events(len(DEVICES) * PORTS).reshape(len(DEVICES), PORTS)
        rows["time_ns"], rows["span_ns"], rows["port"] = read_ns, span_ns, np.arange(PORTS)
        rows["kind"], rows["side"], rows["priority"] = kinds.ECN_MARKED, kinds.SIDE_TX, PRIORITY
        rows["extra"] = self._rng.lognormal(12, 1.5, rows.shape)
        rows["value"] = rows["extra"] * self._rng.random(rows.shape) ** 8
        return [each[each["value"] > 0] for each in rows]

    def _pauses(self, read_ns: np.ndarray, span_ns: np.ndarray, start_ns: int, slow: int | None) -> list[Events]:
        """Exact frames around the slow host, and what counters tell of them."""
        exact: list[list[Events]] = [[] for _ in DEVICES]
        if slow is not None:
            leaf, host_port = divmod(slow, UPLINKS)
            # The host stops the leaf; the leaf stops the spines that send to it.
            exact[leaf].append(self._frames(start_ns, UPLINKS + host_port, kinds.SIDE_RX))
            for spine in range(SPINES):
                uplink = spine * (UPLINKS // SPINES)
                frames = self._frames(start_ns + 20_000, uplink, kinds.SIDE_TX)
                exact[leaf].append(frames)
                there = frames.copy()
                there["side"], there["port"] = kinds.SIDE_RX, leaf * (PORTS // LEAVES)
                there["time_ns"] += 1_000
                exact[LEAVES + spine].append(there)
        parts = []
        for device in range(len(DEVICES)):
            rows = np.concatenate([empty_events(0), *exact[device]])
            rows = np.concatenate([rows, self._counters(rows, read_ns[device], span_ns[device])])
            parts.append(rows[np.argsort(rows["time_ns"], kind="stable")])
        return parts

    def _counters(self, frames: Events, read_ns: np.ndarray, span_ns: np.ndarray) -> Events:
        """What a poll counts of these frames: those of ports that had none are not told."""
        sent = frames[frames["kind"] == kinds.PFC_XOFF]
        places, counts = np.unique(sent["port"] * 2 + sent["side"], return_counts=True)
        ports = places // 2
        rows = empty_events(len(ports))
        rows["time_ns"], rows["span_ns"], rows["port"] = read_ns[ports], span_ns[ports], ports
        rows["kind"], rows["side"], rows["priority"] = kinds.PFC_FRAMES, places % 2, PRIORITY
        rows["value"], rows["extra"] = counts, kinds.UNKNOWN
        return rows

    def _frames(self, start_ns: int, port: int, side: int) -> Events:
        pauses = 24
        rows = empty_events(2 * pauses)
        begin_ns = start_ns + np.sort(self._rng.integers(0, 2_000_000, pauses)) + np.arange(pauses) * 60_000
        rows["time_ns"][0::2] = begin_ns
        rows["time_ns"][1::2] = begin_ns + self._rng.integers(2_000, 50_000, pauses)
        rows["kind"][0::2], rows["kind"][1::2] = kinds.PFC_XOFF, kinds.PFC_XON
        rows["value"][0::2] = 65_535
        rows["port"], rows["side"], rows["priority"], rows["quality"] = port, side, PRIORITY, kinds.EXACT
        return rows


def _devices() -> Iterator[Device]:
    ports = tuple(Port(name, 100_000) for name in PORT_NAMES)
    for number, name in enumerate(DEVICES):
        yield Device(FABRIC, name, "switch", START_NS, FactStream(SOURCE, EPOCH, number, START_NS), ports)


def _host(number: int) -> str:
    leaf, port = divmod(number, UPLINKS)
    return f"host-{leaf:02d}-{port:02d}"


def _links() -> Iterator[Link]:
    stream = FactStream(SOURCE, EPOCH, 0, START_NS)
    per_pair, number = UPLINKS // SPINES, 0
    for leaf in range(LEAVES):
        for port in range(PORTS):
            if port < UPLINKS:
                spine = port // per_pair
                far = (DEVICES[LEAVES + spine], PORT_NAMES[leaf * (PORTS // LEAVES) + port % per_pair])
            else:
                far = (_host(leaf * UPLINKS + port - UPLINKS), "eth0")
            own = msgspec.structs.replace(stream, seq=number)
            yield Link(FABRIC, DEVICES[leaf], PORT_NAMES[port], *far, 100_000, START_NS, own)
            number += 1


def _key(device: str) -> bytes:
    return f"{FABRIC}/{device}".encode()


def _partition(topic: str, key: bytes) -> PartitionId:
    return PartitionId(topic, partition_of(key, BY_NAME[topic].partitions))
