"""A publisher keeps its streams' promises on a broker, and tells what an outage cost."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import pytest

from stream import kinds
from stream.batch import Batch, StreamKey
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError, PausetraceError
from stream.facts import Device, FactStream, Idle, Link
from stream.kafka_settings import KafkaSettings
from stream.outbox import QUEUE_FULL
from stream.publisher import BATCH_AGE_S, IDLE_S, UNSENT, Publisher
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.stream.reading import batches_on, items_on, messages_on
from tests.stream.source_rows import xoff_rows

PFC = StreamUp("pfc", "leaf1")
PORTS = ("eth0",)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def seconds(self) -> float:
        return self.now_ns / 1e9

    def move(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def publisher(embedded_broker: EmbeddedBroker, clock: Clock) -> Iterator[Publisher]:
    with Publisher(
        embedded_broker.settings, "lab", "probe", "boot-1", clock_ns=clock, monotonic_s=clock.seconds
    ) as publisher:
        yield publisher


def values(publisher: Publisher) -> int:
    return publisher.counters["values"]


def test_the_roster_tells_of_a_stream_before_its_first_row_and_of_its_last(
    publisher: Publisher, embedded_broker: EmbeddedBroker, clock: Clock
) -> None:
    publisher.up([PFC, StreamUp("queue", "leaf1", 1000)], from_ns=5)
    (up,) = items_on(embedded_broker.settings, "control")
    assert up == SourceUp("lab", "probe", "boot-1", 5, (PFC, StreamUp("queue", "leaf1", 1000)))
    publisher.append("pfc", "leaf1", xoff_rows([10, 20]), PORTS)
    publisher.append("pfc", "leaf1", xoff_rows([30]), PORTS)
    publisher.down(40)
    (batch,) = batches_on(embedded_broker.settings, "pfc")
    assert batch.stream == StreamKey("lab", "probe", "boot-1", "pfc", "leaf1")
    assert (batch.seq, batch.mark_ns, len(batch.events), batch.ports) == (0, 30, 3, PORTS)
    _, down = items_on(embedded_broker.settings, "control")
    assert down == SourceDown(
        "lab", "probe", "boot-1", 40, (StreamDown("pfc", "leaf1", 2), StreamDown("queue", "leaf1", -1)), "graceful"
    )


def test_rows_leave_by_size_at_once_and_by_age_when_polled(publisher: Publisher, clock: Clock) -> None:
    publisher.up([PFC], from_ns=0)
    publisher.append("pfc", "leaf1", xoff_rows(range(1025)), PORTS)
    assert values(publisher) == 1
    publisher.poll()
    assert values(publisher) == 1
    clock.move(2 * BATCH_AGE_S)
    publisher.poll()
    assert values(publisher) == 2


def test_an_idle_stream_sends_its_mark_every_second_under_its_own_key(
    publisher: Publisher, embedded_broker: EmbeddedBroker, clock: Clock
) -> None:
    publisher.up([PFC, StreamUp("pfc", "leaf2")], from_ns=0)
    clock.move(IDLE_S / 2)
    publisher.append("pfc", "leaf2", xoff_rows([7]), PORTS)
    clock.move(IDLE_S / 2)
    publisher.poll()
    promised_ns = clock.now_ns
    clock.move(IDLE_S / 2)
    publisher.poll()
    publisher.flush()
    read = {(b.stream.device, len(b.events), b.mark_ns) for b in batches_on(embedded_broker.settings, "pfc")}
    assert read == {("leaf1", 0, promised_ns), ("leaf2", 1, 7)}
    assert {message.key for message in messages_on(embedded_broker.settings, ["pfc"])} == {b"lab/leaf1", b"lab/leaf2"}
    assert publisher.counters["idle_values"] == 1


def test_a_mark_follows_rows_as_soon_as_it_may_reach_them(embedded_broker: EmbeddedBroker, clock: Clock) -> None:
    behind_ns = 300_000_000
    with Publisher(
        embedded_broker.settings,
        "lab",
        "collector",
        "boot-1",
        idle_mark_ns=lambda _stream: clock.now_ns - behind_ns,
        clock_ns=clock,
        monotonic_s=clock.seconds,
    ) as publisher:
        publisher.up([PFC], from_ns=0)
        told_ns = clock.now_ns
        publisher.append("pfc", "leaf1", xoff_rows([told_ns]), PORTS, mark_ns=told_ns - behind_ns)
        for _ in range(20):
            clock.move(BATCH_AGE_S)
            publisher.poll()
    rows, *idle = batches_on(embedded_broker.settings, "pfc")
    assert (len(rows.events), rows.mark_ns) == (1, told_ns - behind_ns)
    # After the time that it is behind and two steps of the clock, not after an idle interval; then it is idle as any.
    (first,) = idle
    assert 0 <= first.mark_ns - told_ns <= 3 * BATCH_AGE_S * 1e9


def test_a_trace_is_idle_as_far_as_its_own_time_has_come(embedded_broker: EmbeddedBroker, clock: Clock) -> None:
    with Publisher(
        embedded_broker.settings,
        "lab",
        "trace",
        "run-1",
        live=False,
        idle_mark_ns=lambda stream: 123 if stream.device == "leaf1" else 0,
        clock_ns=clock,
        monotonic_s=clock.seconds,
    ) as publisher:
        publisher.up([PFC], from_ns=0)
        clock.move(IDLE_S)
        publisher.poll()
        publisher.mark("pfc", "leaf1", 456)
    assert [(batch.mark_ns, batch.seq) for batch in batches_on(embedded_broker.settings, "pfc")] == [(123, 0), (456, 0)]


def test_an_idle_stream_of_facts_sends_its_mark_every_second_under_a_key_of_its_own(
    publisher: Publisher, embedded_broker: EmbeddedBroker, clock: Clock
) -> None:
    publisher.up([StreamUp("device"), StreamUp("link")], from_ns=0)
    publisher.fact(Device("", "leaf1", "leaf", 7, UNSENT))
    clock.move(IDLE_S / 2)
    publisher.fact(Device("", "leaf2", "leaf", 8, UNSENT))
    clock.move(IDLE_S / 2)
    publisher.poll()
    clock.move(IDLE_S / 2)
    publisher.poll()
    publisher.fact(Device("", "leaf3", "leaf", 9, UNSENT))
    publisher.flush()
    link, device = items_on(embedded_broker.settings, "link")[0], items_on(embedded_broker.settings, "device")[-2]
    assert link == Idle("lab", "link", FactStream("probe", "boot-1", 0, clock.now_ns - 500_000_000))
    assert device == Idle("lab", "device", FactStream("probe", "boot-1", 2, clock.now_ns))
    late = items_on(embedded_broker.settings, "device")[-1]
    assert isinstance(late, Device)
    assert (late.stream.seq, late.stream.mark_ns, publisher.counters["late_facts"]) == (2, clock.now_ns, 1)
    assert publisher.counters["idle_values"] == 2


def test_facts_are_numbered_and_promise_their_time(publisher: Publisher, embedded_broker: EmbeddedBroker) -> None:
    publisher.up([StreamUp("device"), StreamUp("link")], from_ns=10)
    for device in ("leaf1", "leaf2"):
        publisher.fact(Device("", device, "leaf", 20, UNSENT))
    publisher.fact(Link("", "leaf1", "e0", "leaf2", "e0", 400_000, 5, UNSENT))
    publisher.down(50)
    one, two = items_on(embedded_broker.settings, "device")
    assert isinstance(one, Device)
    assert isinstance(two, Device)
    assert (one.fabric, one.stream.source, one.stream.seq, one.stream.mark_ns) == ("lab", "probe", 0, 20)
    assert two.stream.seq == 1
    assert publisher.counters["late_facts"] == 1
    down = items_on(embedded_broker.settings, "control")[-1]
    assert isinstance(down, SourceDown)
    assert down.streams == (StreamDown("device", "", 1), StreamDown("link", "", 0))


def test_a_stream_must_be_up_once_before_it_is_used(publisher: Publisher) -> None:
    with pytest.raises(PausetraceError, match=r"not up.*Publisher\.up"):
        publisher.append("pfc", "leaf1", xoff_rows([1]), PORTS)
    with pytest.raises(PausetraceError, match="not up"):
        publisher.fact(Device("", "leaf1", "leaf", 20, UNSENT))
    publisher.up([PFC], from_ns=0)
    with pytest.raises(PausetraceError, match="up already"):
        publisher.up([PFC], from_ns=0)
    with pytest.raises(PausetraceError, match="no stream goes on"):
        publisher.up([StreamUp("cascade")], from_ns=0)
    with pytest.raises(PausetraceError, match="device"):
        publisher.up([StreamUp("pfc", "")], from_ns=0)


def test_topics_that_do_not_exist_stop_a_source_before_its_first_row(embedded_broker: EmbeddedBroker) -> None:
    other = KafkaSettings(embedded_broker.bootstrap_servers, "other")
    with (
        Publisher(other, "lab", "probe", "boot-1") as publisher,
        pytest.raises(BrokerError, match=r"no topic other\.control, other\.pfc.*pausetrace topics create"),
    ):
        publisher.up([PFC], from_ns=0)


def test_an_unreachable_broker_stops_a_source_at_its_start() -> None:
    with pytest.raises(BrokerError, match="no Kafka broker answers"):
        Publisher(KafkaSettings("127.0.0.1:1"), "lab", "probe", "boot-1", deadline_s=0.3)


@contextlib.contextmanager
def hanging(broker: EmbeddedBroker) -> Iterator[None]:
    """The broker takes connections and answers nothing."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def lost_rows_told(batches: list[Batch]) -> int:
    return sum(int(row["value"]) for b in batches for row in b.events if row["kind"] == kinds.SOURCE_LOST)


def pause_rows(batches: list[Batch]) -> list[int]:
    return [int(row["time_ns"]) for b in batches for row in b.events if row["kind"] == kinds.PFC_XOFF]


def test_an_outage_drops_the_oldest_rows_that_do_not_fit_and_says_how_many(embedded_broker: EmbeddedBroker) -> None:
    with Publisher(
        embedded_broker.settings, "lab", "probe", "boot-1", live=False, queue_bytes=50_000, held_bytes=100_000
    ) as publisher:
        publisher.up([PFC], from_ns=0)
        told: list[str] = []
        with hanging(embedded_broker):
            for turn in range(40):
                publisher.append("pfc", "leaf1", xoff_rows(range(turn * 100, turn * 100 + 100)), PORTS)
                publisher.mark("pfc", "leaf1", turn * 100 + 100)
                told += filter(None, [str(publisher.poll() or "")])
            counters = publisher.counters
            assert counters["dropped_queue_full"] > 0
            assert counters["lost_rows"] == 100 * counters["dropped_queue_full"]
        assert len(told) == counters["dropped_queue_full"]
        assert "1 message to fabric.pfc lost: the queue was full while the broker took nothing" in told[0]
        publisher.down(10_000)
    batches = batches_on(embedded_broker.settings, "pfc")
    arrived = pause_rows(batches)
    assert len(arrived) + lost_rows_told(batches) == 4000
    # The newest are there, and what librdkafka had already taken.
    assert arrived[0] == 0
    assert arrived[-1] == 3999
    assert batches[-1].lost == counters["lost_rows"]
    assert {int(row["extra"]) for b in batches for row in b.events if row["kind"] == kinds.SOURCE_LOST} == {QUEUE_FULL}
    down = items_on(embedded_broker.settings, "control")[-1]
    assert isinstance(down, SourceDown)
    assert down.streams[0].last_seq == batches[-1].next_seq - 1


def test_a_delivery_that_fails_is_returned_by_poll_and_told_on_the_topic(embedded_broker: EmbeddedBroker) -> None:
    settings = KafkaSettings(embedded_broker.bootstrap_servers, librdkafka={"message.timeout.ms": "1500"})
    with Publisher(settings, "lab", "probe", "boot-1", live=False) as publisher:
        publisher.up([PFC], from_ns=0)
        failure = None
        with hanging(embedded_broker):
            publisher.append("pfc", "leaf1", xoff_rows([1, 2, 3]), PORTS)
            publisher.mark("pfc", "leaf1", 4)
            end_s = time.monotonic() + 20
            while failure is None and time.monotonic() < end_s:
                failure = publisher.poll(0.05)
        assert failure is not None
        assert "1 message to fabric.pfc lost: Local: Message timed out" in str(failure)
        assert publisher.counters["delivery_errors"] == 1
        assert publisher.counters["lost_rows"] == 3
        publisher.down(10)
    batches = batches_on(embedded_broker.settings, "pfc")
    assert lost_rows_told(batches) == 3
    assert batches[-1].seq == 3
    down = items_on(embedded_broker.settings, "control")[-1]
    assert isinstance(down, SourceDown)
    assert down.streams[0].last_seq == 3


def test_rows_still_waiting_at_the_deadline_are_an_error_and_no_end_is_told(embedded_broker: EmbeddedBroker) -> None:
    publisher = Publisher(embedded_broker.settings, "lab", "probe", "boot-1", live=False)
    publisher.up([PFC], from_ns=0)
    with hanging(embedded_broker):
        publisher.append("pfc", "leaf1", xoff_rows([1]), PORTS)
        with pytest.raises(BrokerError, match=r"1 message could not be delivered .* within 0.3 s"):
            publisher.down(10, deadline_s=0.3)
    publisher.down(11)
    publisher.close()
    up, *ends = items_on(embedded_broker.settings, "control")
    assert isinstance(up, SourceUp)
    # The embedded broker takes a retry of a slow moment for a second message.
    assert {type(end) for end in ends} == {SourceDown}
    assert {end.at_ns for end in ends if isinstance(end, SourceDown)} == {11}


def test_what_a_source_lost_itself_goes_with_its_next_batch(
    publisher: Publisher, embedded_broker: EmbeddedBroker
) -> None:
    publisher.up([PFC], from_ns=0)
    publisher.report_lost("pfc", "leaf1", 17, 3, first_ns=100, last_ns=200)
    publisher.flush()
    (batch,) = batches_on(embedded_broker.settings, "pfc")
    assert (batch.lost, lost_rows_told([batch]), int(batch.events["extra"][0])) == (17, 17, 3)
    assert publisher.counters["lost_rows"] == 17


def test_a_stream_ends_while_others_go_on_and_comes_back_as_another(
    publisher: Publisher, embedded_broker: EmbeddedBroker
) -> None:
    other = StreamUp("pfc", "leaf2")
    publisher.up([PFC, other], from_ns=5)
    publisher.append("pfc", "leaf1", xoff_rows([10, 20]), PORTS)
    publisher.end([("pfc", "leaf1")], 30, "connection lost")
    with pytest.raises(PausetraceError, match="is not up"):
        publisher.append("pfc", "leaf1", xoff_rows([40]), PORTS)
    publisher.append("pfc", "leaf2", xoff_rows([40]), PORTS)
    publisher.up([PFC], from_ns=50)
    publisher.append("pfc", "leaf1", xoff_rows([60]), PORTS)
    rows = publisher.counters["rows"]
    publisher.down(70)
    changes = items_on(embedded_broker.settings, "control")
    assert changes == [
        SourceUp("lab", "probe", "boot-1", 5, (PFC, other)),
        SourceDown("lab", "probe", "boot-1", 30, (StreamDown("pfc", "leaf1", 1),), "connection lost"),
        SourceUp("lab", "probe", "boot-1.2", 50, (PFC,)),
        SourceDown("lab", "probe", "boot-1", 70, (StreamDown("pfc", "leaf2", 0),), "graceful"),
        SourceDown("lab", "probe", "boot-1.2", 70, (StreamDown("pfc", "leaf1", 0),), "graceful"),
    ]
    read = [
        (b.stream.device, b.stream.epoch, b.seq, len(b.events)) for b in batches_on(embedded_broker.settings, "pfc")
    ]
    assert sorted(read) == [("leaf1", "boot-1", 0, 2), ("leaf1", "boot-1.2", 0, 1), ("leaf2", "boot-1", 0, 1)]
    assert rows == 4
