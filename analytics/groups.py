"""Carries what is counted of sibling groups over to a new topology, whose groups may be others.

A group of the same ports keeps its counts, whatever its number is now; any other begins anew.
"""

from __future__ import annotations

import numpy as np

from analytics.layout import (
    ACTIVE_SHARE,
    NEVER,
    P_GROUP_BIN_END,
    P_GROUP_BINS_NS,
    P_GROUP_FIRST,
    P_GROUP_LAST,
    P_GROUP_OPEN,
    P_TX_BYTES,
    Q_ORDER,
    Q_ROOTS,
    ROOT_EGRESS,
    ROOT_HOST,
    Floats,
    Ints,
)
from analytics.topology import PRIORITIES, Topology

_GROUP = [P_GROUP_OPEN, P_GROUP_FIRST, P_GROUP_LAST, P_GROUP_BINS_NS, P_GROUP_BIN_END]


def carry_groups(
    ports: Ints, before: Ints, topology: Topology, queues: Ints, roots: Ints, shares: Floats, now_ns: int
) -> None:
    """Changes the state of ports from the groups in `before` (of each port known then) to those of the topology."""
    after, known = topology.port_group, len(before)
    if np.array_equal(after[:known], before) and np.array_equal(after[known:], np.arange(known, len(after))):
        return
    old = ports.copy()
    was, now = _members(before), _members(after)
    for group, members in now.items():
        former = int(before[members[0]]) if members[0] < known else -1
        if was.get(former) == members:
            ports[group, _GROUP] = old[former, _GROUP]
        else:
            ports[group, _GROUP] = 0, now_ns, NEVER, 0, NEVER
            ports[members, P_TX_BYTES:] = 0
    ports[:, P_GROUP_OPEN] = 0
    for queue in np.flatnonzero(queues[:, Q_ORDER]).tolist():
        for number in range(queues[queue, Q_ROOTS]):
            group = _group_of(int(roots[queue, number]), topology)
            if group >= 0 and shares[queue, number] >= ACTIVE_SHARE:
                ports[group, P_GROUP_OPEN] += 1
    active = ports[:, P_GROUP_OPEN] > 0
    ports[active, P_GROUP_LAST] = np.maximum(ports[active, P_GROUP_LAST], ports[active, P_GROUP_FIRST])


def _members(groups: Ints) -> dict[int, list[int]]:
    members: dict[int, list[int]] = {}
    for port, group in enumerate(groups.tolist()):
        members.setdefault(group, []).append(port)
    return members


def _group_of(root: int, topology: Topology) -> int:
    if root & 3 == ROOT_EGRESS:
        return int(topology.port_group[(root >> 2) // PRIORITIES])
    return int(topology.device_group[root >> 2]) if root & 3 == ROOT_HOST else -1
