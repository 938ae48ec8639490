"""Holds stream.wire to the plain reader: both take a message and say the same of it, or both refuse it."""

from __future__ import annotations

import pytest

from stream import wire
from stream.batch import Batch
from stream.errors import WireError
from tests.stream import plain_wire
from tests.stream.hostile import Message


def agree(message: Message) -> str:
    """Decodes with both readers, holds them to each other and returns the outcome."""
    try:
        plain = plain_wire.read(message.topic, message.key, message.value)
    except plain_wire.Refused as refused:
        with pytest.raises(WireError) as error:
            wire.decode(message.topic, message.value, message.key)
        assert len(str(error.value)) < 1000, message.how
        return f"refused: {refused}"
    batch = wire.decode(message.topic, message.value, message.key)
    same_as_plain(batch, plain, message.topic)
    return "unknown kinds skipped" if batch.skipped else "taken"


def same_as_plain(batch: Batch, plain: plain_wire.PlainBatch, topic: str) -> None:
    """Fails where the batch says anything else than the plain reader."""
    assert batch.stream == (plain.fabric, plain.source, plain.epoch, topic, plain.device)
    assert (batch.seq, batch.mark_ns, batch.lost) == (plain.seq, plain.mark_ns, plain.lost)
    assert batch.ports == tuple(plain.ports)
    assert batch.texts == tuple(plain.texts)
    assert list(map(tuple, batch.events.tolist())) == plain.rows
    assert batch.row_seqs().tolist() == [plain.seq + position for position in plain.kept]
    assert batch.skipped == plain.count - len(plain.kept)
    assert batch.next_seq == plain.seq + plain.count
