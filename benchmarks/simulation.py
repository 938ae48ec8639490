"""How long the fabric's model takes: the story of 2,048 GPUs, and the same scenarios on 256 hosts.

The story: 30 steps of 25 MB a host over 16,384 queue pairs; at step 10 one host's PCIe link comes up at a quarter of
its rate. The time is that of the story alone, kernels being compiled. Without `--quick` every scenario is played on
256 hosts as well. The last line is JSON: {"claim", "bar", "holds", ...}.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulation.fabric import SCENARIOS, SLOWBURN, Story, story
from simulation.fabric import layout as at
from simulation.fabric.warm_up import warm_up

BAR_S = 10.0


def timed(scenario: str, **sizes: Any) -> tuple[Story, float, float]:
    """A story, the seconds that it took, and those of CPU."""
    begin, used = time.perf_counter(), time.process_time()
    told = story(scenario, **sizes)
    return told, time.perf_counter() - begin, time.process_time() - used


def main() -> None:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the story of 2,048 hosts alone")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    warm_up()
    print(f"kernels ready after {time.perf_counter() - begin:.1f} s")
    told, seconds, cpu = timed("pcie_narrow", **SLOWBURN)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    steps = told.step_ns / 1e6
    slower = float(steps[10:].mean() / steps[:10].mean())
    stopped = len({queue for _, queue, _ in told.run.pauses.tolist() if not told.plot.wires.is_inside_host[queue]})
    moves = int(told.run.fabric.state[at.MOVES])
    print(f"story of {len(told.plot.ranks)} hosts: {seconds:.2f} s, {cpu:.2f} s of CPU, {memory_mb} MB")
    print(f"  {moves / 1e6:.1f} M moves of slabs")
    print(f"  {told.run.end_ns / 1e6:.0f} ms; steps of {steps[:10].mean():.2f} ms, then {steps[10:].mean():.2f} ms")
    print(f"  {stopped} ports stopped, {int((told.run.pauses[:, 2] == 1).sum())} times")
    if not arguments.quick:
        for name in SCENARIOS:
            other, took, _ = timed(name, hosts=256)
            moves = int(other.run.fabric.state[at.MOVES])
            print(f"{name}: {took:.2f} s, {moves / 1e6:.1f} M moves, {len(other.run.pauses)} rows of pauses")
    told_of = {"claim": "the story of 2,048 hosts on one core", "bar": f"<= {BAR_S:.0f} s", "holds": seconds <= BAR_S}
    measured = {
        "seconds": round(seconds, 2),
        "cpu_s": round(cpu, 2),
        "memory_mb": memory_mb,
        "slower": round(slower, 3),
    }
    print(json.dumps(told_of | measured))
    sys.exit(seconds > BAR_S)


if __name__ == "__main__":
    main()
