"""Every row of every built-in profile: its notification, as the vendor spells it, makes exactly the rows it should."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from collectors import profiles
from collectors.pattern import split_path
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
    paths = [path for row in loaded.row for path in row.paths]
    paths += [path for fact in loaded.fact for path in fact.paths]
    paths += [record.path for record in loaded.record]
    asked = [path for each in loaded.subscriptions for path in (each.path, *each.alternatives)]
    missing = [path for path in paths if not any(covers(subscribed, path) for subscribed in asked)]
    assert missing == []


def covers(subscribed: str, pattern: str) -> bool:
    """Whether what a pattern means is at or below a path that is subscribed to; `...` may stand for nothing."""
    asked = [element.split("[")[0] for element in split_path(subscribed)]
    told = [element.split("[")[0] for element in split_path(pattern)]
    if "..." in told:
        kept = [element for element in told if element != "..."]
        return asked[0] == kept[0] and all(
            any(fnmatchcase(element, each) or "{" in element for element in kept) for each in asked[2:]
        )
    return len(asked) <= len(told) and all(ask == tell or "{" in tell for ask, tell in zip(asked, told, strict=False))


@pytest.mark.parametrize("profile", NAMES)
def test_the_metrics_of_a_profile_hold_all_its_rows(profile: str) -> None:
    loaded: Profile = profiles.load(profile)
    assert {path for metric in loaded.metrics for path in metric.paths} == {
        *(path for row in loaded.row for path in row.paths), *(record.path for record in loaded.record)
    }  # fmt: skip
    assert {each.metric for each in loaded.subscriptions} - {"facts"} <= {metric.name for metric in loaded.metrics} | {
        "link", "queue", "voq", "headroom",
    }  # fmt: skip
