"""The metrics of a probe agent in Prometheus' terms: each probe's reads, rows, losses, cost and state, and the way out.

In: `AgentStatus` objects, from the agent's thread. Out: the text that a Prometheus scrapes, from any thread.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from probes.agent import AgentStatus
from probes.runner import ProbeStatus
from stream.record import SCHEMA_VERSION

_NS = 1e-9

STATES = ("starting", "running", "degraded", "failing", "unavailable", "stuck", "stopped")

# fmt: off
PROBE_COUNTERS: dict[str, str] = {
    "reads": "Times that the probe was read.",
    "rows": "Rows and facts that the probe gave.",
    "lost_rows": "Rows that were lost before the probe could give them.",
    "errors": "Times that the probe could not be opened, read or closed.",
    "degradations": "Times that the probe took a step down because it cost too much.",
    "late_reads": "Reads that came more than half an interval late; their windows are longer.",
}
COUNTERS: dict[str, str] = {
    "rows": "Rows given to the publisher.",
    "facts": "Facts given to the publisher.",
    "late_facts": "Facts older than what their stream had promised.",
    "lost_facts": "Facts that Kafka did not get.",
    "values": "Values given to the producer.",
    "idle_values": "Values that carry a promise alone.",
    "messages": "Messages given to the producer.",
    "delivered": "Messages that Kafka has.",
    "held": "Messages that had to wait outside the producer's queue.",
    "dropped_queue_full": "Messages lost because Kafka took nothing for too long.",
    "delivery_errors": "Messages that Kafka refused or that were not delivered at the end.",
    "late_rows": "Rows older than what their stream had promised; flagged.",
    "suspect_rows": "Rows from the future: a wrong clock; flagged.",
    "lost_rows": "Rows that were lost, at a probe or on the way to Kafka; each is told on its topic.",
    "refused_rows": "Rows that no reader would take and that were left out: a fault in a probe.",
    "sessions": "Times that the streams of this host began.",
}
# fmt: on


class AgentExporter(Collector):
    """Holds the last status of an agent; `take` may be called by one thread while others render."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._status: AgentStatus | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def take(self, status: AgentStatus) -> None:
        """The agent stands here now."""
        self._status = status

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics as text in the form that the scraper wants, with its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """For the registry."""
        build = {
            "version": self._version,
            "schema_version": str(SCHEMA_VERSION),
            "python": platform.python_version(),
            "step": "probe",
        }
        yield InfoMetricFamily("pausetrace_build", "What runs here.", build)
        status = self._status  # one reference: the agent may put another one in its place at any time
        if status is None:
            return
        turn = GaugeMetricFamily(
            "pausetrace_turn_timestamp_seconds", "When the agent last finished a turn.", labels=["step"]
        )
        turn.add_metric(["probe"], status.time_s)
        yield turn
        for name, meaning in COUNTERS.items():
            if name in status.counters:
                yield _counter(f"pausetrace_agent_{name}", meaning, status.counters[name])
        yield _counter("pausetrace_agent_reloads", "Times that the configuration was read again.", status.reloads)
        yield _counter(
            "pausetrace_agent_failed_reloads", "Times that a bad configuration was left out.", status.failed_reloads
        )
        yield from _of_probes(status.probes)


def _counter(name: str, meaning: str, count: int) -> CounterMetricFamily:
    return CounterMetricFamily(name, meaning, value=count)


def _of_probes(probes: Sequence[ProbeStatus]) -> Iterator[Metric]:
    for name, meaning in PROBE_COUNTERS.items():
        counter = CounterMetricFamily(f"pausetrace_probe_{name}", meaning, labels=["probe"])
        for probe in probes:
            counter.add_metric([probe.name], getattr(probe, name))
        yield counter
    counted = CounterMetricFamily(
        "pausetrace_probe_counted", "What a probe met and left out or corrected.", labels=["probe", "what"]
    )
    cpu = CounterMetricFamily(
        "pausetrace_probe_cpu_seconds",
        "CPU time of the probe, with the kernel's as far as known.",
        labels=["probe"],
    )
    degraded = GaugeMetricFamily(
        "pausetrace_probe_degraded",
        "0 full, 1 counters only, 2 read less often, 3 off.",
        labels=["probe"],
    )
    last = GaugeMetricFamily(
        "pausetrace_probe_last_read_timestamp_seconds", "When the probe was last read.", labels=["probe"]
    )
    state = GaugeMetricFamily(
        "pausetrace_probe_state", "1 for the state that the probe is in.", labels=["probe", "state"]
    )
    for probe in probes:
        cpu.add_metric([probe.name], probe.cpu_ns * _NS)
        degraded.add_metric([probe.name], int(probe.step))
        if probe.last_read_ns:
            last.add_metric([probe.name], probe.last_read_ns * _NS)
        for what, count in probe.counted.items():
            counted.add_metric([probe.name, what], count)
        for name in STATES:
            state.add_metric([probe.name, name], int(probe.state == name))
    yield from (counted, cpu, degraded, last, state)
