"""One run on a real Kafka: an input is published while the steps are disturbed, until all final cascades are there.

In: items, disturbances. Out: what the topics hold then, and what was done to the steps.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from stream.cascade import FINAL, Cascade
from stream.errors import WireError
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, decode, encode
from stream.outbox import Outbox
from stream.subscriber import Subscriber
from tests.chaos.supervised import Supervised
from tests.chaos.undisturbed import Outcome, outcome_on

_SLICE_S = 0.05
STATE_DEADLINE_S = 30.0


@dataclass
class Told:
    """What happened in a run."""

    kills: dict[str, int] = field(default_factory=dict)
    publisher: dict[str, int] = field(default_factory=dict)
    wall_s: float = 0.0


Disturb = Callable[[Sequence[Supervised], threading.Event], None]
"""Does what it does to the steps until the event is set."""


class DisturbedError(AssertionError):
    """The outcome is not that of an undisturbed run."""


def run_disturbed(
    settings: KafkaSettings,
    items: Iterable[Item],
    expected: Outcome,
    folder: Path,
    *,
    detects: int,
    correlates: int,
    disturb: Disturb,
    pace_s: float,
    values: int,
    deadline_s: float,
    static: bool = True,
) -> Told:
    """Publishes `values` values over `pace_s` seconds and waits for the outcome; raises DisturbedError for another."""
    told = Told()
    begun_s = time.monotonic()
    steps = [
        Supervised(settings, folder / f"{verb}{number}.log", verb, *(("--instance", f"{verb}{number}") * static))
        for verb, count in (("detect", detects), ("correlate", correlates))
        for number in range(count)
    ]
    over = threading.Event()
    with ExitStack() as stack:
        for step in steps:
            stack.enter_context(step)
        publishing = _Thread(lambda: _publish(settings, items, values, pace_s, told, over))
        disturbing = _Thread(lambda: disturb(steps, over))
        for thread in (publishing, disturbing):
            stack.callback(thread.join)
        stack.callback(over.set)
        publishing.start()
        disturbing.start()
        _await_finals(settings, steps, len(expected.finals), begun_s + deadline_s, told, (publishing, disturbing))
        _await_state(settings, expected)
    # Once more when all have stopped: nothing may have come after it.
    if differences := outcome_on(settings).differences(expected):
        raise DisturbedError("; ".join(differences))
    for thread in (publishing, disturbing):
        thread.raise_error()
    told.wall_s = time.monotonic() - begun_s
    return told


def kill_at_random(count: int, seed: int, told: dict[str, int], least_s: float = 0.5, most_s: float = 4.0) -> Disturb:
    """SIGKILLs at random instants, of any step; each is started again at once."""

    def disturb(steps: Sequence[Supervised], over: threading.Event) -> None:
        rng = random.Random(seed)
        for _ in range(count):
            if over.wait(rng.uniform(least_s, most_s)):
                return
            step = rng.choice(list(steps))
            step.kill()
            step.start()
            told[step.verb] = told.get(step.verb, 0) + 1

    return disturb


def publish(settings: KafkaSettings, items: Iterable[Item]) -> None:
    """Sends the items at once, and waits until Kafka has them."""
    _publish(settings, items, 0, 0.0, Told(), threading.Event())


class _Thread(threading.Thread):
    """A thread whose error its starter sees."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._work()
        except Exception as err:  # noqa: BLE001 - told by raise_error
            self.error = err

    def raise_error(self) -> None:
        if self.error is not None:
            raise self.error


def _publish(
    settings: KafkaSettings, items: Iterable[Item], values: int, pace_s: float, told: Told, over: threading.Event
) -> None:
    begun_s = time.monotonic()
    with Outbox(settings) as outbox:
        for number, item in enumerate(items):
            ahead_s = number / max(values, 1) * pace_s - (time.monotonic() - begun_s)
            if ahead_s > _SLICE_S and over.wait(ahead_s):
                return
            outbox.send_or_wait(encode(item))
            outbox.poll()
        outbox.flush(120)
        told.publisher = dict(outbox.counters)
        if failure := outbox.take_failure():
            raise failure


def _await_finals(
    settings: KafkaSettings,
    steps: Sequence[Supervised],
    finals: int,
    end_s: float,
    told: Told,
    threads: Sequence[_Thread],
) -> None:
    seen = 0
    with Subscriber(settings, ["cascade"]) as reader:
        while seen < finals or any(thread.is_alive() for thread in threads):
            for message in reader.consume():
                try:
                    item = decode(message.topic, message.key, message.value)
                except WireError as err:
                    raise AssertionError(f"{message.place}: {err}") from err
                seen += isinstance(item, Cascade) and item.revision == FINAL
            for thread in threads:
                thread.raise_error()
            if time.monotonic() > end_s:
                raise DisturbedError(f"{seen} of {finals} final cascades: {'; '.join(s.said[-2000:] for s in steps)}")


def _await_state(settings: KafkaSettings, expected: Outcome) -> None:
    """The last snapshots follow the last final cascade within a second or two; what differs then is told later."""
    end_s = time.monotonic() + STATE_DEADLINE_S
    while time.monotonic() < end_s and outcome_on(settings).differences(expected):
        time.sleep(1)
