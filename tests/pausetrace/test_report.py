"""Several cascades: in which order, and which of them are drawn."""

import io

from msgspec.structs import replace

from pausetrace.report import print_report, worst_first
from pausetrace.terminal import make_console
from stream.cascade import Cascade
from tests.pausetrace.sample_cascades import SLOW_RECEIVER, SUSPECTS

INFO = replace(SLOW_RECEIVER, id="0a", severity="info", pause_ns=27_500)
LARGER_INFO = replace(INFO, id="0b", pause_ns=90_000)


def report(*cascades: Cascade, whole: bool = False, pictures: int | None = None) -> str:
    console = make_console(io.StringIO(), 100)
    print_report(cascades, console, whole=whole, pictures=pictures, hint=" (ask)")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_worst_comes_first() -> None:
    assert worst_first([INFO, SUSPECTS, LARGER_INFO, SLOW_RECEIVER]) == [SLOW_RECEIVER, SUSPECTS, LARGER_INFO, INFO]


def test_harmless_cascades_are_a_line_each() -> None:
    text = report(INFO, SLOW_RECEIVER, LARGER_INFO)
    assert text.count("who stopped whom") == 1
    assert "and 2 harmless cascades (ask):" in text
    assert "27.5 µs of pause  h9  slow receiver (PCIe)" in text


def test_all_are_drawn_on_request() -> None:
    text = report(INFO, SLOW_RECEIVER, whole=True)
    assert text.count("who stopped whom") == 2
    assert "harmless" not in text


def test_a_bound_on_pictures_leaves_lines_for_the_rest() -> None:
    text = report(SLOW_RECEIVER, SUSPECTS, pictures=1)
    assert text.count("who stopped whom") == 1
    assert "and 1 more cascade (ask):" in text
    assert " SUSPECTS   1.56 ms of pause  h9  slow receiver (PCIe)  warning  " in text


def test_a_harmless_cascade_alone_is_drawn() -> None:
    assert "who stopped whom" in report(INFO)


def test_no_cascade_is_said() -> None:
    assert report() == " No cascade: no queue was stopped by another.\n"


def test_merged_cascades_are_left_out() -> None:
    assert report(replace(INFO, merged_into="0b")) == report()
