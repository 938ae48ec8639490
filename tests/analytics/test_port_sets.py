"""Sets of ports as bits: what is packed comes back, in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.port_sets import WORD_BITS, number_of, packed, words_of


def test_every_bit_has_its_number() -> None:
    assert [number_of(1 << number) for number in range(WORD_BITS)] == list(range(WORD_BITS))


@settings(derandomize=True, deadline=None)
@given(rows=st.integers(1, 3), ports=st.integers(0, 130), seed=st.integers(0, 99))
def test_what_is_packed_comes_back(rows: int, ports: int, seed: int) -> None:
    members = np.random.default_rng(seed).random((rows, ports)) < 0.5
    words = int(words_of(np.array(ports)))
    sets = packed(members).reshape(rows, words)
    back = [[number for number in range(ports) if one[number // 32] >> number % 32 & 1] for one in sets.tolist()]
    assert back == [np.flatnonzero(row).tolist() for row in members]
    assert not len(sets) or sum(int(word).bit_count() for word in sets.ravel().tolist()) == members.sum()
