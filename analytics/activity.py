"""What happens while a root is active: its open pauses are counted, its port's bytes are added, its time is booked."""

from __future__ import annotations

from analytics.compiled import kernel
from analytics.layout import (
    ACTIVE_SHARE,
    D_ROOT_LAST,
    D_ROOT_OPEN,
    D_ROOT_OWNER,
    D_UNKNOWN_OWNER,
    GAP_NS,
    MAX_POLL_NS,
    MIN_QUEUED_BYTES,
    N_BLAMES,
    N_CLOSES,
    N_NEXT_EXPIRY,
    NEVER,
    P_COLUMNS,
    P_GROUP_BIN_END,
    P_GROUP_BINS_NS,
    P_GROUP_FIRST,
    P_GROUP_LAST,
    P_GROUP_OPEN,
    P_MAX_MBPS,
    P_QUEUED_BINS,
    P_RUN_BEGIN,
    P_RUN_END,
    P_STOPPED_BYTES,
    P_TX_BYTES,
    Q_A,
    Q_B,
    Q_BIN_PEAK,
    Q_BIN_START,
    Q_ORDER,
    Q_PAUSER,
    Q_ROOT_LAST,
    Q_ROOT_OPEN,
    Q_ROOT_OWNER,
    Q_ROOTS,
    Q_SLOT,
    ROOT_EGRESS,
    ROOT_HOST,
    ROOT_UNKNOWN,
    ROW_AMOUNT,
    ROW_END,
    ROW_QUEUE,
    ROW_START,
    S_LAST_NS,
    S_OPEN,
    Ints,
    Links,
    State,
    Told,
)
from analytics.membership import find


@kernel
def activate(root: int, share: float, slot: int, step: int, time_ns: int, state: State, links: Links) -> None:
    """Counts an open pause (step 1) or one that ended (-1) for its root and for the root's sibling group.

    A group that was idle for GAP_NS begins its byte counts anew.
    """
    if share < ACTIVE_SHARE:
        return
    queues, devices, ports = state.queues, state.devices, state.ports
    place = root >> 2
    if root & 3 == ROOT_EGRESS:
        queues[place, Q_ROOT_OPEN] += step
        queues[place, Q_ROOT_LAST] = time_ns
        if step > 0:
            queues[place, Q_ROOT_OWNER] = slot
        group = links.port_group[place // 8]
    elif root & 3 == ROOT_HOST:
        devices[place, D_ROOT_OPEN] += step
        devices[place, D_ROOT_LAST] = time_ns
        if step > 0:
            devices[place, D_ROOT_OWNER] = slot
        group = links.device_group[place]
    else:
        if step > 0 and root & 3 == ROOT_UNKNOWN:
            devices[place, D_UNKNOWN_OWNER] = slot
        return
    if group < 0:
        return
    if step > 0 and ports[group, P_GROUP_OPEN] == 0 and ports[group, P_GROUP_LAST] + GAP_NS < time_ns:
        ports[group, P_GROUP_FIRST] = time_ns
        ports[group, P_GROUP_BINS_NS], ports[group, P_GROUP_BIN_END] = 0, NEVER
        for at in range(links.group_start[group], links.group_start[group + 1]):
            for column in range(P_TX_BYTES, P_COLUMNS):
                ports[links.group_ports[at], column] = 0
    ports[group, P_GROUP_OPEN] += step
    ports[group, P_GROUP_LAST] = time_ns


@kernel
def close(
    queue: int, end_ns: int, paused_ns: int, marks: int, keep_ns: int, state: State, links: Links, told: Told
) -> None:
    """Ends the open pause of a queue and books its time on its roots."""
    queues, slots = state.queues, state.slots
    closes, blames, counts = told.closes, told.blames, told.counts
    slot = find(slots, queues[queue, Q_SLOT])
    at = counts[N_CLOSES]
    closes[at, 0], closes[at, 1], closes[at, 2] = slot, queue, queues[queue, Q_A]
    closes[at, 3], closes[at, 4], closes[at, 5], closes[at, 6] = paused_ns, marks, queues[queue, Q_PAUSER], end_ns
    counts[N_CLOSES] += 1
    at = counts[N_BLAMES]
    for r in range(queues[queue, Q_ROOTS]):
        ppm = int(state.shares[queue, r] * 1e6 + 0.5)
        blames[at, 0], blames[at, 1], blames[at, 2] = slot, queue, state.roots[queue, r]
        blames[at, 3] = (paused_ns // 1_000_000) * ppm + (paused_ns % 1_000_000 * ppm + 500_000) // 1_000_000
        at += 1
        activate(state.roots[queue, r], state.shares[queue, r], slot, -1, end_ns, state, links)
    counts[N_BLAMES] = at
    queues[queue, Q_ORDER] = 0
    queues[queue, Q_B] = end_ns
    slots[slot, S_OPEN] -= 1
    slots[slot, S_LAST_NS] = max(slots[slot, S_LAST_NS], end_ns)
    if slots[slot, S_OPEN] == 0:
        counts[N_NEXT_EXPIRY] = min(counts[N_NEXT_EXPIRY], slots[slot, S_LAST_NS] + keep_ns)


@kernel
def take_bytes(rows: Ints, i: int, state: State, links: Links) -> None:
    """Adds a window's transmitted bytes to the port while its sibling group has an active root (0 bytes: no count)."""
    queues, ports = state.queues, state.ports
    queue = rows[i, ROW_QUEUE]
    port = queue // 8
    group = links.port_group[port]
    begin, end = rows[i, ROW_START], rows[i, ROW_END]
    if rows[i, ROW_AMOUNT] > 0:
        if begin - ports[port, P_RUN_END] > GAP_NS:
            ports[port, P_RUN_BEGIN] = begin
        ports[port, P_RUN_END] = max(ports[port, P_RUN_END], end)
    if rows[i, ROW_AMOUNT] == 0 or (ports[group, P_GROUP_OPEN] == 0 and ports[group, P_GROUP_LAST] < begin):
        return
    ports[port, P_TX_BYTES] += rows[i, ROW_AMOUNT]
    if begin >= ports[group, P_GROUP_FIRST] and queues[queue, Q_ORDER] != 0:
        ports[port, P_STOPPED_BYTES] += rows[i, ROW_AMOUNT]
    if end > ports[group, P_GROUP_BIN_END]:
        ports[group, P_GROUP_BINS_NS] += end - max(begin, ports[group, P_GROUP_BIN_END])
        ports[group, P_GROUP_BIN_END] = end
    queued = queues[queue, Q_BIN_START] == begin and queues[queue, Q_BIN_PEAK] >= MIN_QUEUED_BYTES
    stopped = queues[queue, Q_ORDER] != 0 or queues[queue, Q_B] > begin
    if queued and not stopped and 0 < end - begin <= MAX_POLL_NS:
        ports[port, P_MAX_MBPS] = max(ports[port, P_MAX_MBPS], rows[i, ROW_AMOUNT] * 8_000 // (end - begin))
        ports[port, P_QUEUED_BINS] += 1
