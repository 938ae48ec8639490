"""Imported by the process from which workers over a capture fork: what it loads, none of them loads again.

The compiled code of detect takes half a second to load, and is loaded when it is first called.
"""

from __future__ import annotations

import gc

from analytics.detect import Detect
from pausetrace.capture_workers import without_rows_of_no_effect
from stream import kinds
from stream.allocator import keep_freed_memory
from stream.batch import MARK_END, Batch, StreamKey
from stream.record import empty_events

keep_freed_memory()

_row = empty_events(1)
_row["kind"] = kinds.QUEUE_DEPTH
_row["value"] = 1
for _made in Detect().process([Batch(StreamKey("", "", "", "queue", ""), 0, MARK_END, ("",), _row)]):
    assert isinstance(_made, Batch)
    without_rows_of_no_effect(_made)

# To look through what all workers share would copy it for each of them.
gc.collect()
gc.freeze()
