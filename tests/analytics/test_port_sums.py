"""What ports sent beside active roots is what NumPy adds up over all periods."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics.pause_graph import Period
from analytics.port_sums import ACTIVE_NS, HELD_NS, SENT, SENT_HELD, SENT_STOPPED, PortSums

PORTS = 40


def period(random: Random) -> Period:
    """Random bytes and stops of all ports."""
    sent = np.array([float(random.randrange(10**9)) for _ in range(PORTS)])
    paused = np.array([random.choice((0.0, float(random.randrange(1, 10**6)))) for _ in range(PORTS)])
    none, no = np.zeros(PORTS), np.zeros(PORTS, np.bool_)
    return Period(float(random.randrange(1, 10**9)), paused, none, sent, none, none, none, no, no, no, paused)


def some(random: Random) -> np.ndarray:
    return np.array(sorted(random.sample(range(PORTS), random.randrange(PORTS))), np.int64)


@pytest.mark.parametrize("seed", range(10))
def test_sums_are_those_of_numpy(seed: int) -> None:
    random, sums, told = Random(seed), PortSums(), np.zeros((PORTS, 5))
    for _ in range(12):
        now, ports, held = period(random), some(random), some(random)
        sums.add(now, ports)
        told[ports, SENT] += now.sent_bytes[ports]
        told[ports, SENT_STOPPED] += now.sent_bytes[ports] * (now.paused_ns[ports] > 0)
        told[ports, ACTIVE_NS] += now.length_ns
        held_ns = np.array([float(random.randrange(10**6)) for _ in held])
        sums.add_held(held, held_ns, now.sent_bytes[held])
        told[held, HELD_NS] += held_ns
        told[held, SENT_HELD] += now.sent_bytes[held]
        if random.random() < 0.3:
            sums = PortSums.of_state(sums.copy().state())
    ports, columns = sums.state()
    assert columns == pytest.approx(told[ports])
    assert not np.delete(told, ports, axis=0).any()
    assert sums.held() == {port: (round(told[port, HELD_NS]), round(told[port, SENT_HELD])) for port in ports.tolist()}


def test_of_two_cascades_that_join_each_port_has_what_is_more() -> None:
    one, other, random = PortSums(), PortSums(), Random(1)
    now = period(random)
    one.add(now, np.array([1, 2]))
    one.add(now, np.array([2]))
    other.add(now, np.array([2, 3]))
    one.join(other)
    ports, columns = one.state()
    assert ports.tolist() == [1, 2, 3]
    assert columns[:, SENT].tolist() == [now.sent_bytes[1], 2 * now.sent_bytes[2], now.sent_bytes[3]]


def test_a_copy_goes_its_own_way_and_ports_move() -> None:
    sums, random = PortSums(), Random(2)
    now = period(random)
    sums.add(now, np.array([4, 9]))
    twin = sums.copy()
    twin.add(now, np.array([4, 5]))
    assert sums.state()[0].tolist() == [4, 9]
    assert sums.state()[1][0, SENT] == now.sent_bytes[4]
    sums.carry({4: 20})
    assert sums.state()[0].tolist() == [9, 20]
    assert sums.state()[1][:, SENT].tolist() == [now.sent_bytes[9], now.sent_bytes[4]]
