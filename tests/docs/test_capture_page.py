"""The lines of docs/capture.md that open a capture elsewhere, and the commands of docs/replay.md, do what they say."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pausetrace.cli.main import build_parser, main
from simulation.trace import read_trace
from simulation.trace_rows import trace_streams
from stream import kinds
from stream.embedded import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/data/ns3/two_roots-ls-s1"
CAPTURE_PAGE = (ROOT / "docs/capture.md").read_text()
REPLAY_PAGE = (ROOT / "docs/replay.md").read_text()
SECTION = re.split(r"^## ", CAPTURE_PAGE.partition("## Opens in pandas, Polars, DuckDB\n")[2], flags=re.MULTILINE)[0]
BLOCKS = re.findall(r"```python\n(.*?)```", SECTION, flags=re.DOTALL)
EXAMPLES = dict(zip(("pandas", "polars", "duckdb", "pausetrace"), BLOCKS, strict=True))
Pairs = list[tuple[tuple[str, str], int]]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `my-capture`, which a trace became."""
    folder = tmp_path_factory.mktemp("work")
    assert main(["capture", "import", str(TRACE), str(folder / "my-capture")]) == 0
    return folder


def stops_by_port() -> Counter[tuple[str, str]]:
    """How often each port was told to stop, from the trace itself."""
    counts: Counter[tuple[str, str]] = Counter()
    streams = trace_streams(read_trace(TRACE), "any", "any", "any", 0)
    for rows in streams.rows:
        stops = rows.events[(rows.events["kind"] == kinds.PFC_XOFF) & (rows.events["side"] == kinds.SIDE_RX)]
        counts.update((rows.device, rows.ports[port]) for port in stops["port"].tolist())
    return counts


PAIRS: dict[str, Callable[[Any], Pairs]] = {
    "pandas": lambda top: list(top.items()),
    "polars": lambda top: [((device, port), n) for device, port, n in top.rows()],
    "duckdb": lambda top: [((device, port), n) for device, port, n in top.fetchall()],
    "pausetrace": lambda top: list(top.items()),
}


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_three_lines_open_a_capture_elsewhere(name: str) -> None:
    lines = [line for line in EXAMPLES[name].splitlines() if line]
    assert lines[0] == f"import {name}"
    assert len(lines) == 3


@pytest.mark.parametrize("name", PAIRS)
def test_the_example_finds_the_ports_that_were_stopped_most_often(
    name: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    names: dict[str, Any] = {}
    exec(EXAMPLES[name], names)
    found = PAIRS[name](names["top"])
    expected = stops_by_port()
    # Of ports with the same number any may be the last.
    assert [count for _, count in found] == [count for _, count in expected.most_common(5)]
    assert all(expected[port] == count for port, count in found)
    assert found[0][1] > 1


def test_the_commands_of_the_page_of_replay_replay_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [line for line in REPLAY_PAGE.split("```")[1].splitlines() if line.startswith("pausetrace ")]
    assert len(commands) == 4
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    with EmbeddedBroker("replay.fabric") as broker:
        monkeypatch.setenv("PAUSETRACE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        for command in commands:
            assert main(shlex.split(command, comments=True)[1:]) == 0, command
    out = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("would replay to replay.fabric.*: ") for line in out) == 1
    (sent,) = [line for line in out if line.startswith("replayed to replay.fabric.*: ")]
    count = sent.split()[3]
    assert out[-1] == f"nothing to send: {count} messages were there already (--again sends them anew)"


def test_every_command_of_the_page_of_replay_parses() -> None:
    parser = build_parser()
    lines = [
        line
        for block in re.findall(r"```sh\n(.*?)```", REPLAY_PAGE, flags=re.DOTALL)
        for line in block.splitlines()
        if line.startswith("pausetrace ")
    ]
    assert len(lines) == 7
    for line in lines:
        parser.parse_args([word for word in shlex.split(line, comments=True)[1:] if word != "&"])


def test_every_option_of_replay_that_the_page_names_is_one() -> None:
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", REPLAY_PAGE)) - {"--workers"}
    shown = (ROOT / "tests/pausetrace/golden/help-replay.txt").read_text()
    assert told - set(re.findall(r"--[a-z-]+", shown)) == {"--prefix", "--source-deadline"}  # of the steps
