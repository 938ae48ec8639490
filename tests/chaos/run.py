"""One run on a real Kafka: an input is published while the steps are disturbed, until all final cascades are there.

In: a source, disturbances. Out: whether the topics then hold what an undisturbed run leaves, and what was done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from stream.cascade import FINAL, Cascade
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, decode, encode
from stream.outbox import Outbox
from stream.subscriber import Subscriber
from tests.chaos.disturbances import Did, Disturb, nothing
from tests.chaos.supervised import Supervised
from tests.chaos.undisturbed import Outcome, outcome_on

_SLICE_S = 0.05
STATE_DEADLINE_S = 60.0
FLUSH_DEADLINE_S = 120.0

Publish = Callable[[threading.Event], dict[str, int]]
"""Publishes the whole input unless the event is set; returns the publisher's counters."""


@dataclass
class Told:
    """What happened in a run, and in which respects its outcome is not the expected one."""

    did: Did = field(default_factory=dict)
    publisher: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    finals: int = 0
    aborted: int = 0
    """Messages of aborted transactions, which a reader of what is committed does not see."""
    wall_s: float = 0.0


@dataclass(frozen=True)
class Steps:
    """How many processes of each step, and whether each has a name that it keeps over restarts."""

    detects: int = 2
    correlates: int = 2
    named: bool = True


def run_disturbed(
    settings: KafkaSettings,
    publish: Publish,
    expected: Callable[[], Outcome],
    folder: Path,
    *,
    steps: Steps = Steps(),
    disturb: Disturb = nothing,
    deadline_s: float,
) -> Told:
    """Runs to the end and compares; `expected` is asked when everything has been published."""
    told = Told()
    begun_s = time.monotonic()
    processes = [
        Supervised(settings, folder, verb, f"{verb}{number}", f"{verb}{number}" * steps.named)
        for verb, count in (("detect", steps.detects), ("correlate", steps.correlates))
        for number in range(count)
    ]
    over = threading.Event()
    with ExitStack() as stack:
        for process in processes:
            stack.enter_context(process)
        publishing = _Thread(lambda: publish(over))
        disturbing = _Thread(lambda: disturb(processes, over))
        for thread in (publishing, disturbing):
            stack.callback(thread.join)
        stack.callback(over.set)
        publishing.start()
        disturbing.start()
        end_s = begun_s + deadline_s
        told.publisher = publishing.result(end_s)
        told.did = disturbing.result(end_s)
        outcome = expected()
        _await_finals(settings, len(outcome.finals), end_s)
        _await_state(settings, outcome)
        gone = [process for process in processes if process.exit_status is not None]
        told.differences = [f"{process.name} has ended: {process.said[-300:]}" for process in gone]
    # Once more when all have stopped: nothing may have come after it.
    left = outcome_on(settings)
    told.differences += left.differences(outcome)
    told.finals = len(left.finals)
    told.aborted = _hidden(settings, ("episode", "cascade", "state"))
    told.wall_s = time.monotonic() - begun_s
    return told


def publishing_items(settings: KafkaSettings, items: Iterable[Item], values: int, pace_s: float) -> Publish:
    """Sends items as they are, `values` of them spread over `pace_s` seconds."""

    def publish(over: threading.Event) -> dict[str, int]:
        begun_s = time.monotonic()
        with Outbox(settings) as outbox:
            for number, item in enumerate(items):
                ahead_s = number / max(values, 1) * pace_s - (time.monotonic() - begun_s)
                if ahead_s > _SLICE_S and over.wait(ahead_s):
                    break
                outbox.send_or_wait(encode(item))
                outbox.poll()
            outbox.flush(FLUSH_DEADLINE_S)
            if failure := outbox.take_failure():
                raise failure
            return outbox.counters

    return publish


def publish(settings: KafkaSettings, items: Iterable[Item]) -> None:
    """Sends the items at once, and waits until Kafka has them."""
    publishing_items(settings, items, 0, 0.0)(threading.Event())


class _Thread(threading.Thread):
    """A thread whose result or error its starter gets."""

    def __init__(self, work: Callable[[], dict[str, int]]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._result: dict[str, int] = {}
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._result = self._work()
        except Exception as err:  # noqa: BLE001 - raised by result
            self._error = err

    def result(self, end_s: float) -> dict[str, int]:
        """What the work returned; raises what it raised, or TimeoutError."""
        self.join(max(end_s - time.monotonic(), 0.1))
        if self._error is not None:
            raise self._error
        if self.is_alive():
            raise TimeoutError("the run did not come to its end by its deadline")
        return self._result


def _await_finals(settings: KafkaSettings, finals: int, end_s: float) -> None:
    seen = 0
    with Subscriber(settings, ["cascade"]) as reader:
        while seen < finals and time.monotonic() < end_s:
            for message in reader.consume():
                item = decode(message.topic, message.key, message.value)
                seen += isinstance(item, Cascade) and item.revision == FINAL


def _await_state(settings: KafkaSettings, expected: Outcome) -> None:
    """The last snapshots follow the last final cascade within a second or two; what differs then is told later."""
    end_s = time.monotonic() + STATE_DEADLINE_S
    while time.monotonic() < end_s:
        if not outcome_on(settings).differences(expected):
            return
        time.sleep(2)


def _hidden(settings: KafkaSettings, topics: Sequence[str]) -> int:
    everything = KafkaSettings(
        settings.bootstrap_servers, settings.prefix, settings.librdkafka | {"isolation.level": "read_uncommitted"}
    )
    counts = []
    for each in (everything, settings):
        with Subscriber(each, topics) as reader:
            counts.append(sum(1 for _ in reader.up_to_now(60)))
    return counts[0] - counts[1]
