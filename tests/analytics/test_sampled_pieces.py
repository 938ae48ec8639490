"""Two incidents that one poll shows together: one cascade for as long as nothing tells them apart, then two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from pausetrace.degrade_spec import parse_degradation
from simulation.degrade import degrade
from simulation.fabric import story
from simulation.fabric.plot import Fault
from simulation.fabric.writing import write
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from stream.batch import Batch
from stream.cascade import FINAL, Cascade

STEP_NS = 20_000_000
POLL_NS = 160_000_000
"""The first fault ends in the middle of a poll, and the other begins."""
AT_ONCE = 5


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Fault, ...], list[list[Cascade]]]:
    """What was planted, and the cascades that are told of it, time after time: a narrow PCIe link in whose way the
    link lies that fails later."""
    folder: Path = tmp_path_factory.mktemp("pieces") / "two_faults"
    played = story("two_faults", seed=5, hosts=64, steps=90, compute_ns=STEP_NS, bin_ns=STEP_NS, fault_steps=(10, 80))
    write(played, folder)
    streams = degrade(
        read_trace(folder, frozenset()), {}, parse_degradation(f"period={POLL_NS}ns"), 0, source="trace", epoch="e",
        start_ns=1_700_000_000_000_000_000,
    )  # fmt: skip
    assert streams is not None

    def steps() -> Iterator[list[Cascade]]:
        detect, step = Detect(), Correlate(provisional=True)
        items = trace_items(streams.streams, 5)
        for at in range(0, len(items), AT_ONCE):
            some = items[at : at + AT_ONCE]
            made = step.process([each for each in some if not isinstance(each, Batch)] + detect.process(some))
            yield [each for each in made if isinstance(each, Cascade) and each.mode == "sampled"]

    return played.plot.faults, list(steps())


def mainly(cascade: Cascade) -> set[str]:
    """The devices of roots that have more than a tenth of it."""
    return {root.device for root in cascade.roots if root.share_ppm > 100_000}


def test_two_incidents_that_met_in_one_poll_are_two_in_the_end(
    told: tuple[tuple[Fault, ...], list[list[Cascade]]],
) -> None:
    (narrow, slow), outputs = told
    finals = [each for some in outputs for each in some if each.revision == FINAL and each.merged_into is None]
    of_host = [each for each in finals if narrow.device in mainly(each)]
    assert [mainly(each) for each in of_host] == [{narrow.device}]
    assert slow.device in set().union(*map(mainly, finals))
    # What was told of the host's stops ends with its fault, about half way.
    assert all(each.end_ns >= of_host[0].end_ns + 3 * POLL_NS for each in finals if each not in of_host)


def test_what_was_told_as_one_is_told_apart_under_names_that_go_on(
    told: tuple[tuple[Fault, ...], list[list[Cascade]]],
) -> None:
    _, outputs = told
    revisions, ended = dict[str, int](), set[str]()
    open_now: dict[str, Cascade] = {}
    places: dict[str, set[tuple[str, str]]] = {}
    given_up = 0
    for some in outputs:
        for each in some:
            assert each.id not in ended
            now = {(queue.device, queue.port) for queue in each.queues}
            given_up += not places.get(each.id, set()) <= now
            places[each.id] = now
            if each.revision == FINAL:
                ended.add(each.id)
            else:
                assert int(each.revision) > revisions.get(each.id, 0)
                revisions[each.id] = int(each.revision)
            open_now[each.id] = each
            if each.revision == FINAL or each.merged_into is not None:
                del open_now[each.id]
        stopped = [(queue.device, queue.port) for each in open_now.values() for queue in each.queues]
        assert len(stopped) == len(set(stopped))
    assert given_up
    assert not open_now
