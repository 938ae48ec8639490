"""Which worker follows which target: rendezvous hashing, so that a worker that dies moves its own targets alone.

In: names of targets and of workers. Out: a worker for each target (D. Thaler and C. Ravishankar, 1998).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import xxhash


def worker_of(target: str, workers: Sequence[str]) -> str:
    """The worker that follows this target."""
    return max(workers, key=lambda worker: (xxhash.xxh64_intdigest(f"{worker}\0{target}".encode()), worker))


def shared_out(targets: Iterable[str], workers: Sequence[str]) -> dict[str, list[str]]:
    """By worker, its targets."""
    shares: dict[str, list[str]] = {worker: [] for worker in workers}
    for target in targets:
        shares[worker_of(target, workers)].append(target)
    return shares
