"""The decoder's pass over a batch: SubscribeResponse bytes to rows, without an object for a message, update or path.

In: messages one behind the other and the table of spellings. Out: rows, of each message what it is, and what has to be
done before it can be read in full: spellings that nobody has resolved, messages that the protobuf library must judge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from collectors.compiled import Bytes, byte, inner, kernel, wide
from collectors.gnmi_fields import response, update
from collectors.json_scalars import json_scalar, space
from collectors.json_tree import tree
from collectors.layout import (
    BAD,
    DELETE,
    DONE,
    E_NEXT,
    E_PATH,
    EMPTY,
    FLAGS_BIT,
    FORM_BIT,
    INEXACT,
    INT,
    INVALID,
    JSON,
    M_AT,
    M_ATOMIC,
    M_FIRST_ROW,
    M_LIBRARY,
    M_NAME,
    M_REFUSED,
    M_SIZE,
    M_STATUS,
    M_TARGET,
    M_TIME,
    MALFORMED_JSON,
    NAME,
    NO_ROOM,
    NO_ROWS,
    OK,
    OP_BIT,
    OWNER_BIT,
    PATH,
    PREFIX,
    QUOTED,
    R_PATH_MESSAGE,
    R_SLICE,
    R_SMALL,
    R_VALUE,
    ROOM_FOR_ENTRIES,
    ROOM_FOR_ROWS,
    ROOT,
    S_BYTES_LAID,
    S_FIRST,
    S_INEXACT,
    S_LEAST_TARGET,
    S_LOST,
    S_MOST_BYTES,
    S_MOST_ROWS,
    S_MOST_TARGET,
    S_PENDING,
    S_ROWS,
    S_STOP,
    S_UNUSUAL,
    SORT_BIT,
    SYNC,
    T_LAST,
    T_NAME,
    T_PREFIX,
    TEXT,
    TOO_LARGE,
    TOO_MANY,
    UINT,
    UNREAD,
    WANTED,
)
from collectors.numerals import short_integer
from collectors.protobuf import LENGTH, VARINT, is_utf8, length, skipped, tag, varint, whole_varint
from collectors.spellings import following, is_spelling, looked_up

Ints = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int32]

_QUOTE, _OBJECT, _ARRAY = 34, 123, 91
# Update: path = 1, val = 3. TypedValue: int_val = 2, uint_val = 3, json_val = 10, json_ietf_val = 11.
_PATH_TAG, _VALUE_TAG = 1 << 3 | LENGTH, 3 << 3 | LENGTH
_INT_TAG, _UINT_TAG, _JSON_TAG, _JSON_IETF_TAG = 2 << 3, 3 << 3, 10 << 3 | LENGTH, 11 << 3 | LENGTH


@inner
def _split_prefix(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Begin and end of a prefix's target, which is no part of any path, where it is the last field; else `end` twice.

    BAD where it stands elsewhere.
    """
    while at < end:
        before = at
        field, wire, at = tag(data, at, end)
        if at < 0:
            return BAD, BAD
        if field == 4 and wire == LENGTH:
            first, at = length(data, at, end)
            if at != end:
                return BAD, BAD
            return before, first
        at = skipped(data, at, end, wire)
        if at < 0:
            return BAD, BAD
    return end, end


@inner
def _prefix(
    data: Bytes,
    at: int,
    end: int,
    message: int,
    target: int,
    messages: Ints,
    texts: Bytes,
    entries: Ints,
    slots: Slots,
    targets: Ints,
    state: Ints,
) -> int:
    """The spelling of a notification's prefix without its target; the target's own goes into the message."""
    behind, name = _split_prefix(data, at, end)
    if behind < 0:
        return BAD
    if behind < end and name < end:
        entry = targets[target, T_NAME]
        if not is_spelling(data, name, end - name, wide(NAME), entry, texts, entries):
            entry = looked_up(data, name, end - name, wide(NAME), target, texts, entries, slots, targets, state)
            if entry < 0:
                return entry
            targets[target, T_NAME] = entry
        if entries[entry, E_PATH] < 0:
            if entries[entry, E_PATH] == INVALID:
                return BAD
            state[S_PENDING] = min(state[S_PENDING], message)
        messages[message, M_NAME] = entries[entry, E_PATH]
    if behind == at:
        return ROOT
    entry = following(
        data, at, behind - at, wide(PREFIX), targets[target, T_PREFIX], wide(E_NEXT), target, texts, entries,
        slots, targets, state,
    )  # fmt: skip
    if entry >= 0:
        targets[target, T_PREFIX] = entry
        if entries[entry, E_PATH] < 0:
            if entries[entry, E_PATH] == INVALID:
                return BAD
            state[S_PENDING] = min(state[S_PENDING], message)
    return entry


@inner
def _notification(
    data: Bytes,
    at: int,
    end: int,
    message: int,
    messages: Ints,
    texts: Bytes,
    entries: Ints,
    slots: Slots,
    targets: Ints,
    rows: Ints,
    state: Ints,
) -> int:
    """Rows of one Notification; 0, or why it cannot be read now."""
    target = messages[message, M_TARGET]
    first_row = row = state[S_ROWS]
    room = min(wide(len(rows)), first_row + state[S_MOST_ROWS])
    prefix = wide(ROOT)
    prefixes = lost = 0
    entry, last_entry = targets[target, T_LAST], len(entries) - 1
    paths = False
    while at < end:
        field, wire, at = tag(data, at, end)
        if at < 0:
            return BAD
        if wire != LENGTH:
            if wire == VARINT:
                number, at = varint(data, at, end)
                if field == 1:
                    messages[message, M_TIME] = number
                elif field == 6:
                    messages[message, M_ATOMIC] = 1 if number != 0 else 0
            else:
                at = skipped(data, at, end, wire)
            if at < 0:
                return BAD
            continue
        begin, at = length(data, at, end)
        if at < 0:
            return BAD
        op = form = value = first = last = duplicates = wide(0)
        sort = flags = 0
        if field == 4:
            # As good as every update is a path and then a value, each shorter than 128 bytes, and nothing else.
            behind = path = path_end = begin + 2
            if at - begin >= 4 and byte(data, begin) == _PATH_TAG:
                behind += byte(data, begin + 1)
            if (
                path < behind < at - 3
                and byte(data, behind) == _VALUE_TAG
                and byte(data, behind + 1) == at - behind - 2
            ):
                path_end = behind
                behind += 2
                form = byte(data, behind)
                size = byte(data, behind + 1)
                if form in (_UINT_TAG, _INT_TAG):
                    value, whole = whole_varint(data, behind + 1, at)
                    if not whole:
                        sort = BAD
                    else:
                        sort = UINT if value < 0 and form == _UINT_TAG else INT
                        form >>= 3
                elif form in (_JSON_TAG, _JSON_IETF_TAG) and size == at - behind - 2:
                    sort, form, first, last = JSON, form >> 3, behind + 2, at
                else:
                    sort = BAD
            else:
                sort = BAD
            if sort == BAD:
                sort, form, flags, value, first, last, duplicates, path, path_end = update(data, begin, at)
                if sort == BAD:
                    return BAD
        elif field == 5:
            first = last = path = begin
            path_end = at
            op = wide(DELETE)
        elif field == 2:
            if prefixes > 0 or paths:
                return BAD
            prefixes = 1
            prefix = _prefix(data, begin, at, message, target, messages, texts, entries, slots, targets, state)
            if prefix in (BAD, NO_ROOM):
                return prefix
            continue
        elif field == 3:
            return BAD
        else:
            continue
        paths = True
        if prefix < 0:
            lost += 1
            continue
        # Telemetry repeats itself: the next path is most often the one that was first met after the last one, or the
        # one that came after it the last time.
        before, entry = entry, min(entry + 1, last_entry)
        owner, size = prefix << OWNER_BIT | PATH, path_end - path
        if not is_spelling(data, path, size, owner, entry, texts, entries):
            entry = following(
                data, path, size, owner, before, wide(E_NEXT), target, texts, entries, slots, targets, state
            )  # fmt: skip
            if entry < 0:
                if entry == NO_ROOM:
                    return NO_ROOM
                lost += 1
                entry = before
                continue
        number = entries[entry, E_PATH]
        if number < 0:
            if number == INVALID:
                return BAD
            state[S_PENDING] = min(state[S_PENDING], message)
        if sort == JSON and last - first > 2 and byte(data, first) == _QUOTE and byte(data, last - 1) == _QUOTE:
            digits = short_integer(data, first + 1, last - 1)
            if digits >= 0:
                sort, flags, value, first, last = INT, QUOTED, digits, first + 1, last - 1
        if sort == JSON:
            inner = space(data, first, last)
            if inner < last and (byte(data, inner) == _OBJECT or byte(data, inner) == _ARRAY):
                state[S_ROWS], lost_before = row, state[S_LOST]
                told = tree(
                    data, inner, last, entry, form, duplicates, message, first_row, target, texts, entries, slots,
                    targets, rows, state,
                )  # fmt: skip
                if told == 0:
                    row = state[S_ROWS]
                    continue
                if told != BAD:
                    return told
                state[S_LOST] = lost_before
                flags = MALFORMED_JSON
            else:
                sort, flags, value, begin, behind, stop = json_scalar(data, inner, last)
                if sort >= 0 and space(data, stop, last) == last and (sort != TEXT or is_utf8(data, begin, behind)):
                    first, last = begin, behind
                    if flags & INEXACT:
                        state[S_INEXACT] += 1
                else:
                    sort, flags, value = JSON, MALFORMED_JSON, wide(0)
            if flags & MALFORMED_JSON != 0:
                state[S_UNUSUAL] += 1
        if row >= room:
            return NO_ROWS if row - first_row < state[S_MOST_ROWS] else TOO_MANY
        rows[row, R_VALUE] = value
        rows[row, R_PATH_MESSAGE] = number & 0xFFFFFFFF | message << 32
        rows[row, R_SLICE] = first | (last - first) << 32
        rows[row, R_SMALL] = duplicates | sort << SORT_BIT | op << OP_BIT | form << FORM_BIT | flags << FLAGS_BIT
        row += 1
    state[S_ROWS] = row
    targets[target, T_LAST] = entry
    lost += state[S_LOST]
    messages[message, M_REFUSED] = lost
    state[S_UNUSUAL] += lost
    return 0


@kernel
def lay_out(messages: Ints, state: Ints) -> None:
    """Sets every message's place and status from its size; sums up in state[S_BYTES_LAID] and the two behind it."""
    at = least = most = wide(0)
    for message in range(len(messages) - 1):
        size, target = messages[message, M_SIZE], messages[message, M_TARGET]
        messages[message, M_AT] = at
        messages[message, M_STATUS] = UNREAD
        if size > state[S_MOST_BYTES]:
            messages[message, M_STATUS] = TOO_LARGE
            state[S_UNUSUAL] += 1
        at += size
        least, most = min(least, target), max(most, target)
    state[S_BYTES_LAID], state[S_LEAST_TARGET], state[S_MOST_TARGET] = at, least, most


@kernel
def scan(
    data: Bytes,
    messages: Ints,
    texts: Bytes,
    entries: Ints,
    slots: Slots,
    targets: Ints,
    rows: Ints,
    state: Ints,
) -> None:
    """Reads messages from state[S_FIRST] on until all are read or an array must grow.

    Out: state[S_STOP] why it stopped, state[S_FIRST] where, state[S_PENDING] the first message to read again once its
    spellings are resolved or the library has judged it.
    """
    state[S_STOP] = DONE
    for message in range(state[S_FIRST], len(messages) - 1):
        first_row = state[S_ROWS]
        messages[message, M_FIRST_ROW] = first_row
        if messages[message, M_STATUS] != UNREAD:
            continue
        messages[message, M_TIME] = messages[message, M_ATOMIC] = messages[message, M_REFUSED] = 0
        messages[message, M_NAME] = -1
        at = messages[message, M_AT]
        kind, begin, end = response(data, at, at + messages[message, M_SIZE])
        result = wide(0)
        if kind == 1:
            state[S_LOST] = 0
            result = wide(
                _notification(data, begin, end, message, messages, texts, entries, slots, targets, rows, state)
            )
        elif kind < 0:
            result = wide(BAD)
        if result == 0:
            messages[message, M_STATUS] = OK if kind == 1 else SYNC if kind == 3 else EMPTY
            continue
        state[S_ROWS] = first_row
        if result == BAD:
            messages[message, M_LIBRARY] |= WANTED
            state[S_PENDING] = min(state[S_PENDING], message)
        elif result == TOO_MANY:
            messages[message, M_STATUS] = TOO_LARGE
            state[S_UNUSUAL] += 1
        else:
            state[S_STOP] = ROOM_FOR_ROWS if result == NO_ROWS else ROOM_FOR_ENTRIES
            state[S_FIRST] = message
            return
    messages[len(messages) - 1, M_FIRST_ROW] = state[S_ROWS]
