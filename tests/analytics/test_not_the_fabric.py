"""A job that waits for one rank's compute is told as `not_the_fabric`, unless a cascade at its host explains it."""

from __future__ import annotations

from random import Random

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.layout import FOREVER
from analytics.not_the_fabric import NotTheFabric
from analytics.noted import Noted
from analytics.stragglers import StepRow
from analytics.topology import Topology
from stream.batch import Batch
from stream.cascade import FINAL, Cascade
from stream.file_runner import run_steps
from stream.kinds import BY_NAME, COMPUTE_TIME, NO_PRIORITY, STEP_TIME
from tests.analytics.random_runs import leaf_spine
from tests.analytics.restarting import Restarting
from tests.analytics.story import BEGIN_NS, Story

US, MS = 1_000, 1_000_000
HOSTS = [f"h{leaf}{host}" for leaf in range(2) for host in range(4)]
STEP_NS, SLOW_FROM, SLOW_UNTIL = 20 * MS, 10, 13
SLOW_NS = SLOW_FROM * STEP_NS
"""When the slow steps begin; each step lasts 20 ms up to then."""


def training(slow: str = "h12", count: int = 20, slow_steps: range = range(SLOW_FROM, SLOW_UNTIL)) -> Story:
    """Steps of 15 ms of compute and 5 ms of exchange; in some of them one host computes for 21 ms."""
    story = Story(leaf_spine(2, 1, 4))
    now_ns = 0
    for step in range(count):
        is_slow = step in slow_steps
        length_ns = STEP_NS + 6 * MS * is_slow
        for rank, host in enumerate(HOSTS):
            compute_ns = 21 * MS if is_slow and host == slow else 15 * MS + (rank * 7 + step * 3) % 5 * 10 * US
            told = {"extra": step, "flow": 7, "priority": NO_PRIORITY}
            story.row("host", host, f"rank{rank}", COMPUTE_TIME, now_ns + compute_ns, value=compute_ns, **told)
            story.row("host", host, f"rank{rank}", STEP_TIME, now_ns + length_ns, value=length_ns, **told)
        now_ns += length_ns
    return story


def training_of_whole_steps(slow_steps: range = range(SLOW_FROM, SLOW_UNTIL)) -> Story:
    """The same without COMPUTE_TIME: in slow steps h12, and h13 that gets data from it, end 6 ms after all others."""
    story = Story(leaf_spine(2, 1, 4))
    now_ns = 0
    for step in range(20):
        is_slow = step in slow_steps
        for rank, host in enumerate(HOSTS):
            length_ns = 26 * MS if is_slow and host in ("h12", "h13") else STEP_NS - (rank * 7 + step * 3) % 5 * 10 * US
            told = {"extra": step, "flow": 7, "priority": NO_PRIORITY}
            story.row("host", host, f"rank{rank}", STEP_TIME, now_ns + length_ns, value=length_ns, **told)
        now_ns += STEP_NS + 6 * MS * is_slow
    return story


def cut(value: Batch, random: Random) -> list[Batch]:
    """The rows of a value in several of up to five rows."""
    parts: list[Batch] = []
    first = 0
    while first < len(value.events) or not parts:
        rows = value.events[first : first + random.randint(1, 5)]
        mark_ns = int(rows["time_ns"][-1]) if len(rows) else value.mark_ns
        parts.append(Batch(value.stream, first, mark_ns, value.ports, rows))
        first += len(rows) or 1
    return parts


def slow_hosts(story: Story) -> list[Cascade]:
    """The verdicts that it is not the fabric."""
    return [told for told in story.finals() if told.roots[0].root_class == "not_the_fabric"]


def test_the_host_that_all_others_wait_for_is_named_with_its_numbers() -> None:
    (told,) = training().finals()
    (root,) = told.roots
    assert (root.device, root.port, root.kind) == ("h12", "", "host")
    assert (root.root_class, root.layer) == ("not_the_fabric", "compute")
    assert (told.pauses, told.pause_ns, root.pause_ns, told.revision) == (0, 0, 0, FINAL)
    assert (told.start_ns, told.end_ns) == (BEGIN_NS + SLOW_NS, BEGIN_NS + SLOW_NS + 3 * 26 * MS)
    assert (told.severity, told.severity_reason) == ("critical", "7 ranks wait for 23.0% of each step")
    assert told.confidence_ppm == 666_666
    assert root.evidence == (
        "rank6 of job 7 computes for 21.0 ms where the median of 8 ranks takes 15.0 ms: 1.40 times as long,"
        " in 3 steps in a row from step 10 on",
        "before, it took 15.0 ms itself",
        "the others wait for it for 6.0 ms of a step of 26.0 ms, and no pause explains that",
        "these steps cost 8 ranks 0.1 rank-seconds",
    )
    assert told.stall_rank_ns == 3 * 8 * 6 * MS
    assert told.missing_evidence == ("what goes on inside h12: kernel latency, throttling, memory and GPU errors",)


def test_a_sound_job_raises_nothing() -> None:
    assert training(slow="").finals() == []


def test_without_compute_times_the_smallest_set_that_ends_last_is_suspected() -> None:
    (told,) = training_of_whole_steps().finals()
    assert [(root.device, root.root_class, root.share_ppm) for root in told.roots] == [
        ("h12", "not_the_fabric", 500_000), ("h13", "not_the_fabric", 500_000)
    ]  # fmt: skip
    assert told.suspect_set
    assert told.confidence_ppm == 166_666
    assert told.severity_reason.startswith("6 ranks wait")
    assert told.roots[0].evidence[0].startswith("rank6, rank7 of job 7 ended last, after 26.0 ms")
    assert told.missing_evidence[0].startswith("COMPUTE_TIME of the ranks of job 7")


def test_what_one_of_them_reports_of_itself_stands_at_that_one() -> None:
    story = training_of_whole_steps()
    kind = BY_NAME["CPU_THROTTLE"]
    story.row(kind.topic, "h12", "part0", kind.code, SLOW_NS + 50 * MS, value=3)
    (told,) = story.finals()
    assert [(root.device, root.layer, len(root.evidence)) for root in told.roots] == [
        ("h12", "compute", 5), ("h13", "", 4)
    ]  # fmt: skip
    assert told.confidence_ppm == 333_333


@pytest.mark.parametrize(("queue", "told"), [(("h11", "eth0", 3), 0), (("leaf0", "d1", 3), 0)])
def test_any_cascade_of_that_time_explains_whole_steps(queue: tuple[str, str, int], told: int) -> None:
    story = training_of_whole_steps()
    story.pause(queue, SLOW_NS + 30 * MS, SLOW_NS + 31 * MS)
    assert len(slow_hosts(story)) == told
    assert len(story.finals()) == 1


def test_a_rank_that_was_never_seen_faster_makes_a_suspect_set() -> None:
    told, _ = training(slow_steps=range(20)).finals()
    assert told.suspect_set
    assert told.missing_evidence[0] == "steps of rank6 from before it was slow"


@pytest.mark.parametrize(
    ("name", "fields", "layer"),
    [
        ("CPU_THROTTLE", {"value": 3}, "compute"),
        ("BLOCK_OUTLIER", {"value": 5 * MS}, "storage"),
        ("GPU_ERRORS", {"value": 1, "extra": 79}, "compute"),
    ],
)
@pytest.mark.parametrize(
    ("host", "after_ns", "counts"),
    [
        ("h12", SLOW_NS + 50 * MS, True),
        ("h12", SLOW_NS - 11 * MS, False),
        ("h12", SLOW_NS + 3 * 26 * MS + 1, False),
        ("h11", SLOW_NS + 50 * MS, False),
    ],
)
def test_what_the_host_reports_in_that_time_says_why(
    name: str, fields: dict[str, int], layer: str, host: str, after_ns: int, counts: bool
) -> None:
    story = training()
    kind = BY_NAME[name]
    story.row(kind.topic, host, "part0", kind.code, after_ns, **fields)
    (told,) = story.finals()
    assert told.roots[0].layer == (layer if counts else "compute")
    assert len(told.roots[0].evidence) == 4 + counts
    assert told.confidence_ppm == (1_000_000 if counts else 666_666)


@pytest.mark.parametrize(
    ("queue", "from_ns", "length_ns", "told"),
    [
        (("h12", "eth0", 3), SLOW_NS + 30 * MS, 1 * MS, False),  # the host is held up
        (("leaf1", "d2", 3), SLOW_NS + 30 * MS, 1 * MS, False),  # the host is the root
        (("h11", "eth0", 3), SLOW_NS + 30 * MS, 1 * MS, True),  # another host is held up
        (("h12", "eth0", 3), SLOW_NS + 30 * MS, 40 * US, True),  # harmless
        (("h12", "eth0", 3), SLOW_NS - 30 * MS, 1 * MS, True),  # before
        (("h12", "eth0", 3), SLOW_NS + 3 * 26 * MS + 1 * MS, 1 * MS, True),  # after
        (("h12", "eth0", 3), SLOW_NS + 30 * MS, 300 * MS, False),  # for long
    ],
)
def test_a_cascade_at_the_host_explains_its_time(
    queue: tuple[str, str, int], from_ns: int, length_ns: int, told: bool
) -> None:
    story = training()
    story.pause(queue, from_ns, from_ns + length_ns)
    assert len(slow_hosts(story)) == told
    assert len(story.finals()) == 1 + told


def test_a_pause_that_never_ends_explains_it_too() -> None:
    story = training()
    story.pause(("h12", "eth0", 3), SLOW_NS + 30 * MS, SLOW_NS + 40 * MS)
    for rows in story.rows.values():
        rows[:] = [row for row in rows if row[1]["kind"][0] != BY_NAME["PFC_XON"].code]
    assert len(story.finals()) == 1
    assert slow_hosts(story) == []


@pytest.mark.parametrize("seed", range(6))
def test_verdicts_do_not_depend_on_order_batches_or_restarts(seed: int) -> None:
    story = training() if seed < 4 else training_of_whole_steps()
    kind = BY_NAME["CPU_THROTTLE"]
    story.row("host", "h12", "cpu1", kind.code, SLOW_NS + 50 * MS, value=3)
    story.pause(("h12", "eth0", 3), SLOW_NS - 30 * MS, SLOW_NS - 29 * MS)
    story.pause(("h11", "eth0", 3), SLOW_NS + 30 * MS, SLOW_NS + 200 * MS)
    expected = {told.id: told for told in story.finals()}
    assert len(expected) == (3 if seed < 4 else 2)
    random = Random(seed)
    values = [part for value in story.values() for part in cut(value, random)]
    # Parts of one stream stay in order; streams run ahead of each other by up to 30 ms.
    ahead = {part.stream: random.randrange(30 * MS) for part in values}
    values.sort(key=lambda part: part.mark_ns - ahead[part.stream])
    step = Restarting(lambda: Correlate(provisional=seed % 2 == 0), random, 0.2)
    made = run_steps([*story.ups(), *story.facts(), *values, *story.downs()], [Detect()], step, 3)
    finals = [item for item in made if isinstance(item, Cascade) and item.revision == FINAL]
    assert {told.id: told for told in finals} == expected
    assert len(finals) == len(expected)


@pytest.mark.parametrize("ticks", [1, 40])
def test_a_cascade_explains_a_spell_of_long_steps_however_often_is_asked(ticks: int) -> None:
    step_ns, knows = 70_000 * MS, NotTheFabric()
    rows = [
        StepRow((step + 1) * step_ns - late, 7, COMPUTE_TIME, host, f"rank{rank}", step, step_ns - late)
        for step in range(14)
        for rank, host in enumerate(HOSTS)
        for late in [0 if step >= 10 and rank == 0 else step_ns // 2]
    ]
    spell_end_ns = 13 * step_ns
    knows._harmed[HOSTS[0]] = [(spell_end_ns - MS, spell_end_ns)]
    told = knows.stragglers.take([row for row in rows if row.step < 13])
    assert told == []
    for tick in range(ticks):
        until_ns = spell_end_ns + (tick + 1) * (step_ns - MS) // ticks
        assert knows.due("lab", until_ns, 10 * MS, FOREVER, Topology(), Noted()) == []
    for told_ns, spell in knows.stragglers.take([row for row in rows if row.step == 13]):
        knows._wait(spell, told_ns, Topology(), Noted())
    assert len(knows._waiting) == 1
    assert knows.due("lab", 20 * step_ns, 10 * MS, FOREVER, Topology(), Noted()) == []
    assert knows._waiting == []
