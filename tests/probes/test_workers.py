"""One thread takes all turns that are short; one that takes long or hangs has one for itself, and holds up nobody."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from probes.workers import RELIEF_S, Workers
from tests.probes.sample_probes import wait_until

EVERY_S = 0.01


class Turns:
    """A task that notes when it began each turn and in which thread, and never more than one at once."""

    def __init__(self, *, quick: bool = True, every_s: float = EVERY_S, last: int = 1 << 30) -> None:
        self.quick = quick
        self.times_s: list[float] = []
        self.threads: list[int] = []
        self.during: Callable[[], object] = lambda: None
        self.every_s, self._last = every_s, last
        self._one = threading.Lock()

    def turn(self) -> float | None:
        """Is due again a moment later."""
        assert self._one.acquire(blocking=False)
        try:
            self.times_s.append(time.monotonic())
            self.threads.append(threading.get_ident())
            self.during()
            return self.times_s[-1] + self.every_s if len(self.times_s) < self._last else None
        finally:
            self._one.release()


@contextmanager
def working(*tasks: Turns, on_rest: Callable[[], object] = lambda: None) -> Iterator[Workers]:
    """All tasks at work."""
    workers = Workers(on_rest)
    for task in tasks:
        workers.add(task)
    try:
        yield workers
    finally:
        workers.close()


def test_short_turns_of_all_tasks_are_taken_by_one_thread_when_they_are_due() -> None:
    tasks = [Turns() for _ in range(5)]
    with working(*tasks):
        wait_until(lambda: all(len(task.times_s) > 5 for task in tasks))
    assert len({thread for task in tasks for thread in task.threads}) == 1
    for task in tasks:
        gaps = [after - before for before, after in zip(task.times_s, task.times_s[1:], strict=False)]
        assert min(gaps) >= EVERY_S


def test_a_task_that_is_over_has_no_turn_any_more() -> None:
    ends, goes_on = Turns(last=2), Turns()
    with working(ends, goes_on) as workers:
        wait_until(lambda: len(ends.times_s) == 2)
        workers.hurry(ends)
        turns = len(goes_on.times_s)
        wait_until(lambda: len(goes_on.times_s) > turns + 3)
    assert len(ends.times_s) == 2


@pytest.mark.parametrize("quick", [False, True])
def test_a_turn_that_hangs_holds_up_nobody(quick: bool) -> None:
    hang = threading.Event()
    hanging, others = Turns(quick=quick), [Turns(), Turns()]
    hanging.during = lambda: hang.wait(20)
    with working(hanging, *others) as workers:
        if quick:  # then somebody has to notice
            wait_until(lambda: len(hanging.times_s) == 1)
            time.sleep(RELIEF_S * 1.1)
            workers.relieve()
        wait_until(lambda: all(len(task.times_s) > 5 for task in others))
        assert len(hanging.times_s) == 1
        hang.set()
        wait_until(lambda: len(hanging.times_s) > 3)


def test_a_leader_whose_turns_are_short_is_not_relieved() -> None:
    tasks = [Turns(every_s=-math.inf), Turns(every_s=-math.inf)]  # always due
    workers = Workers(monotonic_s=lambda: 0.0)
    for task in tasks:
        workers.add(task)
    for _ in range(20):
        workers.relieve()
        time.sleep(0.001)
    workers.close()
    assert len({thread for task in tasks for thread in task.threads}) == 1


def test_many_turns_that_take_long_are_taken_at_the_same_time() -> None:
    together = threading.Barrier(6)
    tasks = [Turns(quick=False, last=1) for _ in range(6)]
    for task in tasks:
        task.during = lambda: together.wait(20)
    with working(*tasks):
        wait_until(lambda: not together.broken and all(len(task.times_s) == 1 for task in tasks))
    assert not together.broken


def test_a_task_that_is_hurried_has_its_turn_at_once_or_after_the_one_that_it_is_in() -> None:
    hang = threading.Event()
    waits, works = Turns(every_s=3600.0), Turns(quick=False, every_s=3600.0)
    works.during = lambda: hang.wait(20)
    with working(waits, works) as workers:
        wait_until(lambda: len(waits.times_s) == len(works.times_s) == 1)
        workers.hurry(waits)
        workers.hurry(works)
        wait_until(lambda: len(waits.times_s) == 2)
        assert len(works.times_s) == 1
        hang.set()
        wait_until(lambda: len(works.times_s) == 2)
        time.sleep(3 * EVERY_S)
        assert (len(waits.times_s), len(works.times_s)) == (2, 2)


def test_it_is_told_when_all_that_was_due_is_done_and_of_each_turn_that_took_long() -> None:
    rests: list[int] = []
    hang = threading.Event()
    tasks = [Turns(every_s=3600.0) for _ in range(4)]
    slow = Turns(quick=False, every_s=3600.0)
    slow.during = lambda: hang.wait(20)

    def done() -> int:
        return sum(len(task.times_s) for task in tasks)

    with working(*tasks, slow, on_rest=lambda: rests.append(done())):
        wait_until(lambda: 4 in rests)
        told = len(rests)
        hang.set()
        wait_until(lambda: len(rests) > told)


def test_nothing_is_begun_after_the_end() -> None:
    task = Turns()
    with working(task):
        wait_until(lambda: len(task.times_s) > 1)
    time.sleep(3 * EVERY_S)
    turns = len(task.times_s)
    time.sleep(3 * EVERY_S)
    assert len(task.times_s) == turns
