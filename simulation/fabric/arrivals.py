"""Kernels of what comes in at a node: bytes that reach their host, acknowledgements, and packets that go on.

In and out: the arrays of layout.py.
"""

from __future__ import annotations

from simulation.fabric.buffers import admit, append, free_slab, is_paused, take_slab
from simulation.fabric.compiled import Floats, Ints, Smalls, inner
from simulation.fabric.layout import (
    ACK_BYTES,
    ACK_OFFSET,
    BUSY,
    FLOW_ACKS_OUT,
    FLOW_BASE_NS,
    FLOW_CNP_NS,
    FLOW_DELIVERED,
    FLOW_DONE,
    FLOW_GATED,
    FLOW_IS_LISTED,
    FLOW_IS_WAITED,
    FLOW_LEFT,
    FLOW_PACKET,
    FLOW_QUEUE,
    FLOW_SENT,
    FLOW_TOTAL,
    HAS_DCQCN,
    IN_DROPPED,
    IN_ERROR_PPM,
    IN_FLIGHT,
    IN_IS_SINK,
    IN_RX_BYTES,
    NODE_ACTIVE,
    NODE_IS_BUSY,
    NODE_OFFSET,
    NOW,
    OUT_FLOWS,
    OUT_IS_ACTIVE,
    OUT_NODE,
    OUT_PLACE,
    OUT_TURN,
    PRIORITIES,
    RANDOM,
    RARE_FLOW_OFFSET,
    RARE_LOST_BYTES,
    RARE_LOST_PACKETS,
    RARE_RX_MARKED,
    SLAB_BYTES,
    SLAB_FLOW,
    SLAB_HOP,
    SLAB_MARKED,
    SLAB_NEXT,
    TICK_NS,
    WAITING,
)  # fmt: skip
from simulation.fabric.pacing import catch_up, notify

RANDOM_FACTOR = 48_271
RANDOM_PRIME = 2_147_483_647


@inner
def draw_ppm(state: Ints) -> int:
    """A number from 0 to 999,999 (Park and Miller 1988, with the factor of 1993)."""
    state[RANDOM] = state[RANDOM] * RANDOM_FACTOR % RANDOM_PRIME
    return state[RANDOM] * 1_000_000 // RANDOM_PRIME


@inner
def activate(queue: int, out: Ints, node: Ints, active: Ints, busy: Ints, state: Ints) -> None:
    """Puts the queue's link on its node's list of links that are served."""
    link = queue - queue % state[PRIORITIES]
    if out[link, OUT_IS_ACTIVE]:
        return
    out[link, OUT_IS_ACTIVE] = 1
    n = out[link, OUT_NODE]
    active[node[n, NODE_OFFSET] + node[n, NODE_ACTIVE]] = link
    node[n, NODE_ACTIVE] += 1
    if not node[n, NODE_IS_BUSY]:
        node[n, NODE_IS_BUSY] = 1
        busy[state[BUSY]] = n
        state[BUSY] += 1


@inner
def list_sender(f: int, flow: Ints, out: Ints, rare: Ints, senders: Ints) -> None:
    """Puts the flow on its source's list of those that have something to send."""
    if flow[f, FLOW_IS_LISTED]:
        return
    queue = flow[f, FLOW_QUEUE]
    senders[rare[queue, RARE_FLOW_OFFSET] + out[queue, OUT_FLOWS]] = f
    out[queue, OUT_FLOWS] += 1
    flow[f, FLOW_IS_LISTED] = 1


@inner
def unlist_sender(f: int, place: int, flow: Ints, out: Ints, rare: Ints, senders: Ints) -> None:
    """Takes the flow off that list; the last one moves to its place."""
    queue = flow[f, FLOW_QUEUE]
    offset = rare[queue, RARE_FLOW_OFFSET]
    out[queue, OUT_FLOWS] -= 1
    senders[offset + place] = senders[offset + out[queue, OUT_FLOWS]]
    flow[f, FLOW_IS_LISTED] = 0
    if out[queue, OUT_TURN] >= out[queue, OUT_FLOWS]:
        out[queue, OUT_TURN] = 0


@inner
def finish_if_done(f: int, flow: Ints, state: Ints) -> None:
    """Ends a flow that has delivered all and, where there are acknowledgements, has them all back."""
    if flow[f, FLOW_DELIVERED] >= flow[f, FLOW_TOTAL] and flow[f, FLOW_ACKS_OUT] == 0 and flow[f, FLOW_DONE] < 0:
        flow[f, FLOW_DONE] = state[NOW]
        state[WAITING] -= flow[f, FLOW_IS_WAITED]


@inner
def send_again(
    f: int, count: int, flow: Ints, out: Ints, rare: Ints, senders: Ints, node: Ints, active: Ints, busy: Ints,
    state: Ints,
) -> None:  # fmt: skip
    """Bytes of a flow that were lost go back to its source, which learns of it at once."""
    if state[ACK_OFFSET] and f >= state[ACK_OFFSET]:
        data = f - state[ACK_OFFSET]
        flow[data, FLOW_ACKS_OUT] -= count
        finish_if_done(data, flow, state)
        return
    flow[f, FLOW_LEFT] += count
    flow[f, FLOW_SENT] -= count
    list_sender(f, flow, out, rare, senders)
    if not is_paused(flow[f, FLOW_QUEUE], out):
        activate(flow[f, FLOW_QUEUE], out, node, active, busy, state)


@inner
def deliver(
    s: int, slab: Smalls, flow: Ints, pace: Floats, path: Smalls, out: Ints, node: Ints, active: Ints, busy: Ints,
    state: Ints,
) -> None:  # fmt: skip
    """A slab has reached its host: counts it, and sends an acknowledgement or a notification."""
    f, count, marked = slab[s, SLAB_FLOW], slab[s, SLAB_BYTES], slab[s, SLAB_MARKED]
    offset = state[ACK_OFFSET]
    free_slab(s, slab, state)
    if offset and f >= offset:
        data = f - offset
        flow[data, FLOW_ACKS_OUT] -= count
        if marked and state[HAS_DCQCN]:
            catch_up(flow[data], pace[data], state[NOW], state)
            notify(flow[data], pace[data], state[NOW] * state[TICK_NS], state)
        finish_if_done(data, flow, state)
        return
    flow[f, FLOW_DELIVERED] += count
    if offset:
        new = take_slab(slab, state)
        packets = -(-count // flow[f, FLOW_PACKET])
        slab[new, SLAB_FLOW] = f + offset
        slab[new, SLAB_BYTES] = packets * state[ACK_BYTES]
        slab[new, SLAB_MARKED] = marked
        slab[new, SLAB_HOP] = 0
        flow[f, FLOW_ACKS_OUT] += packets * state[ACK_BYTES]
        queue = path[f + offset, 0]
        append(new, queue, state[ACK_BYTES], out, slab, state)
        if not is_paused(queue, out):
            activate(queue, out, node, active, busy, state)
    elif marked and state[HAS_DCQCN] and not flow[f, FLOW_CNP_NS]:
        flow[f, FLOW_CNP_NS] = state[NOW] * state[TICK_NS] + flow[f, FLOW_BASE_NS]
    finish_if_done(f, flow, state)
    gated = flow[f, FLOW_GATED]
    if gated >= 0 and flow[gated, FLOW_IS_LISTED] and not is_paused(flow[gated, FLOW_QUEUE], out):
        activate(flow[gated, FLOW_QUEUE], out, node, active, busy, state)


@inner
def lose(s: int, queue: int, packet: int, into: Ints, rare: Ints, slab: Smalls, state: Ints) -> int:
    """Takes packets out of a slab that errors on the link destroyed; gives the bytes lost."""
    count = slab[s, SLAB_BYTES]
    packets = -(-count // packet)
    lost = 0
    for _ in range(packets):
        lost += draw_ppm(state) < into[queue, IN_ERROR_PPM]
    if not lost:
        return 0
    gone = min(lost * packet, count)
    slab[s, SLAB_BYTES] -= gone
    slab[s, SLAB_MARKED] = min(slab[s, SLAB_MARKED], packets - lost)
    rare[queue, RARE_LOST_PACKETS] += lost
    rare[queue, RARE_LOST_BYTES] += gone
    return gone


@inner
def arrive(
    first: int, out: Ints, into: Ints, rare: Ints, node: Ints, slab: Smalls, flow: Ints, pace: Floats, path: Smalls,
    held: Smalls, edges: Ints, egresses: Ints, active: Ints, senders: Ints, busy: Ints, frames: Smalls, parts: Ints,
    wheel: Ints, timer: Ints, state: Ints,
) -> None:  # fmt: skip
    """All slabs that reach a node in this tick, in the order in which they were sent."""
    s = first
    while s >= 0:
        following = slab[s, SLAB_NEXT]
        slab[s, SLAB_NEXT] = -1
        state[IN_FLIGHT] -= 1
        f, hop = slab[s, SLAB_FLOW], slab[s, SLAB_HOP]
        queue = path[f, hop]
        packet = flow[f, FLOW_PACKET]
        if into[queue, IN_ERROR_PPM]:
            gone = lose(s, queue, packet, into, rare, slab, state)
            if gone:
                send_again(f, gone, flow, out, rare, senders, node, active, busy, state)
            if slab[s, SLAB_BYTES] == 0:
                free_slab(s, slab, state)
                s = following
                continue
        into[queue, IN_RX_BYTES] += slab[s, SLAB_BYTES]
        if not (state[ACK_OFFSET] and f >= state[ACK_OFFSET]):
            rare[queue, RARE_RX_MARKED] += slab[s, SLAB_MARKED]
        if into[queue, IN_IS_SINK]:
            deliver(s, slab, flow, pace, path, out, node, active, busy, state)
            s = following
            continue
        onward = path[f, hop + 1]
        dropped = admit(
            queue, out[onward, OUT_PLACE], slab[s, SLAB_BYTES], packet, out, into, rare, node, held, edges, parts,
            egresses, frames, wheel, timer, state,
        )  # fmt: skip
        if dropped:
            into[queue, IN_DROPPED] += dropped
            slab[s, SLAB_BYTES] -= dropped
            slab[s, SLAB_MARKED] = min(slab[s, SLAB_MARKED], -(-slab[s, SLAB_BYTES] // packet))
            send_again(f, dropped, flow, out, rare, senders, node, active, busy, state)
        if slab[s, SLAB_BYTES] == 0:
            free_slab(s, slab, state)
        else:
            slab[s, SLAB_HOP] = hop + 1
            append(s, onward, packet, out, slab, state)
            if not is_paused(onward, out):
                activate(onward, out, node, active, busy, state)
        s = following
