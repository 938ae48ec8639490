"""What a probe agent costs a host: memory, time to its first read and idle CPU, with all default probes, publishing.

The last lines are JSON: {"claim", "value", "bar", "holds", ...}, one a claim. Needs root and bcc, as the agent does.
Memory and start are of the agent's process, with byte code as an installation has it; the compiler's child is gone by
then. CPU is of the process over `--seconds`, at default intervals on a host that is otherwise as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stream.embedded import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[1]
RSS_BAR_MB, START_BAR_S, CPU_BAR = 80.0, 3.0, 0.005
SETTLE_S = 5.0


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024 / 1e6


def cpu_s(pid: int) -> float:
    """CPU time of a process's threads, without its children, to the nanosecond."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) * 1e-9


def start_cpu_s(pid: int) -> float:
    """CPU time of a process and of its children that have ended, such as the compiler's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return cpu_s(pid) + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def first_read_s(process: subprocess.Popen[str], url: str, begun_s: float) -> float:
    """Seconds from the start until every probe has been read, unless it cannot run here."""
    import urllib.request

    while True:
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        reads = [float(line.split()[1]) for line in lines if line.startswith("pausetrace_probe_reads_total")]
        missing = [line for line in lines if line.startswith("pausetrace_probe_state") and line.endswith(" 1.0")]
        waiting = sum('state="starting"' in line for line in missing)
        if reads and not waiting:
            return time.monotonic() - begun_s
        if process.poll() is not None:
            sys.exit(f"the agent ended with {process.returncode}")
        time.sleep(0.02)


def main() -> int:
    """Measures and prints; exit status 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to measure CPU")
    seconds = parser.parse_args().seconds
    command = [sys.executable, "-m", "pausetrace.cli.main", "probe"]
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as byte_code:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environ["PYTHONPYCACHEPREFIX"] = byte_code
        publish = ["--metrics-port", "0", "--bootstrap-servers", broker.bootstrap_servers]
        # Once for the byte code.
        subprocess.run([*command, *publish, "--duration", "3s"], cwd=ROOT, env=environ, check=True, capture_output=True)
        begun_s = time.monotonic()
        process = subprocess.Popen(
            [*command, *publish], stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environ
        )  # fmt: skip
        assert process.stderr is not None
        try:
            url = next(line for line in process.stderr if "metrics at " in line).partition("metrics at ")[2].strip()
            start_s = first_read_s(process, url, begun_s)
            took_s = start_cpu_s(process.pid)
            time.sleep(SETTLE_S)
            memory_mb = rss_mb(process.pid)
            before_s, at_s = cpu_s(process.pid), time.monotonic()
            time.sleep(seconds)
            share = (cpu_s(process.pid) - before_s) / (time.monotonic() - at_s)
            grown_mb = rss_mb(process.pid) - memory_mb
        finally:
            process.terminate()
            process.communicate(timeout=30)
    setting = {
        "python": platform.python_version(), "kernel": platform.release(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    }  # fmt: skip
    results = [
        {"claim": f"a probe agent takes at most {RSS_BAR_MB:g} MB", "value": round(memory_mb, 1), "bar": RSS_BAR_MB,
         "holds": memory_mb <= RSS_BAR_MB, "grown_mb": round(grown_mb, 2)},
        {"claim": f"it has read every probe within {START_BAR_S:g} s", "value": round(start_s, 2), "bar": START_BAR_S,
         "holds": start_s <= START_BAR_S, "cpu_s": round(took_s, 2)},
        {"claim": f"idle it takes at most {CPU_BAR:.1%} of a core", "value": round(share, 5), "bar": CPU_BAR,
         "holds": share <= CPU_BAR, "seconds": seconds},
    ]  # fmt: skip
    for result in results:
        print(json.dumps(result | setting))
    return 0 if all(result["holds"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
