"""What the pollers cost: CPU time of all of them on an idle recorded host, and one look by ioctl beside `ethtool -S`.

Interleaved in rounds. The recorded host is the one of the tests with two mlx5 NICs, on which nothing changes; the look
is by ioctl at an interface of this host that has statistics. Needs ethtool for the second.

The last line is JSON: {"claim", "percent_of_a_core", "bar", "holds", "ethtool_ratio", ...}.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import statistics as st
import subprocess
import time
from pathlib import Path

from probes.host_root import HostRoot
from probes.interfaces import interfaces
from probes.probe import Options, Probe
from probes.statistics import Statistics, statistics
from probes.table import PROBES, PROGRAMS, ProbeKind, module_of

HOST = Path(__file__).resolve().parents[1] / "tests/data/hosts/mlx5/t0"
BAR_PERCENT = 0.5
"""Of a core, which the whole agent may take when nothing happens."""
SECOND_NS = 1_000_000_000


def made() -> list[tuple[ProbeKind, Probe]]:
    """All pollers that have something to read on the recorded host."""
    found = []
    for kind in PROBES:
        if kind.module != PROGRAMS:
            options = Options(kind.name, "h1", "lab", kind.interval_ns, root=HOST)
            if module_of(kind).available(options) is None:
                found.append((kind, module_of(kind).make(options)))
    return found


def percent_of_a_core(probes: list[tuple[ProbeKind, Probe]], first_ns: int, seconds: int) -> float:
    """CPU time of so many seconds of reading at the default intervals."""
    began = time.process_time_ns()
    for second in range(seconds):
        for kind, probe in probes:
            if second * SECOND_NS % kind.interval_ns == 0:
                probe.read(first_ns + second * SECOND_NS)
    return 100 * (time.process_time_ns() - began) / (seconds * SECOND_NS)


def shown_here() -> tuple[str, Statistics] | None:
    """An interface of this host with statistics, if there is one and an ethtool."""
    for interface in interfaces(HostRoot(), ("*",)):
        shown = statistics(HostRoot(), interface.name)
        if shutil.which("ethtool") and shown.read() is not None:
            return interface.name, shown
    return None


def ioctl_us(shown: Statistics, times: int) -> float:
    """CPU time of one look."""
    began = time.process_time_ns()
    for _ in range(times):
        shown.read()
    return (time.process_time_ns() - began) / times / 1_000


def ethtool_us(name: str, times: int) -> float:
    """CPU time of one `ethtool -S`, without what it takes to start it from here."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        subprocess.run(["ethtool", "-S", name], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / times * 1e6


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 9")
    rounds = 3 if parser.parse_args().quick else 9
    probes, here = made(), shown_here()
    now_ns = time.time_ns()
    percents, ratios = [], []
    for number in range(rounds):
        percents.append(percent_of_a_core(probes, now_ns + number * 60 * SECOND_NS, 60))
        if here is not None:
            ratios.append(ethtool_us(here[0], 20) / ioctl_us(here[1], 200))
    percent = st.median(percents)
    print(f"{len(probes)} pollers, nothing changes: {percent:.2f} % of a core (bar {BAR_PERCENT} %)")
    if ratios:
        print(f"`ethtool -S` takes {st.median(ratios):.0f} times the CPU time of a look by ioctl")
    print(json.dumps({
        "claim": "pollers cost next to nothing while nothing changes", "percent_of_a_core": round(percent, 3),
        "range": [round(min(percents), 3), round(max(percents), 3)], "bar": BAR_PERCENT, "holds": percent < BAR_PERCENT,
        "ethtool_ratio": round(st.median(ratios), 1) if ratios else None, "pollers": [kind.name for kind, _ in probes],
        "rounds": rounds, "python": platform.python_version(),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
