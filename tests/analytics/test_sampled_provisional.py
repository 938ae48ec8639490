"""Provisional cascades of polled devices: one incident bears one name at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analytics import correlate
from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.layout import FOREVER
from simulation.trace_items import trace_items
from stream.batch import Batch
from stream.cascade import FINAL, Cascade
from tests.analytics.test_sampled_determinism import POLLED, polled

AT_ONCE = 25


def told(trace: str, how: str) -> Iterator[list[Cascade]]:
    """The cascades that the steps tell, time after time, of some values of the sources."""
    detect, step = Detect(), Correlate(provisional=True)
    items = trace_items(polled(trace, how), 5)
    for at in range(0, len(items), AT_ONCE):
        some = items[at : at + AT_ONCE]
        made = step.process([i for i in some if not isinstance(i, Batch)] + detect.process(some))
        yield [each for each in made if isinstance(each, Cascade)]


@pytest.mark.parametrize(("trace", "how"), POLLED[:1])
def test_a_name_that_gave_way_to_another_is_ended_at_once(
    trace: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where nobody waits for the devices that have not told yet.
    monkeypatch.setattr(correlate, "heard_ns", lambda *_: FOREVER)
    open_now: dict[str, Cascade] = {}
    revisions: dict[str, int] = {}
    gave_way = 0
    for outputs in told(trace, how):
        for cascade in outputs:
            if cascade.revision != FINAL:
                assert int(cascade.revision) > revisions.get(cascade.id, 0)
                revisions[cascade.id] = int(cascade.revision)
            gave_way += cascade.merged_into is not None
            open_now[cascade.id] = cascade
            if cascade.revision == FINAL or cascade.merged_into is not None or not cascade.pauses:
                del open_now[cascade.id]
        places = [(queue.device, queue.port, queue.priority) for c in open_now.values() for queue in c.queues]
        assert len(places) == len(set(places))
    assert not open_now
    assert gave_way
