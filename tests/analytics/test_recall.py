"""A correlate that begins again knows what was published before it: nothing final is reopened, nothing stays open."""

from __future__ import annotations

from pathlib import Path

import msgspec

from analytics.correlate import Correlate
from analytics.detect import Detect
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.cascade import FINAL, Cascade
from stream.file_runner import run_steps
from stream.messages import Item

TRACE = Path(__file__).parents[1] / "data" / "ns3" / "two_roots-ls-s1"


def items() -> list[Item]:
    return trace_items(trace_streams(read_trace(TRACE), "f", "trace", "test", 10**18), rows_per_value=5)


def run(published: list[Cascade], share: float = 1.0) -> list[Cascade]:
    correlate = Correlate(provisional=True)
    correlate.recall(published)
    read = items()
    made = run_steps(read[: int(len(read) * share)], [Detect()], correlate, batch_size=20)
    return [item for item in made if isinstance(item, Cascade)]


def test_no_revision_follows_a_cascade_that_was_final_before_the_restart() -> None:
    first = run([])
    finals = [cascade for cascade in first if cascade.revision == FINAL]
    again = run(finals)
    final_ids = {cascade.id for cascade in finals}
    assert [cascade for cascade in again if cascade.revision == FINAL] == finals
    assert not [cascade for cascade in again if cascade.revision != FINAL and cascade.id in final_ids]
    assert [cascade for cascade in first if cascade.revision != FINAL]


def test_every_provisional_cascade_of_a_killed_process_is_ended_by_the_next() -> None:
    killed = run([], share=0.6)
    assert killed
    assert all(cascade.revision != FINAL for cascade in killed)
    last = {cascade.id: cascade for cascade in [*killed, *run(killed)]}
    for cascade in last.values():
        assert cascade.revision == FINAL or cascade.merged_into is not None or cascade.pauses == 0


def test_revisions_go_on_from_the_number_that_was_published() -> None:
    killed = run([], share=0.6)
    numbers: dict[str, int] = {}
    for cascade in [*killed, *run(killed)]:
        if cascade.revision != FINAL:
            assert int(cascade.revision) > numbers.get(cascade.id, 0)
            numbers[cascade.id] = int(cascade.revision)


def test_a_provisional_cascade_that_never_comes_again_is_withdrawn() -> None:
    stray = msgspec.structs.replace(run([], share=0.6)[-1], id="0123456789abcdef", revision=4)
    ended = [cascade for cascade in run([stray]) if cascade.id == stray.id]
    assert [(cascade.revision, cascade.pauses) for cascade in ended] == [(5, 0)]
