"""`pausetrace analyze CAPTURE`: what a trace says, whichever rows are chosen, whenever Kafka was told of the roster."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.offline import final_cascades
from pausetrace.capture_analysis import analyze_capture
from pausetrace.cli.main import main
from stream import kinds
from stream.capture_message import Captured
from stream.capture_select import RowFilter
from stream.cascade import Cascade
from stream.messages import encode
from tests.pausetrace.published_traces import START_NS, TRACE, Offsets, published_trace, trace_as_items
from tests.stream.listed_source import capture_listed

SECOND_NS = 10**9
LATE_MS = START_NS // 10**6 + 3_600_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace as a capture, with times and name of its own."""
    path = tmp_path_factory.mktemp("analyze") / "c"
    assert main(["capture", "import", str(TRACE), str(path)]) == 0
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert main(["analyze", *arguments, "-o", "jsonl"]) == 0
    return capsys.readouterr().out.splitlines()


def expected(start_ns: int = START_NS) -> list[bytes]:
    return as_bytes(final_cascades(trace_as_items(start_ns=start_ns)))


def as_bytes(cascades: list[Cascade] | tuple[Cascade, ...]) -> list[bytes]:
    return sorted(encode(cascade).value for cascade in cascades)


def test_a_capture_of_a_trace_says_what_the_trace_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(said(capsys, str(folder))) > 3
    assert said(capsys, str(folder)) == said(capsys, str(TRACE)) == said(capsys, str(folder), "--workers", "2")


def test_rows_are_chosen_by_the_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = said(capsys, str(folder))
    assert said(capsys, str(folder), "--priority", "3", "--priority", "none", "--from", "1970-01-01T00:00:00Z") == whole
    assert said(capsys, str(folder), "--priority", "4") == []
    of_one = said(capsys, str(folder), "--device", "leaf1", "--kind", "pfc_xoff", "--kind", "PFC_XON")
    wanted = RowFilter(devices=frozenset({"leaf1"}), kinds=frozenset({kinds.PFC_XOFF, kinds.PFC_XON}))
    chosen = analyze_capture(folder, wanted)
    assert sorted(map(str.encode, of_one)) == as_bytes((*chosen.cascades, *chosen.unfinished)) != []
    assert of_one != whole


@pytest.mark.parametrize("options", [["--device", "nosuch"], ["--port", "nosuch", "--workers", "2"]])
def test_a_choice_that_nothing_meets_is_told(
    options: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(folder), *options]) == 0
    assert "pausetrace: note: no row of the capture matches what was chosen\n" in capsys.readouterr().err
    assert main(["analyze", str(folder), "--device", "leaf1"]) == 0
    assert "no row" not in capsys.readouterr().err


def test_values_that_do_not_decode_are_counted_by_analyze_and_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poison = [Captured("queue", 9, at, START_NS // 10**6, "create", b"dc-1/leaf-1", (), b"PTB1?") for at in range(3)]
    removed = Captured("queue", 9, 3, START_NS // 10**6, "create", b"dc-1/leaf-1", (), None)
    capture_listed([*published_trace("boot-1", START_NS, {}), *poison, removed], tmp_path / "c")
    assert main(["analyze", str(tmp_path / "c")]) == 0
    assert "note: 3 values do not decode and are left out: column error" in capsys.readouterr().err
    assert main(["capture", "verify", str(tmp_path / "c")]) == 0
    assert "\n3 values do not decode, and are kept: column error" in capsys.readouterr().out


def test_a_capture_without_its_manifest_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture_listed(published_trace("boot-1", START_NS, {}), tmp_path / "c")
    (tmp_path / "c/_manifest.json").unlink()
    for command in (["analyze", str(tmp_path / "c")], ["devices", "--in", str(tmp_path / "c")]):
        assert main(command) == 1
        assert f"{tmp_path / 'c'} is a capture without its _manifest.json; take" in capsys.readouterr().err


@pytest.mark.parametrize(("first_late", "workers"), [(0, 1), (1, 1), (1, 2)])
def test_when_kafka_was_told_of_the_roster_makes_no_difference(first_late: int, workers: int, tmp_path: Path) -> None:
    listed = [
        message._replace(timestamp_ms=LATE_MS)
        if message.topic == "control" and message.offset >= first_late
        else message
        for message in published_trace("boot-1", START_NS, {})
    ]
    capture_listed(listed, tmp_path / "c")
    assert as_bytes(analyze_capture(tmp_path / "c", RowFilter(), workers=workers).cascades) == expected()


def test_lives_of_a_fabric_stay_apart(tmp_path: Path) -> None:
    offsets: Offsets = {}
    starts = [START_NS + number * 10 * SECOND_NS for number in range(3)]
    listed = [each for start_ns in starts for each in published_trace(f"boot-{start_ns}", start_ns, offsets)]
    capture_listed(listed, tmp_path / "c")
    apart = sorted(value for start_ns in starts for value in expected(start_ns))
    assert as_bytes(analyze_capture(tmp_path / "c", RowFilter()).cascades) == apart


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "0"], "0 workers cannot do anything; give a number from 1"),
        (["--without", "flows"], "--without is for traces; choose a capture's rows by --kind"),
        (["--kind", "PFC_XOF"], "did you mean PFC_XOFF?"),
    ],
)
def test_what_cannot_be_meant_is_told(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(folder), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_rows_of_a_trace_cannot_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(TRACE), "--device", "leaf1"]) == 2
    assert "turn it into one: pausetrace capture import" in capsys.readouterr().err
