"""Reads steps.csv of a trace folder: when each host's rank began a training step, ended its own compute, and was done.

In: the folder. Out: `Steps`, and from them the rows that a training hook would have sent.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simulation.trace_columns import Steps
from simulation.trace_table import find_table, read_table
from stream import kinds
from stream.record import MAX_TIME_NS, Events, empty_events

JOB = 1
"""A trace has one job."""


def read_steps(folder: Path, device_index: dict[str, int]) -> Steps | None:
    """The steps, None if the folder has none; without comm_start_ns nobody knows who computes for how long."""
    path = find_table(folder, "steps")
    if path is None:
        return None
    table = read_table(path, ("step", "host", "start_ns", "end_ns"))
    start, end = (table.ints(column, high=MAX_TIME_NS // 2) for column in ("start_ns", "end_ns"))
    computed = table.ints("comm_start_ns", high=MAX_TIME_NS // 2) if table.has("comm_start_ns") else None
    middle = start if computed is None else computed
    wrong = (middle < start) | (end < middle)
    if wrong.any():
        table.fail(int(wrong.argmax()), "a step's times do not rise from start_ns over comm_start_ns to end_ns")
    hosts = table.indices("host", device_index, "no such device in devices.csv")
    return Steps(host=hosts, step=table.ints("step"), start_ns=start, computed_ns=computed, end_ns=end)


def step_rows(steps: Steps) -> list[tuple[int, str, Events]]:
    """Host, rank and rows of each host, sorted by time; ranks count hosts in the order of the file."""
    numbers, first = np.unique(steps.host, return_index=True)
    found = []
    for rank, host in enumerate(numbers[np.argsort(first)].tolist()):
        own = steps.host == host
        parts = [(kinds.STEP_TIME, steps.end_ns[own])]
        if steps.computed_ns is not None:
            parts.append((kinds.COMPUTE_TIME, steps.computed_ns[own]))
        events = empty_events(len(parts) * int(own.sum()))
        events["kind"] = np.repeat([kind for kind, _ in parts], own.sum())
        events["time_ns"] = np.concatenate([ends for _, ends in parts])
        events["value"] = events["time_ns"] - np.tile(steps.start_ns[own], len(parts))
        events["span_ns"] = events["value"]
        events["extra"] = np.tile(steps.step[own], len(parts))
        events["flow"], events["priority"] = JOB, kinds.NO_PRIORITY
        found.append((host, f"rank{rank}", events[np.argsort(events["time_ns"], kind="stable")]))
    return found
