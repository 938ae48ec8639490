"""`pausetrace tails` tells stalls and tails of a trace folder, in words and in lines, and of a capture the same."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from pausetrace.cli.main import main
from pausetrace.tails_view import fabric_tails
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from simulation.training import draw_training
from stream.cascade import Root
from stream.embedded import EmbeddedBroker
from tests.analytics.test_inferred_steps import bytes_of
from tests.pausetrace.publishing import publish
from tests.pausetrace.sample_cascades import SLOW_RECEIVER

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
    assert main(["tails", str(trace), "--from", "2030-01-01T00:00:00Z"]) == 0
    assert "No row was found" in capsys.readouterr().out


@pytest.mark.parametrize("order", range(3))
def test_the_order_of_items_does_not_matter(trace: Path, order: int) -> None:
    streams = trace_streams(read_trace(trace), "lab", "t", "e", 0)
    expected = fabric_tails(trace_items(streams), 10**9)
    assert expected[0].stalls
    assert fabric_tails(trace_items(streams, rows_per_value=37, order=order), 10**9) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--period", "0s"], "--period 0s"),
        (["--period", "often"], "--period often"),
        (["--period", "99999999999s"], "is too long"),
        (["--price", "-1"], "--price -1"),
    ],
)
def test_what_cannot_be_meant_is_an_error(
    arguments: list[str], said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tails", str(trace), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_a_hook_the_bytes_of_hosts_tell_the_rank_that_is_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = draw_training(3, faulty=True)
    bin_ns = int(np.median(run.step_ns)) // 80
    hosts = [f"h{rank}" for rank in range(run.compute_ns.shape[1])]
    (tmp_path / "devices.csv").write_text("device,kind\nleaf0,switch\n" + "".join(f"{h},host\n" for h in hosts))
    links = "".join(f"leaf0,p{n},{host},eth0,100000\n" for n, host in enumerate(hosts))
    (tmp_path / "links.csv").write_text("a,a_port,b,b_port,speed_mbps\n" + links)
    rows = [
        f"{tick * bin_ns},{bin_ns},{device},{port},{sent.get((device, port), 0)},{got.get((device, port), 0)}\n"
        for tick, sent, got in bytes_of(run, bin_ns)
        for device, port in sorted({*sent, *got})
    ]
    (tmp_path / "port_counters.csv").write_text("bin_start_ns,bin_ns,device,port,tx_bytes,rx_bytes\n" + "".join(rows))
    assert main(["tails", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"of {len(hosts)} hosts has no hook: by their bytes, steps take" in told
    assert f"by its bytes: steps {run.from_step - 1} to" in told
    assert f"all wait for eth0 on h{run.straggler}: " in told
    (found,) = told_json([str(tmp_path)], capsys)
    assert found["periods"][0]["bin_ns"] == bin_ns
    assert {stall["inferred"] for stall in found["stalls"]} == {True}


def told_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["tails", *arguments, "-o", "json"]) == 0
    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return told


def test_a_capture_tells_what_the_trace_does(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = tmp_path / "capture"
    assert main(["capture", "import", str(trace), str(capture)]) == 0
    capsys.readouterr()
    expected = told_json([str(trace)], capsys)
    assert expected[0]["stalls"]
    assert expected[0]["tails"]
    assert told_json([str(capture)], capsys) == expected
    late = ["--from", "1970-01-01T00:00:03Z", "--to", "1970-01-01T00:00:11Z"]
    assert told_json([str(capture), *late], capsys) == told_json([str(trace), *late], capsys)


def test_kafka_tells_what_the_trace_does_and_which_cascade_of_polls_is_behind_it(
    trace: Path, embedded_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = ["--bootstrap-servers", embedded_broker.bootstrap_servers]
    publish(embedded_broker.settings, *trace_items(trace_streams(read_trace(trace), "run", "t", "e", 0)))
    expected = told_json([str(trace)], capsys)
    assert told_json(servers, capsys) == expected
    stall = expected[0]["stalls"][0]
    assert (stall["cause"], stall["cascades"]) == ("not_the_fabric", [])
    # The rank's host pauses in that time too, as far as polls tell: then it is not known to be its compute alone.
    at_host = Root("h141", "", 3, "host", 990_000, 10**9, "slow_receiver_pcie", ())
    suspects = msgspec.structs.replace(
        SLOW_RECEIVER, id="polled", fabric="run", start_ns=stall["start_ns"], end_ns=stall["end_ns"], mode="sampled",
        periods=2, poll_ns=10**9, suspect_set=True, roots=(at_host,), victims=(),
    )  # fmt: skip
    elsewhere = msgspec.structs.replace(suspects, id="elsewhere", roots=(), queues=())
    publish(embedded_broker.settings, suspects, elsewhere)
    (told,) = told_json(servers, capsys)[0]["stalls"]
    assert (told["cause"], told["cascades"]) == ("cascade", ["polled"])
    assert main(["tails", *servers]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "behind it: cascade polled (h141, slow_receiver_pcie, suspected)" in said
