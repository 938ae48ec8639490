"""The layout of the kernel's arrays: columns of rows, of state and of ledgers, and the constants of the method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MEMORY_NS = 20_000
"""W: a queue that may send again still causes pauses for the time that one XOFF threshold takes to drain
(160-300 KB at 100 Gb/s are 13-25 us). Halved: mean blame distance x5, doubled: x1 to x1.3 (14 and 38 NS-3 traces)."""
GAP_NS = 10_000_000
"""A cascade closes after this long without a paused member: a step of collective traffic follows the last one sooner,
and buffers of tens of megabytes have drained in it many times."""
JOIN_SHARE = 0.1
"""A pause joins the cascades of causes and roots that have at least this share of its blame: what accepts a root."""
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
# bytes at its end (BYTES, FLOW), its depth or the paused time that nobody logged at its start (DEPTH, MISSED), a pause
# when it opens or closes.
BYTES, FLOW, DEPTH, MISSED, CLOSE, OPEN = range(6)

# Columns of a row: when it takes effect; its type; queue = port * 8 + priority; start and end of its window or pause;
# bytes or paused ns; order of the pause on its queue (OPEN, CLOSE), destination device + 1 of the flow (FLOW) or paused
# ns that are known (MISSED); id for the caller (FLOW), what the device reports, a bit of REPORTS_* (BYTES, DEPTH), or
# what is known of a pause's end, bits of MARK_* (CLOSE).
ROW_TIME, ROW_TYPE, ROW_QUEUE, ROW_START, ROW_END, ROW_AMOUNT, ROW_ORDER, ROW_ID = range(8)
ROW_COLUMNS = 8
REPORTS_DEPTH, REPORTS_BYTES, REPORTS_ECN = 1, 2, 4
MARK_GUESSED, MARK_COUNTED, MARK_UNLOGGED = 1, 2, 4
"""Nobody has logged a pause's end; and yet it is known up to when the queue was stopped throughout, by counters; nor
has anybody logged its beginning, so that rows of it were lost for certain."""

# Columns of a queue's state; what a look at a queue needs comes first, so that it lies in one cache line.
(Q_ORDER, Q_A, Q_B, Q_BIN_START, Q_BIN_END, Q_BIN_PEAK, Q_ROOTS, Q_SLOT, Q_OLD_END, Q_OLD_PEAK, Q_STOP_PEAK,
 Q_STOP_BEFORE, Q_ROOT_OPEN, Q_ROOT_LAST, Q_ROOT_OWNER, Q_PAUSER) = range(16)  # fmt: skip
Q_COLUMNS = 16
# Columns of what counters say of a queue beyond the pauses known: a window, the paused time missed in it, and known.
MS_START, MS_END, MS_NS, MS_KNOWN_NS = range(4)
MS_COLUMNS = 4
# Columns of a device's state as a root, and as one whose queues gave no evidence (UNKNOWN).
D_ROOT_OPEN, D_ROOT_LAST, D_ROOT_OWNER, D_UNKNOWN_OWNER, D_REPORTS = range(5)
D_COLUMNS = 5
# Columns of a port's state; the GROUP ones belong to the sibling group that the port names. A RUN is the time in which
# the port has been sending, without a pause of GAP_NS. From P_TX_BYTES on, all begins anew with the group.
(P_GROUP_OPEN, P_GROUP_FIRST, P_GROUP_LAST, P_GROUP_BINS_NS, P_GROUP_BIN_END, P_LAST_MARK, P_RUN_BEGIN, P_RUN_END,
 P_TX_BYTES, P_STOPPED_BYTES, P_MAX_MBPS, P_QUEUED_BINS) = range(12)  # fmt: skip
P_COLUMNS = 12
# Columns of a cascade's slot.
S_FIRST_NS, S_FIRST_QUEUE, S_OPEN, S_LAST_NS, S_PARENT = range(5)
S_COLUMNS = 5

# Columns of the ledgers: what a run tells its caller, in whole ns and ppm, so that sums do not depend on their order.
L_EDGE_COLUMNS = 6  # slot, told queue, egress queue, ppm, ppm that a stop of the egress explains, ingress port
L_CLOSE_COLUMNS = 7  # slot, queue, start_ns, paused_ns, bits of MARK_*, the pauser's port (-1: unknown), end_ns
L_BLAME_COLUMNS = 4  # slot, told queue, root, pause ns
L_FLOW_COLUMNS = 4  # slot, root, row id, whether the bytes left their source (0: they passed the root)
L_JOIN_COLUMNS = 2  # slot that lives, slot that ends

# Places in the counts that a run fills.
(N_ROWS, N_EDGES, N_CLOSES, N_BLAMES, N_FLOWS, N_JOINS, N_FREE, N_NEXT_EXPIRY, N_UNMATCHED, N_REOPENED,
 N_NO_LINK) = range(11)  # fmt: skip
N_COUNTS = 11

LEDGER_PAUSES = 2048
"""Pause rows that one run takes before it returns to have its ledgers read."""
LEDGER_FLOWS = 4096
"""Rows of flows through active roots, likewise."""
CAUSE_MIN_SHARE = 0.001
"""A queue that explains less of a stop than this is not followed, its part goes to ROOT_OTHER: a twentieth of the
report's resolution. It saves most of the work on a fan-out, of which few queues are high in an incident."""

MAX_POLL_NS = 1_000_000
"""Only in windows up to this long does the highest rate of a queue's egress say what the link can carry."""
MIN_QUEUED_BYTES = 16_384
"""A queue of four 4,096-byte packets keeps its egress busy while it drains."""


class State(NamedTuple):
    """What is kept of queues (columns Q_, MS_), devices, ports and cascades (D_, P_, S_), and each queue's last blame.

    `filled` says by port word and priority which egress queues of switches may hold something: every one that does is
    in it (analytics.port_sets).
    """

    queues: Ints
    roots: Ints
    shares: Floats
    missed: Ints
    devices: Ints
    ports: Ints
    slots: Ints
    filled: Ints


class Links(NamedTuple):
    """The arrays of a Topology."""

    port_device: Ints
    port_peer: Ints
    port_group: Ints
    port_local: Ints
    port_rank: Ints
    fan_start: Ints
    fan_ports: Ints
    word_start: Ints
    port_word: Ints
    reach_start: Ints
    reach: Ints
    is_host: Bools
    group_start: Ints
    group_ports: Ints
    device_group: Ints


class Told(NamedTuple):
    """The ledgers (columns L_) and counts (N_) that a run fills."""

    edges: Ints
    closes: Ints
    blames: Ints
    flows: Ints
    joins: Ints
    counts: Ints


class Work(NamedTuple):
    """Room to work in: slots that are free, and what one pause needs."""

    free: Ints
    stack: Ints
    group: Ints
    scratch_root: Ints
    scratch_share: Floats
    scratch_place: Ints
    holders: Ints
    weights: Floats


def new_state(rows: int, columns: int, **fill: int) -> Ints:
    """A state array of zeros, with whole columns set: new_state(5, Q_COLUMNS, c2=NEVER)."""
    state = np.zeros((rows, columns), np.int64)
    for column, value in fill.items():
        state[:, int(column[1:])] = value
    return state


def new_told(pauses: int, widest: int) -> Told:
    """Ledgers for so many pause rows, each of which may meet the widest fan-out."""
    return Told(
        edges=np.zeros((pauses * widest, L_EDGE_COLUMNS), np.int64),
        closes=np.zeros((2 * pauses, L_CLOSE_COLUMNS), np.int64),
        blames=np.zeros((2 * pauses * MAX_ROOTS, L_BLAME_COLUMNS), np.int64),
        flows=np.zeros((LEDGER_FLOWS, L_FLOW_COLUMNS), np.int64),
        joins=np.zeros((pauses * (MAX_ROOTS + widest), L_JOIN_COLUMNS), np.int64),
        counts=np.zeros(N_COUNTS, np.int64),
    )


def new_work(pauses: int, widest: int, roots: int) -> Work:
    """Room for so many pauses of one instant, the widest fan-out, and so many queues and devices; no slot is free."""
    return Work(
        free=np.zeros(0, np.int64),
        stack=np.zeros(pauses + 2, np.int64),
        group=np.zeros(pauses + 2, np.int64),
        scratch_root=np.zeros(widest * MAX_ROOTS, np.int64),
        scratch_share=np.zeros(widest * MAX_ROOTS),
        scratch_place=np.zeros(4 * max(roots, 2), np.int64),
        holders=np.zeros(widest, np.int64),
        weights=np.zeros(widest),
    )
