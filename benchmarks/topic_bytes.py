"""What one row or message of traces takes on each topic, in the value and as stored, and how many rows detect takes.

Stored twice: each value by itself, as a quiet source sends it, and many together, as a busy one does. For
docs/topics.md, which a test holds to it. The last line is JSON: {"claim", "bytes", "detect_rows_per_s", ...}.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import numpy as np
from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analytics.detect import Detect
from analytics.offline import final_cascades
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.batch import Batch, StreamKey
from stream.embedded import EmbeddedBroker
from stream.facts import Device, Flow, Link
from stream.kafka_settings import KafkaSettings, producer_config
from stream.kinds import BY_NAME
from stream.messages import Encoded, Item, encode
from stream.outbox import QUEUE_BYTES
from stream.record import empty_events
from stream.topics import full_name
from stream.wire import decode

TRACES = Path(__file__).resolve().parents[1] / "tests/data/ns3"
FABRIC, SOURCE, EPOCH = "dc-1", "gnmi:collector-7", "18ecf6cc6d322e78-5a8830a0"
"""Names as long as those of real sources."""
START_NS = 1_796_000_000_000_000_000
ROWS = (1, 16, 128, 1024)
PFC_PAUSED = BY_NAME["PFC_PAUSED"].code
MOST_VALUES = 200
"""Of one topic and size that are sent; evenly out of all there are."""
JSON_TOPICS = ("device", "link", "flow", "cascade")


class Cost(NamedTuple):
    """Of one topic at one size of values; both by row, or by message where it is JSON."""

    topic: str
    rows_a_value: float
    value_bytes: float
    alone_bytes: float
    joined_bytes: float


def chunks(batch: Batch, size: int) -> Iterator[Batch]:
    """The batch in values of so many rows, each with the names of its own ports alone."""
    for start in range(0, len(batch.events), size):
        events = batch.events[start : start + size].copy()
        used = sorted(set(events["port"].tolist()))
        events["port"] = [used.index(port) for port in events["port"].tolist()]
        ports = tuple(batch.ports[port] for port in used)
        yield Batch(batch.stream, batch.seq + start, batch.mark_ns, ports, events)


def rows_by_topic(names: Sequence[str]) -> dict[str, list[Batch]]:
    """All rows of these traces, and what detect makes of them, each stream in one piece."""
    found: defaultdict[str, list[Batch]] = defaultdict(list)
    for name in names:
        streams = trace_streams(read_trace(TRACES / name), FABRIC, SOURCE, EPOCH, START_NS)
        for rows in streams.rows:
            found[rows.topic].append(Batch(streams.key(rows), 0, streams.end_ns, rows.ports, rows.events))
        episodes = Detect().process([streams.up, *(batch for batches in found.values() for batch in batches)])
        found["episode"] += [item for item in episodes if isinstance(item, Batch)]
    return found


def json_by_topic(names: Sequence[str]) -> dict[str, list[Encoded]]:
    """The facts of these traces, and their cascades."""
    found: defaultdict[str, list[Encoded]] = defaultdict(list)
    for name in names:
        streams = trace_streams(read_trace(TRACES / name), FABRIC, SOURCE, EPOCH, START_NS)
        items: list[Item] = list(trace_items(streams))
        for item in [*items, *final_cascades(items)]:
            if isinstance(item, Device | Link | Flow) or not isinstance(item, Batch):
                message = encode(item)
                found[message.topic].append(message)
    return {topic: found[topic] for topic in JSON_TOPICS}


def stored_bytes(settings: KafkaSettings, messages: Sequence[Encoded], *, alone: bool) -> int:
    """What a producer with our settings sends for these, compressed, with Kafka's own framing."""
    sent: list[int] = []

    def told(statistics: str) -> None:
        sent.append(sum(broker["txbytes"] for broker in json.loads(statistics)["brokers"].values()))

    config = producer_config(settings, queue_bytes=QUEUE_BYTES, message_timeout_ms=30_000)
    if alone:
        config |= {"linger.ms": 0}
    producer = Producer(config | {"statistics.interval.ms": 20, "stats_cb": told})
    topic = full_name(settings.prefix, messages[0].topic)
    producer.list_topics(topic)
    before = _settled(producer, sent)
    for message in messages:
        producer.produce(topic, message.value, message.key)
        if alone:
            producer.flush(30)
    producer.flush(30)
    return _settled(producer, sent) - before


def _settled(producer: Producer, sent: list[int]) -> int:
    """Bytes sent so far, once they do not change any more."""
    del sent[:]
    while len(sent) < 4 or sent[-1] != sent[-3]:
        producer.poll(0.05)
    return sent[-1]


def cost(settings: KafkaSettings, messages: Sequence[Encoded], rows: Sequence[int]) -> Cost:
    """Of these values, of which each holds so many rows."""
    every = max(len(messages) // MOST_VALUES, 1)
    messages, rows = messages[::every], rows[::every]
    count = sum(rows)
    alone, joined = (stored_bytes(settings, messages, alone=alone) / count for alone in (True, False))
    value_bytes = sum(len(message.value) for message in messages) / count
    return Cost(messages[0].topic, count / len(rows), value_bytes, alone, joined)


def costs() -> Iterator[Cost]:
    """Topic by topic and size by size, as far as the traces have values of that size."""
    names = sorted(path.name for path in TRACES.iterdir() if path.is_dir())
    with EmbeddedBroker() as broker:
        for _, batches in sorted(rows_by_topic(names).items()):
            for size in ROWS:
                values = [chunk for batch in batches for chunk in chunks(batch, size) if len(chunk.events) > size // 2]
                if len(values) >= 5:
                    yield cost(broker.settings, [encode(v) for v in values], [len(v.events) for v in values])
        for messages in json_by_topic(names).values():
            yield cost(broker.settings, messages, [1] * len(messages))


def counter_values(switches: int = 200, seconds: int = 20, rows: int = 128) -> list[bytes]:
    """What sampled switches with 64 ports send: each second a value of paused time, both ways."""
    random = np.random.default_rng(1)
    ports = tuple(f"Ethernet{4 * port}" for port in range(rows // 2))
    values = []
    for switch in range(switches):
        stream = StreamKey(FABRIC, f"gnmi:leaf{switch}", EPOCH, "pfc", f"leaf{switch}")
        for second in range(seconds):
            events = empty_events(rows)
            events["time_ns"] = events["seen_ns"] = START_NS + second * 1_000_000_000
            events["span_ns"] = 1_000_000_000
            events["kind"] = PFC_PAUSED
            events["value"] = random.integers(0, 1_000_000, rows)
            events["extra"] = random.integers(0, 100, rows)
            events["port"] = np.arange(rows) // 2
            events["side"] = 1 + np.arange(rows) % 2
            events["priority"] = 3
            values.append(encode(Batch(stream, second * rows, int(events["time_ns"][0]), ports, events)).value)
    return values


def detect_rows_per_s() -> float:
    """Rows that decode and detect take on one core, in values of 128: by CPU time, the best of three runs."""
    values = counter_values()
    _detect_ns(values[:50])  # the first run compiles, or loads what was compiled
    best_ns = min(_detect_ns(values) for _ in range(3))
    return 128 * len(values) / best_ns * 1e9


def _detect_ns(values: Sequence[bytes]) -> int:
    step = Detect()
    begun_ns = time.process_time_ns()
    for start in range(0, len(values), 50):
        step.process([decode("pfc", value) for value in values[start : start + 50]])
    return time.process_time_ns() - begun_ns


def main() -> None:
    """Measures and prints."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    found: list[dict[str, Any]] = []
    for each in costs():
        print(
            f"{each.topic:10} {each.rows_a_value:7.1f} rows a value: {each.value_bytes:7.1f} B in the value, stored "
            f"{each.alone_bytes:7.1f} B alone, {each.joined_bytes:7.1f} B together"
        )
        found.append({name: round(n, 1) if isinstance(n, float) else n for name, n in each._asdict().items()})
    rows_per_s = detect_rows_per_s()
    print(f"decode and detect: {rows_per_s:,.0f} rows a second and core, in values of 128")
    result = {
        "claim": "bytes of a row or message on each topic",
        "bytes": found,
        "detect_rows_per_s": round(rows_per_s, -3),
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "machine": platform.machine(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
