"""A batch: the rows of one packed Kafka value together with the stream that they belong to.

A stream is (source, epoch, topic, device); row i of a batch has the stream's sequence number seq + i.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from stream.record import Events

MAX_EVENTS = 1024
"""Rows in one Kafka value at most."""

MARK_END = (1 << 63) - 1
"""A mark that says: this stream is complete, no row follows."""


class StreamKey(NamedTuple):
    """Identity of a stream; `topic` is without its prefix, `device` is "" for a stream of fabric-wide facts."""

    fabric: str
    source: str
    epoch: str
    topic: str
    device: str


class Batch(msgspec.Struct, frozen=True, eq=False):
    """Rows of one stream.

    `mark_ns`: nothing older than this follows on the stream. `lost`: events that the source has lost so far on this
    stream. `texts`: (row, text) pairs for rows that carry a text. `skipped`: rows of unknown kind left out by a reader.
    """

    stream: StreamKey
    seq: int
    mark_ns: int
    ports: tuple[str, ...]
    events: Events
    lost: int = 0
    texts: tuple[tuple[int, str], ...] = ()
    skipped: int = 0
    positions: npt.NDArray[np.int64] | None = None
    """Index of each row in the value as sent, where rows of unknown kind were left out; else None."""

    def row_seqs(self) -> npt.NDArray[np.int64]:
        """Sequence number of each row."""
        positions = np.arange(len(self.events)) if self.positions is None else self.positions
        return self.seq + positions

    @property
    def next_seq(self) -> int:
        """Sequence number of the first row after this batch."""
        return self.seq + len(self.events) + self.skipped

    @property
    def key(self) -> bytes:
        """Kafka key: fabric/device."""
        return f"{self.stream.fabric}/{self.stream.device}".encode()
