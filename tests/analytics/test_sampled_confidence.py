"""How far the first root leads, where several are one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from analytics import layout
from analytics.bounds import PPM
from analytics.engine import Engine
from analytics.sampled_confidence import BY_GUESS, lead_of, left_by_guesses
from analytics.topology import PRIORITIES
from tests.analytics.engine_by_names import topology_of
from tests.analytics.random_runs import leaf_spine

FABRIC = topology_of(leaf_spine(2, 2, 2))
ENGINE = cast(Engine, SimpleNamespace(topology=FABRIC))


def egresses(device: str) -> list[int]:
    """Roots at the ports of a device that lead to switches, which are siblings of each other."""
    tier = FABRIC.tier[FABRIC.find_device(device)]
    ports = [
        port
        for port, peer in enumerate(FABRIC.port_peer.tolist())
        if FABRIC.port_device[port] == FABRIC.find_device(device)
        and peer >= 0
        and FABRIC.tier[FABRIC.port_device[peer]] > tier
    ]
    return [port * PRIORITIES * 4 + layout.ROOT_EGRESS for port in ports]


FIRST, SIBLING = egresses("leaf0")
ELSEWHERE = egresses("leaf1")[0]


@pytest.mark.parametrize(
    ("shares", "one_cause", "lead"),
    [
        ({FIRST: 0.5, SIBLING: 0.5}, set(), 1.0),
        ({FIRST: 0.5, ELSEWHERE: 0.5}, set(), 0.0),
        ({FIRST: 0.3, SIBLING: 0.3, ELSEWHERE: 0.4}, set(), 0.2),
        ({FIRST: 0.5, ELSEWHERE: 0.5}, {FIRST, ELSEWHERE}, 1.0),
        ({FIRST: 0.7}, {FIRST}, 0.7),
        ({}, set(), 0.0),
    ],
)
def test_the_lead_is_that_of_places(shares: dict[int, float], one_cause: set[int], lead: float) -> None:
    in_ppm = {root: round(share * PPM) for root, share in shares.items()}
    assert lead_of(ENGINE, in_ppm, one_cause) == pytest.approx(lead)


def test_guesses_count_where_roots_are_close_to_each_other() -> None:
    assert left_by_guesses(1.0, 0.0) == left_by_guesses(0.0, 1.0) == 1.0
    assert left_by_guesses(0.0, 0.0) == pytest.approx(1 - BY_GUESS)
    assert left_by_guesses(0.0, 0.4) < left_by_guesses(0.0, 0.6) < left_by_guesses(0.5, 0.6) < 1.0
