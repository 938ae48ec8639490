"""A bad item is found and left out; everything else comes out as if it had never been there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.batch import Batch, StreamKey
from stream.isolation import JOURNAL_ITEMS, IsolatedStep
from stream.messages import Item, encode
from tests.stream.source_rows import xoff_rows
from tests.stream.sums_step import POISON_NS, Sums


def batch(device: int, seq: int, time_ns: int) -> Batch:
    key = StreamKey("lab", "probe", "boot-1", "pfc", f"leaf{device}")
    return Batch(key, seq, time_ns, ("eth0",), xoff_rows([time_ns]))


def encoded(items: list[Item]) -> list[bytes]:
    return [encode(item).value for item in items]


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=9), max_size=9))
def test_the_outputs_are_those_of_the_good_items_alone(plan: list[list[tuple[int, bool]]]) -> None:
    guarded, plain = IsolatedStep(Sums()), Sums()
    seq = 0
    for turn in plan:
        items: list[Item] = []
        for device, poisonous in turn:
            seq += 1
            items.append(batch(device, seq, POISON_NS if poisonous else seq))
        outputs, bad = guarded.process(items)
        good = [item for item, (_, poisonous) in zip(items, turn, strict=True) if not poisonous]
        assert [at for at, _ in bad] == [at for at, (_, poisonous) in enumerate(turn) if poisonous]
        assert all(isinstance(error, ZeroDivisionError) for _, error in bad)
        assert encoded(outputs) == encoded(plain.process(good))
    assert guarded.step.snapshot() == plain.snapshot()
    assert guarded.step.counters == plain.counters


def test_going_back_works_long_after_the_last_checkpoint() -> None:
    guarded, plain = IsolatedStep(Sums()), Sums()
    for seq in range(2 * JOURNAL_ITEMS + 7):
        guarded.process([batch(0, seq, seq)] if seq != POISON_NS else [])
        plain.process([batch(0, seq, seq)] if seq != POISON_NS else [])
    guarded.process([batch(0, 5000, POISON_NS)])
    assert guarded.step.snapshot() == plain.snapshot()


def test_a_change_from_outside_is_kept_after_a_checkpoint() -> None:
    step = Sums()
    guarded = IsolatedStep(step)
    guarded.process([batch(0, 0, 1), batch(1, 0, 1)])
    step.forget(lambda key: key.device == "leaf0")
    guarded.checkpoint()
    guarded.process([batch(1, 1, POISON_NS)])
    assert [key.device for key in step.rows] == ["leaf1"]


class Greedy(Sums):
    def process(self, batch: object) -> list[Item]:
        raise MemoryError


def test_lack_of_memory_is_no_items_fault() -> None:
    with pytest.raises(MemoryError):
        IsolatedStep(Greedy()).process([batch(0, 0, 1)])
