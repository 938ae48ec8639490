"""Events as columns for analysis and dashboards: NumPy arrays with decoded names, one entry a row.

In: Batches as they travel. Out: `Columns`, and `select`, which picks the rows of a batch that a reader wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from stream import kinds
from stream.batch import Batch
from stream.kinds import UNKNOWN
from stream.record import Events, empty_events

Ints = npt.NDArray[np.int64]
Texts = npt.NDArray[np.str_]
Mask = npt.NDArray[np.bool_]

KIND_NAMES = np.array([kinds.BY_CODE[code].name if code in kinds.BY_CODE else "" for code in range(256)])
SIDE_NAMES = np.array(kinds.SIDES)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rows in the order of arrival. `kind` and `side` are names; `priority` 255 is none; `flow` 0 is none.

    `value` and `extra` mean what the row's kind says (docs/record.md), with INT64_MIN for unknown; `measure` gives
    them by name. `text` is "" for most rows.
    """

    time_ns: Ints
    seen_ns: Ints
    span_ns: Ints
    fabric: Texts
    device: Texts
    port: Texts
    kind: Texts
    priority: npt.NDArray[np.uint8]
    side: Texts
    flow: npt.NDArray[np.uint64]
    value: Ints
    extra: Ints
    quality: npt.NDArray[np.uint8]
    source: Texts
    seq: Ints
    text: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.time_ns)

    def measure(self, name: str) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
        """A measure by its name, such as paused_ns; masked where a row has no such measure or it is unknown.

        Raises KeyError for a name that no kind has.
        """
        values = np.full(len(self), UNKNOWN, np.int64)
        known = False
        for kind in kinds.KINDS:
            for column, measure in ((self.value, kind.value), (self.extra, kind.extra)):
                if measure.name == name:
                    known = True
                    rows = self.kind == kind.name
                    values[rows] = column[rows]
        if not known:
            raise KeyError(f"no kind has a measure {name!r}")
        return np.ma.masked_equal(values, UNKNOWN)

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Every column by name, as a data frame takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def of(batches: Sequence[Batch]) -> Columns:
        """The rows of these batches, one after another."""
        events: Events = np.concatenate([batch.events for batch in batches] or [empty_events(0)])
        counts = [len(batch.events) for batch in batches]

        def named(names: Sequence[str]) -> Texts:
            return np.repeat(np.array(names, np.str_), counts) if batches else np.array([], np.str_)

        ports = [np.array(batch.ports or ("",), np.str_)[batch.events["port"]] for batch in batches]
        seqs = [batch.row_seqs() for batch in batches]
        return Columns(
            time_ns=events["time_ns"],
            seen_ns=events["seen_ns"],
            span_ns=events["span_ns"],
            fabric=named([batch.stream.fabric for batch in batches]),
            device=named([batch.stream.device for batch in batches]),
            port=np.concatenate(ports or [np.array([], np.str_)]),
            kind=KIND_NAMES[events["kind"]],
            priority=events["priority"],
            side=SIDE_NAMES[events["side"]],
            flow=events["flow"],
            value=events["value"],
            extra=events["extra"],
            quality=events["quality"],
            source=named([batch.stream.source for batch in batches]),
            seq=np.concatenate(seqs or [np.zeros(0, np.int64)]),
            text=np.concatenate([_texts(batch) for batch in batches] or [np.array([], object)]),
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that a reader wants; an empty set wants all."""

    devices: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    priorities: frozenset[int] = frozenset()
    kinds: frozenset[int] = frozenset()

    def rows(self, batch: Batch) -> Mask:
        """Which rows of the batch are wanted."""
        events = batch.events
        if self.devices and batch.stream.device not in self.devices:
            return np.zeros(len(events), bool)
        wanted = np.ones(len(events), bool)
        if self.ports:
            chosen = [index for index, port in enumerate(batch.ports) if port in self.ports]
            wanted &= np.isin(events["port"], chosen)
        if self.priorities:
            wanted &= np.isin(events["priority"], list(self.priorities))
        if self.kinds:
            wanted &= np.isin(events["kind"], list(self.kinds))
        return wanted


def select(columns: Columns, wanted: Mask) -> Columns:
    """The wanted rows alone."""
    return Columns(**{name: column[wanted] for name, column in columns.to_dict().items()})


def _texts(batch: Batch) -> npt.NDArray[Any]:
    texts = np.full(len(batch.events), "", object)
    for row, text in batch.texts:
        texts[row] = text
    return texts
