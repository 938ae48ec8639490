"""A cascade told in sentences; `tests/pausetrace/golden` holds them whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from analytics.alternatives import NOT_POLARIZED
from analytics.bounds import PPM
from analytics.missing import PARTS, RAISES, SILENT, part_raised
from pausetrace import doubts
from pausetrace.analysis import analyze_trace
from pausetrace.class_names import CLASSES
from pausetrace.explanation import Explanation, explain
from pausetrace.explanation_text import as_markdown, as_text
from pausetrace.report import worst_first
from pausetrace.units import share_text
from pausetrace.way import MAX_HOPS
from stream.cascade import Alternative, Cascade, HeldBy, PausedQueue
from stream.kinds import SOURCE_LOST
from tests.analytics.test_verdict import stopped_host
from tests.pausetrace.golden import assert_golden
from tests.pausetrace.sample_cascades import SLOW_RECEIVER, SUSPECTS

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/data/ns3/slow_receiver-ft4-s1"


def told_whole() -> Cascade:
    """The slow receiver as it is published today: with times of queues, other classes and parts of the confidence."""
    start = SLOW_RECEIVER.start_ns
    queues = tuple(
        replace(queue, first_ns=start + 1_500 * at, last_ns=start + 400_000 + queue.pause_ns)
        for at, queue in enumerate(SLOW_RECEIVER.queues)
    )
    slow, collision = SLOW_RECEIVER.roots
    roots = (
        replace(slow, alternatives=(Alternative("nic_pfc_storm", "its PCIe link is below its maximum"),)),
        replace(
            collision,
            alternatives=(
                Alternative("link_degraded", "it reached 98000 of 100000 Mb/s"),
                Alternative("hash_polarization", NOT_POLARIZED),
            ),
        ),
    )
    return replace(
        SLOW_RECEIVER, queues=queues, roots=roots, confidence_ppm=600_000, missing_evidence=("pauses as seen by tor3",),
        confidence_parts={"time": 900_000, "coverage": 1_000_000, "evidence": 666_667, "margin": 1_000_000},
    )  # fmt: skip


def section(cascade: Cascade, name: str) -> str:
    (found,) = [section for section in explain(cascade).sections if section.name == name]
    return "\n".join(found.sentences)


def test_a_slow_receiver_is_told_as_ever() -> None:
    assert_golden("explain-slow-receiver.txt", as_text(explain(told_whole())))
    assert_golden("explain-slow-receiver-markdown.txt", as_markdown(explain(told_whole())))


def test_suspects_are_told_as_ever() -> None:
    assert_golden("explain-suspects.txt", as_text(explain(SUSPECTS)))


def test_a_suspect_set_accuses_nobody() -> None:
    explanation = explain(SUSPECTS)
    assert explanation.headline == "It may have begun at h9 or at 1 other place: the evidence is too thin for a verdict"
    assert "h9 is a slow receiver" not in as_text(explanation)


def test_the_way_tells_every_queue_after_the_one_that_stopped_it() -> None:
    way = section(SLOW_RECEIVER, "way").splitlines()
    place_of = {
        queue.device: next(at for at, line in enumerate(way) if f" stopped {queue.device}:{queue.port} " in line)
        for queue in SLOW_RECEIVER.queues
    }
    assert (
        place_of["tor4"] < place_of["agg5"] < place_of["core2"] < place_of["agg3"] < place_of["tor3"] < place_of["h6"]
    )
    assert any(
        line == "Hop 6: since tor3:p4 could not send, tor3 stopped h6:eth0 30 times, for 178 µs." for line in way
    )


def test_a_large_cascade_is_summed_up() -> None:
    first = SLOW_RECEIVER.queues[0]
    many = tuple(replace(first, device=f"s{at}", pause_ns=1_000 + at) for at in range(500))
    way = section(replace(SLOW_RECEIVER, queues=many), "way").splitlines()
    assert len(way) <= MAX_HOPS + 2
    assert way[-1] == f"{500 - MAX_HOPS} more queues were stopped, each for a smaller part."


def test_the_timeline_is_in_order_and_ends_with_the_cascade() -> None:
    lines = section(told_whole(), "timeline").splitlines()
    times = [line.partition(" ")[0] for line in lines]
    assert times == sorted(times)
    assert lines[0].endswith("(the start): tor4:p2 is stopped, next to a root, the first of 2.")
    assert lines[-1].endswith("(+756 µs): the last stop ends.")


def test_a_confidence_is_told_with_what_would_raise_it() -> None:
    said = section(told_whole(), "change")
    assert (
        "With pauses as seen by tor3, time would rise from 0.90 to at most 1.00, and the confidence"
        " from 0.60 to at most 0.66."
    ) in said


def test_too_few_kinds_of_evidence_are_told_though_no_source_is_silent() -> None:
    parts = {"time": 1_000_000, "coverage": 1_000_000, "evidence": 333_333, "margin": 1_000_000}
    cascade = replace(SUSPECTS, missing_evidence=(), losses={}, confidence_ppm=333_333, confidence_parts=parts)
    assert section(cascade, "missing") == (
        "No source is known to be silent; what lowers the confidence is evidence (0.33)."
    )
    assert "would raise evidence from 0.33, and the confidence from 0.33 to at most 1.00." in section(cascade, "change")


def test_in_a_ring_hops_are_counted_along_the_way() -> None:
    ring = tuple(
        PausedQueue(device, "p1", 3, by, "p2", 1, pause_ns, 300_000, 1, (f"{by}:p1",))
        for device, by, pause_ns in (("a", "b", 100), ("b", "c", 300), ("c", "a", 200))
    )
    way = section(replace(SLOW_RECEIVER, roots=(), queues=ring, edges=()), "way").splitlines()
    assert way == [
        "The following stops lead to no root that is named.",
        "Hop 1: c stopped b:p1 once, for 300 ns.",
        "Hop 2: since b:p1 could not send, b stopped a:p1 once, for 100 ns.",
        "Hop 3: since a:p1 could not send, a stopped c:p1 once, for 200 ns.",
    ]


def test_a_suspect_set_says_what_would_make_it_a_verdict() -> None:
    parts = {"time": 1_000_000, "coverage": 1_000_000, "evidence": 333_333, "margin": 1_000_000}
    cascade = replace(SUSPECTS, missing_evidence=("PCIe state of h9",), confidence_ppm=333_333, confidence_parts=parts)
    assert "from 0.33 to at most 1.00, which would make it a verdict." in section(cascade, "change")


def test_the_first_root_stays_the_first_until_half_of_the_difference_moves() -> None:
    # (88.28 - 11.72) / 2 percent
    assert "h9 stays the first root unless 38.3 % of the blame" in section(SLOW_RECEIVER, "change")


def test_a_cascade_of_an_earlier_version_is_told_as_far_as_it_goes() -> None:
    text = as_text(explain(SLOW_RECEIVER))
    assert "confidence is made of" not in text
    assert "the first stop." in text


def test_without_flows_the_change_names_them() -> None:
    roots = tuple(replace(root, contributors=()) for root in SLOW_RECEIVER.roots)
    cascade = replace(SLOW_RECEIVER, roots=roots, victims=())
    assert "Which flows fed it is not known" in section(cascade, "flows")
    assert "would name who fed it and who was held up" in section(cascade, "change")


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_a_headline_about_its_place(name: str) -> None:
    root = replace(SLOW_RECEIVER.roots[0], root_class=name)
    assert "h9" in explain(replace(SLOW_RECEIVER, roots=(root,))).headline


HOSTILE = 'h9\x1b[2J\n# <b>"*_`[x](http://x.y)|&amp;'


def with_name(name: str) -> Explanation:
    queues = tuple(replace(queue, device=name) for queue in SLOW_RECEIVER.queues[:2])
    root = replace(SLOW_RECEIVER.roots[0], device=name, evidence=(name,))
    return explain(replace(SLOW_RECEIVER, roots=(root,), queues=queues, missing_evidence=(name,), severity_reason=name))


def test_no_name_sends_control_sequences_or_breaks_a_line() -> None:
    text = as_text(with_name(HOSTILE))
    assert all(line.isprintable() for line in text.splitlines())
    assert len([line for line in text.splitlines() if line.startswith("#")]) == 0


def test_no_name_becomes_markup_in_markdown() -> None:
    page = as_markdown(with_name(HOSTILE))
    assert all(line.isprintable() for line in page.splitlines())
    bare = re.sub(r"\\.", "", page)
    assert re.findall(r"[<>*_`\[\]|&]|://", bare) == []
    assert len(re.findall(r"^#", page, flags=re.MULTILINE)) == 1 + len(with_name("h9").sections)


@pytest.mark.parametrize("width", [20, 40, 72, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, as_text(explain(told_whole()), width).splitlines())) <= width


def test_every_sentence_is_one() -> None:
    for cascade in (told_whole(), SLOW_RECEIVER, SUSPECTS):
        for found in explain(cascade).sections:
            assert found.sentences, found.name
            assert all(sentence.endswith(".") for sentence in found.sentences), found


def test_who_only_reads_cascades_loads_no_compiler() -> None:
    loaded = "import sys, pausetrace.explanation; print([name for name in sys.modules if name == 'numba'])"
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.strip() == "[]"


def test_every_class_says_what_would_make_it_another() -> None:
    assert doubts.OTHERWISE.keys() == CLASSES.keys()
    for name in CLASSES:
        root = replace(SLOW_RECEIVER.roots[0], root_class=name, share_ppm=100_000)
        said = section(replace(SLOW_RECEIVER, roots=(root,)), "change")
        assert said.startswith(doubts.OTHERWISE[name].format(place="h9")[1:20], 1)
    root = replace(SLOW_RECEIVER.roots[0], root_class="class_of_the_future")
    assert "may give it a class" in section(replace(SLOW_RECEIVER, roots=(root,)), "change")


@pytest.fixture(scope="module")
def worst() -> Cascade:
    return worst_first(analyze_trace(TRACE, frozenset(), 1_700_000_000_000_000_000).cascades)[0]


def test_the_parts_of_the_confidence_multiply_to_it(worst: Cascade) -> None:
    assert worst.confidence_parts.keys() == set(PARTS)
    product = 1.0
    for part in worst.confidence_parts.values():
        product *= part / 1_000_000
    assert worst.confidence_ppm == pytest.approx(1_000_000 * product, abs=5)


def test_what_evidence_is_said_to_give_is_what_it_gives(worst: Cascade, tmp_path: Path) -> None:
    folder = tmp_path / TRACE.name
    folder.mkdir()
    for file in TRACE.iterdir():
        if not file.name.startswith("host_pcie"):
            (folder / file.name).symlink_to(file)
    (without, *_) = worst_first(analyze_trace(folder, frozenset(), 1_700_000_000_000_000_000).cascades)
    assert without.missing_evidence == ("PCIe state of h9",)
    assert without.confidence_ppm == worst.confidence_ppm
    assert section(without, "change").splitlines() == [
        "With PCIe state of h9, the verdict would rest on more than it does; evidence is 1.00 already.",
        "A PCIe link of h9 reported below its maximum would say slow receiver (PCIe), one reported whole would rule"
        " that out.",
    ]


def test_a_confidence_that_is_promised_is_reached_when_the_evidence_comes() -> None:
    story = stopped_host()
    said = section(story.only(), "change")
    assert (
        "With PCIe state of h10, evidence would rise from 0.66 to at most 1.00, and the confidence from 0.66 to" in said
    )
    story.pcie("h10", 16, 16)
    assert story.only().confidence_ppm == 1_000_000
    story.silent.add(("pfc", "leaf1"))
    said = section(story.only(), "change")
    assert (
        "With pauses as seen by leaf1, time would rise from 0.90 to at most 1.00, and the confidence from 0.90 to"
        in said
    )
    story.silent.clear()
    story.row("queue", "leaf1", "d0", SOURCE_LOST, 500_000, value=4, extra=3)
    said = section(story.only(), "change")
    assert "Without 4 rows that were lost or ends that were guessed, time would rise from 0.50 to at most 1.00" in said


def test_queues_are_stopped_within_the_cascade_and_causes_before_what_they_cause(worst: Cascade) -> None:
    first = {f"{queue.device}:{queue.port}": queue.first_ns for queue in worst.queues}
    for queue in worst.queues:
        assert queue.first_ns is not None
        assert queue.last_ns is not None
        assert worst.start_ns <= queue.first_ns < queue.last_ns <= worst.end_ns
        assert queue.last_ns - queue.first_ns >= queue.pause_ns
        for cause in queue.caused_by:
            assert (first[cause] or 0) <= queue.first_ns


def test_every_sentence_about_what_is_missing_raises_a_part() -> None:
    assert {part_raised(f"{words} x") for words in RAISES if "rows" not in words} <= set(PARTS)
    assert part_raised("4 rows that were lost or ends that were guessed") == "time"
    assert part_raised("something of another version") == ""


def test_a_silent_switch_is_told_with_whom_it_stopped_and_what_it_would_have_told() -> None:
    pauser = SLOW_RECEIVER.queues[1].paused_by_device
    cascade = replace(SLOW_RECEIVER, missing_evidence=(f"{SILENT} {pauser}, leaf99 and 3 more",))
    told = [sentence for sentence in section(cascade, "missing").splitlines() if "was silent" in sentence]
    stopped = [queue for queue in cascade.queues if queue.paused_by_device == pauser]
    (sentence,) = told  # leaf99 stopped nobody
    assert sentence.startswith(f"{pauser} was silent. It stopped {stopped[0].device}:{stopped[0].port}")
    assert share_text(PPM * sum(queue.pause_ns for queue in stopped) // cascade.pause_ns) in sentence
    assert "would have told which of its queues held what came in by" in sentence
    assert stopped[0].paused_by_port in sentence


def polled(confidence_ppm: int, periods: int, *, suspects: bool) -> str:
    parts = {"time": 900_000, "coverage": 1_000_000, "evidence": 1_000_000, "margin": 950_000}
    cascade = replace(
        SLOW_RECEIVER, mode="sampled", confidence_ppm=confidence_ppm, suspect_set=suspects, periods=periods,
        poll_ns=1_000_000_000, confidence_parts=parts, missing_evidence=("periods that carry pause: 1.0 of 1 s",),
    )  # fmt: skip
    return as_text(explain(cascade), 10_000).replace("\n  ", " ")


def test_of_polls_the_bound_is_another_and_too_few_of_them_accuse_nobody() -> None:
    assert "from 0.85 on it is a verdict" in polled(930_000, 8, suspects=False)
    assert "below 0.85 nobody is accused" in polled(700_000, 8, suspects=True)
    few = polled(930_000, 1, suspects=True)
    assert "but of fewer than 3 polls nobody is accused, and these are suspects" in few
    assert "make it a verdict" not in few
    assert "the first root leads the next by no more than that" in few
    assert "how far the first root leads the next" in few


def test_what_held_a_flow_up_beside_asserted_roots_is_not_in_its_time() -> None:
    (first, *_) = SLOW_RECEIVER.victims
    beside = HeldBy("core2", "p3", 3, 900_000)
    told = replace(SLOW_RECEIVER, victims=(replace(first, roots=(*first.roots, beside)),))
    assert section(told, "flows").endswith(
        "was held up for 300 µs by roots that it did not feed: h9 for 300 µs; beside them by core2:p3 for 900 µs."
    )
