"""Robust z, CUSUM and decayed means, slowly and plainly: lists, NumPy's median and SciPy's MAD."""

from __future__ import annotations

import numpy as np
from scipy.stats import median_abs_deviation

from analytics.tails.past import ALARM, BLOCK, BLOCKS, FAR, LEAST, SLACK


def z_of(x: float, median: float, scale: float, least: float, relative: float) -> float:
    """How many scales x lies above the median."""
    scale = max(scale, least + relative * abs(median))
    if scale:
        return (x - median) / scale
    return float("inf") if x > median else -float("inf") if x < median else 0.0


def against_peers(values: list[float], groups: list[int], least: float, relative: float) -> list[float]:
    """The scores of one tick; NaN where fewer than 4 peers were seen."""
    scores: list[float] = []
    for x, group in zip(values, groups, strict=True):
        everyone = [y for y, of in zip(values, groups, strict=True) if of == group and np.isfinite(y)]
        if np.isfinite(x) and len(everyone) >= 4:
            # SciPy's own constant has more digits.
            scale = 1.4826 * float(median_abs_deviation(everyone))
            scores.append(z_of(x, float(np.median(everyone)), scale, least, relative))
        else:
            scores.append(float("nan"))
    return scores


class Series:
    """One series' own past."""

    def __init__(self, least: float, relative: float, half_lives: tuple[float, float]) -> None:
        self.least, self.relative, self.half_lives = least, relative, half_lives
        self.block: list[float] = []
        self.full: list[tuple[float, float]] = []
        """Median and MAD of each full block."""
        self.away = 0
        self.up = self.down = 0.0
        self.seen: list[tuple[int, float]] = []

    def take(self, tick: int, x: float) -> float:
        if not np.isfinite(x):
            return float("nan")
        self.seen.append((tick, x))
        z = float("nan")
        if (median := self.median()) is not None:
            scale = 1.4826 * BLOCK / (BLOCK - 0.8) * float(np.median([mad for _, mad in self.full[-BLOCKS:]]))
            z = z_of(x, median, scale, self.least, self.relative)
            clipped = float(np.clip(z, -FAR, FAR))
            self.up = min(max(self.up + clipped - SLACK, 0.0), 2 * ALARM)
            self.down = min(max(self.down - clipped - SLACK, 0.0), 2 * ALARM)
        if abs(z) >= FAR:
            self.away += 1
            if self.away < BLOCK * BLOCKS:
                return z
            self.block, self.full = [], []
        self.away = 0
        self.block.append(x)
        if len(self.block) == BLOCK:
            self.full.append((float(np.median(self.block)), float(median_abs_deviation(self.block))))
            self.block = []
        return z

    def median(self) -> float | None:
        return float(np.median([m for m, _ in self.full[-BLOCKS:]])) if len(self.full) >= LEAST else None

    def mean(self, half_life: float) -> float:
        """Each sample counts half as much as one that came a half-life later."""
        if not self.seen:
            return float("nan")
        last = self.seen[-1][0]
        weights = [2.0 ** ((tick - last) / half_life) for tick, _ in self.seen]
        return float(np.average([x for _, x in self.seen], weights=weights))
