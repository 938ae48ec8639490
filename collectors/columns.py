"""What a batch of SubscribeResponses says, in columns: one row for each value or delete, one entry for each message."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from collectors.layout import (
    ESCAPED,
    M_ATOMIC,
    M_FIRST_ROW,
    M_NAME,
    M_REFUSED,
    M_STATUS,
    M_TIME,
)
from collectors.messages import gnmi_pb2

Ints = npt.NDArray[np.int64]
Column = npt.NDArray[Any]

_LEAFLIST_FORM = 8


class Columns:
    """Rows (collectors.layout.ROW) and messages, in the order in which they came; every array is a view.

    `ival` and `fval` are the same eight bytes: read `fval` where `sort` is FLOAT, `ival` where it is INT, UINT (two's
    complement of 2^63 and more) or BOOL, and where `flags` has NUMERAL. Rows lie message by message, those of message i
    from first_row[i] to first_row[i + 1]; deletes of a message apply before its updates, wherever they stand in it.
    """

    __slots__ = ("_errors", "_messages", "data", "rows", "target_names")

    def __init__(
        self, rows: Column, messages: Ints, data: npt.NDArray[np.uint8], names: list[str], errors: dict[int, str]
    ) -> None:
        self.rows, self._messages, self.data, self.target_names, self._errors = rows, messages, data, names, errors

    @property
    def path_id(self) -> Column:
        """Number of the path in the PathTable."""
        return self.rows["path_id"]

    @property
    def op(self) -> Column:
        """UPDATE or DELETE."""
        return self.rows["op"]

    @property
    def sort(self) -> Column:
        """What the value is: INT, UINT, FLOAT, BOOL, TEXT, BYTES, JSON, LEAFLIST, ANY, or NONE for no value."""
        return self.rows["sort"]

    @property
    def ival(self) -> Column:
        """Integers and booleans."""
        return self.rows["ival"]

    @property
    def fval(self) -> Column:
        """Floats, doubles, decimals and JSON numbers with a fraction."""
        return self.rows["fval"]

    @property
    def start(self) -> Column:
        """Where in `data` the value's text or bytes begin: TEXT, BYTES, LEAFLIST, ANY and all that came as JSON."""
        return self.rows["start"]

    @property
    def length(self) -> Column:
        """Bytes of the value's text."""
        return self.rows["length"]

    @property
    def message(self) -> Column:
        """Which message the row is of."""
        return self.rows["message"]

    @property
    def form(self) -> Column:
        """Field number of TypedValue that the value came in; 0 is none."""
        return self.rows["form"]

    @property
    def flags(self) -> Column:
        """Bits QUOTED, NUMERAL, ESCAPED, MALFORMED_JSON."""
        return self.rows["flags"]

    @property
    def duplicates(self) -> Column:
        """How many values the device left out before this one."""
        return self.rows["duplicates"]

    @property
    def status(self) -> Ints:
        """OK, SYNC, EMPTY, ERROR, MALFORMED or TOO_LARGE."""
        return self._messages[:-1, M_STATUS]

    @property
    def time_ns(self) -> Ints:
        """The timestamp as sent; 0 where there is none."""
        return self._messages[:-1, M_TIME]

    @property
    def first_row(self) -> Ints:
        """First row of each message, and at the end the number of rows."""
        return self._messages[:, M_FIRST_ROW]

    @property
    def prefix_target(self) -> Ints:
        """Index of the prefix's target in `target_names`; -1 is none."""
        return self._messages[:-1, M_NAME]

    @property
    def atomic(self) -> npt.NDArray[np.bool_]:
        """Whether the message replaces all that is below its prefix."""
        return self._messages[:-1, M_ATOMIC] == 1

    @property
    def refused(self) -> Ints:
        """Rows of each message that were left out because the table of paths has no room for theirs."""
        return self._messages[:-1, M_REFUSED]

    def error(self, message: int) -> str:
        """What a message of status ERROR says."""
        return self._errors.get(message, "")

    def raw(self, row: int) -> bytes:
        """The bytes of a row's value, as they came."""
        one = self.rows[row]
        return self.data[one["start"] : one["start"] + one["length"]].tobytes()

    def text(self, row: int) -> str:
        """The text of a row's value; a JSON string's without its escapes."""
        raw = self.raw(row)
        if self.rows["flags"][row] & ESCAPED:
            return str(json.loads(b'"' + raw + b'"')).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return raw.decode("utf-8", "replace")

    def values(self, row: int) -> list[Any]:
        """The elements of a LEAFLIST: numbers, texts, bytes, or None for an element without a value."""
        if self.rows["form"][row] != _LEAFLIST_FORM:
            listed = json.loads(self.raw(row))
            return listed if isinstance(listed, list) else [listed]
        return [_value(element) for element in gnmi_pb2.ScalarArray.FromString(self.raw(row)).element]


def _value(typed: gnmi_pb2.TypedValue) -> Any:
    which = typed.WhichOneof("value")
    if which is None:
        return None
    value = getattr(typed, which)
    if which == "decimal_val":
        return value.digits / 10**value.precision if value.precision <= 308 else 0.0
    if which in ("json_val", "json_ietf_val"):
        return json.loads(value)
    return value.value if which == "any_val" else value
