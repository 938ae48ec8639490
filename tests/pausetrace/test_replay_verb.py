"""`pausetrace replay` as a process: killed, stopped, gone on with, and what it says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pausetrace.cli.main import main
from stream.capture import capture
from stream.capture_manifest import Range
from stream.capture_message import Captured
from stream.embedded import EmbeddedBroker
from stream.kafka_settings import KafkaSettings
from tests.kafka_brokers import fresh_prefix
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import ListedSource
from tests.stream.replaying import MessageCount, as_sent, make_capture, on_kafka

DEADLINE_S = 60.0
BATCHES = 20
SPEED = "20000"
"""At this speed the first 19 batches of rows take 3 s, and the last one would come minutes later."""
GAP_MS = 30 * 86_400_000


@pytest.fixture
def embedded_target() -> Iterator[KafkaSettings]:
    with EmbeddedBroker("replay.fabric") as broker:
        yield broker.settings


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
def target(request: pytest.FixtureRequest) -> KafkaSettings:
    if request.param == "real":
        return KafkaSettings(request.getfixturevalue("real_kafka"), f"replay.{fresh_prefix()}")
    settings: KafkaSettings = request.getfixturevalue("embedded_target")
    return settings


def arguments(folder: Path, target: KafkaSettings, *options: str) -> list[str]:
    return ["replay", str(folder), "--to-prefix", target.prefix, "--bootstrap-servers", target.bootstrap_servers,
            *options]  # fmt: skip


def start(folder: Path, target: KafkaSettings, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pausetrace.cli.main", *arguments(folder, target, *options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_messages(target: KafkaSettings, count: int, process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    messages = MessageCount(target)
    while messages.now() < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.1)


def is_whole(target: KafkaSettings, captured: list[Captured]) -> bool:
    """Nothing twice, nothing missing, nothing changed, nothing out of order."""
    return as_sent(on_kafka(target)) == as_sent(captured)


@pytest.mark.slow
def test_killed_again_and_again_it_leaves_nothing_out_and_nothing_twice(target: KafkaSettings, tmp_path: Path) -> None:
    captured = make_capture(tmp_path / "c", BATCHES, last_after_ms=GAP_MS)
    for share in (0.3, 0.7):
        process = start(tmp_path / "c", target, "--speed", SPEED)
        wait_for_messages(target, int(share * len(captured)), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert main(arguments(tmp_path / "c", target, "--speed", "max")) == 0
    assert is_whole(target, captured)


@pytest.mark.slow
def test_killed_by_key_at_full_speed_it_leaves_nothing_out_and_nothing_twice(
    embedded_target: KafkaSettings, tmp_path: Path
) -> None:
    captured = make_capture(tmp_path / "c", 1500)
    options = ("--speed", "max", "--partitions", "by-key")
    process = start(tmp_path / "c", embedded_target, *options)
    wait_for_messages(embedded_target, 1, process)
    process.kill()
    process.wait()
    assert main(arguments(tmp_path / "c", embedded_target, *options)) == 0
    found = on_kafka(embedded_target)
    assert sorted(as_sent(unplaced(found))) == sorted(as_sent(unplaced(captured)))


def unplaced(messages: list[Captured]) -> list[Captured]:
    return [each._replace(partition=0, headers=()) for each in messages]


@pytest.mark.slow
def test_stopped_by_a_signal_it_says_how_to_go_on(embedded_target: KafkaSettings, tmp_path: Path) -> None:
    captured = make_capture(tmp_path / "c", BATCHES)
    process = start(tmp_path / "c", embedded_target, "--speed", "1")
    wait_for_messages(embedded_target, 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (130, "pausetrace: stopped: run the same replay again to go on\n")
    # At another speed it is still the same replay.
    assert main(arguments(tmp_path / "c", embedded_target, "--speed", "max")) == 0
    assert is_whole(embedded_target, captured)


def test_it_tells_what_it_sent_and_then_that_all_is_there(
    embedded_broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captured = make_capture(tmp_path / "c")
    command = arguments(tmp_path / "c", embedded_broker.settings, "--any-prefix", "--speed", "max", "-o", "json")
    assert main([*command, "--dry-run"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert main(command) == 0
    sent = json.loads(capsys.readouterr().out)
    assert sent == counted
    assert sent["messages"] == {"control": 2, "link": 1, "pfc": 12, "queue": 12}
    assert (sent["found"], sent["problems"], sent["takes_s"]) == (0, [], None)
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["messages"], again["found"]) == ({}, len(captured))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "c",
        "c.replay-fabric.json",
        "c.replay-fabric.json.lock",
    ]


def test_a_dry_run_tells_how_long_it_would_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_capture(tmp_path / "c")
    assert main(["replay", str(tmp_path / "c"), "--dry-run", "--speed", "2", "--shift", "1h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["control: 2 messages", "link: 1 messages", "pfc: 12 messages", "queue: 12 messages"]
    assert lines[4].startswith("would replay to replay.fabric.*: 27 messages, ")
    assert lines[4].endswith(" of 4 h 10 min, in 2 h 5 min")
    assert lines[5] == "times move by 1 h 0 min"


def unfinished(folder: Path) -> None:
    make_capture(folder)
    (folder / "_manifest.json").rename(folder / "_journal.jsonl")


def damaged(folder: Path) -> None:
    make_capture(folder)
    file = next((folder / "events").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1] + b"!")


def cut(folder: Path) -> None:
    make_capture(folder)
    file = next((folder / "messages").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])


def without_a_file(folder: Path) -> None:
    make_capture(folder)
    next((folder / "messages").rglob("*.parquet")).unlink()


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "no folder": (lambda folder: None, "is no"),
    "an empty folder": (Path.mkdir, "holds no capture: it has no _manifest.json"),
    "unfinished": (unfinished, "is not finished; run the same `pausetrace capture` again: it goes on"),
    "damaged": (damaged, "is damaged: its bytes are not those that were written"),
    "truncated": (cut, "is truncated: "),
    "a file is missing": (without_a_file, "is missing; restore it from a copy, or capture again"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_capture_that_is_not_there_or_broken_is_told_in_one_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, said = BROKEN[case]
    make(tmp_path / "c")
    assert main(["replay", "--dry-run", str(tmp_path / "c")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pausetrace: error: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of some topics alone."""
    folder = tmp_path_factory.mktemp("some") / "c"
    capture(ListedSource(fabric_messages()), folder, ("pfc", "queue", "link", "control"), "fabric", Range())
    return folder


WRONG = {
    "no speed": (["--speed", "fast"], "--speed fast is no speed; give a number such as 1 or 10, or max"),
    "speed nothing": (["--speed", "0"], "--speed 0 is no speed"),
    "speed backwards": (["--speed=-1"], "--speed -1 is no speed"),
    "speed beyond all": (["--speed", "inf"], "--speed inf is no speed"),
    "speed that is no number": (["--speed", "nan"], "--speed nan is no speed"),
    "no duration": (["--shift", "tomorrow"], "--shift tomorrow is no duration; give now, none, or a duration such as"),
    "half a millisecond": (["--shift", "0.5ms"], "--shift 0.5ms is no whole number of ms"),
    "a shift beyond all": (["--shift", "9999999999d"], "would put events before 1970 or after 2116"),
    "a shift to before 1970": (["--shift=-99999d"], "would put events before 1970"),
    "an unknown topic": (["--topic", "pcf"], "no topic 'pcf'; choose from: pfc"),
    "a topic that was not captured": (["--topic", "ecn"], "the capture has no topic ecn; choose from: "),
    "a prefix like the fabric's": (["--to-prefix", "fabric"], "could be taken for what happens now"),
    "a prefix that ends with a dot": (["--to-prefix", "replay."], "'replay.' can begin no topic"),
    "a prefix with a slash": (["--to-prefix", "replay./x"], "--to-prefix 'replay./x' can begin no topic"),
    "a prefix of other letters": (["--to-prefix", "replay.ü"], "can begin no topic; a prefix has 1 to 200 letters"),
    "a time beyond all": (
        ["--from", "9999-12-31T00:00:00Z"],
        "is later than any time of a record; give an earlier one",
    ),
    "an unknown kind": (["--kind", "PFC_XOF"], "did you mean PFC_XOFF?"),
    "no priority": (["--priority", "8"], "--priority 8 is no priority; give 0 to 7, or none"),
    "no flow": (["--flow", "xyz"], "--flow xyz is no flow id; give 16 hex digits"),
    "no time": (["--from", "yesterday"], "--from yesterday: "),
    "nothing between": (
        ["--from", "2026-11-30T22:10:00Z", "--to", "2026-11-30T22:00:00Z"],
        "nothing is between --from 2026-11-30T22:10:00Z and --to 2026-11-30T22:00:00Z",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_meant_is_told_in_one_line_with_the_next_step(
    case: str, captured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, said = WRONG[case]
    assert main(["replay", str(captured), "--dry-run", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pausetrace: error: ")
    assert err.count("\n") == 1
    assert said in err
