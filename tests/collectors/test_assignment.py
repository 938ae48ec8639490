"""Which worker follows which target."""

from __future__ import annotations

from collectors.assignment import shared_out, worker_of

TARGETS = [f"leaf{number}" for number in range(1000)]


def test_targets_are_shared_out_evenly() -> None:
    shares = shared_out(TARGETS, ["0", "1", "2", "3"])
    assert sorted(target for share in shares.values() for target in share) == sorted(TARGETS)
    assert all(200 < len(share) < 300 for share in shares.values())


def test_a_worker_that_dies_moves_its_own_targets_alone() -> None:
    before = {target: worker_of(target, ["0", "1", "2"]) for target in TARGETS}
    after = {target: worker_of(target, ["0", "2"]) for target in TARGETS}
    assert all(after[target] == worker for target, worker in before.items() if worker != "1")
