"""What a Prometheus scrapes: every counter under its name, from any thread, and a server that no client can stop."""

from __future__ import annotations

import re
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

import analytics
from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.pause_logs import COUNTED as COUNTED_OF_PAUSES
from pausetrace.importer import import_trace
from simulation.trace import read_trace
from stream.batch import MARK_END, Batch, StreamKey
from stream.errors import PausetraceError
from stream.exactly_once import Runner
from stream.kafka_settings import KafkaSettings
from stream.metrics import COUNTERS, FROM_THE_START, Exporter
from stream.metrics_server import MAX_REQUESTS, MetricsServer
from stream.offset_gaps import PartitionId
from stream.progress import FabricProgress, Settled, Status
from stream.record import empty_events
from stream.roster import SourceUp, StreamUp
from stream.topics import FACTS, RAW
from stream.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/data/ns3/slow_receiver-ft4-s1"

STATUS = Status(
    1_800_000_000.5,
    {"items": 12, "dead_letters": 0, "step_lost_rows": 7, "step_brand_new": 1},
    {PartitionId("pfc", 0): 3, PartitionId("control", 0): 0},
    {"dc-1": FabricProgress(1_800_000_000_250_000_000, 1_799_999_999_000_000_000, 5), 'a"b\\\n': FabricProgress()},
)


def values(families: list[Metric]) -> dict[str, float]:
    """Samples without the label `step`, as name{labels}."""
    found = {}
    for family in families:
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k != "step")
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def scraped(exporter: Exporter) -> dict[str, float]:
    return values(list(parse(exporter.render()[0].decode())))


def test_every_counter_lag_and_time_is_served_in_base_units() -> None:
    exporter = Exporter("detect", "1.2.3")
    exporter.take(STATUS)
    found = scraped(exporter)
    assert {
        "pausetrace_items_total": 12.0,
        "pausetrace_dead_letters_total": 0.0,
        "pausetrace_step_lost_rows_total": 7.0,
        "pausetrace_step_brand_new_total": 1.0,
        "pausetrace_lag_messages{partition=0,topic=pfc}": 3.0,
        "pausetrace_lag_messages{partition=0,topic=control}": 0.0,
        "pausetrace_newest_mark_timestamp_seconds{fabric=dc-1}": 1_800_000_000.25,
        "pausetrace_settled_timestamp_seconds{fabric=dc-1}": 1_799_999_999.0,
        "pausetrace_streams_up{fabric=dc-1}": 5.0,
        "pausetrace_turn_timestamp_seconds": 1_800_000_000.5,
        "pausetrace_active": 1.0,
    }.items() <= found.items()
    assert found['pausetrace_streams_up{fabric=a"b\\\n}'] == 0.0
    # Nothing is known of that fabric's time, which is not the year 1970.
    assert 'pausetrace_newest_mark_timestamp_seconds{fabric=a"b\\\n}' not in found
    assert "process_resident_memory_bytes" in found


def test_every_series_bears_the_step_and_the_build_says_what_runs() -> None:
    exporter = Exporter("detect", "1.2.3")
    exporter.take(STATUS)
    families = {family.name: family for family in parse(exporter.render()[0].decode())}
    for family in families.values():
        if family.name.startswith("pausetrace_"):
            assert family.documentation
            assert all(sample.labels["step"] == "detect" for sample in family.samples)
    (build,) = families["pausetrace_build_info"].samples
    assert build.value == 1
    assert build.labels["version"] == "1.2.3"
    assert {"librdkafka", "python", "schema_version"} <= build.labels.keys()


def test_the_same_is_served_as_openmetrics_to_whoever_wants_that() -> None:
    exporter = Exporter("detect", "1.2.3")
    exporter.take(STATUS)
    text, content_type = exporter.render("application/openmetrics-text; version=1.0.0")
    assert "openmetrics" in content_type
    families = list(parse_openmetrics(text.decode()))  # type: ignore[no-untyped-call]
    assert values(families)["pausetrace_items_total"] == 12.0


def test_a_process_without_a_worker_says_so_and_keeps_its_counters() -> None:
    exporter = Exporter("correlate", "1.2.3")
    assert scraped(exporter)["pausetrace_active"] == 0.0
    exporter.take(STATUS)
    exporter.take(None)
    found = scraped(exporter)
    assert (found["pausetrace_active"], found["pausetrace_items_total"]) == (0.0, 12.0)


def test_counters_of_losses_are_there_before_the_first_loss() -> None:
    exporter = Exporter("detect", "1.2.3")
    exporter.take(Status(0.0, {}, {}, {}))
    found = scraped(exporter)
    assert {f"pausetrace_{name}_total": 0.0 for name in FROM_THE_START}.items() <= found.items()
    assert set(FROM_THE_START) <= COUNTERS.keys()


def test_a_scrape_shows_one_moment_while_the_worker_goes_on() -> None:
    exporter = Exporter("detect", "1.2.3")
    exporter.take(Status(0.0, {"items": 0, "outputs": 0}, {}, {}))
    done = threading.Event()
    torn: list[tuple[float, float]] = []

    def scrape() -> None:
        while not done.is_set():
            found = scraped(exporter)
            if found["pausetrace_items_total"] != found["pausetrace_outputs_total"]:
                torn.append((found["pausetrace_items_total"], found["pausetrace_outputs_total"]))

    scrapers = [threading.Thread(target=scrape) for _ in range(4)]
    for thread in scrapers:
        thread.start()
    for turn in range(2_000):
        exporter.take(Status(0.0, {"items": turn, "outputs": turn}, {PartitionId("pfc", turn % 7): turn}, {}))
    done.set()
    for thread in scrapers:
        thread.join()
    assert torn == []


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.read().decode()


def test_the_server_serves_metrics_and_nothing_else() -> None:
    exporter = Exporter("detect", "1.2.3")
    exporter.take(STATUS)
    with MetricsServer(exporter, 0) as server:
        status, text = get(server.url)
        assert status == 200
        assert values(list(parse(text)))["pausetrace_items_total"] == 12.0
        assert get(server.url.replace("/metrics", "/")) == (404, "the metrics are at /metrics\n")
        assert get(server.url.replace("/metrics", "/../etc/passwd"))[0] == 404


def test_clients_that_never_ask_cannot_keep_the_server_from_others_for_long() -> None:
    with MetricsServer(Exporter("detect", "1.2.3"), 0) as server:
        host, port = server.url.removeprefix("http://").removesuffix("/metrics").split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(MAX_REQUESTS)]
        one_more = socket.create_connection((host, int(port)))
        one_more.settimeout(30)
        # All places are taken, so it is hung up on at once; connections are taken in the order in which they came.
        assert one_more.recv(1) == b""
        # Those that never asked are hung up on at their deadline.
        for connection in idle:
            connection.settimeout(30)
            assert connection.recv(1) == b""
        status = 0
        while status != 200:
            try:
                status = get(server.url)[0]
            except (urllib.error.URLError, ConnectionError):
                continue
        for connection in [*idle, one_more]:
            connection.close()


def test_a_port_that_is_taken_is_told_with_the_flag_to_change() -> None:
    exporter = Exporter("detect", "1.2.3")
    with MetricsServer(exporter, 0) as server:
        port = int(re.findall(r":(\d+)/", server.url)[0])
        with pytest.raises(PausetraceError, match="--metrics-port"):
            MetricsServer(exporter, port)
    with pytest.raises(PausetraceError, match="--metrics-port"):
        MetricsServer(exporter, 70_000)
    with pytest.raises(PausetraceError, match="--metrics-host"):
        MetricsServer(exporter, 0, "nowhere.invalid")


def test_correlate_tells_how_far_its_cascades_are_final_and_how_many_streams_it_waits_for() -> None:
    step = Correlate()
    source = SourceUp("lab", "s", "e", 0, (StreamUp("pfc", "leaf1"), StreamUp("queue", "leaf1")))
    stream = StreamKey("lab", "s|pfc", "e", "episode", "leaf1")
    other = stream._replace(source="s|queue")
    step.process([source, Batch(stream, 0, 70_000_000, (), empty_events(0))])
    assert step.settled() == {"lab": Settled(0, 2)}
    step.process([Batch(other, 0, 55_000_000, (), empty_events(0))])
    assert step.settled() == {"lab": Settled(50_000_000, 2)}
    step.process([Batch(other, 0, MARK_END, (), empty_events(0))])
    assert step.settled() == {"lab": Settled(70_000_000, 1)}


@pytest.mark.slow
def test_every_counter_of_the_steps_has_a_meaning(any_kafka: KafkaSettings) -> None:
    import_trace(read_trace(TRACE), any_kafka, "lab", start_ns=0)
    statuses: dict[str, Status] = {}

    def run(name: str, worker: Worker) -> None:
        try:
            worker.run(until_caught_up=True, deadline_s=60)
            statuses[name] = worker.status
        finally:
            worker.close()

    run("detect", Worker(any_kafka, Detect(), name="detect", topics=RAW, group="detect", say=lambda _: None))
    run(
        "correlate",
        Worker(any_kafka, Correlate(True), name="correlate", topics=("episode", *FACTS), say=lambda _: None),
    )
    for status in statuses.values():
        assert status.counters.keys() <= COUNTERS.keys()
        assert set(status.lag_messages.values()) == {0}
    detect, correlate = statuses["detect"], statuses["correlate"]
    assert {place.topic for place in detect.lag_messages} <= {*RAW, "control"}
    assert detect.counters["items"] > 0
    assert detect.fabrics["lab"].newest_mark_ns > 0
    assert detect.fabrics["lab"].streams_up == correlate.fabrics["lab"].streams_up == 0


def test_whatever_the_steps_count_has_words() -> None:
    counted = {
        f"step_{name}"
        for file in Path(analytics.__path__[0]).glob("*.py")
        for line in file.read_text().splitlines()
        if "counters[" in line
        for name in re.findall(r'"([a-z_]+)"', line)
    }
    assert len(counted) > 30
    assert counted | {f"step_{name}" for name in COUNTED_OF_PAUSES.values()} <= COUNTERS.keys()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_runner_tells_its_status_and_when_no_worker_is_at_work(real_settings: KafkaSettings) -> None:
    import_trace(read_trace(TRACE), real_settings, "lab", start_ns=0)
    told: list[Status | None] = []
    Runner(real_settings, say=lambda _: None, on_status=told.append).detect(Detect, until_caught_up=True)
    Runner(real_settings, say=lambda _: None, on_status=told.append).correlate(Correlate, until_caught_up=True)
    assert told[-1] is None
    for status in told:
        if status is not None:
            assert status.counters.keys() <= COUNTERS.keys()
            assert status.counters["restarts"] == 0
