"""Rows at random and the plain way to choose among them, for tests of filters by time, device, port, and so on.

What is wanted is said twice: as a `RowFilter`, and as a sentence of Python over one row at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hypothesis import strategies as st

from stream import wire
from stream.batch import Batch, StreamKey
from stream.capture_message import Captured
from stream.capture_select import RowFilter
from stream.kinds import BY_CODE, BY_NAME, NO_PRIORITY
from stream.record import empty_events
from tests.stream import plain_wire
from tests.stream.capture_samples import HOUR_NS, START_NS

DEVICES = ("leaf-1", "leaf-2", "host-1")
PORTS = ("p1", "p2", "p3")
KINDS = {"pfc": ("PFC_XOFF", "PFC_XON", "PFC_PAUSED"), "queue": ("QUEUE_DEPTH", "PORT_BYTES")}
PRIORITIES = (0, 3, NO_PRIORITY)
FLOWS = (0, 7, (1 << 64) - 1)
SPAN_NS = 2 * HOUR_NS


class PlainRow(NamedTuple):
    """A row in plain objects, with the stream that it belongs to and its number there."""

    topic: str
    device: str
    seq: int
    time_ns: int
    port: str
    kind: str
    priority: int
    flow: int
    value: int
    text: str


def random_messages(seed: int, values: int = 24, most_rows: int = 30) -> list[Captured]:
    """Packed values of a few streams; the rows of each go on in time, those of a value in any order."""
    rng = random.Random(seed)
    offsets: dict[tuple[str, int], int] = {}
    seqs: dict[StreamKey, int] = {}
    listed = []
    for number in range(values):
        topic, device = rng.choice(tuple(KINDS)), rng.choice(DEVICES)
        stream = StreamKey("dc-1", "source", "boot-1", topic, device)
        begin_ns = START_NS + number * SPAN_NS // values
        events = empty_events(rng.randint(0, most_rows))
        for i in range(len(events)):
            kind = BY_NAME[rng.choice(KINDS[topic])]
            time_ns = begin_ns + rng.randrange(SPAN_NS // values)
            value = rng.randint(kind.value.low, min(kind.value.high, 99))
            events[i] = (
                time_ns, 0, 0, value, kind.extra.low, rng.choice(FLOWS), 0, rng.randrange(len(PORTS)), kind.code,
                rng.choice(PRIORITIES), 0, 0,
            )  # fmt: skip
        texts = tuple((row, f"text {row}") for row in range(len(events)) if rng.random() < 0.1)
        seq = seqs.get(stream, 0)
        seqs[stream] = seq + len(events)
        batch = Batch(stream, seq, begin_ns, PORTS, events, texts=texts)
        partition = DEVICES.index(device) % 2
        offset = offsets.get((topic, partition), 0)
        offsets[topic, partition] = offset + 1
        listed.append(
            Captured(topic, partition, offset, begin_ns // 10**6 + 1000, "create", batch.key, (), wire.encode(batch))
        )
    return listed


def plain_rows(messages: Iterable[Captured]) -> Iterator[PlainRow]:
    """Every row of the packed values, by a reader that shares nothing with the one in use."""
    for message in messages:
        assert message.value is not None
        batch = plain_wire.read(message.topic, message.key, message.value)
        texts = dict(batch.texts)
        for index, (position, row) in enumerate(zip(batch.kept, batch.rows, strict=True)):
            yield PlainRow(
                message.topic, batch.device, batch.seq + position, row[0], batch.ports[row[7]], BY_CODE[row[8]].name,
                row[9], row[5], row[3], texts.get(index, ""),
            )  # fmt: skip


class Wish(NamedTuple):
    """What is wanted; None wants everything."""

    from_ns: int | None = None
    to_ns: int | None = None
    devices: frozenset[str] | None = None
    ports: frozenset[str] | None = None
    priorities: frozenset[int] | None = None
    kinds: frozenset[str] | None = None
    flows: frozenset[int] | None = None

    def is_met(self, row: PlainRow) -> bool:
        """Whether one row is wanted."""
        return (
            (self.from_ns is None or row.time_ns >= self.from_ns)
            and (self.to_ns is None or row.time_ns < self.to_ns)
            and (self.devices is None or row.device in self.devices)
            and (self.ports is None or row.port in self.ports)
            and (self.priorities is None or row.priority in self.priorities)
            and (self.kinds is None or row.kind in self.kinds)
            and (self.flows is None or row.flow in self.flows)
        )

    def row_filter(self) -> RowFilter:
        """The same for the readers of captures."""
        whole = RowFilter()
        return RowFilter(
            whole.from_ns if self.from_ns is None else self.from_ns,
            whole.to_ns if self.to_ns is None else self.to_ns,
            self.devices or frozenset(),
            self.ports or frozenset(),
            self.priorities or frozenset(),
            frozenset(BY_NAME[kind].code for kind in self.kinds or ()),
            self.flows or frozenset(),
        )


def _some(choices: tuple[object, ...]) -> st.SearchStrategy[frozenset[object] | None]:
    return st.none() | st.frozensets(st.sampled_from(choices), min_size=1, max_size=2)


_TIMES = st.none() | st.integers(START_NS - 1, START_NS + SPAN_NS)
WISHES = st.builds(
    Wish, _TIMES, _TIMES, _some(DEVICES), _some((*PORTS, "p9")), _some(PRIORITIES),
    _some(tuple(kind for kinds in KINDS.values() for kind in kinds)), _some(FLOWS),
)  # fmt: skip
