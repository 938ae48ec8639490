"""How near two pause logs of one fabric come to each other, by the time that each port was stopped.

In: paused time by port of a run that is taken for the truth and of another. Out: `Agreement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Port = tuple[str, str]


class Agreement(NamedTuple):
    """`port_f1`: of pause time on ports stopped in both; `least_f1`: of the lesser of both times, by port."""

    port_f1: float
    least_f1: float


def paused_time(log: Iterable[tuple[int, Port, bool]], end: int) -> dict[Port, int]:
    """Time that each port was stopped; `log` has time, port and whether a pause begins there, in order of time."""
    since: dict[Port, int] = {}
    total: dict[Port, int] = {}
    for time, port, is_stop in log:
        if is_stop:
            since.setdefault(port, time)
        elif port in since:
            total[port] = total.get(port, 0) + time - since.pop(port)
    for port, time in since.items():
        total[port] = total.get(port, 0) + end - time
    return {port: time for port, time in total.items() if time}


def agreement(true: Mapping[Port, int], other: Mapping[Port, int]) -> Agreement:
    """Both measures, 1 where neither run has a pause."""
    true_sum, other_sum = sum(true.values()), sum(other.values())
    if not true_sum or not other_sum:
        same = float(true_sum == other_sum)
        return Agreement(same, same)
    both = true.keys() & other.keys()
    precision = sum(other[port] for port in both) / other_sum
    recall = sum(true[port] for port in both) / true_sum
    port_f1 = 2 * precision * recall / (precision + recall) if both else 0.0
    return Agreement(port_f1, 2 * sum(min(true[port], other[port]) for port in both) / (true_sum + other_sum))
