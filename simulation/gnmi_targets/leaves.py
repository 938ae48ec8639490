"""What a fake target knows: leaves that are functions of time, so that any two readers of a moment read the same.

In: values and the times of their changes. Out: values at a time, and changes between two times.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from simulation.gnmi_targets.messages import Elem, Value, elems_of

SECOND_NS = 1_000_000_000


class Change(NamedTuple):
    """A leaf has a value from this time on; None: it is gone."""

    time_ns: int
    path: str
    value: Value | None


class Steps:
    """A leaf that changes at known times; before the first it does not exist."""

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        self.values: list[Value | None] = []

    def set(self, time_ns: int, value: Value | None) -> None:
        """From this time on; times do not go back."""
        assert not self.times_ns or time_ns >= self.times_ns[-1]
        self.times_ns.append(time_ns)
        self.values.append(value)

    def __call__(self, now_ns: int) -> Value | None:
        """The value at a time."""
        at = bisect_right(self.times_ns, now_ns)
        return self.values[at - 1] if at else None


def counter(
    start_ns: int, per_s: int, seed: int = 0, bits: int = 64, first: int = 0, reset_ns: int = 0
) -> Callable[[int], int]:
    """A counter that grows by about `per_s`, wraps at its bits, and begins anew at `reset_ns` if that is not 0."""
    jitter = random.Random(seed).uniform(0.9, 1.1)

    def value(now_ns: int) -> int:
        since_ns, begin = (reset_ns, 0) if reset_ns and now_ns >= reset_ns else (start_ns, first)
        return (begin + int((now_ns - since_ns) * per_s * jitter) // SECOND_NS) % (1 << bits)

    return value


class Leaves:
    """All leaves of one target."""

    def __init__(self) -> None:
        self._values: dict[str, Callable[[int], Value | None]] = {}
        self._elems: dict[str, list[Elem]] = {}

    def put(self, path: str, value: Callable[[int], Value | None] | Value) -> None:
        """A leaf: a function of time, or a value that it always has."""
        self._values[path] = value if callable(value) else (lambda _now_ns: value)
        self._elems[path] = elems_of(path)

    def change(self, time_ns: int, path: str, value: Value | None) -> None:
        """A leaf of `Steps` has a value from this time on."""
        steps = self._values.get(path)
        if not isinstance(steps, Steps):
            steps = Steps()
            self.put(path, steps)
        steps.set(time_ns, value)

    def matching(self, wanted: list[Elem]) -> list[str]:
        """The leaves below a path; a name or key of * fits any, a key that is not named too."""
        return [path for path, elems in self._elems.items() if _below(elems, wanted)]

    def at(self, path: str, now_ns: int) -> Value | None:
        """The value at a time; None: there is none."""
        return self._values[path](now_ns)

    def changes(self, paths: list[str], after_ns: int, until_ns: int) -> Iterator[Change]:
        """Changes later than after_ns, up to until_ns, of leaves that change at known times, in order of time."""
        found: list[Change] = []
        for path in paths:
            steps = self._values[path]
            if isinstance(steps, Steps):
                first, end = bisect_right(steps.times_ns, after_ns), bisect_right(steps.times_ns, until_ns)
                found += [Change(steps.times_ns[at], path, steps.values[at]) for at in range(first, end)]
        found.sort(key=lambda change: change.time_ns)
        yield from found

    def next_change_ns(self, paths: list[str], after_ns: int) -> int | None:
        """When the next one is."""
        times = []
        for path in paths:
            steps = self._values[path]
            if isinstance(steps, Steps) and (at := bisect_right(steps.times_ns, after_ns)) < len(steps.times_ns):
                times.append(steps.times_ns[at])
        return min(times, default=None)


def _below(elems: list[Elem], wanted: list[Elem]) -> bool:
    if len(elems) < len(wanted):
        return False
    for (name, keys), (wanted_name, wanted_keys) in zip(elems, wanted, strict=False):
        if wanted_name not in ("*", name):
            return False
        if any(value not in ("*", keys.get(key)) for key, value in wanted_keys.items()):
            return False
    return True
