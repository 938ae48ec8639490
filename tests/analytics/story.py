"""A short story of a fabric, told as rows: who was stopped when, what queues and PCIe links were like; and its end.

Each device's rows of a topic are one stream of one source; facts come from an inventory. Times count from BEGIN_NS.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream import kinds
from stream.batch import Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.facts import TOPIC_OF_FACT, Device, FactStream, Flow, Hop, Link
from stream.file_runner import run_steps
from stream.messages import Item
from stream.record import Events, empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.reference.pauses import Queue
from tests.reference.topology import Fabric

BEGIN_NS = 1_000_000_000
DELAY_NS = 1_000
SPEED_MBPS = 100_000
FACT_TOPICS = ("device", "link", "flow")


def event(kind: int, time_ns: int, **fields: Any) -> Events:
    """One row; `port` is an index."""
    row = empty_events(1)
    row["kind"], row["time_ns"], row["priority"] = kind, time_ns, 3
    for name, value in fields.items():
        row[name] = value
    return row


@dataclass
class Story:
    """What happened; `finals()` tells what the steps make of it."""

    fabric: Fabric
    speeds_mbps: dict[frozenset[tuple[str, str]], int] = field(default_factory=dict)
    rows: defaultdict[tuple[str, str], list[tuple[str, Events]]] = field(default_factory=lambda: defaultdict(list))
    flows: list[Flow] = field(default_factory=list)
    silent: set[tuple[str, str]] = field(default_factory=set)
    """Streams (topic, device) that nobody publishes."""
    period_ns: int = 100_000
    end_ns: int = BEGIN_NS

    def row(self, topic: str, device: str, port: str, kind: int, after_ns: int, **fields: Any) -> None:
        """Any row, at a time after the beginning."""
        self.end_ns = max(self.end_ns, BEGIN_NS + after_ns)
        self.rows[topic, device].append((port, event(kind, BEGIN_NS + after_ns, **fields)))

    def pause(self, queue: Queue, from_ns: int, to_ns: int) -> None:
        """A pause as the stopped device and its pauser see it."""
        device, port, priority = queue
        pauser = self.fabric.links[device, port]
        for after_ns, kind in ((from_ns, kinds.PFC_XOFF), (to_ns, kinds.PFC_XON)):
            self.row("pfc", device, port, kind, after_ns, side=kinds.SIDE_RX, priority=priority)
            self.row("pfc", *pauser, kind, after_ns - DELAY_NS, side=kinds.SIDE_TX, priority=priority)

    def depth(self, queue: Queue, from_ns: int, to_ns: int, peak_bytes: int) -> None:
        """High-water marks of an egress queue in every period between two times."""
        self._windows("queue", queue, kinds.QUEUE_DEPTH, from_ns, to_ns, peak_bytes)

    def sent(self, queue: Queue, from_ns: int, to_ns: int, rate_mbps: int) -> None:
        """Bytes that left by a port in every period between two times."""
        self._windows("queue", queue, kinds.PORT_BYTES, from_ns, to_ns, rate_mbps * self.period_ns // 8_000)

    def marked(self, queue: Queue, from_ns: int, to_ns: int) -> None:
        """ECN marks at an egress queue in every period between two times."""
        self._windows("ecn", queue, kinds.ECN_MARKED, from_ns, to_ns, 10)

    def flow_sent(self, queue: Queue, from_ns: int, to_ns: int, flow: int, sent_bytes: int) -> None:
        """Bytes of a flow that left by a port in every period between two times."""
        self._windows("flowbytes", queue, kinds.FLOW_BYTES, from_ns, to_ns, sent_bytes, flow=flow)

    def pcie(self, host: str, lanes: int, most: int, after_ns: int = 0) -> None:
        """The width of a host's PCIe link from a time on."""
        self.row("pcie", host, "0000:01:00.0", kinds.PCIE_WIDTH, after_ns, value=lanes, extra=most)

    def flow(self, number: int, src: str, dst: str, size_bytes: int = 0, path: tuple[Hop, ...] = ()) -> None:
        """A flow that is known from the beginning."""
        self.flows.append(
            Flow("lab", f"{number:016x}", src, dst, "", "", 17, 1, 2, BEGIN_NS, self._fact_stream(len(self.flows)),
                 size_bytes=size_bytes, name=f"{src} to {dst}", path=path)
        )  # fmt: skip

    def _windows(
        self, topic: str, queue: Queue, kind: int, from_ns: int, to_ns: int, value: int, **fields: Any
    ) -> None:
        device, port, priority = queue
        for start_ns in range(from_ns, to_ns, self.period_ns):
            self.row(topic, device, port, kind, start_ns + self.period_ns, span_ns=self.period_ns, value=value,
                     side=kinds.SIDE_TX, priority=priority, **fields)  # fmt: skip

    def facts(self) -> list[Device | Link | Flow]:
        """Devices, links with their speeds, and flows."""
        devices = sorted({device for device, _ in self.fabric.links})
        told: list[Device | Link | Flow] = [
            Device("lab", name, "host" if name in self.fabric.hosts else "switch", BEGIN_NS, self._fact_stream(number))
            for number, name in enumerate(devices)
        ]
        links = [(one, other) for one, other in sorted(self.fabric.links.items()) if one < other]
        told += [
            Link("lab", *one, *other, self.speeds_mbps.get(frozenset((one, other)), SPEED_MBPS), BEGIN_NS,
                 self._fact_stream(number), DELAY_NS)
            for number, (one, other) in enumerate(links)
        ]  # fmt: skip
        return [*told, *self.flows]

    def values(self) -> list[Batch]:
        """The rows of each stream in one value, which is not its last."""
        return [self.value(topic, device) for topic, device in sorted(self.streams())]

    def streams(self) -> set[tuple[str, str]]:
        """The streams (topic, device) that are published: of pauses, one of every device."""
        watched = {("pfc", device) for device, _ in self.fabric.links} | set(self.rows)
        return watched - self.silent

    def value(self, topic: str, device: str) -> Batch:
        """All rows of one stream."""
        told = sorted(self.rows[topic, device], key=lambda row: int(row[1]["time_ns"][0]))
        ports = tuple(sorted({port for port, _ in told}))
        events = np.concatenate([empty_events(0), *(row for _, row in told)])
        events["port"] = [ports.index(port) for port, _ in told]
        mark_ns = int(events["time_ns"][-1]) if len(events) else BEGIN_NS
        return Batch(StreamKey("lab", "probe", "e1", topic, device), 0, mark_ns, ports, events)

    def ups(self) -> list[SourceUp]:
        """The roster's beginning."""
        periods = {"pfc": 0, "pcie": 0}
        told = tuple(
            StreamUp(topic, device, periods.get(topic, self.period_ns)) for topic, device in sorted(self.streams())
        )
        return [
            SourceUp("lab", "inventory", "e1", BEGIN_NS, tuple(map(StreamUp, FACT_TOPICS))),
            SourceUp("lab", "probe", "e1", BEGIN_NS, told),
        ]

    def downs(self) -> list[SourceDown]:
        """The roster's end."""
        counts: defaultdict[str, int] = defaultdict(int)
        for fact in self.facts():
            counts[TOPIC_OF_FACT[type(fact)]] += 1
        last = tuple(
            StreamDown(topic, device, len(self.rows[topic, device]) - 1) for topic, device in sorted(self.streams())
        )
        facts = tuple(StreamDown(topic, "", counts[topic] - 1) for topic in FACT_TOPICS)
        return [
            SourceDown("lab", "inventory", "e1", self.end_ns, facts),
            SourceDown("lab", "probe", "e1", self.end_ns, last),
        ]

    def items(self) -> list[Item]:
        """Everything in a plain order."""
        return [*self.ups(), *self.facts(), *self.values(), *self.downs()]

    def finals(self) -> list[Cascade]:
        """The final cascades by their beginning."""
        return finals(self.items())

    def only(self) -> Cascade:
        """The one final cascade."""
        (cascade,) = self.finals()
        return cascade

    @staticmethod
    def _fact_stream(seq: int) -> FactStream:
        return FactStream("inventory", "e1", seq, BEGIN_NS)


def finals(items: Sequence[Item]) -> list[Cascade]:
    """The final cascades of items by their beginning."""
    made = run_steps(items, [Detect()], Correlate())
    found = [item for item in made if isinstance(item, Cascade)]
    assert all(cascade.revision == FINAL for cascade in found)
    return sorted(found, key=lambda cascade: cascade.start_ns)
