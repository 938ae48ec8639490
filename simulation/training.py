"""Training steps of a job as its ranks would tell of them, drawn from a seed, healthy or with one rank that slows down.

In: a seed. Out: `Training`, times by step and rank. Every rank computes, sends around a ring and waits at the barrier.

What steps of real jobs show and a detector must live with is in it: jitter of each rank (0.2 to 1.5 %), ranks that have
always a little more to do, single long steps (garbage collection, a page fault), checkpoints that all ranks write, and
a load that all share and that drifts. Levels are choices, in the range that published traces of jobs show.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MS = 1_000_000


class Training(NamedTuple):
    """Of each step and rank, ns since the step's release: end of its own compute, end of its exchange.

    `straggler` and `from_step` say who slows down and when; -1 where nobody does.
    """

    compute_ns: Ints
    step_ns: Ints
    straggler: int = -1
    from_step: int = -1


def draw_training(seed: int, *, faulty: bool, steps: int = 40, least_factor: float = 1.15) -> Training:
    """A job of 8 to 64 ranks; a faulty one has a rank that takes 1.15 to 2 times as long from some step on."""
    random = np.random.default_rng(seed)
    ranks = int(random.integers(8, 65))
    base_ms = random.uniform(50, 500)
    jitter = random.uniform(0.002, 0.015)
    own = 1 + random.normal(0, 0.003, ranks)
    drift = 1 + np.cumsum(random.normal(0, 0.001, steps))
    compute = base_ms * drift[:, None] * own * np.exp(random.normal(0, jitter, (steps, ranks)))
    hiccups = random.random((steps, ranks)) < 0.003
    compute[hiccups] *= random.uniform(1.1, 1.6, int(hiccups.sum()))
    compute[random.integers(5, 20) :: 20] *= random.uniform(1.1, 1.5)
    straggler = from_step = -1
    if faulty:
        straggler, from_step = int(random.integers(ranks)), int(random.integers(12, steps - 8))
        compute[from_step:, straggler] *= random.uniform(least_factor, 2.0)
    exchange = base_ms * random.uniform(0.04, 0.2) * (1 + random.normal(0, 0.002, (steps, ranks)))
    # A rank has its last data when it and the one before it in the ring have computed.
    ends = np.maximum(compute, np.roll(compute, 1, axis=1)) + exchange
    return Training((compute * MS).astype(np.int64), (ends * MS).astype(np.int64), straggler, from_step)
