"""Final cascades are the same bytes live, replayed at the original pace or as fast as can be, and analyzed offline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from analytics.offline import final_cascades
from pausetrace.capture_analysis import analyze_capture
from pausetrace.capture_import import capture_trace
from simulation.trace import read_trace
from stream import kinds
from stream.capture import capture
from stream.capture_manifest import Range
from stream.capture_select import RowFilter
from stream.capture_source import KafkaSource
from stream.cascade import FINAL, Cascade
from stream.embedded import EmbeddedBroker
from stream.kafka_settings import KafkaSettings
from stream.messages import encode
from stream.published import read_cascades
from stream.replay import Replayed, replay
from stream.replay_plan import Options
from stream.roster import RosterChange, SourceResumed, SourceSuspended, StreamName
from stream.topics import TOPICS
from tests.chaos.repeated_trace import PERIOD_NS, RepeatedTrace
from tests.chaos.repeated_trace import START_NS as BEGIN_NS
from tests.kafka_brokers import fresh_prefix
from tests.pausetrace.live_steps import LiveSteps
from tests.pausetrace.published_traces import START_NS, TRACE, Offsets, published_trace, put, trace_as_items
from tests.stream.listed_source import capture_listed

SOURCE = RepeatedTrace(TRACE, times=5)
"""Its cascades lie many of correlate's ticks apart."""
PACE_S = 2.0
MAX = 0.0


class Recording:
    """A source that published over PACE_S seconds, what was said of it meanwhile, and the capture of it."""

    def __init__(self, settings: KafkaSettings, folder: Path, *, exactly_once: bool = False) -> None:
        self.settings = settings
        self.folder = folder
        with LiveSteps(settings, exactly_once=exactly_once) as steps:
            SOURCE.publish(settings, PACE_S, threading.Event())
            self.finals = steps.finals(len(from_files()))
        with KafkaSource(settings) as source:
            capture(source, folder, [topic.name for topic in TOPICS], settings.prefix, Range())


def as_bytes(cascades: tuple[Cascade, ...] | list[Cascade]) -> list[bytes]:
    return sorted(encode(cascade).value for cascade in cascades)


def from_files() -> list[bytes]:
    return as_bytes(final_cascades(SOURCE.items()))


def replayed(recording: Recording, target: KafkaSettings, journal: Path, options: Options, count: int) -> list[bytes]:
    """The final cascades of detect and correlate that read a replay while it is sent."""
    with LiveSteps(target) as steps:
        begun_s = time.monotonic()
        done = replay(recording.folder, target, options, journal)
        assert whole(done)
        if options.speed:
            assert time.monotonic() - begun_s >= done.lasted_ms / 1000 / options.speed > PACE_S / 4
        finals = steps.finals(count)
        assert steps.late_rows == 0
    return finals


def whole(done: Replayed) -> bool:
    return not done.problems


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    with EmbeddedBroker() as broker:
        yield Recording(broker.settings, tmp_path_factory.mktemp("capture") / "c")


@pytest.fixture
def target() -> Iterator[KafkaSettings]:
    with EmbeddedBroker("replay.fabric") as broker:
        yield broker.settings


def test_live_cascades_are_those_from_files(recording: Recording) -> None:
    assert len(recording.finals) > 15
    assert recording.finals == from_files()


@pytest.mark.parametrize("workers", [1, 2])
def test_analyzed_offline(recording: Recording, workers: int) -> None:
    analysis = analyze_capture(recording.folder, RowFilter(), workers=workers)
    assert as_bytes(analysis.cascades) == recording.finals
    assert analysis.unfinished == ()


@pytest.mark.parametrize("by_key", [False, True])
def test_replayed_as_fast_as_can_be(recording: Recording, by_key: bool, target: KafkaSettings, tmp_path: Path) -> None:
    options = Options(speed=MAX, by_key=by_key)
    assert replayed(recording, target, tmp_path / "j", options, len(recording.finals)) == recording.finals


@pytest.mark.slow
def test_replayed_at_the_original_pace(recording: Recording, target: KafkaSettings, tmp_path: Path) -> None:
    options = Options(speed=1.0)
    assert replayed(recording, target, tmp_path / "j", options, len(recording.finals)) == recording.finals


def test_shifted_in_time_it_is_what_a_trace_of_that_time_gives(target: KafkaSettings, tmp_path: Path) -> None:
    capture_trace(read_trace(TRACE), tmp_path / "c", "dc-1", START_NS)
    options = Options(speed=MAX, shift=86_400_000_000_000)
    expected = as_bytes(final_cascades(trace_as_items(start_ns=START_NS + 86_400_000_000_000)))
    with LiveSteps(target) as steps:
        assert whole(replay(tmp_path / "c", target, options, tmp_path / "j"))
        assert steps.finals(len(expected)) == expected


@pytest.mark.parametrize(
    "wanted",
    [
        RowFilter(devices=frozenset({"h6", "leaf2"})),
        RowFilter(kinds=frozenset({kinds.PFC_XOFF, kinds.PFC_XON})),
        RowFilter(from_ns=BEGIN_NS + PERIOD_NS, to_ns=BEGIN_NS + 3 * PERIOD_NS + 700_000),
    ],
    ids=["device", "kind", "time"],
)
def test_rows_chosen_for_a_replay_and_for_an_analysis_give_the_same(
    recording: Recording, wanted: RowFilter, target: KafkaSettings, tmp_path: Path
) -> None:
    analysis = analyze_capture(recording.folder, wanted)
    # A replay ends what it has no end of, which makes final what an analysis calls unfinished.
    unfinished = [msgspec.structs.replace(cascade, revision=FINAL) for cascade in analysis.unfinished]
    expected = as_bytes([*analysis.cascades, *unfinished])
    assert expected not in ([], recording.finals)
    assert replayed(recording, target, tmp_path / "j", Options(speed=MAX, wanted=wanted), len(expected)) == expected


@pytest.mark.slow
def test_a_stream_that_was_suspended_is_suspended_in_a_replay_as_well(target: KafkaSettings, tmp_path: Path) -> None:
    # The rows of the gap have the times at which their source made them; the roster was told when all had come.
    gap = (START_NS + 450_000, START_NS + 700_000)
    offsets: Offsets = {}
    listed = published_trace("boot-1", START_NS, offsets)
    names = (StreamName("pfc", "leaf1"), StreamName("pfc", "h5"))
    told: tuple[RosterChange, ...] = (
        SourceSuspended("dc-1", "taps", "boot-1", gap[0], names), SourceResumed("dc-1", "taps", "boot-1", gap[1], names)
    )  # fmt: skip
    listed = [
        *(each for each in listed if each.topic != "control" or each.offset < 2),
        *(put(change, START_NS + 2_000_000, offsets)._replace(offset=2 + at) for at, change in enumerate(told)),
        *(each._replace(offset=4) for each in listed if each.topic == "control" and each.offset == 2),
    ]
    capture_listed(listed, tmp_path / "c")
    items = trace_as_items()
    up, *rest = items
    expected = as_bytes(final_cascades([up, *told, *rest]))
    assert expected != as_bytes(final_cascades(items))
    assert as_bytes(analyze_capture(tmp_path / "c", RowFilter()).cascades) == expected
    with LiveSteps(target) as steps:
        # Slowly enough that correlate has read the rows of the gap when the roster was told.
        assert whole(replay(tmp_path / "c", target, Options(speed=4.0), tmp_path / "j"))
        assert steps.finals(len(expected)) == expected


@pytest.mark.kafka
def test_the_same_exactly_once_on_a_real_kafka(real_settings: KafkaSettings, tmp_path: Path) -> None:
    recording = Recording(real_settings, tmp_path / "c", exactly_once=True)
    assert recording.finals == from_files()
    target = KafkaSettings(real_settings.bootstrap_servers, f"replay.{fresh_prefix()}")
    assert whole(replay(recording.folder, target, Options(speed=MAX), tmp_path / "j"))
    with LiveSteps(target, exactly_once=True) as steps:
        assert steps.finals(len(recording.finals)) == recording.finals
    assert as_bytes(read_cascades(target)) == recording.finals
