"""Which streams hold up the others for longer than a deadline, and which of the suspended ones have caught up.

In: where a fabric's streams stand (their marks), again and again, and a clock. Out: streams to suspend or to resume.
Nothing here reads event time against the clock, so that replays of any age and live sources are judged alike: a stream
is measured by what the others had reached on the clock a deadline ago.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from stream.batch import StreamKey

RESUMED_WITHIN = 0.5
"""Of the deadline: a suspended stream that is behind by no more than this counts again."""


class Standing(NamedTuple):
    """Where a stream of the roster stands."""

    mark_ns: int
    suspended: bool


@runtime_checkable
class Waiting(Protocol):
    """A step that waits for all streams of a fabric."""

    def standing(self) -> Mapping[str, Mapping[StreamKey, Standing]]:
        """By fabric, where the streams of its roster stand that have not ended."""
        ...

    def resumable_from_ns(self, fabric: str) -> int:
        """The first time from which a suspended stream can count again: everything before is settled."""
        ...


class Judgement(NamedTuple):
    """Streams to suspend, and streams to resume, each with its mark."""

    late: dict[StreamKey, int]
    caught_up: dict[StreamKey, int]


class FabricDeadlines:
    """Follows one fabric. What was before the first look counts for nothing: a restart gives everybody time."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._moved: dict[StreamKey, tuple[int, float]] = {}
        """The mark of each stream, and since when."""
        self._reached: deque[tuple[float, int]] = deque()
        """What the others had reached, by time; both grow."""

    def look(self, standing: Mapping[StreamKey, Standing], now_s: float) -> Judgement:
        """Judges the streams as they stand now."""
        before = self._moved
        self._moved = {}
        for stream, (mark_ns, _) in standing.items():
            known = before.get(stream)
            self._moved[stream] = known if known is not None and known[0] == mark_ns else (mark_ns, now_s)
        speaking = sorted(
            mark_ns
            for stream, (mark_ns, since_s) in self._moved.items()
            if now_s - since_s < self._deadline_s and not standing[stream].suspended
        )
        if speaking:
            # The middle of those that speak: neither one clock that is wrong nor many dead sources move it.
            middle_ns = speaking[(len(speaking) - 1) // 2]
            self._reached.append((now_s, max(middle_ns, self._reached[-1][1] if self._reached else middle_ns)))
        owed_ns = self._reached_by(now_s - self._deadline_s, forget=True)
        late = {
            stream: at.mark_ns
            for stream, at in standing.items()
            if speaking and owed_ns is not None and not at.suspended and at.mark_ns < owed_ns
        }
        near_ns = self._reached_by(now_s - self._deadline_s * RESUMED_WITHIN)
        caught_up = {
            stream: at.mark_ns
            for stream, at in standing.items()
            if at.suspended and near_ns is not None and at.mark_ns >= near_ns
        }
        return Judgement(late, caught_up)

    def _reached_by(self, time_s: float, *, forget: bool = False) -> int | None:
        found = None
        for at_s, mark_ns in self._reached:
            if at_s > time_s:
                break
            found = mark_ns
        while forget and len(self._reached) > 1 and self._reached[1][0] <= time_s:
            self._reached.popleft()
        return found


class Deadlines:
    """Follows all fabrics of a step."""

    def __init__(self, deadline_s: float, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._deadline_s = deadline_s
        self._monotonic_s = monotonic_s
        self._fabrics: dict[str, FabricDeadlines] = {}

    def look(self, step: Waiting) -> dict[str, Judgement]:
        """By fabric, what is to be done; fabrics of which nothing is to be said are left out."""
        standing = step.standing()
        self._fabrics = {fabric: self._fabrics.get(fabric) or FabricDeadlines(self._deadline_s) for fabric in standing}
        now_s = self._monotonic_s()
        found = {fabric: self._fabrics[fabric].look(streams, now_s) for fabric, streams in standing.items()}
        return {fabric: judged for fabric, judged in found.items() if judged.late or judged.caught_up}
