"""The record: 56 little-endian bytes, the same in the BPF ring, in the Kafka value and in NumPy.

In: nothing. Out: the dtype `EVENT`, an empty-row maker, and the C header that BPF programs include.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stream import kinds

SCHEMA_VERSION = 1
RECORD_BYTES = 56

FIELDS: tuple[tuple[str, str, str, str], ...] = (
    ("time_ns", "<i8", "int64_t", "end of the observation on the device's clock, ns since the Unix epoch"),
    ("seen_ns", "<i8", "int64_t", "when our process read it, on our clock, ns since the Unix epoch"),
    ("span_ns", "<i8", "int64_t", "window that the row sums over, ending at time_ns; 0 is an instant"),
    ("value", "<i8", "int64_t", "first measure, unit by kind; INT64_MIN is unknown"),
    ("extra", "<i8", "int64_t", "second measure, unit by kind; INT64_MIN is unknown"),
    ("flow", "<u8", "uint64_t", "flow id, XXH3-64 of the 5-tuple and destination QPN; 0 is none"),
    ("device", "<u2", "uint16_t", "index into the batch's device names; 0 in a Kafka value"),
    ("port", "<u2", "uint16_t", "index into the batch's port names"),
    ("kind", "u1", "uint8_t", "what was observed, a code of the table of kinds"),
    ("priority", "u1", "uint8_t", "PFC priority 0-7; 255 is none"),
    ("side", "u1", "uint8_t", "0 none, 1 receive/ingress, 2 transmit/egress"),
    ("quality", "u1", "uint8_t", "bits EXACT, RESET, WRAP, GAP, ESTIMATED, LATE, CLOCK_SUSPECT"),
)
"""Name, NumPy type, C type and one-sentence meaning of each field, in order of offset."""

EVENT = np.dtype([(name, numpy_type) for name, numpy_type, _, _ in FIELDS])
Events = npt.NDArray[Any]
"""A one-dimensional array of dtype EVENT."""

# The record as seven 8-byte words: six fields, and one that holds the six small ones, each from this bit on.
TIME, SEEN, SPAN, VALUE, EXTRA, FLOW, SMALL = range(7)
WORDS = RECORD_BYTES // 8
PORT_BIT, KIND_BIT, PRIORITY_BIT, SIDE_BIT, QUALITY_BIT = 16, 32, 40, 48, 56
Words = npt.NDArray[np.int64]
"""Rows as an array of int64 of shape (rows, WORDS), which compiled code reads fastest."""


def words(events: Events) -> Words:
    """The same rows as words, without a copy where they lie one behind the other."""
    if not events.flags.c_contiguous:
        events = joined([events])
    return np.ndarray((len(events), WORDS), np.int64, events)


MAX_TIME_NS = 1 << 62
"""No clock of a device is ever later (year 2116); a larger time is corruption and would overflow sums."""


def empty_events(count: int) -> Events:
    """`count` rows with no port index, no priority, no flow and both measures 0."""
    events = np.zeros(count, EVENT)
    events["priority"] = kinds.NO_PRIORITY
    return events


# NumPy copies rows with fields one field at a time; as opaque bytes it is ten times as fast.
_OPAQUE = np.dtype((np.void, RECORD_BYTES))


def picked(events: Events, index: npt.NDArray[Any]) -> Events:
    """A copy of the rows that an array of numbers or a mask chooses."""
    rows = events.view(_OPAQUE)
    return (rows[index] if index.dtype == bool else rows.take(index)).view(EVENT)


def joined(parts: Sequence[Events]) -> Events:
    """The rows of all parts, one after another."""
    return np.concatenate([part.view(_OPAQUE) for part in parts]).view(EVENT) if parts else np.zeros(0, EVENT)


def put(events: Events, index: npt.NDArray[np.int64], rows: Events) -> None:
    """Writes rows to these places of `events`."""
    events.view(_OPAQUE)[index] = rows.view(_OPAQUE)


def c_header() -> str:
    """The C header of the record and its constants, for BPF programs and for readers in other languages."""
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Made from the record's table of fields and kinds: do not edit. */",
        "#ifndef PAUSETRACE_RECORD_H",
        "#define PAUSETRACE_RECORD_H",
        "#ifndef __BPF__",
        "#include <stdint.h>",
        "#endif",
        "",
        "struct pausetrace_event {",
    ]
    lines += [f"    {c_type} {name}; /* {meaning} */" for name, _, c_type, meaning in FIELDS]
    lines += ["} __attribute__((packed, aligned(8)));", ""]
    lines += [f"#define PAUSETRACE_SCHEMA_VERSION {SCHEMA_VERSION}"]
    # Spelled out, since a BPF program has no stdint.h.
    lines += [f"#define PAUSETRACE_UNKNOWN (-{kinds.INT64_MAX}LL - 1)"]
    lines += [f"#define PAUSETRACE_KIND_{kind.name} {kind.code} /* {kind.meaning} */" for kind in kinds.KINDS]
    lines += [f"#define PAUSETRACE_SIDE_{name.upper()} {index}" for index, name in enumerate(kinds.SIDES)]
    lines += [f"#define PAUSETRACE_QUALITY_{name} {1 << bit}" for bit, name in enumerate(kinds.QUALITY_BITS)]
    lines += [f"#define PAUSETRACE_NO_PRIORITY {kinds.NO_PRIORITY}", "#endif", ""]
    return "\n".join(lines)
