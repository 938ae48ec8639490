"""Random messages through the compiled decoder and through the plain one: the same in all that they say.

`python -m tests.collectors.both_decoders 100000 7` compares so many from a seed and prints what they were, as JSON.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections import Counter
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage

from collectors.columns import Columns
from collectors.compiled import CHECKED
from collectors.layout import SORTS, STATUSES
from collectors.messages import gnmi_pb2
from collectors.paths import PathTable
from collectors.wire import QUOTED, Decoder
from tests.collectors.gnmi_messages import LIST_KEYS, messages
from tests.reference import gnmi_wire

TABLE_MESSAGES = 20_000


def compare(count: int, seed: int) -> Counter[str]:
    """Decodes so many random messages in batches of random sizes; raises AssertionError where both differ."""
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    source = messages(seed, count)
    left = count
    while left:
        table = PathTable(1 << 22, 1 << 22, LIST_KEYS)
        decoder = Decoder(table)
        for_table = min(left, TABLE_MESSAGES)
        left -= for_table
        while for_table:
            # One alone has nothing behind it in its buffer: what reads on is caught by the build that checks.
            batch = [next(source) for _ in range(min(for_table, rng.choice((1, 1, 1, 2, 7, 40))))]
            for_table -= len(batch)
            columns = decoder.decode(batch, [rng.randrange(3) for _ in batch])
            for i, raw in enumerate(batch):
                outcomes[agree(columns, table, i, raw)] += 1
        assert decoder.counters["unreadable_messages"] == 0
        outcomes["by the library"] += decoder.counters["fallback_messages"]
        outcomes["rows"] += decoder.counters["rows"]
    return outcomes


def agree(columns: Columns, table: PathTable, i: int, raw: bytes) -> str:
    """Status of message i, which both read alike."""
    plain = gnmi_wire.read(raw, LIST_KEYS)
    status = STATUSES[columns.status[i]]
    assert status == plain.status, (raw, status, plain.status)
    rows = range(columns.first_row[i], columns.first_row[i + 1])
    if status != "OK":
        assert len(rows) == 0, raw
        return status
    assert columns.time_ns[i] == plain.time_ns, raw
    assert columns.atomic[i] == plain.atomic, raw
    name = columns.prefix_target[i]
    assert (columns.target_names[name] if name >= 0 else "") == plain.target, raw
    told = [row_of(columns, table, row) for row in rows]
    # The library keeps updates and deletes apart; among each other their order is the wire's.
    told.sort(key=lambda row: row[2] == "DELETE")
    assert [row[:-1] for row in told] == [row[:-1] for row in plain.rows], (raw, told, plain.rows)
    for one, other in zip(told, plain.rows, strict=True):
        assert same_value(one[-1], other[-1]), (raw, one, other)
    assert all(columns.message[row] == i for row in rows), raw
    return status


def row_of(columns: Columns, table: PathTable, row: int) -> gnmi_wire.Row:
    """A row as the plain decoder tells it."""
    sort, form = SORTS[columns.sort[row]], int(columns.form[row])
    path = table.path(int(columns.path_id[row]))
    value: Any = None
    if sort in ("INT", "UINT"):
        value = int(columns.ival[row]) % (1 << 64) if sort == "UINT" else int(columns.ival[row])
        if columns.flags[row] & QUOTED:
            assert columns.text(row) == str(value) or columns.text(row) == "-0"
    elif sort == "FLOAT":
        value = float(columns.fval[row])
    elif sort == "BOOL":
        value = bool(columns.ival[row])
    elif sort == "TEXT":
        value = columns.text(row)
    elif sort == "BYTES":
        value = columns.raw(row)
    elif sort == "ANY":
        any_value = AnyMessage.FromString(columns.raw(row))
        value = (any_value.type_url, any_value.value)
    elif sort == "LEAFLIST" and form == gnmi_wire.FORMS["leaflist_val"]:
        array = gnmi_pb2.ScalarArray.FromString(columns.raw(row))
        value = [gnmi_wire.plain_value(element) for element in array.element]
    elif sort == "LEAFLIST":
        value = columns.values(row)
    elif sort == "JSON":
        value = columns.raw(row)
    op = "DELETE" if columns.op[row] else "UPDATE"
    return path.origin, path.elems, op, sort, form, int(columns.duplicates[row]), value


def same_value(one: Any, other: Any) -> bool:
    """Equal, floats bit by bit unless they are no numbers."""
    if isinstance(one, bytes) and not isinstance(other, bytes):
        one = json.loads(one)
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("d", one) == struct.pack("d", other) or (one != one and other != other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other)


if __name__ == "__main__":
    print(json.dumps({"checked": CHECKED, **compare(int(sys.argv[1]), int(sys.argv[2]))}))
