"""`pausetrace explain` from outside: what it reads, which cascade it takes, and what it prints."""

import io
import json
from pathlib import Path

import pytest

from pausetrace.cascade_file import CascadeFileError, newest, parse_cascades
from pausetrace.cli.main import main
from stream.messages import encode
from tests.pausetrace.sample_cascades import SLOW_RECEIVER, SUSPECTS

ROOT = Path(__file__).resolve().parents[2]
TRACE = str(ROOT / "tests/data/ns3/slow_receiver-ft4-s1")
QUIET = str(ROOT / "tests/data/ns3/normal-ls-s1")
OTHER = SUSPECTS.__class__(**{name: getattr(SUSPECTS, name) for name in SUSPECTS.__struct_fields__} | {"id": "8b00"})
ONE = encode(SLOW_RECEIVER).value.decode()
TWO = encode(OTHER).value.decode()


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


def test_a_trace_is_told_the_same_as_its_published_cascade(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from_trace = said(capsys, TRACE)
    words = " ".join(from_trace.split())
    assert "h9 is a slow receiver: its PCIe link is slower than its port." in words
    assert "since PCIe rate of h9 is 31500 of 100000 Mb/s" in words
    for form in ("json", "jsonl"):
        assert main(["analyze", TRACE, "-o", form]) == 0
        file = tmp_path / form
        file.write_text(capsys.readouterr().out)
        assert said(capsys, "--cascade", str(file)) == from_trace


def test_json_has_a_headline_and_sections_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(said(capsys, TRACE, "-o", "json"))
    assert told["headline"] == "h9 is a slow receiver: its PCIe link is slower than its port"
    names = [section["name"] for section in told["sections"]]
    assert names == ["verdict", "evidence", "way", "flows", "timeline", "alternatives", "missing", "change"]


def test_markdown_has_the_headline_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, TRACE, "-o", "markdown").startswith("# h9 is a slow receiver")


def test_a_trace_without_pause_has_nothing_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, QUIET) == "No cascade: no queue was stopped by another.\n"
    assert said(capsys, QUIET, "-o", "json") == "null\n"


def test_stdin_is_read_and_an_id_chooses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(*arguments: str) -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{ONE}\n{TWO}\n".encode())))
        return said(capsys, "--cascade", "-", *arguments)

    assert "cascade 8a3f52c19b0d44e7 of fabric ns3" in " ".join(piped().split())
    assert "cascade 8b00 of fabric ns3" in " ".join(piped("8b").split())


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["8"], 2, "2 cascades have ids that begin with 8"),
        (["9"], 2, "no cascade's id begins with 9; there are 8a3f52c19b0d44e7, 8b00"),
        (["x", "9"], 2, "both x and --cascade say what to read"),
        ([TRACE], 2, "slow_receiver-ft4-s1 and --cascade say what to read"),
        (["--device", "h9"], 2, "a published cascade has no rows to choose or withhold"),
        (["--without", "flows"], 2, "give the trace or capture itself"),
    ],
)
def test_an_id_that_is_no_single_cascades_is_told(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "c").write_text(f"[{ONE},{TWO}]")
    assert main(["explain", *arguments, "--cascade", str(tmp_path / "c")]) == status
    assert message in capsys.readouterr().err


def test_nothing_to_read_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 2
    assert "nothing to explain" in capsys.readouterr().err
    assert main(["explain", "--cascade", "/nowhere/x"]) == 1
    assert "/nowhere/x cannot be read" in capsys.readouterr().err


def test_one_cascade_over_several_lines_is_one() -> None:
    assert parse_cascades(json.dumps(json.loads(ONE), indent=2).encode(), "x") == [SLOW_RECEIVER]
    assert parse_cascades(ONE.encode(), "x") == [SLOW_RECEIVER]
    assert parse_cascades(f"\n{ONE}\n\n{TWO}\n".encode(), "x") == [SLOW_RECEIVER, OTHER]
    assert parse_cascades(b"", "x") == []


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"{}", "x:1 holds no cascade: Object missing required field"),
        (b"[1]", "x holds no cascade: Expected `object`"),
        (f"{ONE}\nnonsense\n".encode(), "x:2 holds no cascade"),
        (b'{\n"id": 1\n}', "x holds no cascade"),
        (b"\xff\xfe", "x:1 holds no cascade"),
    ],
)
def test_what_is_no_cascade_is_told_with_its_place(content: bytes, place: str) -> None:
    with pytest.raises(CascadeFileError, match=f"^{place.replace('[', '.')}"):
        parse_cascades(content, "x")


def test_of_several_revisions_the_last_is_told_and_merged_ones_are_not() -> None:
    revisions = json.loads(ONE)
    lines = [revisions | {"revision": number} for number in (1, 3, 2)]
    merged = json.loads(TWO) | {"merged_into": "8a3f52c19b0d44e7"}

    def parsed(*objects: dict[str, object]) -> list[int | str]:
        return [c.revision for c in newest(parse_cascades("\n".join(map(json.dumps, objects)).encode(), "x"))]

    assert parsed(*lines, merged) == [3]
    assert parsed(revisions, *lines) == ["final"]


def test_dot_is_a_graph_of_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.pausetrace.dot_grammar import label_lines, read

    assert main(["analyze", TRACE, "-o", "dot"]) == 0
    graph = read(capsys.readouterr().out)
    labels = {number: label_lines(node["label"]) for number, node in graph.nodes.items()}
    named = {(labels[tail][0], labels[head][0]) for tail, head, _ in graph.edges}
    assert ("tor4:p2 priority 3", "h9") in named
    assert ["h9", "slow receiver (PCIe)", "100 % of the blame"] in labels.values()
