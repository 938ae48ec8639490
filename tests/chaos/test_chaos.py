"""Detect and correlate that are killed, on a broker that is taken away, leave what an undisturbed run leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.disturbances import broker_away, kills
from tests.chaos.repeated_trace import RepeatedTrace
from tests.chaos.scenarios import TRACE, Amount, Lab
from tests.kafka_brokers import RealKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROWS = 1_000_000


def trace_of(rows: int, seed: int | None = None) -> RepeatedTrace:
    once = RepeatedTrace(TRACE, 1).rows
    return RepeatedTrace(TRACE, -(-rows // once), 512, seed)


@pytest.fixture
def lab(kafka_container: RealKafka, tmp_path: Path) -> Lab:
    return Lab(kafka_container, tmp_path, Amount())


def test_five_kills_over_a_million_rows_in_random_order_change_no_byte(lab: Lab) -> None:
    trace = trace_of(ROWS, seed=1)
    result, told, _ = lab.run("kills", trace, 15.0, disturb=lambda _settings, _folder: kills(5, seed=1, mean_s=2.5))
    assert trace.rows >= ROWS
    assert told.did["detect killed"] + told.did["correlate killed"] == 5
    assert result.differences == []


def test_a_broker_that_is_silent_for_longer_than_a_session_costs_nothing(lab: Lab) -> None:
    result, told, _ = lab.run(
        "frozen", trace_of(30_000), 18.0, live=True,
        disturb=lambda _settings, _folder: broker_away(lab.kafka, after_s=4.0, away_s=8.0, frozen=True),
    )  # fmt: skip
    assert told.publisher["lost_rows"] == 0
    assert result.differences == []
