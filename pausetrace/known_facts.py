"""What is known of fabrics by their facts: from Kafka, a trace folder, a capture or a topology file.

In: a place, and a time that the facts have to hold at. Out: by fabric, its device and link facts, and other names of
devices that somebody uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pausetrace.reader import Reader
from pausetrace.topology_file import read_topology
from simulation.trace import read_trace
from simulation.trace_facts import trace_facts
from simulation.trace_table import find_table
from stream.capture_manifest import looks_like_capture
from stream.errors import WireError
from stream.facts import Device, FactStream, Flow, Link
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, decode
from stream.record import MAX_TIME_NS
from stream.roster import SourceUp
from stream.topics import FACTS

TOPICS = (*FACTS, "control")
OF_TRACES = ("pfc", "port_counters", "flows", "host_pcie")
"""Tables that a trace has and a topology has not."""


@dataclass(slots=True)
class KnownFacts:
    """One fabric: `named` has devices that flows and sources name, and who does so, the first of each."""

    facts: list[Device | Link] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)


def known_facts(items: Iterable[Item], at_ns: int = MAX_TIME_NS) -> dict[str, KnownFacts]:
    """What holds at a time, by fabric."""
    found: dict[str, KnownFacts] = {}
    for item in items:
        if isinstance(item, Device | Link | Flow) and item.valid_from_ns <= at_ns:
            known = found.setdefault(item.fabric, KnownFacts())
            if isinstance(item, Flow):
                for device in (item.src_device, item.dst_device, *(hop.device for hop in item.path)):
                    known.named.setdefault(device, f"flow {item.flow}")
            else:
                known.facts.append(item)
        elif isinstance(item, SourceUp) and item.from_ns <= at_ns:
            known = found.setdefault(item.fabric, KnownFacts())
            for stream in item.streams:
                if stream.device:
                    known.named.setdefault(stream.device, f"source {item.source}")
    return found


def items_on_kafka(settings: KafkaSettings) -> Iterator[Item]:
    """All facts and the roster up to the present end of their topics."""
    with Reader(settings, TOPICS, "earliest") as reader:
        end = reader.end()
        while not reader.has_reached(end):
            yield from (read.item for read in reader.read() if read.item is not None)


def items_in(path: Path) -> Iterator[Item]:
    """All facts in a trace folder, a capture or a topology file, and the roster of a capture."""
    if looks_like_capture(path):
        return _captured(path)
    stream = FactStream(path.name or "file", "-", 0, 0)
    if any(find_table(path, name) for name in OF_TRACES):
        trace = read_trace(path)
        return iter(trace_facts(trace, trace.name, stream.source, stream.epoch, 0))
    topology = read_topology(path)
    return iter(topology.facts(topology.fabric or path.resolve().name.partition(".")[0], 0, stream))


def _captured(path: Path) -> Iterator[Item]:
    # Only captures need pyarrow, which not every installation has.
    from stream.capture_reader import CaptureFolder, read_messages

    folder = CaptureFolder(path)
    for part in folder.parts(TOPICS):
        columns = read_messages(folder, part, ("key", "json")).columns
        for key, text in zip(columns["key"], columns["json"], strict=True):
            if text is not None:
                try:
                    yield decode(part.topic, key, text.encode())
                except WireError:
                    continue  # `analyze` counts and tells those
