"""The metrics of a worker in Prometheus' terms: a table of what each counter means, and the exporter.

In: `Status` objects, from the worker's thread. Out: the text that a Prometheus scrapes, from any thread.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator

import confluent_kafka
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from stream.progress import Status
from stream.record import SCHEMA_VERSION

_NS = 1e-9

# fmt: off
COUNTERS: dict[str, str] = {
    "restarts": "Times that the step went back to its last committed state, or could not begin from it.",
    # worker
    "items": "Batches, facts and roster changes handed to the step.",
    "outputs": "Values that the step gave out.",
    "unsendable": "Outputs that no reader would take and that were left out.",
    "poisoned": "Items on which the step failed; each is a dead letter.",
    "rebalances": "Times that partitions were taken away by the consumer group.",
    "tombstones": "Values of compacted topics that only remove older ones.",
    "unreadable": "Messages that do not decode; each is a dead letter.",
    "dead_letters": "Values written to the dead-letter topic.",
    # subscriber
    "messages": "Messages read from Kafka.",
    "gaps": "Gaps in the offsets that mean a loss.",
    "missing_offsets": "Messages that were gone before they could be read.",
    "natural_gaps": "Gaps in the offsets that are no loss: compaction and transactions.",
    "kafka_errors": "Errors of Kafka that were retried.",
    # the way out: at least once, in transactions, and provisional revisions at once
    "outbox_messages": "Messages given to the producer.",
    "outbox_delivered": "Messages that Kafka has.",
    "outbox_held": "Messages that had to wait outside the producer's queue.",
    "outbox_dropped_queue_full": "Messages lost because Kafka took nothing for too long.",
    "outbox_delivery_errors": "Messages that Kafka refused or that were not delivered at the end.",
    "outbox_commits": "Transactions committed.",
    "outbox_aborts": "Transactions aborted.",
    "outbox_too_large": "Values that no topic takes and that were left out.",
    "outbox_at_once_messages": "Provisional revisions given to the producer.",
    "outbox_at_once_delivered": "Provisional revisions that Kafka has.",
    "outbox_at_once_held": "Provisional revisions that had to wait outside the producer's queue.",
    "outbox_at_once_dropped_queue_full": "Provisional revisions lost because Kafka took nothing for too long.",
    "outbox_at_once_delivery_errors": "Provisional revisions that Kafka refused or that were not delivered at the end.",
    # the roster, as the active correlate keeps it
    "suspended_streams": "Streams that held up the others for too long, so that nobody waits for them.",
    "late_checks_failed": "Times that Kafka did not tell whether late streams had all been read; nobody is suspended.",
    "resumed_streams": "Suspended streams that have caught up and count again.",
    # steps
    "step_lost_rows": "Rows lost before the step: told by their source, or missing from a stream's numbers.",
    "step_late_rows": "Rows older than their own stream's promise; left out.",
    "step_duplicate_rows": "Rows that had been read before; left out.",
    "step_rows_after_the_end": "Rows of streams that had ended; left out.",
    "step_unknown_kinds": "Rows of kinds that this version does not know; left out.",
    "step_streams_joined_late": "Streams whose first rows were gone when reading began.",
    "step_items_of_other_topics": "Items that the step does not read.",
    "step_items_of_unannounced_streams_dropped": "Items of streams that the roster never named; left out.",
    "step_repeated_source_ups": "Streams that the roster named again while they were up.",
    "step_cascades_final_before": "Cascades that were final already when rows of an ended stream came again; left out.",
    "step_pause_refreshes": "Pause frames for a queue that was stopped already.",
    "step_unmatched_xons": "Restarts of a queue that was not stopped.",
    "step_pauses_ended_by_source_down": "Pauses that ended because their source did.",
    "step_pauses_ended_by_suspension": "Pauses that were open when their stream was suspended; taken to end there.",
    "step_rows_while_suspended": "Rows that a stream told of the time while it was suspended; left out.",
    "step_facts_while_suspended_dropped": "Facts that could not be kept until their stream counts again.",
    "step_readings_not_kept": "Readings of hosts beyond those that are kept while cascades go on.",
    "step_host_parts_not_named": "Rows of CPUs, GPUs and the like beyond those whose names are kept; as of the host.",
    "step_jobs_begun_anew": "Jobs that went on from an earlier step than they had been told of.",
    "step_jobs_forgotten": "Jobs that gave way to others, of which more are told than are followed.",
    "step_ranks_not_followed": "Rows of steps of ranks beyond those of a job that are followed.",
    "step_steps_told_late": "Rows of steps that had been judged when they came; left out.",
    "step_names_unknown": "Names of ports that no fact explains.",
    "step_names_conflicting": "Names of ports that several things claim.",
    "step_flow_windows_dropped": "Windows of flows that could not be kept while cascades went on.",
    "step_port_windows_dropped": "Windows of ports beyond those kept to tell whose bytes stood in which queue.",
    "step_told_pauses_dropped": "Pauses beyond those kept to tell pieces that lost ends cut off from whole cascades.",
    "step_cascades_told_with_polled_devices": "Cascades of logged pauses that are part of one of polled devices.",
    "step_changes_of_no_use": "Changes of the roster that were known already or came too late.",
    "step_pauses_without_open": "Pause intervals whose beginning was not seen.",
    "step_pauses_without_close": "Pauses that began again before they had ended.",
    "step_pauses_told_by_others": "Rows of pauses of a port of which another source tells; left out.",
    "step_paused_beyond_the_window": "Windows told to hold more than twice as much paused time as they last; left out.",
    "step_pauses_on_unknown_links": "Pauses of a port whose link is not known: nobody can be blamed.",
    "step_pauses_sent_on_unknown_links": "Pauses that a port sent whose link is not known.",
    "step_pauses_logged_at_one_end": "Ends of pauses that one end of a link told, where both had before.",
    "step_pauses_ended_by_next_xoff": "Pauses whose end nobody told; guessed when the queue was stopped again.",
    "step_pauses_begun_before_xon": "Pauses whose beginning nobody told; guessed when they ended.",
    "step_pauses_ended_by_counters": "Pauses whose end nobody told; counters of paused time say when.",
    "step_pauses_known_by_counters": "Pauses that nobody told; counters of paused time know them.",
    "step_edges_of_no_pause": "Stops and restarts of queues that changed nothing, as a pause had been told of.",
    "step_windows_longer_than_announced": "Rows that sum over more time than their stream announced.",
}
# fmt: on
"""What each counter of a worker means; one that is missing here is served all the same."""

FROM_THE_START = (
    "dead_letters", "missing_offsets", "step_lost_rows", "step_late_rows", "outbox_dropped_queue_full",
    "outbox_delivery_errors",
)  # fmt: skip
"""Served as 0 before anything was counted: Prometheus sees no increase in a counter that begins with its first loss."""


class Exporter(Collector):
    """Holds the last status of a step's worker; `take` may be called by one thread while others render."""

    def __init__(self, step: str, version: str, now_s: Callable[[], float] = time.time) -> None:
        self._step = step
        self._version = version
        self._now_s = now_s
        self._status: Status | None = None
        self._active = False
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def take(self, status: Status | None) -> None:
        """The worker stands here now; None: no worker is at work, and the counters stay as they were."""
        self._active = status is not None
        if status is not None:
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
            "librdkafka": confluent_kafka.libversion()[0],
            "step": self._step,
        }
        yield InfoMetricFamily("pausetrace_build", "What runs here.", build)
        yield self._gauge("active", "1 if this process is at work, 0 if it stands by.", int(self._active))
        status = self._status  # one reference: the worker may put another one in its place at any time
        if status is None:
            return
        yield self._gauge("turn_timestamp_seconds", "When the worker last finished a turn.", status.time_s)
        for name, count in {**dict.fromkeys(FROM_THE_START, 0), **status.counters}.items():
            meaning = COUNTERS.get(name, f"Counter {name} of the worker.")
            counter = CounterMetricFamily(f"pausetrace_{name}", meaning, labels=["step"])
            counter.add_metric([self._step], count)
            yield counter
        lag = GaugeMetricFamily(
            "pausetrace_lag_messages", "Messages not read yet.", labels=["step", "topic", "partition"]
        )
        for place, messages in status.lag_messages.items():
            lag.add_metric([self._step, place.topic, str(place.partition)], messages)
        yield lag
        yield from self._of_fabrics(status)

    def _gauge(self, name: str, meaning: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"pausetrace_{name}", meaning, labels=["step"])
        gauge.add_metric([self._step], value)
        return gauge

    def _of_fabrics(self, status: Status) -> Iterator[Metric]:
        labels = ["step", "fabric"]
        mark = GaugeMetricFamily(
            "pausetrace_newest_mark_timestamp_seconds", "Newest event time that a stream has promised.", labels=labels
        )
        settled = GaugeMetricFamily(
            "pausetrace_settled_timestamp_seconds", "Event time up to which all results are final.", labels=labels
        )
        up = GaugeMetricFamily("pausetrace_streams_up", "Streams that the roster names now.", labels=labels)
        suspended = GaugeMetricFamily(
            "pausetrace_streams_suspended", "Streams that nobody waits for until they have caught up.", labels=labels
        )
        for fabric, at in status.fabrics.items():
            up.add_metric([self._step, fabric], at.streams_up)
            suspended.add_metric([self._step, fabric], at.streams_suspended)
            if at.newest_mark_ns:
                mark.add_metric([self._step, fabric], at.newest_mark_ns * _NS)
            if at.settled_ns:
                settled.add_metric([self._step, fabric], at.settled_ns * _NS)
        yield from (mark, settled, up, suspended)
