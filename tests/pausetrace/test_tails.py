"""`pausetrace tails` tells stalls and tails of a trace folder, in words and in lines, and of a capture the same."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from pausetrace.cli.main import main
from pausetrace.tails_view import fabric_tails
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams

RUN = Path(__file__).parents[1] / "data/training/long_straggler-ls16-s6"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The recorded steps of 64 ranks, with the devices and counters that a trace must have."""
    folder = tmp_path / "run"
    folder.mkdir()
    with gzip.open(RUN / "steps.csv.gz", "rt") as file:
        steps = file.read()
    (folder / "steps.csv").write_text(steps)
    hosts = sorted({line.split(",")[1] for line in steps.splitlines()[1:]})
    (folder / "devices.csv").write_text("device,kind\nleaf0,switch\n" + "".join(f"{h},host\n" for h in hosts))
    links = "".join(f"leaf0,p{n},{host},eth0,100000\n" for n, host in enumerate(hosts))
    (folder / "links.csv").write_text("a,a_port,b,b_port,speed_mbps\n" + links)
    rows = [
        f"{tick * 10**9},{10**9},leaf0,p{port},3,{(5 + 300 * (port == 7 and tick > 4)) * 10**6},{tick}\n"
        for tick in range(12)
        for port in range(len(hosts))
    ]
    (folder / "port_counters.csv").write_text(
        "bin_start_ns,bin_ns,device,port,prio,rx_paused_ns,rx_pause_frames\n" + "".join(rows)
    )
    return folder


def test_the_mean_the_tail_the_cost_and_the_cause_are_told(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tails", str(trace), "--price", "3.6"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "steps 50 to 131 took 162 ms where 129 ms is usual: 1.26 times as long" in told
    assert "the mean said: of 64 ranks one computes for" in told
    assert "all wait for rank" in told
    assert re.search(r"on h141: 3\d.\d ms later than the median rank in 82 of 82 steps, by its own compute", told)
    assert "rank-seconds, 0.17 at the price given" in told
    assert "not the fabric" in told
    assert "leaf0:p7/3" in told


def test_lines_are_stalls_and_tails_by_name(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tails", str(trace), "-o", "jsonl"]) == 0
    stall, tail = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (stall["what"], stall["cause"], stall["ranks_behind"][0]["device"]) == ("stall", "not_the_fabric", "h141")
    assert (tail["what"], tail["device"], tail["port"], tail["measure"]) == ("tail", "leaf0", "p7", "stopped")
    assert tail["role"] == "switch to host, priority 3"


def test_a_range_of_time_is_looked_at_alone(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tails", str(trace), "--to", "1970-01-01T00:00:05Z", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["stalls"] == []
    assert main(["tails", str(trace), "--to", "1970-01-01T00:00:04Z"]) == 0
    assert "No series stands out" in capsys.readouterr().out


@pytest.mark.parametrize("order", range(3))
def test_the_order_of_items_does_not_matter(trace: Path, order: int) -> None:
    streams = trace_streams(read_trace(trace), "lab", "t", "e", 0)
    expected = fabric_tails(trace_items(streams), 10**9)
    assert expected[0].stalls
    assert fabric_tails(trace_items(streams, rows_per_value=37, order=order), 10**9) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--period", "0s"], "--period 0s"), (["--period", "often"], "--period often"), (["--price", "-1"], "--price -1")],
)
def test_what_cannot_be_meant_is_an_error(
    arguments: list[str], said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tails", str(trace), *arguments]) == 2
    assert said in capsys.readouterr().err
