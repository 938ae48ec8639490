"""What a stop cost a flow: the rate that it had while it was held up, against its own median rate before.

In: windows of bytes that flows sent by queues, and when each flow was held up. Out: rates in Mb/s and how far out of
its own past that is, in scaled median absolute deviations (robust z; Iglewicz and Hoaglin, How to Detect and Handle
Outliers, 1993). Whole numbers only, so that it replays byte-equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analytics.layout import GAP_NS, Ints
from analytics.topology import PRIORITIES, Topology
from analytics.victims import FlowRows
from stream.cascade import Damage

MIN_PAST = 3
"""Windows of the past from which on a median is that of more than one of them on either side."""
SCALE_1E4 = 14_826
"""A normal distribution's standard deviation is 1.4826 times its median absolute deviation."""
MBPS = 8_000
"""Bytes a nanosecond in Mb/s."""
MAX_DEVIATION_MILLI = 1_000_000
"""A thousand deviations; more says no more."""


def damages(
    rows: FlowRows, held: Mapping[int, tuple[int, int]], before_ns: int, topology: Topology
) -> dict[int, Damage]:
    """Of each flow that was held up from one time to another, where its past tells a median.

    A flow's past are its windows that ended in the GAP_NS up to `before_ns`, for as long as all are certain to be kept,
    and in which it sent something; they are taken at its own host if that counts them, else at the queue with the most
    of them. What it did not send while it was held up counts as nothing, so the rate then is over the whole time, from
    the first window to the last that touch it.
    """
    found: dict[int, Damage] = {}
    order = np.lexsort((rows.end_ns, rows.flow))
    flows = rows.flow[order]
    for flow, (begin_ns, end_ns) in sorted(held.items()):
        own = rows.where(order[np.searchsorted(flows, flow) : np.searchsorted(flows, flow, side="right")])
        past = (own.end_ns >= before_ns - GAP_NS) & (own.end_ns <= before_ns)
        past &= (own.end_ns > own.start_ns) & (own.sent > 0)
        if past.sum() < MIN_PAST:
            continue
        at = own.queue == _seen_at(own.queue[past], topology)
        past &= at
        if past.sum() < MIN_PAST:
            continue
        during = at & (own.end_ns > begin_ns) & (own.start_ns < end_ns) & (own.end_ns > before_ns)
        first_ns = min([begin_ns, *own.start_ns[during].tolist()])
        last_ns = max([end_ns, *own.end_ns[during].tolist()])
        found[flow] = _damage(
            own.sent[past] * MBPS // (own.end_ns - own.start_ns)[past],
            int(own.sent[during].sum()) * MBPS // max(last_ns - first_ns, 1),
        )
    return found


def _seen_at(queues: Ints, topology: Topology) -> int:
    """The queue at which a flow's past is read: by names, since numbers depend on what was read first."""
    numbers, counts = np.unique(queues, return_counts=True)
    at_host = topology.is_host[topology.port_device[numbers // PRIORITIES]]
    rank = topology.port_rank[numbers // PRIORITIES] * PRIORITIES + numbers % PRIORITIES
    return int(numbers[np.lexsort((rank, -counts, ~at_host))[0]])


def _damage(past_mbps: Ints, mbps: int) -> Damage:
    usual = _median(past_mbps)
    spread = _median(np.abs(past_mbps - usual))
    deviation = None
    if spread:
        deviation = (usual - mbps) * 10_000_000 // (SCALE_1E4 * spread)
        deviation = max(-MAX_DEVIATION_MILLI, min(deviation, MAX_DEVIATION_MILLI))
    return Damage(mbps, usual, deviation)


def _median(values: Ints) -> int:
    """The median, of an even number of values the mean of the two in the middle, rounded down."""
    ordered = np.sort(values)
    return int(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
