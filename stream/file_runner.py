"""Runs two steps over items without a broker: the same objects that workers run over Kafka, in one process.

In: items in any order that keeps each stream's own. Out: what the second step gives.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

from stream.batch import Batch
from stream.messages import Item
from stream.step import Step


def run_steps(
    items: Iterable[Item], firsts: Sequence[Step[Item, Item]], second: Step[Item, Item], batch_size: int = 1000
) -> list[Item]:
    """Feeds items in batches to the instances of the first step, and what they give, with the rest, to the second.

    Raw batches go to one of `firsts` by their key, as partitions of a topic do; all else goes to every one of them.
    """
    out: list[Item] = []
    for batch in _batches(items, batch_size):
        rest = [item for item in batch if not isinstance(item, Batch)]
        parts: list[list[Item]] = [[] for _ in firsts]
        for item in batch:
            for number, part in enumerate(parts):
                if not isinstance(item, Batch) or zlib.crc32(item.key) % len(firsts) == number:
                    part.append(item)
        made = [item for first, part in zip(firsts, parts, strict=True) for item in first.process(part)]
        out += second.process([*rest, *made])
    return out


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
