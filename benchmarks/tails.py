"""What the tails of a fleet cost: samples a second of one core, over a million series, against NumPy's and SciPy's own.

Both get the same samples turn by turn. Ours scores each against its peers and its own past, with CUSUM and two decayed
means; theirs takes numpy.median and scipy.stats.median_abs_deviation of each group, and of one block of 15 samples of
each series, and has no state. Series come as polls do, 32 ports of each of two roles by device, which the bar is for,
or, as the worst that can be, in random order.

The last line is JSON: {"claim", "ratio", "bar", "holds", ...}. `--quick` takes fewer series and turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import median_abs_deviation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analytics.tails import past
from analytics.tails.series import Tails

BAR_PER_S = 20e6
BLOCK_OF = 20
"""Theirs gets every twentieth series: it takes that much longer."""


def theirs(samples: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], blocks: npt.NDArray[np.float64]) -> None:
    """The same scores by NumPy and SciPy."""
    for group in range(int(groups.max()) + 1):
        of = samples[groups == group]
        _ = (of - np.median(of)) / (past.SCALE * median_abs_deviation(of))
    _ = (samples - np.median(blocks, axis=1)) / (past.SCALE * median_abs_deviation(blocks, axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer series and turns")
    quick = parser.parse_args().quick
    series, turns = (200_000, 7) if quick else (1_000_000, 9)
    random = np.random.default_rng(1)
    results: dict[str, dict[str, float]] = {}
    for order in ("by device", "random"):
        groups = np.arange(series) // 32 % 2 + 2 * (np.arange(series) // 20_000)
        if order == "random":
            groups = random.permutation(groups)
        samples = [100 + random.standard_normal(series) for _ in range(5)]
        for of_tick in samples:
            of_tick[random.random(series) < 0.01] = np.nan
        part = np.arange(0, series, BLOCK_OF)
        part_groups = np.unique(groups[part], return_inverse=True)[1].astype(np.int64)
        blocks = 100 + random.standard_normal((len(part), past.BLOCK))
        tails = Tails(groups)
        # What is measured is the state of long after: a past that is full.
        for tick in range(past.BLOCK * past.LEAST + 1):
            tails.take(tick, samples[tick % 5])
        ours_s: list[float] = []
        theirs_s: list[float] = []
        for turn in range(turns):
            # Over whole blocks, so that what the end of a block costs is spread as it is in the field.
            begin = time.process_time()
            for tick in range(past.BLOCK):
                tails.take(100 + turn * past.BLOCK + tick, samples[tick % 5])
            ours_s.append((time.process_time() - begin) / (past.BLOCK * series))
            begin = time.process_time()
            theirs(np.nan_to_num(samples[turn % 5][part], nan=100.0), part_groups, blocks)
            theirs_s.append((time.process_time() - begin) / len(part))
        results[order] = {
            "samples_per_s": round(1 / min(ours_s)),
            "median_samples_per_s": round(1 / statistics.median(ours_s)),
            "ratio": round(min(theirs_s) / min(ours_s), 1),
            "median_ratio": round(statistics.median(t / o for o, t in zip(ours_s, theirs_s, strict=True)), 1),
            "bytes_a_series": round(tails.nbytes / series),
        }
        print(order, results[order])
    of_polls = results["by device"]
    print(
        json.dumps(
            {
                "claim": "a core scores 20 million samples a second against their peers and their own past",
                "ratio": of_polls["ratio"],
                "samples_per_s": of_polls["samples_per_s"],
                "bar": BAR_PER_S,
                "holds": of_polls["samples_per_s"] >= BAR_PER_S,
                "results": results,
                "series": series,
                "cpus": len(os.sched_getaffinity(0)),
                "load": round(os.getloadavg()[0], 1),
                "machine": platform.machine(),
                "python": platform.python_version(),
                **{name: version(name) for name in ("numba", "numpy", "scipy")},
            }
        )
    )
    sys.exit(of_polls["samples_per_s"] < BAR_PER_S)


if __name__ == "__main__":
    main()
