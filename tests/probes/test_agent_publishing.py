"""What an agent publishes keeps every promise of a stream, through outages, failures and clocks that jump."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest

from probes.output import KafkaOutput
from probes.probe import Lost, Reading, Rows
from probes.promises import Promises
from probes.runner import Taken
from probes.table import ProbeKind
from stream import kinds
from stream.batch import Batch
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError
from stream.facts import Device, Idle
from stream.kafka_settings import KafkaSettings
from stream.publisher import UNSENT
from stream.record import empty_events
from stream.roster import SourceDown, SourceUp
from tests.probes.sample_probes import (
    RING,
    STATES,
    SUMS,
    Running,
    SampleOpener,
    SampleProbe,
    row,
    settings_of,
    wait_until,
)
from tests.stream.reading import batches_on, items_on, messages_on

S = 1_000_000_000
NAMES = ProbeKind("names", "", ("device",), "names", sums=False)


def output_on(settings: KafkaSettings, promises: Promises) -> KafkaOutput:
    return KafkaOutput(settings, "lab", "h1", promises)


def begun(settings: KafkaSettings, kind: ProbeKind) -> tuple[KafkaOutput, Promises]:
    """An output that expects a probe, which has just been opened."""
    promises = Promises()
    output = output_on(settings, promises)
    output.expect([kind])
    promises.opens(kind)
    return output, promises


def values_of(settings: KafkaSettings, topic: str) -> list[int]:
    """The values of all rows but losses, in the order of the stream."""
    batches = sorted(batches_on(settings, topic), key=lambda batch: batch.seq)
    rows = [events[events["kind"] != kinds.SOURCE_LOST] for events in (batch.events for batch in batches)]
    return [int(value) for events in rows for value in events["value"]]


def late(settings: KafkaSettings, topic: str) -> int:
    """Rows older than what their stream had promised before, by the marks that are on the wire."""
    count = 0
    promised_ns: dict[str, int] = {}
    for batch in sorted(batches_on(settings, topic), key=lambda batch: (batch.seq, batch.mark_ns)):
        epoch = batch.stream.epoch
        count += int((batch.events["time_ns"] < promised_ns.get(epoch, 0)).sum())
        promised_ns[epoch] = max(promised_ns.get(epoch, 0), batch.mark_ns)
    return count


def test_the_roster_tells_of_streams_with_their_windows_and_of_their_end(embedded_broker: EmbeddedBroker) -> None:
    promises = Promises()
    opener = SampleOpener()
    kafka = embedded_broker.settings
    with Running(settings_of(SUMS, STATES), output_on(kafka, promises), promises, opener):
        wait_until(lambda: all(probe.reads > 5 for probe in opener.opened) and len(opener.opened) == 2)
    roster = items_on(kafka, "control")
    ups = [change for change in roster if isinstance(change, SourceUp)]
    told = {(stream.topic, stream.device, stream.period_ns) for change in ups for stream in change.streams}
    assert told == {("host", "h1", SUMS.interval_ns), ("pcie", "h1", 0)}
    (down,) = (change for change in roster if isinstance(change, SourceDown))
    assert (down.source, down.reason) == ("probes@h1", "graceful")
    ends = {stream.topic: stream.last_seq for stream in down.streams}
    for topic, probe in (("host", opener.of(SUMS)[0]), ("pcie", opener.of(STATES)[0])):
        values = values_of(kafka, topic)
        assert values == list(range(2, probe.reads + 1))
        assert ends[topic] == len(values) - 1


def test_a_window_and_instants_on_one_topic_are_never_late(embedded_broker: EmbeddedBroker) -> None:
    promises = Promises()
    opener = SampleOpener()
    kafka = embedded_broker.settings
    output = output_on(kafka, promises)
    with Running(settings_of(SUMS, RING._replace(interval_ns=7 * RING.interval_ns)), output, promises, opener):
        wait_until(lambda: len(opener.opened) == 2 and opener.of(RING)[0].reads > 12)
    assert late(kafka, "host") == 0
    assert output.counters["late_rows"] == 0
    flags = np.concatenate([batch.events["quality"] for batch in batches_on(kafka, "host")])
    assert not (flags & kinds.LATE).any()


def test_an_idle_stream_promises_times_behind_what_is_on_its_way(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    output, promises = begun(kafka, RING)
    output.take([Taken(RING, read_ns := promises.reads(RING), Reading())])
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + 2.2:
        output.turn()
        time.sleep(0.05)
    instant_ns = read_ns + 1
    output.take([Taken(RING, promises.reads(RING), Reading([row("host", instant_ns)]))])
    output.close()
    batches = batches_on(kafka, "host")
    idle = [batch for batch in batches if not len(batch.events)]
    assert len(idle) >= 2
    assert all(batch.mark_ns <= instant_ns for batch in idle)
    assert output.counters["late_rows"] == 0


def test_rows_leave_as_they_are_taken_and_the_idle_values_of_other_streams_with_them(
    embedded_broker: EmbeddedBroker,
) -> None:
    now_ns = [time.time_ns()]
    promises = Promises(lambda: now_ns[0])
    kafka = embedded_broker.settings
    output = KafkaOutput(
        kafka, "lab", "h1", promises, clock_ns=lambda: now_ns[0], monotonic_s=lambda: now_ns[0] / S
    )  # fmt: skip
    output.expect([SUMS, STATES])
    promises.opens(SUMS)
    promises.opens(STATES)
    output.take([Taken(kind, promises.reads(kind), Reading()) for kind in (SUMS, STATES)])
    read_ns = []
    for second in range(4):
        now_ns[0] += S // 2
        output.turn()
        assert output.counters["values"] == 2 * second
        now_ns[0] += S // 2
        read_ns.append(promises.reads(SUMS))
        output.take([Taken(SUMS, read_ns[-1], Reading([row("host", read_ns[-1])]))])
        output.turn()
        assert output.counters["values"] == 2 * (second + 1)
    output.close()
    assert [len(batch.events) for batch in batches_on(kafka, "host")] == [1] * 4
    assert [(len(batch.events), batch.mark_ns) for batch in batches_on(kafka, "pcie")] == [(0, at) for at in read_ns]


@contextlib.contextmanager
def stopped(broker: EmbeddedBroker) -> Iterator[None]:
    """The broker's process stands still for as long as the block."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@pytest.mark.slow
def test_rows_wait_through_an_outage_and_all_arrive(embedded_broker: EmbeddedBroker) -> None:
    promises = Promises()
    opener = SampleOpener()
    kafka = embedded_broker.settings
    output = output_on(kafka, promises)
    with Running(settings_of(SUMS), output, promises, opener):
        wait_until(lambda: output.counters["rows"] > 3)
        with stopped(embedded_broker):
            reads = opener.of(SUMS)[0].reads
            time.sleep(8)
            assert opener.of(SUMS)[0].reads > reads + 100  # nobody waits for the broker
        wait_until(lambda: output.counters["delivered"] > output.counters["messages"] - 5)
    assert values_of(kafka, "host") == list(range(2, opener.of(SUMS)[0].reads + 1))
    assert late(kafka, "host") == 0
    assert output.counters["lost_rows"] == 0


def test_losses_and_failures_are_told_on_their_topic(embedded_broker: EmbeddedBroker) -> None:
    def prepare(probe: SampleProbe) -> None:
        if not opener.opened:
            probe.during_read = lambda: _fail(probe)

    promises = Promises()
    opener = SampleOpener(prepare)
    kafka = embedded_broker.settings
    with Running(settings_of(SUMS), output_on(kafka, promises), promises, opener):
        wait_until(lambda: len(opener.opened) == 2 and opener.opened[1].reads > 3)
    losses = [r for batch in batches_on(kafka, "host") for r in batch.events if r["kind"] == kinds.SOURCE_LOST]
    assert [int(loss["extra"]) for loss in losses] == [kinds.SOURCE_NOT_READ]
    assert int(losses[0]["value"]) >= 1


def _fail(probe: SampleProbe) -> None:
    if probe.reads == 3:
        raise OSError(5, "Input/output error")


def test_rows_that_no_reader_takes_are_left_out_and_the_others_go(
    embedded_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = embedded_broker.settings
    output, promises = begun(kafka, SUMS)
    now_ns = promises.reads(SUMS)
    foreign = row("pcie", now_ns)._replace(topic="host")
    nameless = row("host", now_ns)._replace(ports=("n" * 300,))
    garbled = row("host", now_ns)._replace(texts=((0, "comm\udcff"),))
    lost = Lost("host", 7, 3, now_ns - S, now_ns)
    output.take([Taken(SUMS, now_ns, Reading([foreign, nameless, garbled, row("host", now_ns, value=5)], lost=[lost]))])
    output.close()
    assert values_of(kafka, "host") == [5]
    assert output.counters["refused_rows"] == 3
    assert "rows of probe sums are left out" in caplog.text
    (batch,) = (batch for batch in batches_on(kafka, "host") if len(batch.events))
    assert batch.lost == 7


def test_what_is_of_the_whole_host_has_the_name_of_no_port(embedded_broker: EmbeddedBroker) -> None:
    output, promises = begun(embedded_broker.settings, SUMS)
    now_ns = promises.reads(SUMS)
    output.take([Taken(SUMS, now_ns, Reading([row("host", now_ns)._replace(ports=("",))]))])
    output.close()
    (batch,) = (batch for batch in batches_on(embedded_broker.settings, "host") if len(batch.events))
    assert batch.ports == ("-",)


def test_facts_get_the_stream_of_their_topic(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    output, promises = begun(kafka, NAMES)
    now_ns = promises.reads(NAMES)
    fact = Device("-", "h1", "host", now_ns, UNSENT, aliases=("h1.example.net",))
    output.take([Taken(NAMES, now_ns, Reading(facts=[fact]))])
    output.close()
    (told,) = (item for item in items_on(kafka, "device") if isinstance(item, Device))
    assert (told.fabric, told.device, told.aliases) == ("lab", "h1", ("h1.example.net",))
    assert told.stream.source == "probes@h1"
    assert not any(isinstance(item, Idle) and item.stream.seq < 1 for item in items_on(kafka, "device"))


class Clock:
    """The time, and how far a test has set it back."""

    def __init__(self) -> None:
        self.back_ns = 0

    def __call__(self) -> int:
        return time.time_ns() - self.back_ns


def test_a_clock_that_is_set_back_begins_streams_of_a_new_epoch(
    embedded_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    promises = Promises(clock)
    kafka = embedded_broker.settings
    output = KafkaOutput(kafka, "lab", "h1", promises, clock_ns=clock)
    output.expect([SUMS])
    promises.opens(SUMS)
    for value in (1, 2):
        now_ns = promises.reads(SUMS)
        output.take([Taken(SUMS, now_ns, Reading([row("host", now_ns, value=value)]))])
        clock.back_ns = 3600 * S
    output.close()
    assert "the clock was set back" in caplog.text
    batches = [batch for batch in batches_on(kafka, "host") if len(batch.events)]
    assert len({batch.stream.epoch for batch in batches}) == 2
    assert not any((batch.events["quality"] & kinds.LATE).any() for batch in batches)
    roster = items_on(kafka, "control")
    assert sorted(type(change).__name__ for change in roster) == ["SourceDown", "SourceDown", "SourceUp", "SourceUp"]


def test_a_window_that_grows_is_announced_anew(embedded_broker: EmbeddedBroker) -> None:
    promises = Promises()
    opener = SampleOpener()
    kafka = embedded_broker.settings
    slower = settings_of(SUMS._replace(interval_ns=5 * SUMS.interval_ns))
    with Running(settings_of(SUMS), output_on(kafka, promises), promises, opener, reload=lambda: slower) as running:
        wait_until(lambda: len(opener.opened) == 1 and opener.opened[0].reads > 3)
        running.agent.reload_asked.set()
        wait_until(lambda: len(opener.opened) == 2 and opener.opened[1].reads > 3)
    ups = [change for change in items_on(kafka, "control") if isinstance(change, SourceUp)]
    assert sorted(up.streams[0].period_ns for up in ups) == [SUMS.interval_ns, 5 * SUMS.interval_ns]
    assert late(kafka, "host") == 0


def test_health_says_what_is_wrong(embedded_broker: EmbeddedBroker) -> None:
    def prepare(probe: SampleProbe) -> None:
        probe.during_read = lambda: _fail(probe)

    promises = Promises()
    opener = SampleOpener(prepare)
    kafka = embedded_broker.settings
    with Running(settings_of(SUMS), output_on(kafka, promises), promises, opener) as running:
        wait_until(lambda: running.status("sums").errors > 1)
        wait_until(lambda: any(s.probes[0].state == "failing" for s in running.statuses))
    told = [json.loads(message.value or b"") for message in messages_on(kafka, ["health"])]
    failing = [report for report in told if report["state"] == "failing"]
    assert failing
    (probe,) = failing[0]["probes"]
    assert (probe["probe"], probe["state"]) == ("sums", "failing")
    assert "Input/output error" in probe["reason"]


def test_missing_topics_end_the_agent_with_the_next_step() -> None:
    with EmbeddedBroker(prefix="other") as broker:
        settings = KafkaSettings(broker.bootstrap_servers, "fabric")
        output, promises = begun(settings, SUMS)
        with pytest.raises(BrokerError, match="pausetrace topics create"):
            output.take([Taken(SUMS, promises.reads(SUMS), Reading())])
        output.close(in_order=False)


def test_a_broker_that_is_not_there_at_the_start_is_an_error() -> None:
    with pytest.raises(BrokerError, match="no Kafka broker answers"):
        KafkaOutput(KafkaSettings("127.0.0.1:1"), "lab", "h1", Promises(), deadline_s=0.5)


def test_a_reading_of_many_rows_is_promised_away_only_behind_its_last(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    output, promises = begun(kafka, RING)
    first_ns = promises.reads(RING)
    output.take([Taken(RING, first_ns, Reading())])
    read_ns = promises.reads(RING)
    events = empty_events(3000)
    events["kind"] = kinds.BY_NAME["CPU_THROTTLE"].code
    events["time_ns"] = np.linspace(read_ns, first_ns, 3000).astype(np.int64)  # newest first
    parts = [Rows("host", part, ("cpu0",)) for part in np.array_split(events, 3)]
    output.take([Taken(RING, read_ns, Reading(parts))])
    output.close()
    assert output.counters["late_rows"] == 0
    assert late(kafka, "host") == 0
    assert sum(len(item.events) for item in items_on(kafka, "host") if isinstance(item, Batch)) == 3000
