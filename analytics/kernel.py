"""The pass over rows in event time that drives blame, activity and membership."""

from __future__ import annotations

from analytics.activity import close, take_bytes
from analytics.blame import fill, open_group
from analytics.compiled import inlined, kernel
from analytics.layout import (
    BYTES,
    CLOSE,
    D_REPORTS,
    D_ROOT_LAST,
    D_ROOT_OPEN,
    D_ROOT_OWNER,
    DEPTH,
    FLOW,
    LEDGER_PAUSES,
    MARK_GUESSED,
    MISSED,
    MS_END,
    MS_KNOWN_NS,
    MS_NS,
    MS_START,
    N_FLOWS,
    N_NEXT_EXPIRY,
    N_REOPENED,
    N_ROWS,
    N_UNMATCHED,
    NEVER,
    OPEN,
    P_LAST_MARK,
    Q_A,
    Q_BIN_END,
    Q_BIN_PEAK,
    Q_BIN_START,
    Q_OLD_END,
    Q_OLD_PEAK,
    Q_ORDER,
    Q_ROOT_LAST,
    Q_ROOT_OPEN,
    Q_ROOT_OWNER,
    Q_ROOTS,
    Q_STOP_BEFORE,
    Q_STOP_PEAK,
    REPORTS_ECN,
    ROOT_EGRESS,
    ROOT_HOST,
    ROW_AMOUNT,
    ROW_END,
    ROW_ID,
    ROW_ORDER,
    ROW_QUEUE,
    ROW_START,
    ROW_TIME,
    ROW_TYPE,
    Ints,
    Links,
    State,
    Told,
    Work,
)
from analytics.membership import find


@kernel
def run(
    rows: Ints,
    start: int,
    until_ns: int,
    keep_ns: int,
    state: State,
    links: Links,
    told: Told,
    work: Work,
) -> None:
    """Takes rows[start:] in, sorted by (time, type, rank of the queue, ...), until one is at `until_ns` or later.

    Returns early, with counts[N_ROWS] at the first row not taken, when a ledger may be full or when a cascade has been
    closed for `keep_ns` (counts[N_NEXT_EXPIRY] is below the next row's time): the caller reads the ledgers and goes on.
    """
    queues, devices, slots = state.queues, state.devices, state.slots
    port_device, port_peer, is_host = links.port_device, links.port_peer, links.is_host
    flows, counts = told.flows, told.counts
    total = rows.shape[0]
    opened = 0
    i = start
    while i < total and rows[i, ROW_TIME] < until_ns:
        time_ns = rows[i, ROW_TIME]
        if time_ns > counts[N_NEXT_EXPIRY] or opened >= LEDGER_PAUSES or counts[N_FLOWS] >= flows.shape[0]:
            break
        row_type, queue, begin = rows[i, ROW_TYPE], rows[i, ROW_QUEUE], rows[i, ROW_START]
        port = queue // 8
        if row_type == DEPTH:
            if queues[queue, Q_BIN_START] != begin:
                queues[queue, Q_OLD_END], queues[queue, Q_OLD_PEAK] = (
                    queues[queue, Q_BIN_END],
                    queues[queue, Q_BIN_PEAK],
                )
                queues[queue, Q_BIN_PEAK] = 0
            queues[queue, Q_BIN_START], queues[queue, Q_BIN_END] = begin, rows[i, ROW_END]
            queues[queue, Q_BIN_PEAK] = max(queues[queue, Q_BIN_PEAK], rows[i, ROW_AMOUNT])
            if queues[queue, Q_ORDER] != 0:
                queues[queue, Q_STOP_PEAK] = max(queues[queue, Q_STOP_PEAK], rows[i, ROW_AMOUNT])
            fill(queue, state.filled, links.port_word, links.port_local)
            devices[port_device[port], D_REPORTS] |= rows[i, ROW_ID]
            i += 1
            continue
        if row_type == MISSED:
            missed = state.missed
            missed[queue, MS_START], missed[queue, MS_END] = begin, rows[i, ROW_END]
            missed[queue, MS_NS], missed[queue, MS_KNOWN_NS] = rows[i, ROW_AMOUNT], rows[i, ROW_ORDER]
            i += 1
            continue
        if row_type == BYTES:
            take_bytes(rows, i, state, links)
            if rows[i, ROW_ID] == REPORTS_ECN:
                state.ports[port, P_LAST_MARK] = max(state.ports[port, P_LAST_MARK], rows[i, ROW_END])
            devices[port_device[port], D_REPORTS] |= rows[i, ROW_ID]
            i += 1
            continue
        if row_type == FLOW:
            root = -1
            slot = -1
            if queues[queue, Q_ROOT_OPEN] > 0 or queues[queue, Q_ROOT_LAST] >= begin:
                root, slot = queue * 4 + ROOT_EGRESS, find(slots, queues[queue, Q_ROOT_OWNER])
            elif port_peer[port] >= 0:
                there = port_device[port_peer[port]]
                if is_host[there] and (devices[there, D_ROOT_OPEN] > 0 or devices[there, D_ROOT_LAST] >= begin):
                    root, slot = there * 4 + ROOT_HOST, find(slots, devices[there, D_ROOT_OWNER])
            at_source = 0
            dst = rows[i, ROW_ORDER] - 1
            leaves_host = slot < 0 and dst >= 0 and is_host[port_device[port]]
            if leaves_host and (devices[dst, D_ROOT_OPEN] > 0 or devices[dst, D_ROOT_LAST] >= begin):
                # A flow to a stopped host may stand still before it reaches the host's link: it feeds the root as well.
                root, slot, at_source = dst * 4 + ROOT_HOST, find(slots, devices[dst, D_ROOT_OWNER]), 1
            if slot >= 0:
                at = counts[N_FLOWS]
                flows[at, 0], flows[at, 1], flows[at, 2] = slot, root, i
                flows[at, 3] = at_source
                counts[N_FLOWS] += 1
            i += 1
            continue
        end = i
        while end < total and rows[end, ROW_TIME] == time_ns and rows[end, ROW_TYPE] >= CLOSE:
            end += 1
        size = end - i
        if opened > 0 and opened + size > LEDGER_PAUSES:
            break
        opened += size
        take_pauses(rows, i, end, keep_ns, state, links, told, work)
        i = end
    counts[N_ROWS] = i


@inlined
def take_pauses(
    rows: Ints, first: int, end: int, keep_ns: int, state: State, links: Links, told: Told, work: Work
) -> None:
    """The pauses of one instant: ends of open ones, then openings, then ends of those that lasted no time at all."""
    queues, group = state.queues, work.group
    counts = told.counts
    time_ns = rows[first, ROW_TIME]
    for part in range(2):
        if part == 1:
            opening = 0
            for i in range(first, end):
                if rows[i, ROW_TYPE] != OPEN:
                    continue
                queue = rows[i, ROW_QUEUE]
                if opening > 0 and group[opening - 1] == queue:
                    # A clock too coarse to part them: of several that open on a queue at one instant the last stands.
                    counts[N_REOPENED] += 1
                    queues[queue, Q_ORDER] = rows[i, ROW_ORDER]
                    continue
                if queues[queue, Q_ORDER] != 0:
                    counts[N_REOPENED] += 1
                    close(queue, time_ns, time_ns - queues[queue, Q_A], MARK_GUESSED, keep_ns, state, links, told)
                begin, stop = queues[queue, Q_BIN_START], queues[queue, Q_BIN_END]
                holds = begin <= time_ns < stop
                queues[queue, Q_STOP_PEAK] = queues[queue, Q_BIN_PEAK] if holds else 0
                if holds:
                    near = queues[queue, Q_OLD_END] == begin
                    queues[queue, Q_STOP_BEFORE] = queues[queue, Q_OLD_PEAK] if near else 0
                else:
                    near = stop > NEVER and time_ns - stop < stop - begin
                    queues[queue, Q_STOP_BEFORE] = queues[queue, Q_BIN_PEAK] if near else 0
                fill(queue, state.filled, links.port_word, links.port_local)
                queues[queue, Q_ORDER] = rows[i, ROW_ORDER]
                queues[queue, Q_A] = time_ns
                queues[queue, Q_ROOTS] = -1
                group[opening] = queue
                opening += 1
            if opening:
                open_group(opening, time_ns, state, links, told, work)
        for i in range(first, end):
            if rows[i, ROW_TYPE] != CLOSE:
                continue
            queue = rows[i, ROW_QUEUE]
            if queues[queue, Q_ORDER] != 0 and queues[queue, Q_ORDER] == rows[i, ROW_ORDER]:
                close(queue, time_ns, rows[i, ROW_AMOUNT], rows[i, ROW_ID], keep_ns, state, links, told)
                rows[i, ROW_TYPE] = -1
            elif part == 1:
                counts[N_UNMATCHED] += 1
