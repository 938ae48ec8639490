"""How long results stay away when a process is killed: restarted at once under its name, or replaced by another one.

In: a steady input of little work. Out: the longest silence around each kill, as a reader of what is committed sees it.
"""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from stream.kafka_settings import KafkaSettings
from stream.subscriber import Subscriber
from tests.chaos.repeated_trace import RepeatedTrace
from tests.chaos.run import publishing_items
from tests.chaos.scenarios import Lab, Result
from tests.chaos.supervised import Supervised

TRACE = Path(__file__).parents[1] / "data" / "ns3" / "deadlock-hk-s4"
TURN_S = 0.25
"""Each stream has one value in every so many seconds, and its cascade a revision."""
KILLS = 5
WATCHED_S = 12.0
"""After a kill, until the next one."""
LOCAL_LIMIT_S = 3.0
SESSION_S = 6.0
OTHER_LIMIT_S = SESSION_S + 2.0
START_DEADLINE_S = 60.0


class Arrivals:
    """When committed results came: episodes by their device, cascades of whatever revision together."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._times_s: defaultdict[bytes, list[float]] = defaultdict(list)
        self._over = threading.Event()
        self._reader = Subscriber(settings, [topic])
        self._thread = threading.Thread(target=self._read, daemon=True)

    def silence_s(self, from_s: float, to_s: float) -> float:
        """The longest time without a result of some kind between two instants."""
        longest_s = 0.0
        for times_s in list(self._times_s.values()):
            within = [from_s, *(time_s for time_s in list(times_s) if from_s <= time_s <= to_s), to_s]
            longest_s = max(longest_s, *(late - early for early, late in itertools.pairwise(within)))
        return longest_s

    def count(self) -> int:
        """Results so far."""
        return sum(map(len, list(self._times_s.values())))

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._reader.close()

    def _read(self) -> None:
        while not self._over.is_set():
            received = self._reader.consume()
            now_s = time.monotonic()
            for message in received:
                # Of cascades any will do: each has a key of its own, and comes and goes.
                self._times_s[message.key or b"" if message.topic == "episode" else b""].append(now_s)


def _replaced(lab: Lab, verb: str, *, local: bool) -> Iterator[Result]:
    settings, folder = lab.fresh()
    seconds = (KILLS + 1) * WATCHED_S + START_DEADLINE_S
    trace = RepeatedTrace(TRACE, int(seconds / TURN_S), 4096)
    over = threading.Event()
    publisher = threading.Thread(
        target=publishing_items(settings, trace.items(), trace.values, seconds), args=(over,), daemon=True
    )
    silences: list[float] = []
    starts: list[float] = []
    begun_s = time.monotonic()
    with ExitStack() as stack:
        make = partial(_process, settings, folder)
        other = "correlate" if verb == "detect" else "detect"
        stack.enter_context(make(other, f"{other}-steady", local))
        victim, standby = make(verb, f"{verb}0", local), make(verb, f"{verb}1", local)
        stack.enter_context(victim)
        _await(lambda: victim.at_work)
        if not local:
            stack.enter_context(standby)
            _await_ready(standby)
        arrivals = Arrivals(settings, "episode" if verb == "detect" else "cascade")
        stack.enter_context(arrivals)
        publisher.start()
        stack.callback(publisher.join)
        stack.callback(over.set)
        _await(lambda: arrivals.count() > 20)
        time.sleep(2.0)
        for _ in range(KILLS):
            killed_s = time.monotonic()
            victim.kill()
            if local:
                victim.start()
                _await_ready(victim)
                starts.append(time.monotonic() - killed_s)
            time.sleep(max(0.0, killed_s + WATCHED_S - 2.0 - time.monotonic()))
            silences.append(arrivals.silence_s(killed_s - 2 * TURN_S, time.monotonic()))
            if not local:
                victim.start()
                victim, standby = standby, victim
                _await_ready(standby)
            time.sleep(2.0)
    limit_s = LOCAL_LIMIT_S if local else OTHER_LIMIT_S
    how = "restarted under its name" if local else "replaced by another"
    median_s, longest_s = statistics.median(silences), max(silences)
    differences = [f"no result for {longest_s:.1f} s, more than {limit_s:g} s"] if longest_s > limit_s else []
    figures: dict[str, int | str] = {"median": f"{median_s:.1f} s", "longest": f"{longest_s:.1f} s"}
    if starts:
        figures["of which its start, median"] = f"{statistics.median(starts):.1f} s"
    figures["load"] = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    yield Result(f"{verb} killed {KILLS} times, {how}", differences, time.monotonic() - begun_s, figures)


def _process(settings: KafkaSettings, folder: Path, verb: str, name: str, named: bool) -> Supervised:
    return Supervised(settings, folder, verb, name, name if named else "")


def _await_ready(process: Supervised) -> None:
    _await(lambda: process.ready)


def _await(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + START_DEADLINE_S
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError("a process did not begin to work")
        time.sleep(0.05)


REPLACEMENTS: dict[str, Callable[[Lab], Iterator[Result]]] = {
    "detect-restarted": partial(_replaced, verb="detect", local=True),
    "detect-replaced": partial(_replaced, verb="detect", local=False),
    "correlate-restarted": partial(_replaced, verb="correlate", local=True),
    "correlate-replaced": partial(_replaced, verb="correlate", local=False),
}
