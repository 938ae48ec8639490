"""Blame of every pause, in one pass over rows in event time: mode 1, exact events with queue evidence.

An XOFF that device X sent on ingress q at t is caused by the egress queues P of X that hold q's bytes: weight =
feasible(q, P) * peak(P, t)^2. Where P is stopped itself, or was within the last W, the blame is that of P's own last
interval; else P is a root. If X is a host, the host is the root. (Causality per hop as in Hawkeye, SIGCOMM 2025; the
square because only the peak is known and a burst of height Q lasts Q/C.) Each egress queue keeps only its last interval
and that interval's blame, so one XOFF costs one pass over the fan-out of X.
"""

from __future__ import annotations

from analytics.activity import activate
from analytics.compiled import kernel
from analytics.layout import (
    CAUSE_MIN_SHARE,
    JOIN_SHARE,
    MAX_ROOTS,
    MEMORY_NS,
    N_EDGES,
    N_FREE,
    N_NO_LINK,
    Q_B,
    Q_BIN_END,
    Q_BIN_PEAK,
    Q_BIN_START,
    Q_ORDER,
    Q_PAUSER,
    Q_ROOTS,
    Q_SLOT,
    Q_STOP_BEFORE,
    Q_STOP_PEAK,
    ROOT_CYCLE,
    ROOT_EGRESS,
    ROOT_HOST,
    ROOT_OTHER,
    ROOT_UNKNOWN,
    S_FIRST_NS,
    S_FIRST_QUEUE,
    S_LAST_NS,
    S_OPEN,
    S_PARENT,
    Bools,
    Floats,
    Ints,
)
from analytics.membership import join, owner, rank


@kernel
def peak(queues: Ints, queue: int, time_ns: int) -> int:
    """Queue evidence at an instant: the window's high-water mark, of a stopped queue the highest since it was stopped.

    A stopped queue cannot drain: a mark of 0 says that nothing was added, so the window before its stop counts.
    """
    if queues[queue, Q_ORDER] != 0:
        peak = queues[queue, Q_STOP_PEAK]
        return peak if peak > 0 else queues[queue, Q_STOP_BEFORE]
    if queues[queue, Q_BIN_START] <= time_ns < queues[queue, Q_BIN_END]:
        return queues[queue, Q_BIN_PEAK]
    return 0


@kernel
def open_group(
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
    scratch_place: Ints,
    holders: Ints,
    weights: Floats,
) -> None:
    """Blames the pauses that opened at one instant: `group[:count]` are their queues, already marked as stopped.

    A pause of the same instant counts as a cause, so its blame is worked out first; two that cause each other are a
    cycle.
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
                holding = 0
                for j in range(fan):
                    if not feasible[row + j]:
                        continue
                    egress = fan_ports[first + j] * 8 + priority
                    height = float(peak(queues, egress, time_ns))
                    if height == 0.0:
                        continue
                    if queues[egress, Q_ROOTS] == -1 and queues[egress, Q_ORDER] != 0:
                        depth += 1
                        stack[depth] = egress
                        queues[egress, Q_ROOTS] = -2
                        pushed = True
                        break
                    holders[holding], weights[holding] = egress, height * height
                    holding += 1
                    total += height * height
                if pushed:
                    continue
                if holding == 0:
                    scratch_root[0], scratch_share[0], found = device * 4 + ROOT_UNKNOWN, 1.0, 1
                else:
                    rest = 0.0
                    for j in range(holding):
                        egress = holders[j]
                        share = weights[j] / total
                        if share < CAUSE_MIN_SHARE:
                            rest += share
                            continue
                        stopped = queues[egress, Q_ORDER] != 0 or queues[egress, Q_B] >= time_ns - MEMORY_NS
                        at = counts[N_EDGES]
                        edges[at, 0], edges[at, 1], edges[at, 2] = queue, queue, egress
                        edges[at, 3], edges[at, 4], edges[at, 5] = int(share * 1e6 + 0.5), int(stopped), peer
                        counts[N_EDGES] += 1
                        if not stopped:
                            root = egress * 4 + ROOT_EGRESS
                            found = _add(scratch_root, scratch_share, scratch_place, found, root, share)
                        elif queues[egress, Q_ROOTS] < 0:
                            found = _add(scratch_root, scratch_share, scratch_place, found, ROOT_CYCLE, share)
                        else:
                            for r in range(queues[egress, Q_ROOTS]):
                                root, part = roots[egress, r], share * shares[egress, r]
                                found = _add(scratch_root, scratch_share, scratch_place, found, root, part)
                            if share >= JOIN_SHARE:
                                target = join(slots, target, queues[egress, Q_SLOT], time_ns, port_rank, joins, counts)
                    if rest > 0.0:
                        found = _add(scratch_root, scratch_share, scratch_place, found, ROOT_OTHER, rest)
            kept = _keep_largest(scratch_root, scratch_share, found)
            queues[queue, Q_ROOTS] = kept
            for r in range(kept):
                roots[queue, r], shares[queue, r] = scratch_root[r], scratch_share[r]
                if scratch_share[r] >= JOIN_SHARE:
                    other = owner(queues, devices, scratch_root[r])
                    target = join(slots, target, other, time_ns, port_rank, joins, counts)
            if target < 0:
                counts[N_FREE] -= 1
                target = free[counts[N_FREE]]
                slots[target, S_FIRST_NS], slots[target, S_FIRST_QUEUE] = time_ns, queue
                slots[target, S_OPEN], slots[target, S_PARENT] = 0, target
            queues[queue, Q_SLOT], queues[queue, Q_PAUSER] = target, peer
            slots[target, S_OPEN] += 1
            slots[target, S_LAST_NS] = time_ns
            if (
                slots[target, S_FIRST_NS] == time_ns
                and rank(port_rank, queue) < rank(port_rank, slots[target, S_FIRST_QUEUE])
            ):  # fmt: skip
                slots[target, S_FIRST_QUEUE] = queue
            for r in range(kept):
                activate(
                    roots[queue, r], shares[queue, r], target, 1, time_ns, queues, devices, ports, port_group,
                    group_start, group_ports, device_group,
                )  # fmt: skip
            depth -= 1


@kernel
def _add(scratch_root: Ints, scratch_share: Floats, scratch_place: Ints, found: int, root: int, share: float) -> int:
    """Adds a share to a root's and returns the number of roots; `scratch_place` says where a root may stand already."""
    place = scratch_place[root]
    if place < found and scratch_root[place] == root:
        scratch_share[place] += share
        return found
    scratch_root[found], scratch_share[found], scratch_place[root] = root, share, found
    return found + 1


@kernel
def _keep_largest(scratch_root: Ints, scratch_share: Floats, found: int) -> int:
    """Moves the largest roots to the front, of equals the one met first; where there are too many, the rest is one."""
    if found <= MAX_ROOTS:
        return found
    keep = MAX_ROOTS - 1
    for i in range(keep):
        best = i
        for j in range(i + 1, found):
            if scratch_share[j] > scratch_share[best]:
                best = j
        root, share = scratch_root[best], scratch_share[best]
        for j in range(best, i, -1):
            scratch_root[j], scratch_share[j] = scratch_root[j - 1], scratch_share[j - 1]
        scratch_root[i], scratch_share[i] = root, share
    rest = 0.0
    for i in range(keep, found):
        rest += scratch_share[i]
    for i in range(keep):
        if scratch_root[i] == ROOT_OTHER:
            scratch_share[i] += rest
            return keep
    scratch_root[keep], scratch_share[keep] = ROOT_OTHER, rest
    return MAX_ROOTS
