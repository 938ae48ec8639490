"""The scenarios: each is a run under one kind of disturbance, and says what must hold after it.

In: a Kafka of the run's own, how much. Out: for every scenario a `Result`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stream import kinds
from stream.batch import Batch, StreamKey
from stream.kafka_settings import KafkaSettings
from stream.topic_admin import create_topics
from tests.chaos.disturbances import Disturb, broker_away, come_and_go, kills, nothing
from tests.chaos.repeated_trace import RepeatedTrace
from tests.chaos.run import Publish, Steps, Told, publishing_items, run_disturbed
from tests.chaos.undisturbed import Outcome, input_on, undisturbed
from tests.kafka_brokers import RealKafka, fresh_prefix

TRACE = Path(__file__).parents[1] / "data" / "ns3" / "two_roots-ls-s1"
ROWS_PER_VALUE = 512
USUAL = Steps()
KILLED_S, FROZEN_S, GONE_S = 40.0, 20.0, 120.0
"""How long the broker is away."""
SLACK_S = 240.0
"""How much longer than its publishing a run may take."""


@dataclass
class Result:
    """Whether what must hold did, and figures of the run."""

    what: str
    differences: list[str]
    wall_s: float
    figures: dict[str, int | str] = field(default_factory=dict)


class Amount(NamedTuple):
    """How much of it: kills and seconds between two, rows, seed."""

    kills: int = 100
    every_s: float = 2.0
    rows: int = 1_000_000
    seed: int = 1


class Lab:
    """A Kafka, a folder for logs and an amount: what scenarios are made of."""

    def __init__(self, kafka: RealKafka, folder: Path, amount: Amount) -> None:
        self.kafka = kafka
        self.amount = amount
        self._folder = folder

    def fresh(self) -> tuple[KafkaSettings, Path]:
        """Topics and a folder that no other run has."""
        settings = KafkaSettings(self.kafka.servers, fresh_prefix())
        create_topics(settings)
        folder = self._folder / settings.prefix
        folder.mkdir(parents=True)
        return settings, folder

    def run(
        self,
        what: str,
        trace: RepeatedTrace,
        pace_s: float,
        *,
        steps: Steps = USUAL,
        disturb: Callable[[KafkaSettings, Path], Disturb] = lambda _settings, _folder: nothing,
        live: bool = False,
        expected: Callable[[KafkaSettings], Outcome] | None = None,
    ) -> tuple[Result, Told, KafkaSettings]:
        """Publishes the trace over `pace_s` seconds, disturbs, and compares; `live`: as a live source does."""
        settings, folder = self.fresh()
        quiet = undisturbed(trace.items()) if expected is None else None

        def outcome() -> Outcome:
            if quiet is not None:
                return quiet
            assert expected is not None
            return expected(settings)

        def publish_live(over: threading.Event) -> dict[str, int]:
            return trace.publish(settings, pace_s, over)

        publish: Publish = publish_live if live else publishing_items(settings, trace.items(), trace.values, pace_s)
        told = run_disturbed(
            settings, publish, outcome, folder,
            steps=steps, disturb=disturb(settings, folder), deadline_s=pace_s + SLACK_S,
        )  # fmt: skip
        counts = {"rows": trace.rows, "finals": told.finals, "aborted messages": told.aborted}
        return Result(what, told.differences, told.wall_s, {**counts, **told.did}), told, settings


def quiet(lab: Lab) -> Iterator[Result]:
    """Nothing happens: what is compared with is what a quiet run on Kafka leaves too."""
    yield lab.run("nothing, 1 detect", _trace(lab.amount.rows // 4), 5.0, steps=Steps(1, 1))[0]


def killed(lab: Lab) -> Iterator[Result]:
    """SIGKILLs at random instants: processes with names of their own, restarted at once."""
    amount = lab.amount
    yield lab.run(
        f"{amount.kills} SIGKILLs",
        _trace(amount.rows),
        amount.kills * amount.every_s,
        disturb=lambda _settings, _folder: kills(amount.kills, amount.seed, amount.every_s),
    )[0]


def killed_nameless(lab: Lab) -> Iterator[Result]:
    """The same without names: another process takes over when the session has ended."""
    count = max(lab.amount.kills // 10, 1)
    every_s = lab.amount.every_s + 3.0
    yield lab.run(
        f"{count} SIGKILLs, no names",
        _trace(lab.amount.rows // 4),
        count * every_s,
        steps=Steps(named=False),
        disturb=lambda _settings, _folder: kills(count, lab.amount.seed, every_s),
    )[0]


def reordered(lab: Lab) -> Iterator[Result]:
    """Other orders of arrival and sizes of values, 1 and 2 detects, and kills."""
    count = max(lab.amount.kills // 20, 1)
    for seed, rows_per_value, detects in ((1, 64, 1), (2, 512, 2)):
        yield lab.run(
            f"order {seed}, {rows_per_value} rows a value, {detects} detect, {count} SIGKILLs",
            _trace(lab.amount.rows // 8, rows_per_value, seed),
            count * lab.amount.every_s,
            steps=Steps(detects, 1),
            disturb=lambda _settings, _folder, seed=seed: kills(count, seed, lab.amount.every_s),  # type: ignore[misc]
        )[0]


def reassigned(lab: Lab) -> Iterator[Result]:
    """One more detect comes and goes, and comes and dies, so that partitions move with their states."""
    yield lab.run(
        "a detect comes and goes, comes and dies",
        _trace(lab.amount.rows // 4),
        40.0,
        steps=Steps(1, 1),
        disturb=lambda settings, folder: come_and_go(settings, folder, 4.0, 2),
    )[0]


def broker_killed(lab: Lab) -> Iterator[Result]:
    """The broker is SIGKILLed for 40 s: the publisher holds what it cannot send, and nothing is lost."""
    result, told, _ = lab.run(
        f"the broker SIGKILLed for {KILLED_S:g} s",
        _trace(lab.amount.rows // 8),
        KILLED_S + 20.0,
        disturb=lambda _settings, _folder: broker_away(lab.kafka, 8.0, KILLED_S, frozen=False),
        live=True,
    )
    yield _nothing_lost(result, told)


def broker_frozen(lab: Lab) -> Iterator[Result]:
    """The broker is silent for longer than a session and a transaction may last; nothing is lost."""
    result, told, _ = lab.run(
        f"the broker frozen for {FROZEN_S:g} s",
        _trace(lab.amount.rows // 8),
        FROZEN_S + 20.0,
        disturb=lambda _settings, _folder: broker_away(lab.kafka, 8.0, FROZEN_S, frozen=True),
        live=True,
    )
    yield _nothing_lost(result, told)


def broker_gone(lab: Lab) -> Iterator[Result]:
    """The broker is gone for 120 s: the publisher counts and tells exactly the rows that are missing."""
    # Twice as many as elsewhere, or all of them fit into what a publisher holds.
    trace = _trace(lab.amount.rows // 4)
    result, told, settings = lab.run(
        f"the broker SIGKILLed for {GONE_S:g} s",
        trace,
        GONE_S + 40.0,
        disturb=lambda _settings, _folder: broker_away(lab.kafka, 8.0, GONE_S, frozen=False),
        live=True,
        expected=lambda settings: undisturbed(input_on(settings)),
    )
    lost = told.publisher["lost_rows"]
    loss = _loss_on(settings)
    missing = trace.rows - loss.rows
    result.figures |= {"lost rows": lost, "missing rows": missing, "rows told by SOURCE_LOST": loss.told}
    if not 0 < missing == lost == loss.summed == loss.told:
        result.differences.append(f"the publisher lost {lost} of {trace.rows} rows, the topics have {loss}")
    yield result


class Loss(NamedTuple):
    """What raw topics say of a source's rows: how many are there, how many SOURCE_LOST tells of, and values' `lost`."""

    rows: int
    told: int
    summed: int


SCENARIOS: dict[str, Callable[[Lab], Iterator[Result]]] = {
    "quiet": quiet,
    "killed": killed,
    "killed-nameless": killed_nameless,
    "reordered": reordered,
    "reassigned": reassigned,
    "broker-killed": broker_killed,
    "broker-frozen": broker_frozen,
    "broker-gone": broker_gone,
}


def _trace(rows: int, rows_per_value: int = ROWS_PER_VALUE, seed: int | None = None) -> RepeatedTrace:
    return RepeatedTrace(TRACE, max(rows // _rows_once(), 2), rows_per_value, seed)


@cache
def _rows_once() -> int:
    return RepeatedTrace(TRACE, 1).rows


def _nothing_lost(result: Result, told: Told) -> Result:
    result.figures["lost rows"] = lost = told.publisher["lost_rows"]
    result.differences += [f"{lost} rows lost"] * bool(lost)
    return result


def _loss_on(settings: KafkaSettings) -> Loss:
    summed: dict[StreamKey, int] = {}
    rows = told = 0
    for item in input_on(settings):
        if isinstance(item, Batch):
            summed[item.stream] = max(summed.get(item.stream, 0), item.lost)
            lost = item.events["kind"] == kinds.SOURCE_LOST
            rows += int((~lost).sum())
            told += int(item.events["value"][lost].sum())
    return Loss(rows, told, sum(summed.values()))
