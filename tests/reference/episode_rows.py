"""Rows of episodes, one at a time and by the names of their fields: what they say, what counts, what the kernel gets.

The slow twin of analytics.rows and analytics.first_look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stream import kinds
from tests.reference.waiting_rows import PRIORITIES, Row

LATEST_NS = 1 << 62
NEVER = -(1 << 62)
FOREVER = 1 << 62
BYTES, FLOW, DEPTH = 0, 1, 2
TELLS_DEPTH, TELLS_BYTES, TELLS_MARKS = 1, 2, 4
PAUSES = {"PAUSE_OPEN", "PAUSE_INTERVAL"}
WINDOWS = {"QUEUE_DEPTH", "PORT_BYTES", "FLOW_BYTES", "ECN_MARKED"}
OF_PARTS = {
    "RUNQUEUE_OUTLIER", "SOFTIRQ_OUTLIER", "SOFTIRQ_RUN_OUTLIER", "HARDIRQ_OUTLIER", "NAPI_OUTLIER", "BLOCK_OUTLIER",
    "MEMORY_ERRORS", "CPU_THROTTLE", "PRESSURE", "GPU_ERRORS", "GPU_THROTTLE",
}  # fmt: skip
"""Kinds whose port is a processor, a disk or a card of a host."""


class Event(NamedTuple):
    """The record's fields."""

    time_ns: int
    seen_ns: int
    span_ns: int
    value: int
    extra: int
    flow: int
    device: int
    port: int
    kind: int
    priority: int
    side: int
    quality: int

    @property
    def name(self) -> str:
        """Of its kind, "" if that is unknown."""
        return kinds.BY_CODE[self.kind].name if self.kind in kinds.BY_CODE else ""


def by_name(events: Any) -> list[Event]:
    """The rows of an array of records."""
    return [Event(*row) for row in events.tolist()]


class Glance(NamedTuple):
    """What a batch holds: rows from before a time, its times, rows of pauses, of parts of a host, of windows."""

    late: int
    oldest_ns: int
    newest_ns: int
    pauses: int
    inside: int
    windows: int


def glance(events: Sequence[Event], due_ns: int) -> Glance:
    """Counts, each by a pass of its own."""
    return Glance(
        sum(event.time_ns < due_ns for event in events),
        min((event.time_ns for event in events), default=FOREVER),
        max((event.time_ns for event in events), default=NEVER),
        sum(event.name in PAUSES for event in events),
        sum(event.name in OF_PARTS for event in events),
        sum(event.name in WINDOWS and "GAP" not in _qualities(event) for event in events),
    )


def _qualities(event: Event) -> set[str]:
    return {name for bit, name in enumerate(kinds.QUALITY_BITS) if event.quality >> bit & 1}


def with_effect(events: Sequence[Event]) -> list[bool]:
    """Whether correlate has to be sent each row: bytes that came in only name a port, or say how far time has come."""
    keep = [not (event.name in ("PORT_BYTES", "FLOW_BYTES") and event.side == kinds.SIDE_RX) for event in events]
    if events:
        keep[[event.time_ns for event in events].index(max(event.time_ns for event in events))] = True
    named = {event.port for event, kept in zip(events, keep, strict=True) if kept}
    return [kept or event.port not in named for event, kept in zip(events, keep, strict=True)]


def window_rows(
    events: Sequence[Event], ports: Sequence[int], horizon_ns: int, cursor_ns: int
) -> tuple[list[Row], int, int]:
    """Rows of what queues held and sent, how many tell of longer windows than announced, the latest time of any event.

    A depth takes effect when its window begins, or at `cursor_ns` where that has passed; all else at the window's end.
    """
    rows, longer = [], 0
    for event, port in zip(events, ports, strict=True):
        if event.name not in WINDOWS or event.value <= 0 or event.side == kinds.SIDE_RX:
            continue
        queue = port * PRIORITIES + (0 if event.priority == kinds.NO_PRIORITY else event.priority)
        begin_ns, end_ns = event.time_ns - event.span_ns, event.time_ns
        at_ns, amount = end_ns, event.value
        if event.name == "QUEUE_DEPTH":
            what, tells = DEPTH, TELLS_DEPTH
            if event.span_ns > horizon_ns:
                longer += 1
            else:
                at_ns = max(begin_ns, cursor_ns)
        elif event.name == "FLOW_BYTES":
            what, tells = FLOW, 0
        elif event.name == "PORT_BYTES":
            what, tells = BYTES, TELLS_BYTES
        else:
            what, tells, amount = BYTES, TELLS_MARKS, 0
        rows.append(Row(at_ns, what, queue, begin_ns, end_ns, amount, 0, tells, event.flow))
    return rows, longer, max((event.time_ns for event in events), default=NEVER)


def flawed(event: Event, topic: str, port_count: int) -> bool:
    """Whether a row breaks a rule of the record or of its kind (docs/record.md)."""
    kind = kinds.BY_CODE.get(event.kind)
    if kind is None or (kind.topic and topic not in ("episode", kind.topic)):
        return True
    named = event.device == 0 and event.port < port_count and event.side in range(3)
    counted = event.priority in (*range(PRIORITIES), kinds.NO_PRIORITY)
    timed = 0 <= event.seen_ns <= LATEST_NS and 0 <= event.span_ns <= event.time_ns <= LATEST_NS
    measured = all(
        number == kinds.UNKNOWN or measure.low <= number <= measure.high
        for number, measure in ((event.value, kind.value), (event.extra, kind.extra))
    )
    return not (named and counted and timed and measured)
