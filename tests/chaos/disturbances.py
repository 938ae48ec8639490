"""What is done to steps and to the broker while they work: kills, one more or less of them, a broker that goes away.

Each is a function of the steps and an event that says that the run is over; it tells what it did as counts.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stream.kafka_settings import KafkaSettings, connect
from tests.chaos.supervised import Supervised
from tests.kafka_brokers import RealKafka

Did = dict[str, int]
Disturb = Callable[[Sequence[Supervised], threading.Event], Did]

BACK_DEADLINE_S = 90.0


def nothing(_steps: Sequence[Supervised], _over: threading.Event) -> Did:
    """Leaves them alone."""
    return {}


def kills(count: int, seed: int, mean_s: float) -> Disturb:
    """SIGKILLs at random instants, of any step; each is started again at once."""

    def disturb(steps: Sequence[Supervised], over: threading.Event) -> Did:
        rng = random.Random(seed)
        did = {f"{verb} killed{when}": 0 for verb in ("detect", "correlate") for when in ("", " at work")}
        for _ in range(count):
            if over.wait(rng.uniform(0.1, 2 * mean_s - 0.1)):
                break
            step = rng.choice(list(steps))
            did[f"{step.verb} killed"] += 1
            did[f"{step.verb} killed at work"] += step.at_work
            step.kill()
            step.start()
        return did

    return disturb


def broker_away(kafka: RealKafka, after_s: float, away_s: float, *, frozen: bool) -> Disturb:
    """The broker is frozen, so that it is there and silent, or SIGKILLed, and comes back later with what it had."""

    def disturb(steps: Sequence[Supervised], over: threading.Event) -> Did:
        # A process that has never reached a broker ends when there is none.
        while not all(step.ready for step in steps):
            if over.wait(0.1):
                return {}
        if over.wait(after_s):
            return {}
        begun_s = time.monotonic()
        (kafka.container.pause if frozen else kafka.container.kill)()
        try:
            over.wait(away_s)
        finally:
            (kafka.container.unpause if frozen else kafka.container.start)()
        away_for_s = time.monotonic() - begun_s
        connect(KafkaSettings(kafka.servers), BACK_DEADLINE_S)
        return {"seconds without broker": round(away_for_s)}

    return disturb


def come_and_go(settings: KafkaSettings, folder: Path, every_s: float, rounds: int) -> Disturb:
    """One more detect comes, which takes partitions, and goes, which gives them back; the second time it is killed."""

    def disturb(_steps: Sequence[Supervised], over: threading.Event) -> Did:
        did = {"detect came": 0, "detect went": 0, "detect died": 0}
        for turn in range(rounds):
            if over.wait(every_s):
                break
            with Supervised(settings, folder, "detect", f"guest{turn}") as guest:
                did["detect came"] += 1
                end_s = time.monotonic() + BACK_DEADLINE_S
                while not guest.at_work and time.monotonic() < end_s:
                    over.wait(0.05)
                over.wait(every_s)
                if turn % 2:
                    guest.kill()
                did["detect died" if turn % 2 else "detect went"] += 1
        return did

    return disturb
