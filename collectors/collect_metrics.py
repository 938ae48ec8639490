"""The metrics of a collector in Prometheus' terms: a set for each target, which also exists while the target is down.

In: statuses and counters. Out: the text that a Prometheus scrapes, from any thread.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import grpc
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from collectors.target_status import TargetStatus
from collectors.workers import WORKERS_ALIVE
from stream.record import SCHEMA_VERSION

_NS = 1e-9
_LABELS = ("target", "device")


class _Measure(NamedTuple):
    name: str
    meaning: str
    of: Callable[[TargetStatus, float], float]


# fmt: off
GAUGES = (
    _Measure("up", "1 while data comes from the target.", lambda at, _: at.up),
    _Measure("connected", "1 while a subscription to the target stands.", lambda at, _: at.connected),
    _Measure("synced", "1 since the target has told all that it had at the beginning (sync_response).",
             lambda at, _: at.synced),
    _Measure("breaker_state", "Circuit breaker of the target: 0 closed, 1 half open, 2 open.",
             lambda at, _: at.breaker),
    _Measure("refused_paths", "Paths of the profile that the target does not take.",
             lambda at, _: len(at.refused_paths)),
)
COUNTERS = (
    _Measure("received_bytes", "Bytes of gNMI messages from the target.", lambda at, _: at.bytes_read),
    _Measure("messages", "gNMI messages from the target.", lambda at, _: at.messages),
    _Measure("updates", "Updates in these messages.", lambda at, _: at.updates),
    _Measure("connection_attempts", "Attempts to connect.", lambda at, _: at.attempts),
)
DROP_REASONS = (
    "malformed", "too_large", "error_message", "path_table_full", "port_refused", "value_refused", "event_refused",
    "fact_refused",
)
# fmt: on


class CollectExporter(Collector):
    """Holds the last statuses; `take` may be called by one thread while others render."""

    def __init__(self, version: str, now_s: Callable[[], float] = time.time) -> None:
        self._version = version
        self._now_s = now_s
        self._statuses: Sequence[TargetStatus] = ()
        self._counters: Mapping[str, int] = {}
        self._held_bytes = 0
        self._inventory: tuple[bool, float] = (True, now_s())
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def take(self, statuses: Sequence[TargetStatus], counters: Mapping[str, int], held_bytes: int) -> None:
        """Where all targets stand now."""
        self._statuses, self._counters, self._held_bytes = statuses, counters, held_bytes

    def inventory(self, *, good: bool) -> None:
        """The inventory was read again, and could be used or not."""
        self._inventory = (good, self._now_s() if good else self._inventory[1])

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics as text in the form that the scraper wants, with its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """For the registry."""
        yield InfoMetricFamily("pausetrace_build", "What runs here.", {
            "version": self._version, "schema_version": str(SCHEMA_VERSION), "python": platform.python_version(),
            "grpcio": grpc.__version__, "step": "collect",
        })  # fmt: skip
        good, read_s = self._inventory
        yield GaugeMetricFamily(
            "pausetrace_collect_inventory_good", "1 if the inventory could be read last time.", good
        )
        yield GaugeMetricFamily(
            "pausetrace_collect_inventory_timestamp_seconds", "When the inventory in use was read.", read_s
        )
        yield GaugeMetricFamily("pausetrace_collect_targets", "Targets of the inventory.", len(self._statuses))
        yield GaugeMetricFamily(
            "pausetrace_collect_held_bytes", "Bytes of messages that are not decoded yet.", self._held_bytes
        )
        for name, count in sorted(self._counters.items()):
            if name == WORKERS_ALIVE:
                yield GaugeMetricFamily(f"pausetrace_collect_{name}", "Worker processes that run.", count)
            else:
                yield CounterMetricFamily(f"pausetrace_collect_{name}", f"Counter {name} of the collector.", count)
        yield from self._of_targets(self._statuses, self._now_s())

    def _of_targets(self, statuses: Sequence[TargetStatus], now_s: float) -> Iterator[Metric]:
        for measure in GAUGES:
            gauge = GaugeMetricFamily(f"pausetrace_target_{measure.name}", measure.meaning, labels=_LABELS)
            for at in statuses:
                gauge.add_metric([at.name, at.device], float(measure.of(at, now_s)))
            yield gauge
        for measure in COUNTERS:
            counter = CounterMetricFamily(f"pausetrace_target_{measure.name}", measure.meaning, labels=_LABELS)
            for at in statuses:
                counter.add_metric([at.name, at.device], measure.of(at, now_s))
            yield counter
        age = GaugeMetricFamily(
            "pausetrace_target_last_update_age_seconds", "Time since the last update; +Inf if there was none.",
            labels=_LABELS,
        )  # fmt: skip
        skew = GaugeMetricFamily(
            "pausetrace_target_clock_skew_seconds", "How far the target's clock is ahead of ours, where it is known.",
            labels=_LABELS,
        )  # fmt: skip
        drops = CounterMetricFamily(
            "pausetrace_target_dropped", "What was left out of the target's messages.", labels=[*_LABELS, "reason"]
        )
        failures = CounterMetricFamily(
            "pausetrace_target_failures", "Sessions and attempts that ended badly.", labels=[*_LABELS, "reason"]
        )
        for at in statuses:
            names = [at.name, at.device]
            age.add_metric(names, now_s - at.last_update_s if at.last_update_s else float("inf"))
            if at.skew_known:
                skew.add_metric(names, at.skew_ns * _NS)
            # From the start: Prometheus sees no growth in a series that begins with its first count.
            for reason, count in sorted({**dict.fromkeys(DROP_REASONS, 0), **at.drops}.items()):
                drops.add_metric([*names, reason], count)
            for reason, count in sorted(at.failures_by_sort.items()):
                failures.add_metric([*names, reason], count)
        yield from (age, skew, drops, failures)
