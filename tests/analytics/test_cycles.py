"""Rings of queues that stop each other, against SciPy's strongly connected components."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from analytics.cycles import rings

GRAPHS = st.integers(0, 12).flatmap(
    lambda size: st.lists(st.tuples(st.integers(0, max(size - 1, 0)), st.integers(0, 14)), max_size=40).map(
        lambda edges: {node: [b for a, b in edges if a == node] for node in range(size)}
    )
)


@given(causes=GRAPHS)
def test_rings_are_the_strongly_connected_components(causes: dict[int, list[int]]) -> None:
    edges = [(a, b) for a, bs in causes.items() for b in bs if b in causes]
    size = len(causes)
    matrix = csr_matrix(([1] * len(edges), tuple(np.array(edges, int).reshape(-1, 2).T)), shape=(size, size))
    _, labels = connected_components(matrix, directed=True, connection="strong") if size else (0, np.zeros(0, int))
    parts = [sorted(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]
    assert rings(causes) == sorted(part for part in parts if len(part) > 1 or (part[0], part[0]) in edges)


def test_a_ring_of_a_hundred_thousand_queues_needs_no_recursion() -> None:
    size = 100_000
    assert rings({queue: [(queue + 1) % size] for queue in range(size)}) == [list(range(size))]
