"""The table of spellings: raw bytes that stand for a part of a path, each known by a number.

A path is never parsed where its bytes are known. A spelling continues another (a path its prefix, a member of a JSON
object what the object is told of), so that equal bytes in different places are different spellings. A hit is verified
by comparing all bytes: no two can be taken for each other, whatever their hash.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from collectors.compiled import Bytes, byte, inner, kernel, mixed, part, wide, word
from collectors.layout import (
    BYTES_AN_ENTRY,
    E_AT,
    E_BRANCH,
    E_HASH,
    E_LIST,
    E_NEXT,
    E_OWNER,
    E_PATH,
    E_SIZE,
    LONGEST_SPELLING,
    MOST_PROBES,
    NO_ROOM,
    REFUSED,
    ROOT,
    S_BYTES,
    S_ENTRIES,
    S_MOST_A_TARGET,
    S_MOST_ENTRIES,
    S_SEED,
    T_BYTES,
    T_ENTRIES,
    UNRESOLVED,
)

Ints = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int32]


@inner
def same(data: Bytes, at: int, others: Bytes, other: int, size: int) -> bool:
    """Whether so many bytes are equal."""
    if size < 8:
        return part(data, at, size) == part(others, other, size)
    if size <= 32:
        # Without a branch on the size, which no processor would guess: words overlap where there are fewer bytes.
        second, third, fourth = min(8, size - 8), max(0, size - 16), size - 8
        differ = word(data, at) ^ word(others, other)
        differ |= word(data, at + second) ^ word(others, other + second)
        differ |= word(data, at + third) ^ word(others, other + third)
        return (differ | (word(data, at + fourth) ^ word(others, other + fourth))) == 0
    for i in range(0, size - 7, 8):
        if word(data, at + i) != word(others, other + i):
            return False
    return word(data, at + size - 8) == word(others, other + size - 8)


@inner
def is_spelling(data: Bytes, at: int, size: int, owner: int, entry: int, texts: Bytes, entries: Ints) -> bool:
    """Whether the entry is of these bytes."""
    return (
        entries[entry, E_OWNER] == owner
        and entries[entry, E_SIZE] == size
        and same(data, at, texts, entries[entry, E_AT], size)
    )


@inner
def _hashed(data: Bytes, at: int, size: int, seed: int) -> int:
    state = mixed(seed, size)
    whole = size & ~7
    for i in range(0, whole, 8):
        state = mixed(state, word(data, at + i))
    state = mixed(state, part(data, at + whole, size - whole))
    return mixed(state, state >> 32)


@kernel
def looked_up(
    data: Bytes,
    at: int,
    size: int,
    owner: int,
    target: int,
    texts: Bytes,
    entries: Ints,
    slots: Slots,
    targets: Ints,
    state: Ints,
) -> int:
    """The entry of these bytes, a new one where there is none. REFUSED beyond a limit; NO_ROOM where arrays must grow.

    What is new is charged to the target that brought it, so that one that invents paths takes no other's room.
    """
    if size > LONGEST_SPELLING:
        return REFUSED
    of = _hashed(data, at, size, owner ^ state[S_SEED])
    mask = len(slots) - 1
    slot = of & mask
    probes = 0
    while slots[slot] >= 0:
        entry = wide(slots[slot])
        if entries[entry, E_HASH] == of and is_spelling(data, at, size, owner, entry, texts, entries):
            return entry
        slot = (slot + 1) & mask
        probes += 1
        if probes > MOST_PROBES:
            return REFUSED
    count, used = state[S_ENTRIES], state[S_BYTES]
    most, most_a_target = state[S_MOST_ENTRIES], state[S_MOST_A_TARGET]
    if (
        count >= most
        or used + size > most * BYTES_AN_ENTRY
        or targets[target, T_ENTRIES] >= most_a_target
        or targets[target, T_BYTES] + size > most_a_target * BYTES_AN_ENTRY
    ):
        return REFUSED
    if count >= len(entries) or used + size + 8 > len(texts) or 2 * count >= len(slots):
        return NO_ROOM
    for i in range(size):
        texts[used + i] = byte(data, at + i)
    entries[count, E_HASH], entries[count, E_OWNER] = of, owner
    entries[count, E_AT], entries[count, E_SIZE] = used, size
    entries[count, E_PATH] = entries[count, E_LIST] = UNRESOLVED
    entries[count, E_NEXT] = entries[count, E_BRANCH] = ROOT
    slots[slot] = count
    state[S_ENTRIES], state[S_BYTES] = count + 1, used + size
    targets[target, T_ENTRIES] += 1
    targets[target, T_BYTES] += size
    return count


@inner
def following(
    data: Bytes,
    at: int,
    size: int,
    owner: int,
    before: int,
    column: int,
    target: int,
    texts: Bytes,
    entries: Ints,
    slots: Slots,
    targets: Ints,
    state: Ints,
) -> int:
    """As looked_up, but first asks whether it is what came after `before` the last time: telemetry repeats itself."""
    guess = entries[before, column]
    if is_spelling(data, at, size, owner, guess, texts, entries):
        return guess
    entry = looked_up(data, at, size, owner, target, texts, entries, slots, targets, state)
    if entry >= 0:
        entries[before, column] = entry
    return entry


@kernel
def place(entries: Ints, slots: Slots) -> None:
    """Puts every entry but that of nothing into a slot."""
    mask = len(slots) - 1
    for entry in range(1, len(entries)):
        slot = entries[entry, E_HASH] & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = entry
