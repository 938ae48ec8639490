"""Ranks that hold up their job, slowly and plainly: whole tables of steps, NumPy's median, no state."""

from __future__ import annotations

import numpy as np

Name = tuple[str, str]


def z_of(value: float, others: list[int]) -> float:
    """How many robust standard deviations a value lies above the median of others."""
    distance = value - float(np.median(others))
    mad = float(np.median(np.abs(np.array(others) - np.median(others))))
    if mad == 0:
        return float("inf") if distance > 0 else 0.0
    return distance / mad / 1.4826


def slow_steps(table: list[dict[Name, int]], lengths: list[int]) -> dict[Name, list[int]]:
    """By rank, the numbers of its slow steps; `table` has the compute times of each step, `lengths` how long it was."""
    slow: dict[Name, list[int]] = {}
    for name in sorted({name for computes in table for name in computes}):
        past: list[int] = []
        for step, (computes, length) in enumerate(zip(table, lengths, strict=True)):
            if name not in computes or len(computes) < 4:
                continue
            value, everyone = computes[name], list(computes.values())
            late = value - float(np.median(everyone)) >= length / 20 and z_of(value, everyone) >= 3.5
            recent = past[-32:]
            if len(recent) >= 8:
                late = late and value - int(np.median(recent)) >= length / 20 and z_of(value, recent) >= 3.5
            if late:
                slow.setdefault(name, []).append(step)
            else:
                past.append(value)
    return slow


def spells(table: list[dict[Name, int]], lengths: list[int]) -> set[tuple[Name, int, int]]:
    """(rank, first step, number of steps) of what is told: three in a row at once, then every hundred or at last."""
    told = set()
    slow = slow_steps(table, lengths)
    for name, steps in slow.items():
        seen = [step for step, computes in enumerate(table) if name in computes and len(computes) >= 4]
        runs: list[list[int]] = []
        for place, step in enumerate(seen):
            if step in steps:
                if place and seen[place - 1] in steps:
                    runs[-1].append(step)
                else:
                    runs.append([step])
        for run in runs:
            parts = [run[:3], *(run[start : start + 100] for start in range(3, len(run), 100))]
            told |= {(name, part[0], len(part)) for part in parts if len(part) >= 3}
    return told
