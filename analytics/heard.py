"""How far polled devices have been heard: of periods up to then, nothing is on its way that a first look would miss.

In: the streams of a fabric. Out: a time, for provisional revisions; finals wait for promises, and for lost polls.
"""

from __future__ import annotations

from collections.abc import Mapping

from analytics.announced import Announced
from analytics.layout import FOREVER
from analytics.streams import Stream
from stream.batch import StreamKey

POLLED = ("pfc", "queue", "ecn")
"""Of what a polled period is told by."""
MOST_PERIODS, MOST_NS = 2, 1_000_000_000
"""Who is further behind the others than so many periods and so long has lost polls, or is gone."""
NEXT_POLL = 0.97
"""Who promises that so many periods are over since a row has polled again, and there was nothing to tell, or a poll was
lost. Polls come a little sooner or later than a period after each other; other topics of a device a little apart."""


def heard_ns(streams: Mapping[StreamKey, Stream], announced: Announced, newest_ns: int) -> int:
    """Up to when all devices that are polled as often as most have told of themselves; FOREVER where none is polled."""
    period_ns = announced.poll_ns(newest_ns)
    heard = [
        _heard_ns(stream)
        for key, stream in streams.items()
        if 0 < stream.period_ns <= period_ns
        and not stream.suspended
        and not stream.down
        and key.source.rpartition("|")[2] in POLLED
    ]
    if not heard:
        return FOREVER
    least_ns = max(heard) - MOST_PERIODS * period_ns - MOST_NS
    return min(time_ns for time_ns in heard if time_ns >= least_ns)


def _heard_ns(stream: Stream) -> int:
    due_ns = stream.newest_ns + NEXT_POLL * stream.period_ns
    return stream.newest_ns if stream.mark_ns <= due_ns else stream.mark_ns
