"""The picture of a cascade as people read it; `tests/pausetrace/golden` holds it whole."""

import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from pausetrace.class_names import CLASSES
from pausetrace.render import MAX_QUEUES, cascade_picture
from pausetrace.terminal import make_console
from stream.cascade import Cascade
from tests.pausetrace.golden import assert_golden
from tests.pausetrace.sample_cascades import SLOW_RECEIVER, SUSPECTS


def drawn(cascade: Cascade, width: int = 100) -> str:
    console = make_console(io.StringIO(), width)
    console.print(cascade_picture(cascade, console))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_a_slow_receiver_is_drawn_as_ever() -> None:
    assert_golden("cascade-slow-receiver.txt", drawn(SLOW_RECEIVER))
    golden = (Path(__file__).parent / "golden/cascade-slow-receiver.txt").read_text()
    assert lines_of(drawn(SLOW_RECEIVER)) == lines_of(golden), "the columns have moved"


def test_suspects_are_drawn_as_ever() -> None:
    assert_golden("cascade-suspects.txt", drawn(SUSPECTS))


def test_the_host_its_class_and_its_evidence_come_first() -> None:
    text = drawn(SLOW_RECEIVER)
    assert text.index("h9 is a slow receiver") < text.index("31500 of 100000 Mb/s") < text.index("tor4:p2  ")


def test_a_suspect_set_says_what_is_missing_and_names_no_culprit() -> None:
    text = drawn(SUSPECTS)
    assert "SUSPECTS" in text
    assert "missing: queue depths of tor4" in text
    assert "h9 is a slow receiver" not in text
    assert "may have begun at h9, or 1 other place" in text


def test_a_pipe_gets_no_control_sequences() -> None:
    assert "\x1b" not in drawn(SLOW_RECEIVER)


def test_a_terminal_gets_colour_unless_asked_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_a_terminal() -> str:
        console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system="standard")
        console.print(cascade_picture(SLOW_RECEIVER, console))
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[35m" in on_a_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[35m" not in on_a_terminal()


def test_a_name_cannot_send_control_sequences() -> None:
    root = replace(SLOW_RECEIVER.roots[0], device="h9\x1b[2J", evidence=("\x1b]0;owned\x07",))
    text = drawn(replace(SLOW_RECEIVER, roots=(root,), id="\x1b[31m"))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


@pytest.mark.parametrize("width", [10, 20, 40, 60, 79, 80, 132, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for cascade in (SLOW_RECEIVER, SUSPECTS):
        assert max(map(len, drawn(cascade, width).splitlines())) <= width


@pytest.mark.parametrize(
    ("width", "head", "line"),
    [
        (100, "share of the pause time                                 pause   times", "10.7 %    167 µs      23"),
        (80, "share of the pause time             pause   times", "10.7 %    167 µs      23"),
        (60, "who stopped whom                           share     pause", "10.7 %    167 µs"),
        (48, "who stopped whom               share     pause", "10.7 %    167 µs"),
        (40, "who stopped whom               share", "10.7 %"),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns_and_no_clipped_one(width: int, head: str, line: str) -> None:
    for cascade in (SLOW_RECEIVER, SUSPECTS):
        lines = lines_of(drawn(cascade, width))
        assert [text for text in lines if text.endswith(head)] != []
        assert [text for text in lines if "└─ tor3:p4 " in text and text.endswith(line)] != []


@pytest.mark.parametrize("width", [40, 60, 80])
def test_what_is_wrapped_hangs_below_where_it_began(width: int) -> None:
    for cascade in (SLOW_RECEIVER, SUSPECTS):
        assert all(line.startswith(" ") for line in drawn(cascade, width).splitlines() if line)


def test_a_suspect_set_is_not_shown_in_the_colour_and_words_of_a_verdict() -> None:
    first = lines_of(drawn(replace(SUSPECTS, severity="critical", confidence_ppm=499_999)))[0]
    assert first.startswith("  SUSPECTS   it may have begun")
    assert first.endswith("critical · confidence 0.49")
    assert "CRITICAL" not in first


def test_a_terminal_without_unicode_gets_ascii() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    console = make_console(file, 100)
    console.print(cascade_picture(SLOW_RECEIVER, console))
    file.flush()


def test_a_large_cascade_is_summed_up() -> None:
    first = SLOW_RECEIVER.queues[0]
    many = tuple(replace(first, device=f"s{i}", pause_ns=1_000 + i) for i in range(500))
    text = drawn(replace(SLOW_RECEIVER, queues=many))
    assert len(text.splitlines()) < MAX_QUEUES + 30
    assert "440 more queues stopped for" in text


def test_a_merged_cascade_points_to_the_one_that_lives_on() -> None:
    text = drawn(replace(SLOW_RECEIVER, merged_into="0123"))
    assert text.strip() == f"cascade {SLOW_RECEIVER.id} is part of 0123"


def test_several_priorities_are_told_apart() -> None:
    queues = (SLOW_RECEIVER.queues[0], replace(SLOW_RECEIVER.queues[0], priority=4))
    text = drawn(replace(SLOW_RECEIVER, queues=queues))
    assert "tor4:p2 prio 3" in text
    assert "tor4:p2 prio 4" in text


def test_an_unknown_class_is_shown_by_its_own_name() -> None:
    root = replace(SLOW_RECEIVER.roots[0], root_class="class_of_the_future")
    assert "class_of_the_future" in drawn(replace(SLOW_RECEIVER, roots=(root,)))


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_a_headline_about_its_place(name: str) -> None:
    root = replace(SLOW_RECEIVER.roots[0], root_class=name)
    assert "h9" in drawn(replace(SLOW_RECEIVER, roots=(root,))).splitlines()[0]


def test_losses_are_shown() -> None:
    assert "Counted on the way: 3 late rows" in drawn(replace(SLOW_RECEIVER, losses={"late rows": 3, "gaps": 0}))


def test_advice_is_shown() -> None:
    advised = replace(SLOW_RECEIVER, advice=("ecn_after_pfc: lower the threshold",))
    assert "Advice ecn_after_pfc: lower the threshold" in drawn(advised)
    assert "Advice" not in drawn(SLOW_RECEIVER)


def test_golden_files_have_no_trailing_blanks_to_lose() -> None:
    for path in (Path(__file__).parent / "golden").glob("*.txt"):
        assert all(line == line.rstrip() for line in path.read_text().splitlines()), path
