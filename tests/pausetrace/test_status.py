"""Who is silent, late or loses rows is on the health topic, and `status` shows it."""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from rich.console import Console

from analytics.correlate import Correlate
from analytics.detect import Detect
from pausetrace.cli.main import run
from pausetrace.status import Status, health_values, status_of
from pausetrace.status_text import print_status
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.batch import Batch, StreamKey
from stream.embedded import EmbeddedBroker
from stream.health_teller import HealthTeller
from stream.messages import Item, encode
from stream.record import empty_events
from stream.roster import SourceDown, SourceUp
from stream.source_health import FabricHealth, SourceHealth
from stream.topics import FACTS, RAW, full_name
from stream.worker import Worker

TRACE = Path(__file__).parents[1] / "data/ns3/two_roots-ls-s1"
S = 1_000_000_000


def source(state: str = "ok", *, teller: str = "detect a", time_ns: int = 100 * S, **more: object) -> bytes:
    told = SourceHealth("lab", "gnmi", teller, time_ns, state, 2, 90, 10, 900_000, 5 * S, 2 * S)
    return msgspec.json.encode(msgspec.structs.replace(told, **more))


def test_what_several_tell_of_one_source_is_put_together() -> None:
    values = [
        source(time_ns=80 * S, rows=1),
        source(),
        source("losing", teller="detect b", rows=110, lost_rows=0, behind_ns=9 * S, silent=("leaf1",)),
        b"\xff no health",
        b'{"what": "weather"}',
    ]
    (told,) = status_of(values, 101 * S).sources
    assert (told.state, told.streams, told.rows, told.lost_rows) == ("losing", 4, 200, 10)
    assert (told.completeness_ppm, told.behind_ns, told.silent) == (952_380, 9 * S, ("leaf1",))
    assert told.told_ago_ns == S


def test_who_has_told_nothing_for_a_minute_is_gone_and_so_is_what_it_told() -> None:
    status = status_of([source(), source(teller="detect b", time_ns=150 * S)], 161 * S)
    assert status.gone == ("detect a",)
    assert [each.streams for each in status.sources] == [2]
    assert status.troubled


def test_a_source_of_which_its_teller_tells_no_more_has_ended() -> None:
    status = status_of([source(), source(source="other", time_ns=140 * S)], 141 * S)
    assert [each.source for each in status.sources] == ["other"]
    assert not status.troubled


def test_a_source_that_said_that_it_ends_is_shown_as_ended_for_an_hour_and_is_no_trouble() -> None:
    values = [source(), source("ended", time_ns=103 * S, streams=0), source(source="other", time_ns=1000 * S)]
    status = status_of(values, 1001 * S)
    assert {each.source: each.state for each in status.sources} == {"gnmi": "ended", "other": "ok"}
    assert not status.troubled
    later = status_of([*values, source(source="other", time_ns=3800 * S)], 3801 * S)
    assert [each.source for each in later.sources] == ["other"]
    again = status_of([*values, source(time_ns=1000 * S)], 1001 * S)
    assert {each.source: each.state for each in again.sources} == {"gnmi": "ok", "other": "ok"}


def test_hosts_whose_probes_have_trouble_say_which() -> None:
    agent = {
        "what": "agent", "fabric": "lab", "device": "h1", "time_ns": 100 * S, "state": "failing",
        "probes": [{"probe": "mlx5", "state": "failing", "reason": "no such file", "rows": 1},
                   {"probe": "pcie", "state": "running"}],
    }  # fmt: skip
    (host,) = status_of([json.dumps(agent).encode()], 101 * S).hosts
    assert (host.state, host.troubles) == ("failing", ("mlx5 failing: no such file",))
    (host,) = status_of([json.dumps(agent | {"state": "ok", "probes": []}).encode()], 161 * S).hosts
    assert host.state == "silent"


def items_without(silent: str) -> list[Item]:
    """A trace as it is published while it goes on, but for what one switch tells."""
    streams = trace_streams(read_trace(TRACE), "lab", "taps", "e1", time.time_ns() - 60 * S)
    items: list[Item] = []
    next_seq: dict[StreamKey, int] = {}
    for item in trace_items(streams):
        if isinstance(item, SourceUp):
            up = tuple(stream for stream in item.streams if stream.device != silent)
            items.append(msgspec.structs.replace(item, streams=up))
            next_seq |= {key: 0 for key in item.stream_keys() if key.device not in ("", silent)}
        elif isinstance(item, SourceDown):
            if all(stream.topic in FACTS for stream in item.streams):
                items.append(item)
        elif not (isinstance(item, Batch) and item.stream.device == silent):
            items.append(item)
            if isinstance(item, Batch):
                next_seq[item.stream] = item.next_seq
    # Idle values, as sources send them every second.
    idle_ns = streams.end_ns + S
    return [*items, *(Batch(key, seq, idle_ns, (), empty_events(0)) for key, seq in next_seq.items())]


def wait_for_health(broker: EmbeddedBroker) -> Status:
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        status = status_of(health_values(broker.settings), time.time_ns())
        if status.sources and any(told.switches for told in status.fabrics):
            return status
        time.sleep(0.2)
    raise AssertionError(f"not told: {health_values(broker.settings)}")


@pytest.mark.slow
def test_a_silent_switch_is_on_the_health_topic_and_in_the_status(
    embedded_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, producer = embedded_broker.settings, Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    for item in items_without("leaf1"):
        topic, key, value = encode(item)
        producer.produce(full_name(settings.prefix, topic), value, key)
    assert producer.flush(30) == 0
    workers = [
        Worker(settings, Detect(), name="detect", topics=RAW, group="detect", say=lambda _: None,
               health=HealthTeller(settings, "detect")),
        Worker(settings, Correlate(), name="correlate", topics=("episode", *FACTS), say=lambda _: None,
               health=HealthTeller(settings, "correlate")),
    ]  # fmt: skip
    threads = [threading.Thread(target=worker.run) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        status = wait_for_health(embedded_broker)
    finally:
        for worker in workers:
            worker.stop.set()
        for thread in threads:
            thread.join(30)
        for worker in workers:
            worker.close()
    (fabric,) = status.fabrics
    assert isinstance(fabric, FabricHealth)
    assert (fabric.fabric, fabric.state, fabric.silent) == ("lab", "silent", ("leaf1",))
    assert fabric.reporting == fabric.switches - 1 > 0
    (told,) = status.sources
    assert (told.source, told.completeness_ppm, told.lost_rows) == ("taps", 1_000_000, 0)
    assert told.rows > 0
    assert run(["status", "--bootstrap-servers", embedded_broker.bootstrap_servers]) == 1
    shown = capsys.readouterr().out
    assert f"{fabric.reporting} of {fabric.switches} switches report" in shown
    assert "silent: leaf1" in shown
    assert "lab/taps" in shown


def test_of_many_sources_those_with_trouble_are_shown_and_some_that_are_well() -> None:
    values = [source(source=f"probes/h{number:04}") for number in range(1_000)]
    values.append(source("silent", source="probes/zz", silent=("zz",)))
    file = io.StringIO()
    print_status(status_of(values, 101 * S), Console(file=file, width=120))
    shown = [" ".join(line.split()) for line in file.getvalue().splitlines()]
    assert shown[1].startswith("silent lab/probes/zz 2 90.0 % 10 2 s 1 s ago silent: zz")
    assert shown[2].startswith("ok lab/probes/h0000")
    assert len(shown) == 1 + 1 + 20 + 1
    assert shown[-1] == "and 980 more that are well: -o json has them all"
