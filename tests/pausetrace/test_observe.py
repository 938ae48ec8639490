"""What `observe` shows: JSON lines in a pipe, a table on a terminal."""

import io
import json
import logging
import time

import pytest
from msgspec.structs import replace
from rich.console import Console

from pausetrace.columns import Selection
from pausetrace.observe import MAX_LINES_PER_S, JsonLines, LiveTable, Tally, Wanted, observe
from pausetrace.reader import Reader
from stream import kinds
from stream.batch import Batch
from stream.embedded import EmbeddedBroker
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, encode
from stream.record import empty_events
from tests.pausetrace.publishing import publish
from tests.pausetrace.sample_batches import PAUSES
from tests.pausetrace.sample_cascades import SLOW_RECEIVER

EVERYTHING = Wanted(Selection(), None, False)


def json_lines(settings: KafkaSettings, topic: str, wanted: Wanted = EVERYTHING) -> list[str]:
    file = io.StringIO()
    with Reader(settings, [topic], "earliest") as reader:
        observe(reader, JsonLines(file, wanted.local), wanted, follow=False)
    return file.getvalue().splitlines()


def table(settings: KafkaSettings, topic: str, wanted: Wanted = EVERYTHING) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=150, color_system=None)
    with Reader(settings, [topic], "earliest") as reader, LiveTable(console, topic, reader, wanted.local) as live:
        observe(reader, live, wanted, follow=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_one_object_a_row(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, PAUSES)
    rows = [json.loads(line) for line in json_lines(embedded_broker.settings, "pfc")]
    assert [row["kind"] for row in rows] == ["PFC_XOFF", "PFC_XON", "PFC_PAUSED"]
    assert rows[0]["time"] == "2025-11-30T22:10:00.000000000Z"
    assert rows[2]["paused_ns"] == 412_000


def test_rows_are_chosen_and_limited(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, PAUSES, PAUSES)
    chosen = Wanted(Selection(kinds=frozenset({kinds.PFC_XOFF, kinds.PFC_XON})), 3, False)
    rows = [json.loads(line) for line in json_lines(embedded_broker.settings, "pfc", chosen)]
    assert [row["kind"] for row in rows] == ["PFC_XOFF", "PFC_XON", "PFC_XOFF"]


def test_what_is_passed_over_is_counted_row_by_row(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, PAUSES, SLOW_RECEIVER)

    def seen(topic: str, selection: Selection) -> Tally:
        tally = Tally()
        with Reader(embedded_broker.settings, [topic], "earliest") as reader:
            observe(reader, JsonLines(io.StringIO(), False), Wanted(selection, None, False), False, tally)
        return tally

    assert seen("pfc", Selection(frozenset({"nobody"}))) == Tally(0, 3)
    assert seen("pfc", Selection(kinds=frozenset({kinds.PFC_XOFF}))) == Tally(1, 2)
    assert seen("cascade", Selection(frozenset({"nobody"}))) == Tally(0, 1)


def test_a_json_topic_comes_exactly_as_published(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, SLOW_RECEIVER, Encoded("health", b"x", b'{"a":\n 1}'))
    assert json_lines(embedded_broker.settings, "cascade") == [encode(SLOW_RECEIVER).value.decode()]
    assert json_lines(embedded_broker.settings, "health") == ['{"a":  1}']


def test_values_of_a_json_topic_are_chosen_by_the_devices_that_they_name(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, SLOW_RECEIVER)
    assert (
        len(json_lines(embedded_broker.settings, "cascade", Wanted(Selection(frozenset({"core2"})), None, False))) == 1
    )
    assert json_lines(embedded_broker.settings, "cascade", Wanted(Selection(frozenset({"h99"})), None, False)) == []


def test_junk_on_an_undecoded_topic_does_not_stop_the_view(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, Encoded("health", b"x", b"\xff\n\x00"), Encoded("health", b"x", b"{}"))
    for wanted in (EVERYTHING, Wanted(Selection(frozenset({"h9"})), None, False)):
        lines = json_lines(embedded_broker.settings, "health", wanted)
        assert all("\n" not in line for line in lines)


def test_a_terminal_gets_decoded_columns(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, PAUSES)
    text = table(embedded_broker.settings, "pfc")
    assert "paused 412 µs, xoff 37 frames" in text
    assert "2025-11-30T22:10:00.001000000Z" in text
    assert "PFC_XOFF" in text
    assert "3 shown" in text


def test_a_terminal_gets_cascades_as_pictures(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, SLOW_RECEIVER)
    assert "h9 is a slow receiver" in table(embedded_broker.settings, "cascade")


def test_a_flood_is_thinned_on_a_terminal_and_the_rest_counted(embedded_broker: EmbeddedBroker) -> None:
    events = empty_events(1_000)
    events["kind"] = kinds.PFC_XON
    events["time_ns"] = PAUSES.mark_ns
    flood = Batch(PAUSES.stream, 0, PAUSES.mark_ns, ("eth0",), events)
    publish(embedded_broker.settings, *[flood] * 5)
    text = table(embedded_broker.settings, "pfc")
    shown = text.count("PFC_XON")
    assert MAX_LINES_PER_S <= shown < 5_000
    assert f"{5_000 - shown:,} too fast to show" in text


def test_bad_values_are_counted_below_the_table(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, Encoded("pfc", PAUSES.key, b"junk"), PAUSES)
    assert "1 bad values" in table(embedded_broker.settings, "pfc")


def test_a_name_cannot_send_control_sequences(embedded_broker: EmbeddedBroker) -> None:
    evil = Batch(PAUSES.stream._replace(device="h\x1b[2J"), 0, PAUSES.mark_ns, ("\x1b]0;x\x07", "p"), PAUSES.events)
    publish(embedded_broker.settings, evil, replace(SLOW_RECEIVER, severity_reason="\x1b[2J"))
    assert "\x1b[2J" not in table(embedded_broker.settings, "pfc").replace("\x1b[2K", "")
    assert all("\x1b" not in line for line in json_lines(embedded_broker.settings, "pfc"))


@pytest.mark.slow
def test_a_broker_that_goes_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker:
        reader = Reader(broker.settings, ["pfc"])
    with reader, caplog.at_level(logging.WARNING):
        end_s = time.monotonic() + 60
        while not caplog.records and time.monotonic() < end_s:
            assert reader.read() == []
        reader.read()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert told[0].startswith("waiting for Kafka: ")
