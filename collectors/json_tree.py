"""JSON and JSON_IETF objects and lists (RFC 8259, RFC 7951): one row for each leaf.

SONiC answers a port with one object of some 150 counters as quoted decimals, NX-OS with trees. A member's name is a
spelling that continues the object's; an entry of a list continues it by its keys, where the list is known to have keys,
else by its place. Written without recursion: a self-recursive kernel crashes when it is loaded from Numba's cache.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from collectors.compiled import Bytes, byte, inner, wide
from collectors.json_scalars import json_scalar, space, string_end
from collectors.layout import (
    BAD,
    E_AT,
    E_BRANCH,
    E_LIST,
    E_NEXT,
    E_PATH,
    E_SIZE,
    FLAGS_BIT,
    FORM_BIT,
    INEXACT,
    INVALID,
    JSON,
    KEY,
    LEAFLIST,
    MEMBER,
    NO_ROOM,
    NO_ROWS,
    NONE,
    OWNER_BIT,
    PLACE,
    PLACE_BIT,
    R_PATH_MESSAGE,
    R_SLICE,
    R_SMALL,
    R_VALUE,
    REFUSED,
    S_INEXACT,
    S_LOST,
    S_MOST_ROWS,
    S_PENDING,
    S_ROWS,
    S_STACK,
    SORT_BIT,
    STACK_DEPTH,
    STACK_WORDS,
    TOO_MANY,
    UNRESOLVED,
)
from collectors.protobuf import is_utf8
from collectors.spellings import following, is_spelling, looked_up, same

Ints = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int32]

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _ZERO = 34, 92, 44, 58, 45, 48
_OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END = 123, 125, 91, 93
_MOST_DEPTH = 16
"""Objects and lists within each other whose leaves are told; deeper ones are told whole, as JSON."""
# A frame of the stack.
_ENTRY, _IS_ARRAY, _COUNT, _BEFORE = range(4)


@inner
def put(
    rows: Ints,
    state: Ints,
    first_row: int,
    message: int,
    path: int,
    sort_op_form_flags: int,
    value: int,
    begin: int,
    end: int,
    duplicates: int,
) -> int:
    """One more row of a message whose first is `first_row`; NO_ROWS: the array must grow; TOO_MANY."""
    at = state[S_ROWS]
    if at - first_row >= state[S_MOST_ROWS]:
        return TOO_MANY
    if at >= len(rows):
        return NO_ROWS
    rows[at, R_VALUE] = value
    rows[at, R_PATH_MESSAGE] = path & 0xFFFFFFFF | message << 32
    rows[at, R_SLICE] = begin | (end - begin) << 32
    rows[at, R_SMALL] = sort_op_form_flags | duplicates
    state[S_ROWS] = at + 1
    if sort_op_form_flags >> FLAGS_BIT & INEXACT != 0:
        state[S_INEXACT] += 1
    return 0


@inner
def _skipped_value(data: Bytes, at: int, end: int) -> int:
    """The place behind a value, found by its brackets and quotes alone: the walk over it judges it."""
    depth = 0
    while at < end:
        one = byte(data, at)
        if one == _QUOTE:
            at, _ = string_end(data, at + 1, end)
            if at < 0:
                return BAD
        elif one in (_OBJECT, _ARRAY):
            depth += 1
        elif one in (_OBJECT_END, _ARRAY_END, _COMMA) and depth == 0:
            return at
        elif one in (_OBJECT_END, _ARRAY_END):
            depth -= 1
        at += 1
    return BAD


@inner
def _is_key(data: Bytes, first: int, last: int, texts: Bytes, entries: Ints, of: int) -> bool:
    """Whether a member's name, without the name of its module, is among a list's keys: |name|name|."""
    for i in range(first, last):
        if byte(data, i) == _COLON:
            first = i + 1
    size = last - first
    at, end = entries[of, E_AT], entries[of, E_AT] + entries[of, E_SIZE]
    while at + size + 1 < end:
        behind = at + 1
        while byte(texts, behind) != 124:
            behind += 1
        if behind - at - 1 == size and same(data, first, texts, at + 1, size):
            return True
        at = behind
    return False


@inner
def _keyed(
    data: Bytes,
    at: int,
    end: int,
    node: int,
    before: int,
    column: int,
    target: int,
    texts: Bytes,
    entries: Ints,
    slots: Slots,
    targets: Ints,
    state: Ints,
) -> int:
    """The spelling of a list's entry, whose object begins here: its keys one after the other. Else `node` itself."""
    of, found = entries[node, E_LIST], node
    at = space(data, at + 1, end)
    while at < end and byte(data, at) == _QUOTE:
        first = at
        last, _ = string_end(data, at + 1, end)
        if last < 0:
            return BAD
        at = space(data, last + 1, end)
        if at >= end or byte(data, at) != _COLON:
            return BAD
        value = space(data, at + 1, end)
        at = _skipped_value(data, value, end)
        if at < 0:
            return BAD
        if byte(data, value) not in (_OBJECT, _ARRAY) and _is_key(data, first + 1, last, texts, entries, of):
            found = following(
                data, first, at - first, found << OWNER_BIT | KEY, before, column, target, texts, entries, slots,
                targets, state,
            )  # fmt: skip
            if found < 0:
                return found
            before, column = found, wide(E_BRANCH)
        if byte(data, at) != _COMMA:
            return found
        at = space(data, at + 1, end)
    return found


@inner
def tree(
    data: Bytes,
    at: int,
    end: int,
    base: int,
    form: int,
    duplicates: int,
    message: int,
    first_row: int,
    target: int,
    texts: Bytes,
    entries: Ints,
    slots: Slots,
    targets: Ints,
    rows: Ints,
    state: Ints,
) -> int:
    """One row for each leaf of an object or list: its path is `base` and the names on the way. 0, or what is wrong."""
    if not is_utf8(data, at, end):
        return BAD
    depth = 0
    node = wide(base)
    # Within a value that is told whole or not at all: its depth, where it began, what it is (NONE: not told).
    silent, silent_at, silent_as = 0, at, NONE
    while True:
        # Here stands a value; `node` is its spelling.
        at = space(data, at, end)
        if at >= end:
            return BAD
        one = byte(data, at)
        if one in (_OBJECT, _ARRAY):
            if depth + 1 >= STACK_DEPTH:
                return BAD
            frame = S_STACK + STACK_WORDS * depth
            depth += 1
            state[frame + _IS_ARRAY] = 1 if one == _ARRAY else 0
            state[frame + _COUNT] = 0
            state[frame + _ENTRY] = state[frame + _BEFORE] = node
            if silent != 0:
                if silent_as == LEAFLIST:
                    silent_as = JSON
            elif node == REFUSED:
                silent, silent_as = depth, NONE
            elif depth > _MOST_DEPTH:
                silent, silent_at, silent_as = depth, at, JSON
            elif one == _ARRAY:
                inner = space(data, at + 1, end)
                if inner >= end or byte(data, inner) != _OBJECT:
                    silent, silent_at, silent_as = depth, at, LEAFLIST
                elif entries[node, E_LIST] == UNRESOLVED:
                    state[S_PENDING] = min(state[S_PENDING], message)
                    silent, silent_as = depth, NONE
            at = space(data, at + 1, end)
            if at >= end:
                return BAD
            closes = byte(data, at) == (_ARRAY_END if one == _ARRAY else _OBJECT_END)
        else:
            sort, flags, value, first, last, behind = json_scalar(data, at, end)
            if sort == BAD:
                return BAD
            at = behind
            if silent == 0 and node >= 0:
                path = entries[node, E_PATH]
                if path < 0:
                    if path == INVALID:
                        return BAD
                    state[S_PENDING] = min(state[S_PENDING], message)
                small = sort << SORT_BIT | form << FORM_BIT | flags << FLAGS_BIT
                put_at = put(rows, state, first_row, message, path, small, value, first, last, duplicates)
                if put_at < 0:
                    return put_at
            closes = False
            at = space(data, at, end)
            if at >= end:
                return BAD
            one = byte(data, at)
            if one == _COMMA:
                at = space(data, at + 1, end)
                if at >= end:
                    return BAD
            else:
                closes = True
        # Behind a value within an object or list, or at the beginning of one.
        while closes:
            frame = S_STACK + STACK_WORDS * (depth - 1)
            if byte(data, at) != (_ARRAY_END if state[frame + _IS_ARRAY] == 1 else _OBJECT_END):
                return BAD
            at += 1
            if silent == depth:
                silent = 0
                node = state[frame + _ENTRY]
                if silent_as != NONE:
                    path = entries[node, E_PATH]
                    if path < 0:
                        if path == INVALID:
                            return BAD
                        state[S_PENDING] = min(state[S_PENDING], message)
                    small = silent_as << SORT_BIT | form << FORM_BIT
                    put_at = put(rows, state, first_row, message, path, small, wide(0), silent_at, at, duplicates)
                    if put_at < 0:
                        return put_at
            depth -= 1
            at = space(data, at, end)
            if depth == 0:
                return 0 if at == end else BAD
            if at >= end:
                return BAD
            if byte(data, at) == _COMMA:
                at = space(data, at + 1, end)
                if at >= end:
                    return BAD
                closes = False
        # Here stands the next member or element of the innermost.
        frame = S_STACK + STACK_WORDS * (depth - 1)
        within, before = state[frame + _ENTRY], state[frame + _BEFORE]
        column = wide(E_BRANCH if state[frame + _COUNT] == 0 else E_NEXT)
        if state[frame + _IS_ARRAY] == 0:
            if byte(data, at) != _QUOTE:
                return BAD
            first = at + 1
            if silent == 0:
                guess = entries[before, column]
                last = first + entries[guess, E_SIZE]
                owner = within << OWNER_BIT | MEMBER
                if (
                    last < end
                    and byte(data, last) == _QUOTE
                    and is_spelling(data, first, last - first, owner, guess, texts, entries)
                ):
                    node = guess
                else:
                    last, flags = string_end(data, first, end)
                    if last < 0 or flags != 0:
                        return BAD
                    node = looked_up(data, first, last - first, owner, target, texts, entries, slots, targets, state)
                    if node >= 0:
                        entries[before, column] = node
            else:
                last, flags = string_end(data, first, end)
                if last < 0:
                    return BAD
            at = space(data, last + 1, end)
            if at >= end or byte(data, at) != _COLON:
                return BAD
            at += 1
        elif silent == 0:
            node = within
            if byte(data, at) == _OBJECT and entries[within, E_LIST] > 0:
                node = _keyed(data, at, end, within, before, column, target, texts, entries, slots, targets, state)
            if node == within:
                owner = within << OWNER_BIT | PLACE | state[frame + _COUNT] << PLACE_BIT
                node = looked_up(data, at, wide(0), owner, target, texts, entries, slots, targets, state)
        if silent == 0:
            if node in (NO_ROOM, BAD):
                return node
            if node == REFUSED:
                state[S_LOST] += 1
            else:
                state[frame + _BEFORE] = node
        state[frame + _COUNT] += 1
