"""Threads that take turns at what is due: one for as long as every turn is short, more where one takes long or hangs.

In: tasks, each of which says when its next turn is due. Out: their turns. One thread, the leader, waits for what is due
next, and has another lead before it begins a turn that may take long (leader and followers, POSA 2): threads that all
wake up for themselves would cost more than what they read.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from operator import itemgetter
from typing import Protocol

QUICK_S = 0.05
"""A task whose last turn took longer has a thread for itself in its next one."""
RELIEF_S = 0.1
"""So long a turn that was expected to be short may hold up the others."""
SPARE = 2
"""Threads that stay though they have nothing to do."""


class Task(Protocol):
    """Something that works turn by turn, never two at once."""

    @property
    def quick(self) -> bool:
        """Whether its next turn will be short, as far as anybody can tell."""

    def turn(self) -> float | None:
        """Works, and tells when the next turn is due, in seconds of the monotonic clock; None: there is none."""


_NOBODY: tuple[Task | None, float] = (None, math.inf)


class Workers:
    """Has all tasks take their turns. Safe for threads; its own are daemons, since a turn may never come back."""

    def __init__(
        self, on_rest: Callable[[], object] = lambda: None, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`on_rest` is called when what was due has been done, and after each turn that took long."""
        self._on_rest = on_rest
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._due = threading.Condition(self._lock)
        """What the leader waits for."""
        self._vacant = threading.Condition(self._lock)
        """What the others wait for: that somebody has to lead."""
        self._waiting: dict[Task, float] = {}
        """When each task is due that is in no turn."""
        self._in_turn: set[Task] = set()
        self._hurried: set[Task] = set()
        self._begun = False
        self._leader: int | None = None
        self._led_since_s: float | None = None
        """When the turn began that the leader is in."""
        self._waits_until_s = math.inf
        self._spare = 0
        self._rests = True
        self._closed = False

    def add(self, task: Task) -> None:
        """Its first turn is due now."""
        with self._lock:
            self._put(task, self._monotonic_s())
            if not self._begun:
                self._begun = True
                self._find_leader()

    def hurry(self, task: Task) -> None:
        """Its next turn is due now, or as soon as the one that it is in is over."""
        with self._lock:
            if task in self._waiting:
                self._put(task, self._monotonic_s())
            elif task in self._in_turn:
                self._hurried.add(task)

    def relieve(self) -> None:
        """Has another thread lead where a turn takes long that was expected to be short; to be called now and then."""
        with self._lock:
            if self._led_since_s is not None and self._monotonic_s() - self._led_since_s > RELIEF_S:
                self._find_leader()

    def close(self) -> None:
        """No turn begins any more."""
        with self._lock:
            self._closed = True
            self._due.notify_all()
            self._vacant.notify_all()

    def _put(self, task: Task, due_s: float) -> None:
        self._waiting[task] = due_s
        if due_s < self._waits_until_s:
            self._due.notify()

    def _find_leader(self) -> None:
        self._leader = self._led_since_s = None
        if self._spare:
            self._vacant.notify()
        else:
            threading.Thread(target=self._work, name="probes", daemon=True).start()

    def _work(self) -> None:
        with self._lock:
            while not self._closed:
                if self._leader is None:
                    self._lead()
                elif self._spare < SPARE:
                    self._spare += 1
                    self._vacant.wait()
                    self._spare -= 1
                else:
                    return

    def _lead(self) -> None:
        """Until one turn has been taken, as the leader or not at its end."""
        me = self._leader = threading.get_ident()
        task = self._next()
        if task is None:
            return
        if task.quick:
            self._led_since_s = self._monotonic_s()
        else:
            self._find_leader()
        self._lock.release()
        due_s = task.turn()
        self._lock.acquire()
        self._in_turn.discard(task)
        if due_s is not None:
            self._put(task, self._monotonic_s() if task in self._hurried else due_s)
        self._hurried.discard(task)
        if self._leader == me:
            self._leader = self._led_since_s = None
        else:
            self._on_rest()

    def _next(self) -> Task | None:
        """The next task, when it is due; None if there will be none."""
        while not self._closed:
            task, due_s = min(self._waiting.items(), key=itemgetter(1), default=_NOBODY)
            now_s = self._monotonic_s()
            if task is not None and due_s <= now_s:
                del self._waiting[task]
                self._in_turn.add(task)
                self._rests = False
                return task
            if not self._rests:
                self._rests = True
                self._on_rest()
            self._waits_until_s = due_s
            self._due.wait(due_s - now_s if task is not None else None)
        return None
