"""Blame of every pause, in one pass over rows in event time: mode 1, exact events with queue evidence.

An XOFF that device X sent on ingress q at t is caused by the egress queues P of X that hold q's bytes: weight =
feasible(q, P) * peak(P, t)^2. Where P is stopped itself, or was within the last W, the blame is that of P's own last
interval; else P is a root. If X is a host, the host is the root. (Causality per hop as in Hawkeye, SIGCOMM 2025; the
square because only the peak is known and a burst of height Q lasts Q/C.) Each egress queue keeps only its last interval
and that interval's blame, so one XOFF costs one pass over the fan-out of X.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MEMORY_NS = 20_000
"""W: a queue that may send again still causes pauses for the time that one XOFF threshold takes to drain
(160-300 KB at 100 Gb/s are 13-25 us). Halved: mean blame distance x5, doubled: x1 to x1.3 (14 and 38 NS-3 traces)."""
GAP_NS = 10_000_000
"""A cascade closes after this long without a paused member."""
JOIN_SHARE = 0.1
"""A pause joins the cascades of causes and roots with at least this share of its blame: the share that accepts a root."""
ACTIVE_SHARE = 0.02
"""A root is active while an open pause gives it at least this share: the resolution of the report."""
MAX_ROOTS = 8
"""Roots kept of one pause; what is left goes to ROOT_OTHER."""
NEVER = -(1 << 62)
FOREVER = 1 << 62

# A root is queue * 4 + ROOT_EGRESS, device * 4 + ROOT_HOST or device * 4 + ROOT_UNKNOWN; or one of the two below.
ROOT_EGRESS, ROOT_HOST, ROOT_UNKNOWN, ROOT_SPECIAL = 0, 1, 2, 3
ROOT_OTHER = 0 * 4 + ROOT_SPECIAL
ROOT_CYCLE = 1 * 4 + ROOT_SPECIAL
"""Pauses of one instant that cause each other."""

# Types of a row, in the order in which rows of one instant are taken. A row's time is where it takes effect: a window's
# bytes at its end (BYTES, FLOW), a window's depth at its start (DEPTH), a pause when it opens or closes.
BYTES, FLOW, DEPTH, CLOSE, OPEN = range(5)

# Columns of a row: when it takes effect; its type; queue = port * 8 + priority; start and end of its window or pause;
# bytes or paused ns; the pause's order on its queue (OPEN, CLOSE); FLOW: an id for the caller, BYTES and DEPTH: what the
# device reports (a bit of REPORTS_*).
ROW_TIME, ROW_TYPE, ROW_QUEUE, ROW_START, ROW_END, ROW_AMOUNT, ROW_ORDER, ROW_ID = range(8)
ROW_COLUMNS = 8
REPORTS_DEPTH, REPORTS_BYTES, REPORTS_ECN = 1, 2, 4

# Columns of a queue's state.
(Q_ORDER, Q_A, Q_B, Q_BIN_START, Q_BIN_END, Q_BIN_PEAK, Q_OLD_END, Q_OLD_PEAK, Q_STOP_PEAK, Q_STOP_BEFORE, Q_SLOT,
 Q_ROOTS, Q_ROOT_OPEN, Q_ROOT_LAST, Q_ROOT_OWNER) = range(15)  # fmt: skip
Q_COLUMNS = 15
# Columns of a device's state as a root.
D_ROOT_OPEN, D_ROOT_LAST, D_ROOT_OWNER, D_REPORTS = range(4)
D_COLUMNS = 4
# Columns of a port's state; the GROUP ones belong to the sibling group that the port names.
(P_GROUP_OPEN, P_GROUP_FIRST, P_GROUP_LAST, P_GROUP_BINS_NS, P_GROUP_BIN_END, P_TX_BYTES, P_INSIDE_BYTES, P_INSIDE_NS,
 P_MAX_MBPS, P_QUEUED_BINS) = range(10)  # fmt: skip
P_COLUMNS = 10
# Columns of a cascade's slot.
S_FIRST_NS, S_FIRST_QUEUE, S_OPEN, S_LAST_NS, S_PARENT = range(5)
S_COLUMNS = 5

# Columns of the ledgers: what a run tells its caller, in whole ns and ppm, so that sums do not depend on their order.
L_EDGE_COLUMNS = 5  # slot, told queue, egress queue, ppm, whether the egress was stopped
L_CLOSE_COLUMNS = 5  # slot, queue, start_ns, paused_ns, whether the end was guessed
L_BLAME_COLUMNS = 3  # slot, root, pause ns
L_FLOW_COLUMNS = 3  # slot, root, row id
L_JOIN_COLUMNS = 2  # slot that lives, slot that ends

# Places in the counts that a run fills.
(N_ROWS, N_EDGES, N_CLOSES, N_BLAMES, N_FLOWS, N_JOINS, N_FREE, N_NEXT_EXPIRY, N_UNMATCHED, N_REOPENED,
 N_NO_LINK) = range(11)  # fmt: skip
N_COUNTS = 11

LEDGER_PAUSES = 2048
"""Pause rows that one run takes before it returns to have its ledgers read."""
EDGE_MIN_SHARE = 0.001

MAX_POLL_NS = 1_000_000
"""Only in windows up to this long does the highest rate of a queue's egress say what the link can carry."""
MIN_QUEUED_BYTES = 16_384
"""A queue of four 4,096-byte packets keeps its egress busy while it drains."""


@njit(cache=True)
def find(slots: Ints, slot: int) -> int:
    """The slot that a slot has been joined to, itself if none."""
    while slots[slot, S_PARENT] != slot:
        slot = slots[slot, S_PARENT]
    return slot


@njit(cache=True)
def _peak(queues: Ints, queue: int, time_ns: int) -> int:
    """Queue evidence at an instant: the window's high-water mark, of a stopped queue the highest since it was stopped.

    A stopped queue cannot drain: a mark of 0 says that nothing was added, so the window before its stop counts.
    """
    if queues[queue, Q_ORDER] != 0:
        peak = queues[queue, Q_STOP_PEAK]
        return peak if peak > 0 else queues[queue, Q_STOP_BEFORE]
    if queues[queue, Q_BIN_START] <= time_ns < queues[queue, Q_BIN_END]:
        return queues[queue, Q_BIN_PEAK]
    return 0


@njit(cache=True)
def _open_group(
    group: Ints,
    count: int,
    time_ns: int,
    queues: Ints,
    roots: Ints,
    shares: Floats,
    devices: Ints,
    ports: Ints,
    slots: Ints,
    free: Ints,
    port_device: Ints,
    port_peer: Ints,
    port_group: Ints,
    port_local: Ints,
    port_rank: Ints,
    fan_start: Ints,
    fan_ports: Ints,
    feasible_start: Ints,
    feasible: Bools,
    is_host: Bools,
    group_start: Ints,
    group_ports: Ints,
    device_group: Ints,
    edges: Ints,
    joins: Ints,
    counts: Ints,
    stack: Ints,
    scratch_root: Ints,
    scratch_share: Floats,
) -> None:
    """Blames the pauses that opened at one instant: `group[:count]` are their queues, already marked as stopped.

    A pause of the same instant counts as a cause (its blame is worked out first); two that cause each other are a cycle.
    """
    for member in range(count):
        if queues[group[member], Q_ROOTS] >= 0:
            continue
        depth = 0
        stack[0] = group[member]
        queues[group[member], Q_ROOTS] = -2
        while depth >= 0:
            queue = stack[depth]
            priority = queue % 8
            peer = port_peer[queue // 8]
            device = -1
            if peer >= 0:
                device = port_device[peer]
            pushed = False
            found = 0
            spilled = 0.0
            target = -1
            if device < 0:
                counts[N_NO_LINK] += 1
                scratch_root[0], scratch_share[0], found = port_device[queue // 8] * 4 + ROOT_UNKNOWN, 1.0, 1
            elif is_host[device]:
                scratch_root[0], scratch_share[0], found = device * 4 + ROOT_HOST, 1.0, 1
            else:
                first, fan = fan_start[device], fan_start[device + 1] - fan_start[device]
                row = feasible_start[device] + port_local[peer] * fan
                total = 0.0
                for j in range(fan):
                    if not feasible[row + j]:
                        continue
                    egress = fan_ports[first + j] * 8 + priority
                    height = float(_peak(queues, egress, time_ns))
                    if height > 0 and queues[egress, Q_ROOTS] == -1 and queues[egress, Q_ORDER] != 0:
                        depth += 1
                        stack[depth] = egress
                        queues[egress, Q_ROOTS] = -2
                        pushed = True
                        break
                    total += height * height
                if pushed:
                    continue
                if total == 0.0:
                    scratch_root[0], scratch_share[0], found = device * 4 + ROOT_UNKNOWN, 1.0, 1
                else:
                    for j in range(fan):
                        if not feasible[row + j]:
                            continue
                        egress = fan_ports[first + j] * 8 + priority
                        height = float(_peak(queues, egress, time_ns))
                        if height == 0.0:
                            continue
                        share = height * height / total
                        stopped = queues[egress, Q_ORDER] != 0 or queues[egress, Q_B] >= time_ns - MEMORY_NS
                        if share >= EDGE_MIN_SHARE:
                            at = counts[N_EDGES]
                            edges[at, 0], edges[at, 1], edges[at, 2] = queue, queue, egress
                            edges[at, 3], edges[at, 4] = int(share * 1e6 + 0.5), int(stopped)
                            counts[N_EDGES] += 1
                        if not stopped:
                            found, lost = _add(scratch_root, scratch_share, found, egress * 4 + ROOT_EGRESS, share)
                            spilled += lost
                        elif queues[egress, Q_ROOTS] < 0:
                            found, lost = _add(scratch_root, scratch_share, found, ROOT_CYCLE, share)
                            spilled += lost
                        else:
                            for r in range(queues[egress, Q_ROOTS]):
                                found, lost = _add(
                                    scratch_root, scratch_share, found, roots[egress, r], share * shares[egress, r]
                                )
                                spilled += lost
                            if share >= JOIN_SHARE:
                                target = _join(slots, target, queues[egress, Q_SLOT], time_ns, port_rank, joins, counts)
            kept = _keep_largest(scratch_root, scratch_share, found, spilled)
            queues[queue, Q_ROOTS] = kept
            for r in range(kept):
                roots[queue, r], shares[queue, r] = scratch_root[r], scratch_share[r]
                if scratch_share[r] >= JOIN_SHARE:
                    owner = _owner(queues, devices, scratch_root[r])
                    target = _join(slots, target, owner, time_ns, port_rank, joins, counts)
            if target < 0:
                counts[N_FREE] -= 1
                target = free[counts[N_FREE]]
                slots[target, S_FIRST_NS], slots[target, S_FIRST_QUEUE] = time_ns, queue
                slots[target, S_OPEN], slots[target, S_PARENT] = 0, target
            queues[queue, Q_SLOT] = target
            slots[target, S_OPEN] += 1
            slots[target, S_LAST_NS] = time_ns
            if (
                slots[target, S_FIRST_NS] == time_ns
                and _rank(port_rank, queue) < _rank(port_rank, slots[target, S_FIRST_QUEUE])
            ):  # fmt: skip
                slots[target, S_FIRST_QUEUE] = queue
            for r in range(kept):
                _activate(
                    roots[queue, r], shares[queue, r], target, 1, time_ns, queues, devices, ports, port_group,
                    group_start, group_ports, device_group,
                )  # fmt: skip
            depth -= 1


@njit(cache=True)
def _add(scratch_root: Ints, scratch_share: Floats, found: int, root: int, share: float) -> tuple[int, float]:
    """Adds a share to a root's; returns the number of roots and what found no place."""
    for i in range(found):
        if scratch_root[i] == root:
            scratch_share[i] += share
            return found, 0.0
    if found == len(scratch_root):
        return found, share
    scratch_root[found], scratch_share[found] = root, share
    return found + 1, 0.0


@njit(cache=True)
def _keep_largest(scratch_root: Ints, scratch_share: Floats, found: int, spilled: float) -> int:
    """Moves the largest roots to the front (ties in the order met); the rest and what was spilled become ROOT_OTHER."""
    keep = found
    if found > MAX_ROOTS or spilled > 0.0:
        keep = min(found, MAX_ROOTS - 1)
        for i in range(keep):
            best = i
            for j in range(i + 1, found):
                if scratch_share[j] > scratch_share[best]:
                    best = j
            scratch_root[i], scratch_root[best] = scratch_root[best], scratch_root[i]
            scratch_share[i], scratch_share[best] = scratch_share[best], scratch_share[i]
        rest = spilled
        for i in range(keep, found):
            rest += scratch_share[i]
        for i in range(keep):
            if scratch_root[i] == ROOT_OTHER:
                scratch_share[i] += rest
                return keep
        scratch_root[keep], scratch_share[keep] = ROOT_OTHER, rest
        keep += 1
    return keep


@njit(cache=True)
def _rank(port_rank: Ints, queue: int) -> int:
    return port_rank[queue // 8] * 8 + queue % 8


@njit(cache=True)
def _owner(queues: Ints, devices: Ints, root: int) -> int:
    """The slot of the cascade that the root last belonged to, -1 if none."""
    if root & 3 == ROOT_EGRESS:
        return queues[root >> 2, Q_ROOT_OWNER]
    if root & 3 == ROOT_HOST:
        return devices[root >> 2, D_ROOT_OWNER]
    return -1


@njit(cache=True)
def _join(slots: Ints, target: int, other: int, time_ns: int, port_rank: Ints, joins: Ints, counts: Ints) -> int:
    """Joins two cascades, of which the one that began first lives; a closed one is not joined."""
    if other < 0:
        return target
    other = find(slots, other)
    if slots[other, S_OPEN] == 0 and slots[other, S_LAST_NS] + GAP_NS < time_ns:
        return target
    if target < 0 or target == other:
        return other
    older = slots[other, S_FIRST_NS] < slots[target, S_FIRST_NS] or (
        slots[other, S_FIRST_NS] == slots[target, S_FIRST_NS]
        and _rank(port_rank, slots[other, S_FIRST_QUEUE]) < _rank(port_rank, slots[target, S_FIRST_QUEUE])
    )
    lives, ends = (other, target) if older else (target, other)
    slots[ends, S_PARENT] = lives
    slots[lives, S_OPEN] += slots[ends, S_OPEN]
    slots[lives, S_LAST_NS] = max(slots[lives, S_LAST_NS], slots[ends, S_LAST_NS])
    joins[counts[N_JOINS], 0], joins[counts[N_JOINS], 1] = lives, ends
    counts[N_JOINS] += 1
    return lives


@njit(cache=True)
def _activate(
    root: int,
    share: float,
    slot: int,
    step: int,
    time_ns: int,
    queues: Ints,
    devices: Ints,
    ports: Ints,
    port_group: Ints,
    group_start: Ints,
    group_ports: Ints,
    device_group: Ints,
) -> None:
    """Counts an open pause (step 1) or one that ended (-1) for its root and for the root's sibling group.

    A group that was idle for GAP_NS begins its byte counts anew.
    """
    if share < ACTIVE_SHARE:
        return
    place = root >> 2
    if root & 3 == ROOT_EGRESS:
        queues[place, Q_ROOT_OPEN] += step
        queues[place, Q_ROOT_LAST] = time_ns
        if step > 0:
            queues[place, Q_ROOT_OWNER] = slot
        group = port_group[place // 8]
    elif root & 3 == ROOT_HOST:
        devices[place, D_ROOT_OPEN] += step
        devices[place, D_ROOT_LAST] = time_ns
        if step > 0:
            devices[place, D_ROOT_OWNER] = slot
        group = device_group[place]
    else:
        return
    if group < 0:
        return
    if step > 0 and ports[group, P_GROUP_OPEN] == 0 and ports[group, P_GROUP_LAST] + GAP_NS < time_ns:
        ports[group, P_GROUP_FIRST] = time_ns
        ports[group, P_GROUP_BINS_NS], ports[group, P_GROUP_BIN_END] = 0, NEVER
        for at in range(group_start[group], group_start[group + 1]):
            for column in range(P_TX_BYTES, P_COLUMNS):
                ports[group_ports[at], column] = 0
    ports[group, P_GROUP_OPEN] += step
    ports[group, P_GROUP_LAST] = time_ns


@njit(cache=True)
def _close(
    queue: int,
    end_ns: int,
    paused_ns: int,
    guessed: int,
    queues: Ints,
    roots: Ints,
    shares: Floats,
    devices: Ints,
    ports: Ints,
    slots: Ints,
    port_group: Ints,
    group_start: Ints,
    group_ports: Ints,
    device_group: Ints,
    closes: Ints,
    blames: Ints,
    counts: Ints,
    keep_ns: int,
) -> None:
    """Ends the open pause of a queue and books its time on its roots."""
    slot = find(slots, queues[queue, Q_SLOT])
    at = counts[N_CLOSES]
    closes[at, 0], closes[at, 1], closes[at, 2] = slot, queue, queues[queue, Q_A]
    closes[at, 3], closes[at, 4] = paused_ns, guessed
    counts[N_CLOSES] += 1
    for r in range(queues[queue, Q_ROOTS]):
        at = counts[N_BLAMES]
        ppm = int(shares[queue, r] * 1e6 + 0.5)
        blames[at, 0], blames[at, 1] = slot, roots[queue, r]
        blames[at, 2] = (paused_ns // 1_000_000) * ppm + (paused_ns % 1_000_000 * ppm + 500_000) // 1_000_000
        counts[N_BLAMES] += 1
        _activate(
            roots[queue, r], shares[queue, r], slot, -1, end_ns, queues, devices, ports, port_group, group_start,
            group_ports, device_group,
        )  # fmt: skip
    queues[queue, Q_ORDER] = 0
    queues[queue, Q_B] = end_ns
    slots[slot, S_OPEN] -= 1
    slots[slot, S_LAST_NS] = max(slots[slot, S_LAST_NS], end_ns)
    if slots[slot, S_OPEN] == 0:
        counts[N_NEXT_EXPIRY] = min(counts[N_NEXT_EXPIRY], slots[slot, S_LAST_NS] + keep_ns)


@njit(cache=True)
def run(
    rows: Ints,
    start: int,
    until_ns: int,
    keep_ns: int,
    queues: Ints,
    roots: Ints,
    shares: Floats,
    devices: Ints,
    ports: Ints,
    slots: Ints,
    free: Ints,
    port_device: Ints,
    port_peer: Ints,
    port_group: Ints,
    port_local: Ints,
    port_rank: Ints,
    fan_start: Ints,
    fan_ports: Ints,
    feasible_start: Ints,
    feasible: Bools,
    is_host: Bools,
    group_start: Ints,
    group_ports: Ints,
    device_group: Ints,
    edges: Ints,
    closes: Ints,
    blames: Ints,
    flows: Ints,
    joins: Ints,
    counts: Ints,
    stack: Ints,
    group: Ints,
    scratch_root: Ints,
    scratch_share: Floats,
) -> None:
    """Takes rows[start:] in, sorted by (time, type, rank of the queue, ...), until one is at `until_ns` or later.

    Returns early, with counts[N_ROWS] at the first row not taken, when a ledger may be full or when a cascade has been
    closed for `keep_ns` (counts[N_NEXT_EXPIRY] is below the next row's time): the caller reads the ledgers and goes on.
    """
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
                queues[queue, Q_OLD_END], queues[queue, Q_OLD_PEAK] = queues[queue, Q_BIN_END], queues[queue, Q_BIN_PEAK]
                queues[queue, Q_BIN_PEAK] = 0
            queues[queue, Q_BIN_START], queues[queue, Q_BIN_END] = begin, rows[i, ROW_END]
            queues[queue, Q_BIN_PEAK] = max(queues[queue, Q_BIN_PEAK], rows[i, ROW_AMOUNT])
            if queues[queue, Q_ORDER] != 0:
                queues[queue, Q_STOP_PEAK] = max(queues[queue, Q_STOP_PEAK], rows[i, ROW_AMOUNT])
            devices[port_device[port], D_REPORTS] |= rows[i, ROW_ID]
            i += 1
            continue
        if row_type == BYTES:
            _take_bytes(rows[i], queues, ports, port_group)
            devices[port_device[port], D_REPORTS] |= rows[i, ROW_ID]
            i += 1
            continue
        if row_type == FLOW:
            root = -1
            slot = -1
            if queues[queue, Q_ROOT_OPEN] > 0 or queues[queue, Q_ROOT_LAST] >= begin:
                root, slot = queue * 4 + ROOT_EGRESS, queues[queue, Q_ROOT_OWNER]
            elif port_peer[port] >= 0:
                there = port_device[port_peer[port]]
                if is_host[there] and (devices[there, D_ROOT_OPEN] > 0 or devices[there, D_ROOT_LAST] >= begin):
                    root, slot = there * 4 + ROOT_HOST, devices[there, D_ROOT_OWNER]
            if slot >= 0:
                at = counts[N_FLOWS]
                flows[at, 0], flows[at, 1], flows[at, 2] = find(slots, slot), root, rows[i, ROW_ID]
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
        _take_pauses(
            rows, i, end, keep_ns, queues, roots, shares, devices, ports, slots, free, port_device, port_peer,
            port_group, port_local, port_rank, fan_start, fan_ports, feasible_start, feasible, is_host, group_start,
            group_ports, device_group, edges, closes, blames, joins, counts, stack, group, scratch_root, scratch_share,
        )  # fmt: skip
        i = end
    counts[N_ROWS] = i


@njit(cache=True)
def _take_bytes(row: Ints, queues: Ints, ports: Ints, port_group: Ints) -> None:
    """Adds a window's transmitted bytes to the port while its sibling group has an active root (0 bytes: no count)."""
    queue = row[ROW_QUEUE]
    port = queue // 8
    group = port_group[port]
    begin, end = row[ROW_START], row[ROW_END]
    if row[ROW_AMOUNT] == 0 or (ports[group, P_GROUP_OPEN] == 0 and ports[group, P_GROUP_LAST] < begin):
        return
    ports[port, P_TX_BYTES] += row[ROW_AMOUNT]
    if begin >= ports[group, P_GROUP_FIRST] and ports[group, P_GROUP_OPEN] > 0:
        ports[port, P_INSIDE_BYTES] += row[ROW_AMOUNT]
        ports[port, P_INSIDE_NS] += end - begin
    if end > ports[group, P_GROUP_BIN_END]:
        ports[group, P_GROUP_BINS_NS] += end - max(begin, ports[group, P_GROUP_BIN_END])
        ports[group, P_GROUP_BIN_END] = end
    queued = queues[queue, Q_BIN_START] == begin and queues[queue, Q_BIN_PEAK] >= MIN_QUEUED_BYTES
    stopped = queues[queue, Q_ORDER] != 0 or queues[queue, Q_B] > begin
    if queued and not stopped and 0 < end - begin <= MAX_POLL_NS:
        ports[port, P_MAX_MBPS] = max(ports[port, P_MAX_MBPS], row[ROW_AMOUNT] * 8_000 // (end - begin))
        ports[port, P_QUEUED_BINS] += 1


@njit(cache=True)
def _take_pauses(
    rows: Ints,
    first: int,
    end: int,
    keep_ns: int,
    queues: Ints,
    roots: Ints,
    shares: Floats,
    devices: Ints,
    ports: Ints,
    slots: Ints,
    free: Ints,
    port_device: Ints,
    port_peer: Ints,
    port_group: Ints,
    port_local: Ints,
    port_rank: Ints,
    fan_start: Ints,
    fan_ports: Ints,
    feasible_start: Ints,
    feasible: Bools,
    is_host: Bools,
    group_start: Ints,
    group_ports: Ints,
    device_group: Ints,
    edges: Ints,
    closes: Ints,
    blames: Ints,
    joins: Ints,
    counts: Ints,
    stack: Ints,
    group: Ints,
    scratch_root: Ints,
    scratch_share: Floats,
) -> None:
    """The pauses of one instant: ends of open ones, then openings, then ends of those that lasted no time at all."""
    time_ns = rows[first, ROW_TIME]
    for part in range(2):
        if part == 1:
            opening = 0
            for i in range(first, end):
                if rows[i, ROW_TYPE] != OPEN:
                    continue
                queue = rows[i, ROW_QUEUE]
                if queues[queue, Q_ORDER] != 0:
                    counts[N_REOPENED] += 1
                    _close(
                        queue, time_ns, time_ns - queues[queue, Q_A], 1, queues, roots, shares, devices, ports, slots,
                        port_group, group_start, group_ports, device_group, closes, blames, counts, keep_ns,
                    )  # fmt: skip
                begin, stop = queues[queue, Q_BIN_START], queues[queue, Q_BIN_END]
                holds = begin <= time_ns < stop
                queues[queue, Q_STOP_PEAK] = queues[queue, Q_BIN_PEAK] if holds else 0
                if holds:
                    near = queues[queue, Q_OLD_END] == begin
                    queues[queue, Q_STOP_BEFORE] = queues[queue, Q_OLD_PEAK] if near else 0
                else:
                    near = stop > NEVER and time_ns - stop < stop - begin
                    queues[queue, Q_STOP_BEFORE] = queues[queue, Q_BIN_PEAK] if near else 0
                queues[queue, Q_ORDER] = rows[i, ROW_ORDER]
                queues[queue, Q_A] = time_ns
                queues[queue, Q_ROOTS] = -1
                group[opening] = queue
                opening += 1
            if opening:
                before = counts[N_EDGES]
                _open_group(
                    group, opening, time_ns, queues, roots, shares, devices, ports, slots, free, port_device,
                    port_peer, port_group, port_local, port_rank, fan_start, fan_ports, feasible_start, feasible,
                    is_host, group_start, group_ports, device_group, edges, joins, counts, stack, scratch_root,
                    scratch_share,
                )  # fmt: skip
                for at in range(before, counts[N_EDGES]):
                    edges[at, 0] = find(slots, queues[edges[at, 1], Q_SLOT])
        for i in range(first, end):
            if rows[i, ROW_TYPE] != CLOSE:
                continue
            queue = rows[i, ROW_QUEUE]
            if queues[queue, Q_ORDER] != 0 and queues[queue, Q_ORDER] == rows[i, ROW_ORDER]:
                _close(
                    queue, time_ns, rows[i, ROW_AMOUNT], 0, queues, roots, shares, devices, ports, slots, port_group,
                    group_start, group_ports, device_group, closes, blames, counts, keep_ns,
                )  # fmt: skip
                rows[i, ROW_TYPE] = -1
            elif part == 1:
                counts[N_UNMATCHED] += 1


def new_state(rows: int, columns: int, **fill: Any) -> Ints:
    """A state array of zeros, with whole columns set: new_state(5, Q_COLUMNS, c2=NEVER)."""
    state = np.zeros((rows, columns), np.int64)
    for column, value in fill.items():
        state[:, int(column[1:])] = value
    return state
