"""A played trace counts what polls of the trace count, by the code that cuts traces into polls, at every pace."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from probes.probe import Options, Probe
from simulation.gnmi_targets.host_trees import HostTrees
from simulation.gnmi_targets.played import COUNTED, Pace, Played, pace_over
from simulation.polling import Polling, polled
from simulation.trace import read_trace
from simulation.trace_columns import Counters, Trace
from stream.errors import ConfigError
from tests.probes.recorded import Row, active, rows

TRACES = Path(__file__).parents[1] / "data/ns3"
ALL = sorted(path.name for path in TRACES.iterdir() if path.is_dir())
BEGIN_NS = 1_800_000_000_000_000_000
SLOWER, TIMES = 1_000, 3


class Polled(NamedTuple):
    """A trace and its counters per poll of three bins."""

    trace: Trace
    counters: Counters
    period_ns: int


def polls_of(name: str) -> Polled:
    trace = read_trace(TRACES / name)
    period_ns = 3 * trace.period_ns
    counters = polled(trace, Polling(period_ns), np.random.default_rng(0)).counters
    assert counters is not None
    return Polled(trace, counters, period_ns)


@pytest.mark.parametrize("name", ALL)
def test_it_counts_what_polls_count_however_slow(name: str) -> None:
    trace, counters, _ = polls_of(name)
    played = Played(trace, Pace(SLOWER))
    played.begin(BEGIN_NS)
    for column in COUNTED:
        values = getattr(counters, column)
        if values is None:
            continue
        told = zip(counters.port, counters.priority, counters.end_ns, counters.span_ns, values, strict=True)
        for port, priority, end_ns, span_ns, value in told:
            at_ns = [BEGIN_NS + int(time_ns) * SLOWER for time_ns in (end_ns - span_ns, end_ns)]
            before, after = (played.count(column, int(port), int(priority), now_ns) for now_ns in at_ns)
            assert after - before == max(int(value), 0) * SLOWER


@pytest.mark.parametrize("name", ["two_roots-ls-s1", "incast-ft4-s1"])
def test_its_peaks_are_those_of_polls(name: str) -> None:
    trace, counters, _ = polls_of(name)
    assert counters.q_max_bytes is not None
    played = Played(trace, Pace())
    played.begin(BEGIN_NS)
    told = zip(counters.port, counters.priority, counters.end_ns, counters.span_ns, counters.q_max_bytes, strict=True)
    for port, priority, end_ns, span_ns, value in told:
        end = BEGIN_NS + int(end_ns)
        assert played.peak(int(port), int(priority), end - int(span_ns), end) == max(int(value), 0)


def test_it_is_played_so_often_and_again_and_then_counts_no_more() -> None:
    trace, counters, _ = polls_of("two_roots-ls-s1")
    length_ns = int(trace.counters.end_ns.max()) if trace.counters is not None else 0
    every_ns = 10 * length_ns
    played = Played(trace, Pace(times=TIMES, every_ns=every_ns))
    port = int(counters.port[np.argmax(counters.rx_pause_frames)])
    priority = played.priorities[0]

    def frames(passed_ns: int) -> int:
        return played.count("rx_pause_frames", port, priority, BEGIN_NS + passed_ns)

    assert frames(length_ns) == 0, "nothing happens before it begins"
    played.begin(BEGIN_NS)
    once = int(counters.rx_pause_frames[(counters.port == port) & (counters.priority == priority)].sum())
    assert once > 0
    assert [frames(passed) // once for passed in (0, length_ns, 2 * length_ns, 3 * length_ns, 9 * length_ns)] == [
        0, 1, 2, 3, 3,
    ]  # fmt: skip
    assert frames(every_ns + length_ns) == 4 * once
    # While it is played nothing is deeper than in the trace, afterwards nothing is queued.
    most = played.peak(port, priority, BEGIN_NS, BEGIN_NS + length_ns)
    assert most > 0
    assert played.peak(port, priority, BEGIN_NS + length_ns // 2, BEGIN_NS + 5 * length_ns // 2) == most
    assert played.peak(port, priority, BEGIN_NS + 4 * length_ns, BEGIN_NS + 5 * length_ns) == 0


@pytest.mark.parametrize("repeated", [False, True])
def test_the_incident_takes_as_long_as_asked(repeated: bool) -> None:
    trace = read_trace(TRACES / "slow_receiver-ft4-s1")
    played = Played(trace, pace_over(trace, 4_000_000_000, repeated=repeated))
    played.begin(BEGIN_NS)
    first_ns, last_ns = played.incident_ns
    assert (last_ns - first_ns) / 4e9 == pytest.approx(1, abs=0.01)


def test_a_trace_that_does_not_end_before_it_begins_anew_is_refused() -> None:
    trace = read_trace(TRACES / "slow_receiver-ft4-s1")
    with pytest.raises(ConfigError, match="takes"):
        pace_over(trace, 4_000_000_000, every_ns=1_000_000_000)


def test_pollers_read_in_its_hosts_what_the_trace_says_of_them(tmp_path: Path) -> None:
    trace, _, _ = polls_of("slow_receiver_multi-ls-s1")
    assert trace.counters is not None
    played = Played(trace, Pace(SLOWER))
    trees = HostTrees(played, tmp_path)
    played.begin(BEGIN_NS)
    end_ns = BEGIN_NS + int(trace.counters.end_ns.max()) * SLOWER
    probes = {
        name: [_make(tmp_path / name, module) for module in ("ethtool", "rdma", "pcie")] for name in ("h4", "h13")
    }
    trees.write(BEGIN_NS)
    first = {name: [row for probe in made for row in rows(probe.read(BEGIN_NS))] for name, made in probes.items()}
    trees.write(end_ns)
    found = {name: active([row for probe in made for row in rows(probe.read(end_ns))]) for name, made in probes.items()}
    trees.close()
    assert _told(first["h13"], "PCIE_WIDTH") == [(4, 16)], "4 lanes of 8 GT/s carry the 31500 Mb/s of the trace"
    assert _told(first["h4"], "PCIE_WIDTH") == [(16, 16)]
    for name, told in found.items():
        port = trace.ports.index[name, "eth0"]
        own, other = (trace.counters.port == each for each in (port, int(trace.ports.peer[port])))
        paused = trace.counters.rx_paused_ns
        assert paused is not None
        for side, of in (("rx", own), ("tx", other)):
            values = [row.value for row in told if (row.kind, row.side) == ("PFC_PAUSED", side)]
            assert (sum(value or 0 for value in values) - int(paused[of].sum()) * SLOWER) // 1_000 in (0, -1)


def _make(root: Path, module: str) -> Probe:
    options = Options(module, root.name, "lab", 1_000_000_000, root=root)
    assert importlib.import_module(f"probes.pollers.{module}").available(options) is None
    made: Probe = importlib.import_module(f"probes.pollers.{module}").make(options)
    return made


def _told(found: list[Row], kind: str) -> list[tuple[int | None, int | None]]:
    return [(row.value, row.extra) for row in found if row.kind == kind]
