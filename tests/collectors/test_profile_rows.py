"""Every row of every built-in profile: its notification, as the vendor spells it, makes exactly the rows it should."""

from __future__ import annotations

import pytest

from collectors import profiles
from collectors.pattern import Pattern
from collectors.profile import Profile
from tests.collectors.examples_of_profiles import OWN, example
from tests.collectors.notifications import Feed

NAMES = profiles.names()
ROWS = [(name, row.name) for name in NAMES for row in profiles.load(name).row]
ROWS += [(name, record.name) for name in NAMES for record in profiles.load(name).record]


def number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


@pytest.mark.parametrize(("profile", "row"), ROWS)
def test_a_row_makes_of_its_notification_exactly_what_it_says(profile: str, row: str) -> None:
    told = example(profile, row)
    feed = Feed(profile)
    if profile == "sonic":
        feed.read(("/PORT_TABLE/Ethernet0/speed", 100_000))
    made: list[str] = []
    for which in (0, 1):
        leaves = [(path, number(readings[which])) for path, readings in told.leaves]
        made = feed.read(*leaves, after_s=which)
    assert made + feed.flush() == told.rows


def test_there_is_no_example_of_a_row_that_is_not_there() -> None:
    assert [(name, row) for name, rows in OWN.items() for row in rows if (name, row) not in ROWS] == []


@pytest.mark.parametrize("profile", NAMES)
def test_all_that_a_profile_reads_it_subscribes_to(profile: str) -> None:
    loaded = profiles.load(profile)
    assert [row.name for row in loaded.row if loaded.subscription_of(row) is None] == []
    # Facts and events have no period, but are brought by subscriptions too.
    asked = [Pattern(path).names for each in loaded.subscriptions for path in (each.path, *each.alternatives)]
    others = [path for fact in loaded.fact for path in fact.paths] + [record.path for record in loaded.record]
    assert [path for path in others if not any(set(names) <= set(Pattern(path).names) for names in asked)] == []


@pytest.mark.parametrize("profile", NAMES)
def test_the_metrics_of_a_profile_hold_all_its_rows(profile: str) -> None:
    loaded: Profile = profiles.load(profile)
    assert {path for metric in loaded.metrics for path in metric.paths} == {
        *(path for row in loaded.row for path in row.paths), *(record.path for record in loaded.record)
    }  # fmt: skip
    assert {each.metric for each in loaded.subscriptions} - {"facts"} <= {metric.name for metric in loaded.metrics} | {
        "link", "queue", "voq", "headroom",
    }  # fmt: skip
