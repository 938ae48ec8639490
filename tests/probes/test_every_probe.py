"""Every row of the table as an agent runs it: on this kernel, and the pollers on recorded hosts."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from probes.budget import Budget
from probes.opening import TableOpener
from probes.probe import Options
from probes.promises import Promises
from probes.runner import ProbeStatus, Runner, Taken
from probes.settings import AgentSettings, ProbeSettings
from probes.table import PROBES, PROGRAMS, ProbeKind
from probes.workers import Workers
from stream import kinds
from stream.record import joined
from tests.probes import frames
from tests.probes.network_lab import add_cable, in_namespace, send
from tests.probes.recorded import HOSTS, Recorded
from tests.probes.sample_probes import wait_until

NEAR, FAR = "near0", "far0"
WINDOW_NS = 200_000_000
READS = 4
PAUSES = 300
DEADLINE_S = 60.0
OFTEN = tuple(kind._replace(interval_ns=WINDOW_NS) for kind in PROBES)


def options_of(kind: ProbeKind, root: Path, interfaces: tuple[str, ...]) -> Options:
    own = {kind.name: ProbeSettings(WINDOW_NS, kind.threshold_ns)}
    return AgentSettings("lab", "h1", own, root, interfaces, cpu_share=1.0).options(kind)


def run_all(
    table: Iterable[ProbeKind], root: Path, interfaces: tuple[str, ...], meanwhile: Callable[[], object]
) -> tuple[list[ProbeStatus], list[Taken]]:
    """Runs the rows that are available until each was read a few times; `meanwhile` is called when all run."""
    wanted = [(kind, options_of(kind, root, interfaces)) for kind in table]
    opener = TableOpener([options for kind, options in wanted if kind.module == PROGRAMS])
    taken: queue.SimpleQueue[Taken] = queue.SimpleQueue()
    promises = Promises()
    runners = [
        Runner(kind, options, opener, promises, taken.put, budget=Budget(1.0, time.monotonic()), phase=0.5)
        for kind, options in wanted
        if opener.available(kind, options) is None
    ]

    workers = Workers()

    def settled(reads: int) -> bool:
        return all(status.reads >= reads or status.errors for status in (runner.status for runner in runners))

    try:
        for runner in runners:
            workers.add(runner)
        wait_until(lambda: settled(1), DEADLINE_S)
        meanwhile()
        wait_until(lambda: settled(READS), DEADLINE_S)
    finally:
        for runner in runners:
            runner.stop()
            workers.hurry(runner)
        ended = [runner.join(DEADLINE_S) for runner in runners]
        workers.close()
        opener.close()
    assert all(ended)
    return [runner.status for runner in runners], [taken.get() for _ in range(taken.qsize())]


def faults(statuses: Iterable[ProbeStatus]) -> list[tuple[str, str]]:
    return [(status.name, status.reason) for status in statuses if status.errors or status.state != "stopped"]


@pytest.mark.ebpf
def test_every_probe_that_is_available_here_is_read_as_an_agent_reads_it() -> None:
    def run() -> None:
        add_cable(NEAR, FAR)
        pause = bytes(frames.pfc({3: 65_535}))
        statuses, taken = run_all(OFTEN, Path("/"), (NEAR, FAR), lambda: send(FAR, [pause] * PAUSES))
        assert faults(statuses) == []
        names = {status.name for status in statuses}
        assert {"packets", "runqueue", "softirq", "hardirq", "napi", "tcp_retransmits", "pressure", "identity"} <= names
        rows = joined([
            rows.events
            for one in taken if one.kind.name == "packets" for rows in one.reading.rows if rows.topic == "pfc"
        ])  # fmt: skip
        stops = rows[(rows["kind"] == kinds.PFC_XOFF) & (rows["side"] == kinds.SIDE_RX)]
        assert len(stops) == PAUSES
        latencies = {one.kind.name for one in taken for rows in one.reading.rows if rows.topic == "kernel"}
        assert {"runqueue", "softirq"} <= latencies

    in_namespace(run)


@pytest.mark.parametrize("host", sorted(path.name for path in HOSTS.iterdir() if (path / "t0").is_dir()))
def test_every_poller_that_a_recorded_host_has_is_read_as_an_agent_reads_it(host: str, tmp_path: Path) -> None:
    recorded = Recorded(host, tmp_path)
    pollers = [kind for kind in OFTEN if kind.module != PROGRAMS]
    statuses, taken = run_all(pollers, recorded.root, (), recorded.advance)
    assert statuses
    assert faults(statuses) == []
    assert {one.kind.name for one in taken} == {status.name for status in statuses}
