"""What a run without any disturbance leaves behind, and the same as read from Kafka, in a form that can be compared.

In: items, or the topics of a run. Out: final cascades, episode rows and the steps' states, as bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from analytics import correlate
from analytics.correlate import Correlate
from analytics.detect import Detect
from stream import snapshot
from stream.batch import Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.errors import PausetraceError
from stream.file_runner import run_steps
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, decode, encode
from stream.state_topic import read_snapshots
from stream.subscriber import Subscriber
from stream.topics import FACTS, RAW
from stream.whole_state import KEY

STATE_READS = 20
NOT_WHOLE = b"not whole"


class Outcome(NamedTuple):
    """What a run leaves; `rows` and `detect_states` by stream."""

    finals: list[bytes]
    rows: dict[StreamKey, bytes]
    detect_states: dict[StreamKey, bytes]
    correlate_state: bytes
    dead_letters: int = 0
    revisions_after_the_final: int = 0

    def differences(self, other: Outcome) -> list[str]:
        """In which respects the two are not the same, in words."""
        named = zip(self._fields, self, other, strict=True)
        return [f"{name}: {_difference(mine, theirs)}" for name, mine, theirs in named if mine != theirs]


class _Keeping:
    """Detect, with the rows that it gives out."""

    def __init__(self) -> None:
        self.step = Detect()
        self.rows: dict[StreamKey, list[Batch]] = {}

    def process(self, batch: Iterable[Item]) -> list[Item]:
        made = self.step.process(list(batch))
        for item in made:
            if isinstance(item, Batch):
                self.rows.setdefault(item.stream, []).append(item)
        return made

    def snapshot(self) -> bytes:
        return self.step.snapshot()

    def restore(self, state: bytes) -> None:
        self.step.restore(state)


def undisturbed(items: Iterable[Item]) -> Outcome:
    """The outcome in one process, without Kafka."""
    first, second = _Keeping(), Correlate()
    made = run_steps(items, [first], second)
    finals = sorted(encode(item).value for item in made if isinstance(item, Cascade))
    states = {stream: first.step.snapshot_stream(stream) or b"" for stream in first.step.take_touched()}
    rows = {stream: _bytes_of(batches) for stream, batches in first.rows.items()}
    return Outcome(finals, rows, states, _comparable(second.snapshot()))


def outcome_on(settings: KafkaSettings) -> Outcome:
    """The outcome that the topics hold for a reader of what is committed."""
    finals: list[bytes] = []
    batches: dict[StreamKey, list[Batch]] = {}
    dead_letters = after = 0
    over: set[str] = set()
    with Subscriber(settings, ["cascade", "episode", "deadletter"]) as reader:
        for message in reader.up_to_now(60):
            if message.topic == "deadletter":
                dead_letters += 1
                continue
            item = decode(message.topic, message.key, message.value)
            if isinstance(item, Batch):
                batches.setdefault(item.stream, []).append(item)
            elif isinstance(item, Cascade) and item.revision == FINAL:
                finals.append(message.value or b"")
                over.add(item.id)
            elif isinstance(item, Cascade):
                after += item.id in over
    states = {
        StreamKey(*msgspec.json.decode(key.split("/", 3)[3])): state
        for key, (_, state) in read_snapshots(settings, "detect/").items()
    }
    data = _state_of_correlate(settings)
    state = _comparable(msgspec.msgpack.decode(data)[1]) if data not in (b"", NOT_WHOLE) else data
    rows = {stream: _bytes_of(made) for stream, made in batches.items()}
    return Outcome(sorted(finals), rows, states, state, dead_letters, after)


def _state_of_correlate(settings: KafkaSettings) -> bytes:
    """Its last snapshot; who reads while one is written may find parts of two, and reads again."""
    for _ in range(STATE_READS):
        try:
            return read_snapshots(settings, KEY).get(KEY, (0, b""))[1]
        except PausetraceError:
            time.sleep(0.5)
    return NOT_WHOLE


def input_on(settings: KafkaSettings) -> list[Item]:
    """What sources have published there, in an order that keeps each stream's own, the roster first."""
    items: list[Item] = []
    for topics in (["control"], [*FACTS, *RAW]):
        with Subscriber(settings, topics) as reader:
            items += [decode(m.topic, m.key, m.value) for m in reader.up_to_now(60)]
    return items


def _bytes_of(batches: list[Batch]) -> bytes:
    """The rows of a stream with their numbers and names of ports: a row too many, or out of order, shows."""
    parts = []
    for batch in batches:
        for row, seq in zip(batch.events, batch.row_seqs().tolist(), strict=True):
            parts.append(seq.to_bytes(8, "big") + batch.ports[row["port"]].encode() + row.tobytes()[:50])
            parts.append(row.tobytes()[52:])
    return b"".join(parts)


def _comparable(state: bytes) -> bytes:
    """The bytes of a state of correlate, but for the order in which it remembers streams that have ended.

    It forgets the oldest of them first, and which one ended first is a matter of arrival.
    """
    fabrics = snapshot.unpack("correlate", correlate.VERSION, state)
    for fabric in fabrics:
        fabric["ended"].sort()
    return snapshot.pack("correlate", correlate.VERSION, sorted(fabrics, key=lambda fabric: str(fabric["fabric"])))


def _difference(mine: Any, theirs: Any) -> str:
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        odd = [key for key in sorted(mine.keys() | theirs.keys()) if mine.get(key) != theirs.get(key)]
        return f"{len(odd)} of {len(mine)} differ, first {odd[:1]}"
    if isinstance(mine, list) and isinstance(theirs, list):
        missing, extra = len(set(map(repr, mine)) - set(map(repr, theirs))), len(theirs) - len(mine)
        return f"{len(mine)} and {len(theirs)}, {missing} missing, {extra} too many"
    return f"{mine!r:.60} and {theirs!r:.60}"
