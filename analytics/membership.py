"""Which cascade a pause belongs to: slots that are joined as causes and roots turn out to be shared."""

from __future__ import annotations

import numpy as np
from numba import njit

from analytics.compiled import kernel
from analytics.layout import (
    D_ROOT_OWNER,
    D_UNKNOWN_OWNER,
    GAP_NS,
    N_JOINS,
    Q_ROOT_OWNER,
    Q_SLOT,
    ROOT_EGRESS,
    ROOT_HOST,
    ROOT_UNKNOWN,
    S_FIRST_NS,
    S_FIRST_QUEUE,
    S_LAST_NS,
    S_OPEN,
    S_PARENT,
    Bools,
    Ints,
    Links,
    State,
    Told,
)


@kernel
def find(slots: Ints, slot: int) -> int:
    """The slot that a slot has been joined to, itself if none; -1 if that is released."""
    while slot >= 0 and slots[slot, S_PARENT] != slot:
        slot = slots[slot, S_PARENT]
    return slot


@njit(cache=True)
def living(slots: Ints, some: Ints) -> Ints:
    """Of each of some slots the one that it has been joined to."""
    found = np.empty(len(some), np.int64)
    for i in range(len(some)):
        found[i] = find(slots, some[i])
    return found


@kernel
def forget_slots(released: Bools, queues: Ints, devices: Ints) -> None:
    """Lets no queue and no device name a slot that is free again."""
    for queue in range(len(queues)):
        for column in (Q_SLOT, Q_ROOT_OWNER):
            if queues[queue, column] >= 0 and released[queues[queue, column]]:
                queues[queue, column] = -1
    for device in range(len(devices)):
        for column in (D_ROOT_OWNER, D_UNKNOWN_OWNER):
            if devices[device, column] >= 0 and released[devices[device, column]]:
                devices[device, column] = -1


@kernel
def rank(port_rank: Ints, queue: int) -> int:
    return port_rank[queue // 8] * 8 + queue % 8


@kernel
def owner(state: State, root: int) -> int:
    """The slot of the cascade that the root last belonged to, -1 if none."""
    if root & 3 == ROOT_EGRESS:
        return state.queues[root >> 2, Q_ROOT_OWNER]
    if root & 3 == ROOT_HOST:
        return state.devices[root >> 2, D_ROOT_OWNER]
    if root & 3 == ROOT_UNKNOWN:
        return state.devices[root >> 2, D_UNKNOWN_OWNER]
    return -1


@kernel
def join(state: State, target: int, other: int, time_ns: int, links: Links, told: Told) -> int:
    """Joins two cascades, of which the one that began first lives; a closed one is not joined."""
    slots, joins, counts = state.slots, told.joins, told.counts
    if other < 0:
        return target
    other = find(slots, other)
    if other < 0:
        return target
    if slots[other, S_OPEN] == 0 and slots[other, S_LAST_NS] + GAP_NS < time_ns:
        return target
    if target < 0 or target == other:
        return other
    older = slots[other, S_FIRST_NS] < slots[target, S_FIRST_NS] or (
        slots[other, S_FIRST_NS] == slots[target, S_FIRST_NS]
        and rank(links.port_rank, slots[other, S_FIRST_QUEUE]) < rank(links.port_rank, slots[target, S_FIRST_QUEUE])
    )
    lives, ends = (other, target) if older else (target, other)
    slots[ends, S_PARENT] = lives
    slots[lives, S_OPEN] += slots[ends, S_OPEN]
    slots[lives, S_LAST_NS] = max(slots[lives, S_LAST_NS], slots[ends, S_LAST_NS])
    joins[counts[N_JOINS], 0], joins[counts[N_JOINS], 1] = lives, ends
    counts[N_JOINS] += 1
    return lives
