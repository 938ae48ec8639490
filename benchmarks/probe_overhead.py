"""What the run-queue probe costs where it hurts most, beside runqlat of libbpf-tools and of bpftrace; ns a hit of each.

Two processes throw a byte to and fro through pipes; CPU time a round trip with a tracer over that without, interleaved,
median of the rounds. Then ns a hit of each program, from the kernel's own statistics (which cost some of that time) and
from BPF_PROG_TEST_RUN. Needs root, cc, and the peers (Debian: apt-get install libbpf-tools bpftrace).

The last line is JSON: {"claim", "ratio", "bar", "holds", ...}. `--quick` makes fewer rounds; `--table` adds ns a hit.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import pty
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

sys.path.insert(0, str(Path(__file__).parents[1]))

from probes import bpf_call
from probes.attach import attach_tracepoint
from probes.compile import compile_programs
from probes.maps import Map
from probes.packets import PORT
from probes.probe import Unavailable
from probes.programs import Settings, open_probes
from probes.sources import LATENCY_SOURCES, SOURCES
from probes.watched_ports import PORT_KEY
from stream import kinds
from stream.record import c_header
from tests.probes import frames
from tests.probes.bpf_lab import run_program

BAR = 1.12
ROUNDS, RUNS, ROUND_TRIPS = 25, 12, 5_000
REPEAT = 200_000
START_DEADLINE_S, END_DEADLINE_S = 20.0, 5.0
LIBBPF_TOOL, BPFTRACE_TOOL = "libbpf-tools runqlat", "bpftrace runqlat"
RUNQLAT, RUNQLAT_BT = Path("/usr/sbin/runqlat"), Path("/usr/sbin/runqlat.bt")
MACROS = {
    "PID_MAX": 32_768, "RING_PAGES": 256, "PAUSE_RING_PAGES": 256, "MAX_FLOWS": 16_384,
    **{f"LEAST_NS_{source.upper()}": 10_000_000 for source in LATENCY_SOURCES},
}  # fmt: skip
LATENCIES = ("runqueue", "softirq", "hardirq", "napi", "block")


@contextlib.contextmanager
def peer(command: list[str]) -> Iterator[None]:
    """A tracer of others, attached: it says so on its terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        said, deadline = b"", time.monotonic() + START_DEADLINE_S
        while b"Tracing" not in said:
            if not select.select([ours], [], [], max(deadline - time.monotonic(), 0))[0]:
                sys.exit(f"{command[0]} does not begin: {said.decode(errors='replace')}")
            said += os.read(ours, 4096)
        time.sleep(0.2)
        yield
    finally:
        process.terminate()
        deadline = time.monotonic() + END_DEADLINE_S
        with contextlib.suppress(OSError):
            while select.select([ours], [], [], max(deadline - time.monotonic(), 0))[0] and os.read(ours, 4096):
                pass
        process.kill()  # bpftrace has been seen to live on
        process.wait()
        os.close(ours)


@contextlib.contextmanager
def probes(*names: str) -> Iterator[None]:
    """Our probes, attached; outliers from their usual thresholds on."""
    opened = open_probes(names, Settings("bench", "host"))
    try:
        for name, probe in opened.items():
            if isinstance(probe, Unavailable):
                sys.exit(f"{name}: {probe.reason}")
        yield
    finally:
        for probe in opened.values():
            if not isinstance(probe, Unavailable):
                probe.close()


def round_trip_ns(binary: str) -> float:
    """CPU time of a round trip, the least of several runs."""
    command = ["nice", "-n", "-20", binary, str(ROUND_TRIPS), str(max(os.sched_getaffinity(0)))]
    return min(float(subprocess.check_output(command, timeout=60)) for _ in range(RUNS))


def peers(folder: str) -> dict[str, list[str]]:
    """The peers that this machine has. bpftrace's is the same without the one constant that needs kernel headers."""
    found = {LIBBPF_TOOL: [str(RUNQLAT)]} if RUNQLAT.exists() else {}
    if RUNQLAT_BT.exists():
        script = Path(folder) / RUNQLAT_BT.name
        text = RUNQLAT_BT.read_text().replace("#include <linux/sched.h>", "").replace("TASK_RUNNING", "0")
        script.write_text(text)
        found[BPFTRACE_TOOL] = ["bpftrace", str(script)]
    return found


def ratios(binary: str, folder: str, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """By tracer, the ratio and the ns more of each round, each beside a run without."""
    tracers: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "runqueue": lambda: probes("runqueue"),
        "all latency probes": lambda: probes(*LATENCIES),
        **{name: functools.partial(peer, command) for name, command in peers(folder).items()},
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in tracers}
    for number in range(rounds):
        order = list(tracers)[number % len(tracers) :] + list(tracers)[: number % len(tracers)]
        for name in order:
            before = round_trip_ns(binary)
            with tracers[name]():
                during = round_trip_ns(binary)
            # Each of the three is the least of as many runs, and what drifts meanwhile is the same in the middle.
            without = (before + round_trip_ns(binary)) / 2
            found[name].append((during / without, during - without))
    return found


def hit_costs(binary: str) -> dict[str, tuple[float, int]]:
    """By function, time in ns a run and runs, by the kernel's statistics, under pipes and disk writes."""
    compiled = compile_programs(list(SOURCES), MACROS, c_header())
    found: dict[str, tuple[float, int]] = {}
    attached = [
        attach_tracepoint(compiled.functions[function.name], function.tracepoint)
        for source in SOURCES.values()
        if source.name not in compiled.failed
        for function in source.functions
        if function.tracepoint
    ]
    statistics_fd = bpf_call.enable_statistics()
    try:
        round_trip_ns(binary)
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
            for command in (["if=/dev/zero", f"of={file.name}", "bs=64k", "count=2000", "oflag=direct"],
                            [f"if={file.name}", "of=/dev/null", "bs=4k", "iflag=direct"]):  # fmt: skip
                subprocess.run(["dd", *command], check=False, capture_output=True)
    finally:
        os.close(statistics_fd)
    for each in attached:
        each.close()
    for name, fd in compiled.functions.items():
        time_ns, runs = bpf_call.run_time(fd)
        if runs:
            found[name] = (time_ns / runs, runs)
    return found | packet_costs(compiled.functions, compiled.maps)


def packet_costs(functions: dict[str, int], maps: dict[str, int]) -> dict[str, tuple[float, int]]:
    """By packet program and sort of frame, ns a run by BPF_PROG_TEST_RUN, which has frames come in by lo."""
    ports = Map(maps["ports"], PORT)
    for side in (kinds.SIDE_RX, kinds.SIDE_TX):
        ports.update(np.array([(socket.if_nametoindex("lo"), side)], PORT_KEY).tobytes(), bytes(PORT.itemsize))
    ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    sorts = {
        "RoCEv2 data": ethernet / UDP(sport=9, dport=4791) / BTH(opcode=frames.MIDDLE) / bytes(64),
        "TCP": ethernet / TCP() / bytes(64),
        "PFC of one class": frames.pfc({3: 1}),
    }
    return {
        f"{function}, {what}": (float(run_program(functions[function], packet=bytes(frame), repeat=REPEAT)), REPEAT)
        for what, frame in sorts.items()
        for function in ("packets_ingress", "packets_xdp")
    }


def main() -> int:
    """Measures and prints; exit status 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 25")
    parser.add_argument("--table", action="store_true", help="ns a hit of each program too, as a table for the docs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary = str(Path(folder) / "ping_pong")
        subprocess.run(["cc", "-O2", "-o", binary, str(Path(__file__).with_name("ping_pong.c"))], check=True)
        if arguments.table:
            print("| program | ns a hit | hits |\n| --- | --- | --- |")
            for name, (ns, hits) in hit_costs(binary).items():
                print(f"| {name} | {ns:.0f} | {hits} |")
        found = ratios(binary, folder, 3 if arguments.quick else ROUNDS)
    medians = {name: statistics.median(ratio for ratio, _ in rounds) for name, rounds in found.items()}
    for name, rounds in found.items():
        low, high = min(rounds), max(rounds)
        more = statistics.median(ns for _, ns in rounds)
        print(f"{name}: x{medians[name]:.3f} [{low[0]:.3f}..{high[0]:.3f}], {more:+.0f} ns a round trip")
    ours = medians["runqueue"]
    beside = {name: round(medians[name], 3) for name in (LIBBPF_TOOL, BPFTRACE_TOOL) if name in medians}
    result = {
        "claim": "the run-queue probe costs a pipe ping-pong at most 12 %, and less than both runqlats",
        "ratio": round(ours, 3),
        "bar": BAR,
        "peers": beside,
        "holds": ours <= BAR and all(ours < each for each in beside.values()),
        "kernel": platform.release(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result))
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
