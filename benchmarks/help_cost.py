"""What `pausetrace --help` costs, as a ratio to importing msgspec and argparse; CPU time, least of interleaved runs.

The last line is JSON: {"claim", "ratio", "bar", "holds", ...}. `--quick` makes fewer runs.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

BAR = 3.0
PEER = [sys.executable, "-c", "import msgspec, argparse"]
SCRIPT = Path(sys.executable).with_name("pausetrace")
OURS = [str(SCRIPT) if SCRIPT.exists() else "pausetrace", "--help"]


def cpu_s(command: list[str]) -> float:
    """User and system time of one run of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed with exit status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measures and prints; exit status 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 runs instead of 50")
    runs = 10 if parser.parse_args().quick else 50
    cpu_s(OURS), cpu_s(PEER)  # the first run writes byte code
    pairs = [(cpu_s(OURS), cpu_s(PEER)) for _ in range(runs)]
    ours, peer = (min(times) for times in zip(*pairs, strict=True))
    print(
        f"pausetrace --help {ours * 1000:.0f} ms, import msgspec, argparse {peer * 1000:.0f} ms, least of {runs} runs"
    )
    ratio = ours / peer
    result = {
        "claim": "`pausetrace --help` costs at most 3 times `python -c 'import msgspec, argparse'`",
        "ratio": round(ratio, 2),
        "bar": BAR,
        "holds": ratio <= BAR,
        "python": platform.python_version(),
        "msgspec": version("msgspec"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result))
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
