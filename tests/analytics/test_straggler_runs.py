"""Of 200 drawn jobs the rank that slows down is named within three steps, of 200 healthy ones none."""

from __future__ import annotations

import pytest

from analytics.stragglers import MIN_RANKS, StepRow, Stragglers
from simulation.training import Training, draw_training
from stream.kinds import COMPUTE_TIME, STEP_TIME

RUNS = 200
BEGIN_NS = 1_000_000_000


def told(run: Training, with_compute: bool) -> list[tuple[int, set[int]]]:
    """By the step after which it is told: the ranks that are named."""
    found, said, now_ns = Stragglers(), [], BEGIN_NS
    for step, (computes, lengths) in enumerate(zip(run.compute_ns.tolist(), run.step_ns.tolist(), strict=True)):
        rows = []
        for rank, (compute_ns, step_ns) in enumerate(zip(computes, lengths, strict=True)):
            rows.append(StepRow(now_ns + step_ns, 7, STEP_TIME, f"h{rank}", f"rank{rank}", step, step_ns))
            if with_compute:
                rows.append(StepRow(now_ns + compute_ns, 7, COMPUTE_TIME, f"h{rank}", f"rank{rank}", step, compute_ns))
        said += [
            (step - 1, {int(device[1:]) for device in (spell.device, *(host for host, _ in spell.tied))})
            for _, spell in found.take(rows)
        ]
        now_ns += max(lengths)
    return said


@pytest.mark.parametrize("with_compute", [True, False])
def test_the_rank_that_slows_down_is_named_within_three_steps(with_compute: bool) -> None:
    right = 0
    for seed in range(RUNS):
        run = draw_training(seed, faulty=True)
        ranks = run.compute_ns.shape[1]
        assert ranks > MIN_RANKS
        # Without compute times the next in the ring, which waits for it, ends with it.
        most = {run.straggler} if with_compute else {run.straggler, (run.straggler + 1) % ranks}
        said = told(run, with_compute)
        in_time = [named for step, named in said if step <= run.from_step + 2]
        right += bool(in_time) and all(run.straggler in named and named <= most for _, named in said)
    assert right >= 0.95 * RUNS


@pytest.mark.parametrize("with_compute", [True, False])
def test_in_healthy_jobs_no_rank_is_named(with_compute: bool) -> None:
    assert [seed for seed in range(RUNS) if told(draw_training(seed, faulty=False), with_compute)] == []
