"""What reading costs on a real Kafka: decode and detect against librdkafka's consume, and transactions against none.

512 events a value, lz4, and events that give no episodes: pause frames that refresh open pauses. In interleaved rounds
the same topic is read by librdkafka alone, by the reader with decode and detect, by the whole detect worker at least
once, and by the same one exactly once; the last two also publish each stream's marks.

Without --bootstrap-servers it starts a Kafka in a container; without either it claims nothing and says so. The last
line is JSON: {"claim", "ratio", "bar", "holds", ...}. `--quick` reads little in one round, to show that it all works.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))

from analytics.detect import Detect
from benchmarks.broker import real_kafka
from stream import kinds
from stream.allocator import keep_freed_memory
from stream.batch import Batch, StreamKey
from stream.by_stream import ByStream
from stream.errors import PausetraceError
from stream.intake import Intake
from stream.isolation import IsolatedStep
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings, connect, consumer_config, producer_config
from stream.messages import Encoded, encode
from stream.outlets import AtLeastOnce, Outlet
from stream.record import empty_events
from stream.roster import SourceUp, StreamUp
from stream.subscriber import Subscriber
from stream.topic_admin import create_topics
from stream.topics import BY_NAME, full_name
from stream.worker import MAX_MESSAGES, WAIT_S, Worker

READ_BAR, TRANSACTIONS_BAR = 0.80, 1.25
EVENTS = 512
DEVICES, PORTS = 64, 64
START_NS = 1_796_000_000_000_000_000
STEP_NS = 1_000_000
"""Event time between two values of a device."""
TOPIC = "pfc"
DEADLINE_S = 120.0


class Cost(NamedTuple):
    """Of reading the topic once: events a second by the clock, and CPU of this process in ns an event."""

    events_per_s: float
    cpu_ns: float


class Meter:
    """Measures from the first look that finds something read to the one that finds all read."""

    def __init__(self, values: int) -> None:
        self._values = values
        self._first: tuple[int, float, float] | None = None
        self.cost: Cost | None = None

    def look(self, read: int) -> bool:
        """Takes how many values have been read by now; False once all are."""
        now = read, time.perf_counter(), time.process_time()
        if self._first is None and read:
            self._first = now
        if read < self._values:
            return True
        assert self._first is not None
        events = (now[0] - self._first[0]) * EVENTS
        self.cost = Cost(events / (now[1] - self._first[1]), (now[2] - self._first[2]) / events * 1e9)
        return False

    def result(self) -> Cost:
        """What it cost; raises PausetraceError if not all was read."""
        if self.cost is None:
            raise PausetraceError("not everything was read by the deadline")
        return self.cost


def stream(device: int) -> StreamKey:
    """The stream of a device."""
    return StreamKey("dc-1", f"tap:leaf{device}", "18ecf6cc6d322e78-5a8830a0", TOPIC, f"leaf{device}")


def messages(values: int) -> Iterator[Encoded]:
    """The roster, and values of pause frames of all devices in turn, none of which ends a pause."""
    for device in range(DEVICES):
        key = stream(device)
        yield encode(SourceUp(key.fabric, key.source, key.epoch, START_NS, (StreamUp(TOPIC, key.device),)))
    random = np.random.default_rng(1)
    ports = tuple(f"Ethernet{4 * port}" for port in range(PORTS))
    for value in range(values):
        events = empty_events(EVENTS)
        window = value // DEVICES
        events["time_ns"] = START_NS + window * STEP_NS + np.sort(random.integers(0, STEP_NS, EVENTS))
        events["seen_ns"] = events["time_ns"] + random.integers(1_000, 50_000, EVENTS)
        events["kind"], events["value"] = kinds.PFC_XOFF, random.integers(30_000, 65_535, EVENTS)
        events["port"], events["priority"] = random.integers(0, PORTS, EVENTS), random.integers(3, 5, EVENTS)
        events["side"], events["quality"] = kinds.SIDE_RX, kinds.EXACT
        mark_ns = int(events["time_ns"][-1])
        yield encode(Batch(stream(value % DEVICES), window * EVENTS, mark_ns, ports, events))


def publish(settings: KafkaSettings, values: int) -> None:
    """Makes the topics and sends everything."""
    create_topics(settings)
    config = producer_config(settings, queue_bytes=256 << 20, message_timeout_ms=60_000)
    producer = Producer(config | {"linger.ms": 50})
    for topic, key, value in messages(values):
        while True:
            try:
                producer.produce(full_name(settings.prefix, topic), value, key)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise PausetraceError("the broker did not take everything within 60 s")


def librdkafka(settings: KafkaSettings, values: int) -> Cost:
    """Reads by librdkafka alone, with the same settings as ours."""
    consumer = Consumer(consumer_config(settings, connect(settings), None))
    partitions = range(BY_NAME[TOPIC].partitions)
    consumer.assign([TopicPartition(full_name(settings.prefix, TOPIC), number, 0) for number in partitions])
    meter, read, end_s = Meter(values), 0, time.monotonic() + DEADLINE_S
    while meter.look(read) and time.monotonic() < end_s:
        read += sum(message.error() is None for message in consumer.consume(MAX_MESSAGES, WAIT_S))
    consumer.close()
    return meter.result()


def decode_and_detect(settings: KafkaSettings, values: int) -> Cost:
    """Reads by our reader, decodes, and runs detect behind its guard."""
    intake, detect = Intake(None), IsolatedStep(Detect())
    meter, end_s = Meter(values), time.monotonic() + DEADLINE_S
    with Subscriber(settings, [TOPIC]) as reader:
        while meter.look(reader.counters["messages"]) and time.monotonic() < end_s:
            detect.process([item for _, item in intake.read(reader.consume(MAX_MESSAGES, WAIT_S))])
    counters = detect.step.counters
    if counters["pause_refreshes"] < values * EVENTS - DEVICES * PORTS * 2:
        raise PausetraceError(f"detect did not take every event: {dict(counters)}")
    return meter.result()


def worker(settings: KafkaSettings, values: int, outlet: Callable[[KafkaSettings, Detect], Outlet]) -> Cost:
    """The whole worker in a group that has read nothing yet, until everything is processed and sent."""
    settings = KafkaSettings(settings.bootstrap_servers, settings.prefix, {"group.id": f"bench-{uuid.uuid4().hex}"})
    detect, meter, stop = Detect(), Meter(values), threading.Event()
    at_work = Worker(
        settings, detect, name="detect", topics=[TOPIC], group="detect", outlet=outlet(settings, detect), stop=stop,
        say=lambda _: None,
    )  # fmt: skip
    try:
        at_work.run(go_on=lambda: meter.look(at_work.counters["items"] - DEVICES), deadline_s=DEADLINE_S)
    finally:
        at_work.close()
    return meter.result()


def at_least_once(settings: KafkaSettings, values: int) -> Cost:
    """The worker without transactions."""
    return worker(settings, values, lambda its, _: AtLeastOnce(its, CONNECT_DEADLINE_S))


def exactly_once(settings: KafkaSettings, values: int) -> Cost:
    """The worker with transactions."""
    return worker(settings, values, lambda its, detect: ByStream(its, detect, uuid.uuid4().hex, CONNECT_DEADLINE_S))


WAYS: dict[str, Callable[[KafkaSettings, int], Cost]] = {
    "librdkafka alone": librdkafka,
    "decode + detect": decode_and_detect,
    "worker, at least once": at_least_once,
    "worker, exactly once": exactly_once,
}


def main() -> int:
    """Measures and prints; exit status 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="a real Kafka to use; topics are made on it")
    parser.add_argument("--quick", action="store_true", help="1 round over 3,000 values instead of 7 over 30,000")
    args = parser.parse_args()
    values, rounds = (3_000, 1) if args.quick else (30_000, 7)
    claim = "decode + detect keeps 0.80 of librdkafka's own consume rate at 512 events a value"
    with real_kafka(args.bootstrap_servers) as servers:
        if servers is None:
            print("no real Kafka to measure on: give --bootstrap-servers, or start a Docker engine with the image")
            print(json.dumps({"claim": claim, "ratio": None, "bar": READ_BAR, "holds": None}))
            return 0
        settings = KafkaSettings(servers, f"bench{uuid.uuid4().hex[:8]}")
        keep_freed_memory()  # as detect does; librdkafka alone is the faster for it, too
        publish(settings, values)
        costs: dict[str, list[Cost]] = {name: [] for name in WAYS}
        for way in WAYS.values():
            way(settings, values)  # the first run compiles, and brings the topic into the broker's memory
        for _ in range(rounds):
            for name, way in WAYS.items():
                costs[name].append(way(settings, values))
    print(f"{'':24}{'events/s, median':>18}{'best':>14}{'CPU ns/event':>14}")
    for name, measured in costs.items():
        rates = [cost.events_per_s for cost in measured]
        cpu_ns = statistics.median(cost.cpu_ns for cost in measured)
        print(f"{name:24}{statistics.median(rates):18,.0f}{max(rates):14,.0f}{cpu_ns:14.1f}")
    raw, ours, plain, transactions = costs.values()
    ratio = _median_ratio(ours, raw)
    cost_ratio = _median_ratio(plain, transactions)
    cpu_share = statistics.median(one.cpu_ns / other.cpu_ns for one, other in zip(raw, ours, strict=True))
    holds = ratio >= READ_BAR and cost_ratio <= TRANSACTIONS_BAR
    print(f"decode + detect keeps {ratio:.2f} of the rate (bar {READ_BAR}); CPU share of librdkafka {cpu_share:.2f}")
    print(f"transactions cost {cost_ratio:.2f} times the worker without (bar {TRANSACTIONS_BAR})")
    result = {
        "claim": claim,
        "ratio": round(ratio, 3),
        "bar": READ_BAR,
        "holds": holds,
        "cpu_share": round(cpu_share, 3),
        "transactions_ratio": round(cost_ratio, 3),
        "transactions_bar": TRANSACTIONS_BAR,
        "events_per_s": {name: round(statistics.median(c.events_per_s for c in cost)) for name, cost in costs.items()},
        "cpu_ns_per_event": {name: round(statistics.median(c.cpu_ns for c in cost), 1) for name, cost in costs.items()},
        "values": values,
        "rounds": rounds,
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    }
    print(json.dumps(result))
    return 0 if holds or args.quick else 1


def _median_ratio(ours: list[Cost], others: list[Cost]) -> float:
    """Median over the rounds, of which each has both."""
    return statistics.median(one.events_per_s / other.events_per_s for one, other in zip(ours, others, strict=True))


if __name__ == "__main__":
    sys.exit(main())
