"""Blame of every pause, in one pass over rows in event time: mode 1, exact events with queue evidence.

An XOFF that device X sent on ingress q at t is caused by the egress queues P of X that hold q's bytes: weight =
feasible(q, P) * peak(P, t)^2. Where P is stopped itself, or was within the last W, the blame is that of P's own last
interval; else P is a root. If X is a host, the host is the root. (Causality per hop as in Hawkeye, SIGCOMM 2025; the
square because only the peak is known and a burst of height Q lasts Q/C.) Of a device that tells of no queue those that
are stopped, or just were, count alike; a queue that counters say was stopped unseen passes its blame on in part. Each
egress queue keeps only its last interval and that interval's blame, so one XOFF costs one pass over the fan-out of X.
"""

from __future__ import annotations

from analytics.activity import activate
from analytics.compiled import index, inlined, kernel
from analytics.layout import (
    CAUSE_MIN_SHARE,
    D_REPORTS,
    JOIN_SHARE,
    MAX_ROOTS,
    MEMORY_NS,
    MS_END,
    MS_KNOWN_NS,
    MS_NS,
    MS_START,
    N_EDGES,
    N_FREE,
    N_NO_LINK,
    Q_B,
    Q_BIN_END,
    Q_BIN_PEAK,
    Q_BIN_START,
    Q_ORDER,
    Q_PAUSER,
    Q_ROOT_OPEN,
    Q_ROOT_OWNER,
    Q_ROOTS,
    Q_SLOT,
    Q_STOP_BEFORE,
    Q_STOP_PEAK,
    REPORTS_DEPTH,
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
    Floats,
    Ints,
    Links,
    State,
    Told,
    Work,
)
from analytics.membership import join, owner, rank
from analytics.port_sets import WORD_BITS, number_of

MAX_RING = 16
"""Cascades that one ring may run through; each has at least a hop of its own, and no path of a fabric is so long."""


@kernel
def peak(queues: Ints, queue: int, time_ns: int) -> int:
    """Queue evidence at an instant: the window's high-water mark, of a stopped queue the highest since it was stopped.

    A stopped queue cannot drain: a mark of 0 says that nothing was added, so the window before its stop counts.
    """
    at = index(queue)
    if queues[at, Q_ORDER] != 0:
        peak = queues[at, Q_STOP_PEAK]
        return peak if peak > 0 else queues[at, Q_STOP_BEFORE]
    if queues[at, Q_BIN_START] <= time_ns < queues[at, Q_BIN_END]:
        return queues[at, Q_BIN_PEAK]
    return 0


@kernel
def fill(queue: int, filled: Ints, port_word: Ints, port_local: Ints) -> None:
    """Puts a queue among those that may hold something."""
    port = queue // 8
    if port_word[port] >= 0:
        filled[port_word[port] * 8 + queue % 8] |= 1 << port_local[port] % WORD_BITS


@inlined
def open_group(count: int, time_ns: int, state: State, links: Links, told: Told, work: Work) -> None:
    """Blames the pauses that opened at one instant: `work.group[:count]` are their queues, already marked as stopped.

    A pause of the same instant counts as a cause, so its blame is worked out first; two that cause each other are a
    cycle.
    """
    queues, roots, shares, slots = state.queues, state.roots, state.shares, state.slots
    port_device, port_peer, fan_start, fan_ports = links.port_device, links.port_peer, links.fan_start, links.fan_ports
    devices, missed = state.devices, state.missed
    port_local, is_host, filled = links.port_local, links.is_host, state.filled
    word_start, reach_start, reach = links.word_start, links.reach_start, links.reach
    edges, counts = told.edges, told.counts
    group, stack, holders, weights = work.group, work.stack, work.holders, work.weights
    scratch_root, scratch_share, scratch_place = work.scratch_root, work.scratch_share, work.scratch_place
    for member in range(count):
        if queues[group[member], Q_ROOTS] >= 0:
            continue
        depth = 0
        stack[0] = group[member]
        queues[group[member], Q_ROOTS] = -2
        while depth >= 0:
            queue = stack[depth]
            here = index(queue)
            priority = queue % 8
            peer = port_peer[queue // 8]
            device = -1
            if peer >= 0:
                device = port_device[peer]
            pushed = False
            first_edge = edge = counts[N_EDGES]
            found = 0
            target = -1
            if device < 0:
                counts[N_NO_LINK] += 1
                scratch_root[0], scratch_share[0], found = port_device[queue // 8] * 4 + ROOT_UNKNOWN, 1.0, 1
            elif is_host[device]:
                scratch_root[0], scratch_share[0], found = device * 4 + ROOT_HOST, 1.0, 1
            else:
                first_word, words = word_start[device], word_start[device + 1] - word_start[device]
                own = reach_start[device] + port_local[peer] * words
                total = 0.0
                holding = 0
                for look in range(2):
                    # Where nobody tells of the device's queues, those that are or were just stopped surely hold some.
                    if look == 1 and (pushed or holding or devices[device, D_REPORTS] & REPORTS_DEPTH):
                        break
                    for word in range(words):
                        place = (first_word + word) * 8 + priority
                        left = reach[own + word]
                        if look == 0:
                            left &= filled[place]
                        while left:
                            bit = left & -left
                            left ^= bit
                            local = index(fan_start[device] + word * WORD_BITS + number_of(bit))
                            egress = fan_ports[local] * 8 + priority
                            at = index(egress)
                            height = 1.0
                            if look == 0:
                                height = float(peak(queues, egress, time_ns))
                                if height == 0.0:
                                    # Nothing but a row or a stop can fill it, and both put it in again.
                                    filled[place] ^= bit
                                    continue
                            elif queues[at, Q_ORDER] == 0 and queues[at, Q_B] < time_ns - MEMORY_NS:
                                continue
                            if queues[at, Q_ROOTS] == -1 and queues[at, Q_ORDER] != 0:
                                depth += 1
                                stack[depth] = egress
                                queues[at, Q_ROOTS] = -2
                                pushed = True
                                break
                            holders[index(holding)], weights[index(holding)] = egress, height * height
                            holding += 1
                            total += height * height
                        if pushed:
                            break
                if pushed:
                    continue
                if holding == 0:
                    scratch_root[0], scratch_share[0], found = device * 4 + ROOT_UNKNOWN, 1.0, 1
                else:
                    rest = 0.0
                    mixed = False
                    for j in range(holding):
                        weights[j] /= total
                    for j in range(holding):
                        egress, share = holders[j], weights[j]
                        at = index(egress)
                        if share < CAUSE_MIN_SHARE:
                            rest += share
                            continue
                        stopped = queues[at, Q_ORDER] != 0 or queues[at, Q_B] >= time_ns - MEMORY_NS
                        passed = 1.0 if stopped else 0.0
                        # What a stop passes on to is the blame of the queue's last pause, so that one is needed.
                        once = not stopped and queues[at, Q_ROOTS] > 0
                        if once and missed[at, MS_START] <= time_ns < missed[at, MS_END]:
                            passed = _missed_share(missed, egress)
                        row = index(edge)
                        edges[row, 1], edges[row, 2] = queue, egress
                        edges[row, 3], edges[row, 4] = int(share * 1e6 + 0.5), 0
                        edges[row, 5] = peer
                        edge += 1
                        if passed == 0.0 and not mixed:
                            # Nothing is known of the roots of others so far, so that this one is new.
                            fresh = index(found)
                            scratch_root[fresh], scratch_share[fresh] = egress * 4 + ROOT_EGRESS, share
                            found += 1
                            continue
                        if not mixed:
                            mixed = True
                            for r in range(found):
                                scratch_place[scratch_root[r]] = r
                        edges[row, 4] = int(share * passed * 1e6 + 0.5)
                        if passed < 1.0:
                            root = egress * 4 + ROOT_EGRESS
                            found = _add(
                                scratch_root, scratch_share, scratch_place, found, root, share * (1.0 - passed)
                            )
                        if passed == 0.0:
                            continue
                        share *= passed
                        if queues[at, Q_ROOTS] < 0:
                            found = _add(scratch_root, scratch_share, scratch_place, found, ROOT_CYCLE, share)
                        else:
                            for r in range(queues[at, Q_ROOTS]):
                                root, part = roots[at, r], share * shares[at, r]
                                found = _add(scratch_root, scratch_share, scratch_place, found, root, part)
                            if share >= JOIN_SHARE:
                                target = join(state, target, queues[at, Q_SLOT], time_ns, links, told)
                    if rest > 0.0:
                        found = _add(scratch_root, scratch_share, scratch_place, found, ROOT_OTHER, rest)
            kept = _keep_largest(scratch_root, scratch_share, found)
            queues[here, Q_ROOTS] = kept
            for r in range(kept):
                roots[here, r], shares[here, r] = scratch_root[r], scratch_share[r]
                if scratch_share[r] >= JOIN_SHARE:
                    other = owner(state, scratch_root[r])
                    if other != target:
                        target = join(state, target, other, time_ns, links, told)
            if queues[here, Q_ROOT_OPEN] > 0:
                # What others were stopped for is stopped now. Where its causes come back to it, those cascades are one.
                for r in range(kept):
                    if scratch_share[r] >= JOIN_SHARE and _comes_back(state, scratch_root[r], queue):
                        target = join(state, target, queues[here, Q_ROOT_OWNER], time_ns, links, told)
                        cause = scratch_root[r] >> 2
                        while cause != queue:
                            target = join(state, target, queues[cause, Q_SLOT], time_ns, links, told)
                            cause = _stopped_for(state, cause)
            if target < 0:
                counts[N_FREE] -= 1
                target = work.free[counts[N_FREE]]
                slots[target, S_FIRST_NS], slots[target, S_FIRST_QUEUE] = time_ns, queue
                slots[target, S_OPEN], slots[target, S_PARENT] = 0, target
            queues[here, Q_SLOT], queues[here, Q_PAUSER] = target, peer
            for written in range(first_edge, edge):
                edges[index(written), 0] = target
            counts[N_EDGES] = edge
            slots[target, S_OPEN] += 1
            slots[target, S_LAST_NS] = time_ns
            if (
                slots[target, S_FIRST_NS] == time_ns
                and rank(links.port_rank, queue) < rank(links.port_rank, slots[target, S_FIRST_QUEUE])
            ):  # fmt: skip
                slots[target, S_FIRST_QUEUE] = queue
            for r in range(kept):
                activate(roots[here, r], shares[here, r], target, 1, time_ns, state, links)
            depth -= 1


@kernel
def _stopped_for(state: State, queue: int) -> int:
    """The queue to which most of the blame goes of the stop of a queue that is stopped now, -1 if there is none."""
    queues, roots, shares = state.queues, state.roots, state.shares
    most = -1
    if queues[queue, Q_ORDER] != 0:
        for r in range(queues[queue, Q_ROOTS]):
            if most < 0 or shares[queue, r] > shares[queue, most]:
                most = r
    if most < 0 or roots[queue, most] & 3 != ROOT_EGRESS or shares[queue, most] < JOIN_SHARE:
        return -1
    return roots[queue, most] >> 2


@kernel
def _comes_back(state: State, root: int, queue: int) -> bool:
    """Whether a root is stopped itself, and the root of that stop, and so on, and this leads to a queue: a ring.

    Each root is where a cascade began before it was stopped, so that no cascade alone shows the ring: a circular wait
    (Coffman 1971) in which some stop comes before its cause is stopped too.
    """
    if root & 3 != ROOT_EGRESS:
        return False
    cause = root >> 2
    for _ in range(MAX_RING):
        if cause < 0 or cause == queue:
            break
        cause = _stopped_for(state, cause)
    return cause == queue


@kernel
def _missed_share(missed: Ints, egress: int) -> float:
    """How likely a queue was stopped at an instant of a window in which counters say so of more time than is known.

    A stop is remembered for MEMORY_NS; it lay anywhere in what is left of the window.
    """
    left_ns = missed[egress, MS_END] - missed[egress, MS_START] - missed[egress, MS_KNOWN_NS]
    if left_ns <= 0:
        return 1.0
    return min(1.0, (missed[egress, MS_NS] + MEMORY_NS) / left_ns)


@kernel
def _add(scratch_root: Ints, scratch_share: Floats, scratch_place: Ints, found: int, root: int, share: float) -> int:
    """Adds a share to a root's and returns the number of roots; `scratch_place` says where a root may stand already."""
    place = scratch_place[root]
    if place < found and scratch_root[place] == root:
        scratch_share[place] += share
        return found
    scratch_root[found], scratch_share[found], scratch_place[root] = root, share, found
    return found + 1


@inlined
def _keep_largest(scratch_root: Ints, scratch_share: Floats, found: int) -> int:
    """Moves the largest roots to the front, of equals the one met first; where there are too many, the rest is one."""
    if found <= MAX_ROOTS:
        return found
    last = MAX_ROOTS - 2
    rest = 0.0
    for i in range(found):
        root, share = scratch_root[i], scratch_share[i]
        place = i
        if i > last:
            if share <= scratch_share[last]:
                rest += share
                continue
            rest += scratch_share[last]
            place = last
        while place > 0 and scratch_share[index(place - 1)] < share:
            above = index(place - 1)
            scratch_root[index(place)], scratch_share[index(place)] = scratch_root[above], scratch_share[above]
            place -= 1
        scratch_root[index(place)], scratch_share[index(place)] = root, share
    for i in range(last + 1):
        if scratch_root[i] == ROOT_OTHER:
            scratch_share[i] += rest
            return last + 1
    scratch_root[last + 1], scratch_share[last + 1] = ROOT_OTHER, rest
    return MAX_ROOTS
