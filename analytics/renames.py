"""Carries state over when a fact lets names mean other ports than before: pauses may be open just then.

Without it a pause that opened under one name would never end, and its cascade never close.
"""

from __future__ import annotations

import numpy as np

from analytics import layout
from analytics.layout import (
    D_REPORTS,
    Q_A,
    Q_ORDER,
    Q_ROOTS,
    Q_SLOT,
    Q_STOP_BEFORE,
    Q_STOP_PEAK,
    ROW_AMOUNT,
    ROW_END,
    ROW_ORDER,
    ROW_QUEUE,
    ROW_START,
    ROW_TIME,
    ROW_TYPE,
    Floats,
    Ints,
)
from analytics.topology import PRIORITIES, Topology

_PAUSE = [Q_ORDER, Q_A, Q_STOP_PEAK, Q_STOP_BEFORE, Q_SLOT, Q_ROOTS]


def carry_names(
    topology: Topology, rows: Ints, queues: Ints, roots: Ints, shares: Floats, devices: Ints, now_ns: int
) -> Ints:
    """Moves rows that wait and open pauses to the ports that their names now mean; returns rows to add.

    Where a pause is open under both names, the one under the former name ends now.
    """
    meant = np.arange(len(topology.ports))
    meant[list(topology.moved_ports)] = list(topology.moved_ports.values())
    queue = rows[:, ROW_QUEUE]
    rows[:, ROW_QUEUE] = meant[queue // PRIORITIES] * PRIORITIES + queue % PRIORITIES
    former = (np.array(list(topology.moved_ports))[:, None] * PRIORITIES + np.arange(PRIORITIES)).ravel()
    ends = []
    for old in np.sort(former[queues[former, Q_ORDER] != 0]).tolist():
        new = int(meant[old // PRIORITIES]) * PRIORITIES + old % PRIORITIES
        if queues[new, Q_ORDER] == 0:
            queues[new, _PAUSE], roots[new], shares[new] = queues[old, _PAUSE], roots[old], shares[old]
            queues[old, Q_ORDER] = 0
        else:
            end = np.zeros(layout.ROW_COLUMNS, np.int64)
            end[[ROW_TIME, ROW_END]], end[ROW_TYPE], end[ROW_QUEUE] = now_ns, layout.CLOSE, old
            end[ROW_START], end[ROW_AMOUNT] = queues[old, Q_A], max(0, now_ns - queues[old, Q_A])
            end[ROW_ORDER] = queues[old, Q_ORDER]
            ends.append(end)
    for device, other in topology.moved_devices.items():
        devices[other, D_REPORTS] |= devices[device, D_REPORTS]
    return np.array(ends, np.int64).reshape(-1, layout.ROW_COLUMNS)
