"""A trace on Kafka: in which order its roster, facts and rows come, and that nothing is missing."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pausetrace.importer import import_trace
from pausetrace.reader import Reader
from simulation.trace import read_trace
from simulation.trace_rows import trace_streams
from stream.batch import Batch
from stream.embedded import EmbeddedBroker
from stream.facts import Device, Flow, Link
from stream.kafka_settings import KafkaSettings
from stream.messages import Item
from stream.record import Events
from stream.roster import SourceDown, SourceUp
from stream.topics import FACTS, RAW

TRACE = Path(__file__).resolve().parents[1] / "data/ns3/slow_receiver-ft4-s1"
START_NS = 1_764_540_600_000_000_000


def everything(settings: KafkaSettings, topics: tuple[str, ...]) -> list[Item]:
    found: list[Item] = []
    with Reader(settings, topics, "earliest") as reader:
        end = reader.end()
        while not reader.has_reached(end):
            found += [read.item for read in reader.read() if read.item is not None]
        assert reader.counters["bad_values"] == 0
    return found


def rows_by_stream(items: list[Item]) -> dict[tuple[str, str], Events]:
    parts: dict[tuple[str, str], list[Batch]] = {}
    for item in items:
        if isinstance(item, Batch):
            parts.setdefault((item.stream.topic, item.stream.device), []).append(item)
    for batches in parts.values():
        assert [b.seq for b in batches] == list(np.cumsum([0, *(len(b.events) for b in batches)])[:-1])
        for earlier, later in pairwise(batches):
            assert later.mark_ns >= earlier.mark_ns
            assert (later.events["time_ns"] >= earlier.mark_ns).all()
    return {key: np.concatenate([batch.events for batch in batches]) for key, batches in parts.items()}


@pytest.mark.parametrize("pace_s", [0.0, 1.5])
def test_everything_arrives_in_order(embedded_broker: EmbeddedBroker, pace_s: float) -> None:
    settings = embedded_broker.settings
    trace = read_trace(TRACE)
    done = import_trace(trace, settings, "lab", START_NS, pace_s)
    wanted = trace_streams(trace, "lab", trace.name, done.epoch, START_NS)

    roster = everything(settings, ("control",))
    assert [type(change) for change in roster] == [SourceUp, SourceUp, SourceDown, SourceDown]
    assert isinstance(roster[0], SourceUp)
    assert isinstance(roster[1], SourceUp)
    assert roster[0].streams + roster[1].streams == wanted.up.streams
    assert roster[2:] == [wanted.facts_down, wanted.down]

    facts = everything(settings, FACTS)
    assert len(facts) == done.facts == len(wanted.facts)
    assert {type(fact) for fact in facts} == {Device, Link, Flow}
    assert set(facts) == set(wanted.facts)

    rows = rows_by_stream(everything(settings, RAW))
    full = {(s.topic, s.device): s.events for s in wanted.rows if len(s.events)}
    assert {key for key, events in rows.items() if len(events)} == full.keys()
    for key, events in full.items():
        for field in ("time_ns", "span_ns", "value", "extra", "flow", "kind", "priority", "side", "quality"):
            assert (rows[key][field] == events[field]).all(), (key, field)
    assert done.rows == sum(len(events) for events in full.values())


def test_a_paced_import_moves_the_marks_of_quiet_streams(embedded_broker: EmbeddedBroker) -> None:
    import_trace(read_trace(TRACE), embedded_broker.settings, "lab", START_NS, 2.5)
    quiet = [
        item
        for item in everything(embedded_broker.settings, ("pfc",))
        if isinstance(item, Batch) and item.stream.device == "h15"
    ]
    assert quiet
    assert all(len(batch.events) == 0 for batch in quiet)
    assert max(batch.mark_ns for batch in quiet) > START_NS


def test_two_imports_are_two_lives_of_the_source(embedded_broker: EmbeddedBroker) -> None:
    trace = read_trace(TRACE)
    first = import_trace(trace, embedded_broker.settings, "lab", START_NS)
    second = import_trace(trace, embedded_broker.settings, "lab", START_NS)
    assert first.epoch != second.epoch


def test_progress_ends_at_the_whole(embedded_broker: EmbeddedBroker) -> None:
    told: list[float] = []
    import_trace(read_trace(TRACE), embedded_broker.settings, "lab", START_NS, 1.0, told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_an_import_that_is_stopped_tells_the_roster(embedded_broker: EmbeddedBroker) -> None:
    class StoppedError(Exception):
        pass

    def stop(share: float) -> None:
        if share > 0.2:
            raise StoppedError

    with pytest.raises(StoppedError):
        import_trace(read_trace(TRACE), embedded_broker.settings, "lab", START_NS, 2.0, stop)
    last = everything(embedded_broker.settings, ("control",))[-1]
    assert isinstance(last, SourceDown)
    assert last.reason == "interrupted"
    assert last.at_ns > START_NS
