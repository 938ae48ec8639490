"""The runner without a broker: what each step is given, in which batches, by which partition."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from stream.batch import Batch, StreamKey
from stream.cascade import Cascade
from stream.file_runner import run_steps
from stream.messages import Item
from stream.record import empty_events
from stream.roster import SourceDown, SourceUp
from stream.topics import RAW
from tests.stream.sample_items import CASCADE, DOWN, FLOW, LINK, UP


def value(device: str, seq: int, topic: str = "pfc") -> Batch:
    return Batch(StreamKey("lab", "tap", "e1", topic, device), seq, seq, (), empty_events(0))


class Recorder:
    """A step that notes what it is given and gives a value of the episode topic for every raw one."""

    def __init__(self) -> None:
        self.seen: list[list[Item]] = []

    def process(self, batch: Sequence[Item]) -> list[Item]:
        self.seen.append(list(batch))
        return [value(item.stream.device, item.seq, "episode") for item in batch
                if isinstance(item, Batch) and item.stream.topic in RAW]  # fmt: skip

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        raise NotImplementedError

    def items(self) -> list[Item]:
        return [item for batch in self.seen for item in batch]


class Echo(Recorder):
    """A second step: it gives a cascade for every batch of items."""

    def process(self, batch: Sequence[Item]) -> list[Item]:
        super().process(batch)
        return [CASCADE]


ITEMS: list[Item] = [UP, LINK, *(value(f"leaf{i % 5}", i // 5) for i in range(23)), FLOW, DOWN]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_items_come_in_batches_of_the_size_asked_for(size: int) -> None:
    first, second = Recorder(), Echo()
    made = run_steps(ITEMS, [first], second, size)
    assert [len(batch) for batch in first.seen] == [
        size if end < len(ITEMS) else len(ITEMS) - end + size for end in range(size, len(ITEMS) + size, size)
    ]
    assert first.items() == ITEMS
    assert made == [CASCADE] * len(first.seen)


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_each_stream_goes_to_one_partition_in_its_order_and_all_else_to_every_one(partitions: int) -> None:
    firsts = [Recorder() for _ in range(partitions)]
    run_steps(ITEMS, firsts, Echo(), 3)
    others = [item for item in ITEMS if not isinstance(item, Batch)]
    seen: dict[str, list[int]] = {}
    for first in firsts:
        assert [item for item in first.items() if not isinstance(item, Batch)] == others
        for item in first.items():
            if isinstance(item, Batch):
                seen.setdefault(item.stream.device, []).append(item.seq)
    assert seen == {f"leaf{i}": list(range(5 if i < 3 else 4)) for i in range(5)}
    used = [first for first in firsts if any(isinstance(item, Batch) for item in first.items())]
    assert len(used) > 1 or partitions == 1


def test_the_second_step_gets_what_the_first_made_and_no_raw_value() -> None:
    second = Echo()
    run_steps(ITEMS, [Recorder(), Recorder()], second, 1000)
    (batch,) = second.seen
    assert {type(item) for item in batch[:4]} == {SourceUp, type(LINK), type(FLOW), SourceDown}
    assert all(isinstance(item, Batch) and item.stream.topic == "episode" for item in batch[4:])
    assert len(batch) == len(ITEMS)


def test_what_comes_out_keeps_the_order_of_its_batches() -> None:
    class Counting(Recorder):
        def process(self, batch: Sequence[Item]) -> list[Item]:
            super().process(batch)
            return [value("out", len(self.seen), "episode")]

    made = run_steps(iter(ITEMS), [Recorder()], Counting(), 5)
    assert [item.seq for item in made if isinstance(item, Batch)] == list(range(1, len(made) + 1))


def test_nothing_in_makes_nothing_out() -> None:
    first, second = Recorder(), Echo()
    assert run_steps([], [first], second) == []
    assert first.seen == second.seen == []


def test_cascades_among_the_items_reach_both_steps() -> None:
    shuffled: list[Item] = [*ITEMS, CASCADE]
    Random(1).shuffle(shuffled)
    first, second = Recorder(), Echo()
    run_steps(shuffled, [first], second, 4)
    assert sum(isinstance(item, Cascade) for item in first.items()) == 1
    assert sum(isinstance(item, Cascade) for item in second.items()) == 1
