"""Runs steps over items without a broker: the same objects that a worker runs over Kafka, in one process.

In: items in any order that keeps each stream's own. Out: what the last step gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream.messages import Item
from stream.roster import SourceDown, SourceUp
from stream.step import Step


def run_steps(items: Iterable[Item], first: Step[Item, Item], second: Step[Item, Item], batch_size: int = 1000) -> list[Item]:
    """Feeds items to `first` in batches, and all that is not a raw batch, with `first`'s outputs, to `second`."""
    out: list[Item] = []
    for batch in _batches(items, batch_size):
        made = first.process(batch)
        # Ups before and downs after what `first` made of this batch, as the control topic tells them.
        ups = [item for item in batch if isinstance(item, SourceUp)]
        rest = [item for item in batch if not isinstance(item, SourceUp | SourceDown) and hasattr(item, "valid_from_ns")]
        downs = [item for item in batch if isinstance(item, SourceDown)]
        out += second.process([*ups, *rest, *made, *downs])
    return out


def _batches(items: Iterable[Item], size: int) -> Iterable[Sequence[Item]]:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
