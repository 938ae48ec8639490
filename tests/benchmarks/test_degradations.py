"""The tables of disturbances: what is written into the page, and that the page has what the script would write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analytics.offline import final_cascades
from benchmarks.degradations import COSTS, DEGRADATIONS, RELIABILITY, TRACES, costs_table, reliability_table
from benchmarks.marked_page import replaced
from pausetrace.degradations import evaluate_degraded
from pausetrace.degrade_spec import parse_degradation
from simulation.reliability import Statement, deciles

PAGE = Path(__file__).parents[2] / "docs/diagnosis.md"


def on_the_page(place: str) -> list[str]:
    """The lines between the marks."""
    found = re.search(rf"<!-- {place}: begin -->\n(.*?)<!-- {place}: end -->", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1].splitlines()


def test_content_takes_the_marked_place_alone() -> None:
    page = "x\n<!-- place: begin -->\nold\n<!-- place: end -->\ny\n<!-- other: begin -->\n<!-- other: end -->\n"
    assert replaced(page, "place", "| t |\n") == page.replace("old", "| t |")
    with pytest.raises(ValueError, match="third: begin"):
        replaced(page, "third", "y\n")


def test_each_tenth_of_confidence_has_a_line() -> None:
    told = reliability_table(deciles([Statement(420_000, True, True), Statement(450_000, True, False)])).splitlines()
    assert told[2] == "| 0.0 to 0.1 | 0 | 0 | 0 | - |"
    assert told[6] == "| 0.4 to 0.5 | 2 | 2 | 1 | 0.500 |"
    assert len(told) == 12
    assert [line.split("|")[1] for line in on_the_page(RELIABILITY)] == [line.split("|")[1] for line in told]


def test_the_undisturbed_line_of_the_page_is_what_the_code_says() -> None:
    report = evaluate_degraded([TRACES], frozenset(), (), final_cascades, seeds=1)
    page = on_the_page(COSTS)
    assert page[:3] == costs_table(report.rows).splitlines()
    assert [parse_degradation(line.split("`")[1]).text for line in page[3:]] == list(DEGRADATIONS)
