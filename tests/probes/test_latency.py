"""Histograms against a full log of the same events, and the run-queue's against libbpf-tools' runqlat beside it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pausetrace.latency import Latency
from probes.compile import compile_programs
from probes.histogram import BUCKETS, UPPER_NS
from probes.latency import LatencyProbe
from probes.probe import Reading, Unavailable
from probes.programs import Settings, open_probes
from stream import kinds
from stream.record import Events, c_header, joined
from tests.probes.test_programs import MACROS

SOURCES = {"runqueue": ("RUNQUEUE",), "softirq": ("SOFTIRQ", "SOFTIRQ_RUN"), "hardirq": ("HARDIRQ",),
           "napi": ("NAPI",), "block": ("BLOCK",)}  # fmt: skip
WINDOW_NS = 1_000_000_000
RUNQLAT = "/usr/sbin/runqlat"


@contextmanager
def opened(**changes: object) -> Iterator[dict[str, LatencyProbe]]:
    """All latency programs, closed at the end."""
    settings = Settings("lab", "host1", threshold_ns=dict.fromkeys(SOURCES, 0), ring_bytes=1 << 26)
    found = open_probes(list(SOURCES), settings._replace(**changes))  # type: ignore[arg-type]
    probes = {}
    for name, probe in found.items():
        assert not isinstance(probe, Unavailable), (name, probe)
        assert isinstance(probe, LatencyProbe)
        probes[name] = probe
    try:
        yield probes
    finally:
        for probe in probes.values():
            probe.close()


def load(seconds: float) -> None:
    """Switches, disk writes past the cache, timers, loopback packets."""
    until = time.monotonic() + seconds
    switching = (
        "import os\nr, w = os.pipe()\nfor _ in range(3000):\n os.write(w, b'x'); os.read(r, 1); os.sched_yield()"
    )
    while time.monotonic() < until:
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as file, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            workers = [subprocess.Popen(["python3", "-c", switching]) for _ in range(3)]
            write = ["dd", "if=/dev/zero", f"of={file.name}", "bs=16k", "count=200", "oflag=direct"]
            subprocess.run(write, check=False, capture_output=True, timeout=60)
            datagrams.bind(("127.0.0.1", 0))
            for _ in range(100):
                datagrams.sendto(b"x", datagrams.getsockname())
                datagrams.recv(1)
            for worker in workers:
                worker.wait(60)


def rows_of(readings: list[Reading], kind: str) -> Events:
    code = kinds.BY_NAME[kind].code
    every = joined([rows.events for reading in readings for rows in reading.rows])
    return every[every["kind"] == code]


def bucket_of(ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bucket of each latency, as `bucket_of` of bpf/latency.h finds it."""
    return np.searchsorted(UPPER_NS, ns).astype(np.int64)


def test_bucket_bounds_hold_what_they_say() -> None:
    assert len(UPPER_NS) == BUCKETS
    assert (np.diff(UPPER_NS) > 0).all()
    assert UPPER_NS[-1] == (1 << 63) - 1
    ns = np.unique(np.concatenate([np.arange(5000), *(np.array([-1, 0, 1]) + (1 << bit) for bit in range(1, 62))]))
    found = bucket_of(ns)
    assert (ns <= UPPER_NS[found]).all()
    assert (ns[found > 0] > UPPER_NS[found[found > 0] - 1]).all()
    above = found >= 8
    widths = UPPER_NS[found[above]] - UPPER_NS[found[above] - 1]
    assert (widths <= ns[above] / 4 + 1).all()  # four an octave


def test_a_histogram_of_nothing_has_no_quantile() -> None:
    nothing = np.zeros(0, np.int64)
    assert Latency("napi", "", 0, WINDOW_NS, nothing, nothing).quantile_ns(0.5) == 0


@pytest.mark.ebpf
def test_programs_that_interrupt_each_other_count_lost_outliers_in_one_instruction() -> None:
    compiled = compile_programs(list(SOURCES), MACROS, c_header())
    assert not compiled.failed
    lost = f"map[id:{_number(compiled.maps['outliers_lost'], 'map_id')}]"
    counting = 0
    for name, fd in compiled.functions.items():
        command = ["bpftool", "prog", "dump", "xlated", "id", _number(fd, "prog_id")]
        code = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
        assert code.count("lock *(u64 *)") == code.count(lost), name
        counting += code.count(lost)
    assert counting >= len(SOURCES)
    compiled.close()


def _number(fd: int, key: str) -> str:
    found = re.search(rf"^{key}:\s*(\d+)$", Path(f"/proc/self/fdinfo/{fd}").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.ebpf
@pytest.mark.slow
def test_histograms_equal_a_full_log_of_the_same_run() -> None:
    with opened() as probes:
        readings: dict[str, list[Reading]] = {name: [] for name in probes}
        for _ in range(3):
            load(0.5)
            for name, probe in probes.items():
                readings[name].append(probe.read(time.time_ns()))
        for probe in probes.values():
            probe.detach()
        counted = {}
        for name, probe in probes.items():
            readings[name].append(probe.read(time.time_ns() + 10 * WINDOW_NS))
            for slot in probe.slots:
                counted[slot.kind] = slot.histogram.total()
            assert not any(reading.lost for reading in readings[name])
        for name, of_source in SOURCES.items():
            for kind in of_source:
                log = rows_of(readings[name], f"{kind}_OUTLIER")["value"]
                buckets = counted[kind]["buckets"].sum(axis=0)[:BUCKETS]
                assert len(log) > 20, kind
                assert buckets.sum() == len(log), kind
                assert counted[kind]["sum_ns"].sum() == log.sum(), kind
                assert buckets.tolist() == np.bincount(bucket_of(log), minlength=BUCKETS).tolist(), kind
                told = Latency(name, "", 0, WINDOW_NS, UPPER_NS, buckets.astype(np.int64))
                for share in (0.01, 0.5, 0.9, 0.99, 0.999):
                    exact = np.quantile(log, share, method="inverted_cdf")
                    assert told.quantile_ns(share) == UPPER_NS[bucket_of(exact)], (kind, share)
        polls = rows_of(readings["napi"], "NAPI_BUDGET")
        assert polls["extra"].sum() > 0
        assert (polls["value"] <= polls["extra"]).all()
        for probe in probes.values():
            probe.close()
            probe.close()


@pytest.mark.ebpf
def test_a_window_tells_its_buckets_and_outliers_bear_pid_command_and_cpu() -> None:
    with opened(threshold_ns=dict.fromkeys(SOURCES, 1), per_cpu=True) as probes:
        probe = probes["runqueue"]
        now_ns = time.time_ns()
        probe.read(now_ns)
        sleeper = subprocess.Popen(["sleep", "0.3"])
        sleeper.wait()
        reading = probe.read(now_ns + WINDOW_NS)
        outliers, buckets = reading.rows
        assert set(buckets.events["time_ns"]) == {now_ns + WINDOW_NS}
        assert set(buckets.events["span_ns"]) == {WINDOW_NS}
        assert buckets.ports[: os.cpu_count()] == [f"cpu{number}" for number in range(os.cpu_count() or 0)]
        assert set(buckets.events["value"]) <= set(UPPER_NS.tolist())
        of_sleeper = np.flatnonzero(outliers.events["extra"] == sleeper.pid)
        texts = dict(outliers.texts)
        assert {texts[row] for row in of_sleeper.tolist()} & {"sleep"}
        assert all(re.fullmatch(r"cpu\d+", port) for port in outliers.ports)
        assert (outliers.events["span_ns"] == 0).all()
        assert (np.abs(outliers.events["time_ns"] - now_ns) < 60 * WINDOW_NS).all()
        assert reading.kernel_ns > 0
        assert probe.reduce()
        probe.read(now_ns + 2 * WINDOW_NS)
        subprocess.run(["true"], check=True)
        kinds_now = {int(kind) for rows in probe.read(now_ns + 3 * WINDOW_NS).rows for kind in rows.events["kind"]}
        assert kinds_now == {kinds.BY_NAME["RUNQUEUE_BUCKET"].code}
        probe.restore()
        subprocess.run(["true"], check=True)
        assert len(rows_of([probe.read(now_ns + 4 * WINDOW_NS)], "RUNQUEUE_OUTLIER"))


def await_links(pid: int, count: int) -> None:
    """Waits until a process has attached so many BPF programs."""
    end_s = time.monotonic() + 20.0
    held: list[str] = []
    while sum(name == "anon_inode:bpf_link" for name in held) < count:
        assert time.monotonic() < end_s, held
        held = []
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                held.append(str(file.readlink()))


@pytest.mark.ebpf
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(RUNQLAT), reason=f"no {RUNQLAT}: apt-get install libbpf-tools")
def test_the_run_queue_agrees_with_runqlat_beside_it() -> None:
    found = open_probes(["runqueue"], Settings("lab", "host1"))["runqueue"]
    assert isinstance(found, LatencyProbe)
    peer = subprocess.Popen([RUNQLAT, "3", "1"], stdout=subprocess.PIPE, text=True)
    # From the peer's beginning to its end, so that what else this machine does is in both.
    await_links(peer.pid, 3)
    before = found.slots[0].histogram.total()["buckets"].sum(axis=0)
    load(2)
    told, _ = peer.communicate(timeout=30)
    ours = found.slots[0].histogram.total()["buckets"].sum(axis=0) - before
    found.close()
    theirs = np.zeros(40)
    for low, count in re.findall(r"^\s*(\d+) -> \d+\s*: (\d+)", told, re.MULTILINE):
        theirs[int(low).bit_length()] = int(count)
    # Their buckets end at powers of two of whole microseconds, ours at quarters of those of nanoseconds: of one that
    # holds such an end, any part may be below it.
    ends_ns = 1000 << np.arange(1, 40)
    below = np.cumsum(theirs)[1:] / theirs.sum()
    ours = ours[:BUCKETS]
    least_ns = np.concatenate(([0], UPPER_NS[:-1] + 1))
    least = np.array([ours[end_ns > UPPER_NS].sum() for end_ns in ends_ns.tolist()]) / ours.sum()
    most = np.array([ours[end_ns > least_ns].sum() for end_ns in ends_ns.tolist()]) / ours.sum()
    distance = np.maximum(least - below, below - most).max()
    assert distance < 0.05, (least, below, most)
