"""Kernels of what leaves a node: queues and sources are served with the credit of their link, and packets marked.

In and out: the arrays of layout.py.
"""

from __future__ import annotations

from simulation.fabric.arrivals import draw_ppm, unlist_sender
from simulation.fabric.buffers import free_slab, is_alike, is_paused, release, set_timer, take_slab
from simulation.fabric.compiled import Floats, Ints, Smalls, inner
from simulation.fabric.layout import (
    ACK_OFFSET,
    FLOW_DELIVERED,
    FLOW_GATE,
    FLOW_LEFT,
    FLOW_PACKET,
    FLOW_SENT,
    FLOW_WINDOW,
    HAS_DCQCN,
    IN_DELAY,
    IN_FLIGHT,
    IN_NODE,
    IN_TX_MARKED,
    LINE_RATE,
    MARK_PPM,
    MAX_SLAB_BYTES,
    MOVES,
    NODE_ACTIVE,
    NODE_OFFSET,
    NOW,
    OUT_BYTES,
    OUT_CREDIT,
    OUT_FLOWS,
    OUT_HEAD,
    OUT_IS_ACTIVE,
    OUT_IS_SOURCE,
    OUT_KMAX,
    OUT_KMIN,
    OUT_PLACE,
    OUT_RATE,
    OUT_TAIL,
    OUT_TURN,
    OUT_TX_BYTES,
    PACE_RATE,
    PACE_TOKENS,
    PACKET_CREDIT,
    PRIORITIES,
    RARE_FLOW_OFFSET,
    RARE_NEXT,
    SLAB_BYTES,
    SLAB_FLOW,
    SLAB_HOP,
    SLAB_MARKED,
    SLAB_NEXT,
    WAKE,
)  # fmt: skip
from simulation.fabric.pacing import catch_up, refill

LONGEST_SLEEP = 200
"""Ticks after which a source that waits for tokens is looked at in any case."""


@inner
def put_on_link(
    s: int, queue: int, packet: int, out: Ints, into: Ints, slab: Smalls, arriving: Smalls, at_node: Smalls,
    state: Ints,
) -> None:  # fmt: skip
    """Sends a slab on its way."""
    out[queue, OUT_TX_BYTES] += slab[s, SLAB_BYTES]
    n = into[queue, IN_NODE]
    slot = (state[NOW] + into[queue, IN_DELAY]) % arriving.shape[0]
    slab[s, SLAB_NEXT] = -1
    tail = arriving[slot, n, 1]
    state[MOVES] += 1
    if tail < 0:
        arriving[slot, n, 0] = s
        arriving[slot, n, 1] = s
        at_node[slot, 0] += 1
        at_node[slot, at_node[slot, 0]] = n
    elif is_alike(tail, s, packet, slab):
        slab[tail, SLAB_BYTES] += slab[s, SLAB_BYTES]
        slab[tail, SLAB_MARKED] += slab[s, SLAB_MARKED]
        free_slab(s, slab, state)
        return
    else:
        slab[tail, SLAB_NEXT] = s
        arriving[slot, n, 1] = s
    state[IN_FLIGHT] += 1


@inner
def marks(queue: int, depth: int, packets: int, packet: int, out: Ints, state: Ints) -> int:
    """How many of the packets that leave get CE; `depth` is that of the queue behind the first of them."""
    kmin, kmax = out[queue, OUT_KMIN], out[queue, OUT_KMAX]
    if kmax == 0:
        return 0
    found = 0
    for _ in range(packets):
        if depth <= kmin:
            return found
        if depth >= kmax or draw_ppm(state) * (kmax - kmin) < state[MARK_PPM] * (depth - kmin):
            found += 1
        depth -= packet
    return found


@inner
def serve_queue(
    queue: int, credit: int, out: Ints, into: Ints, node: Ints, slab: Smalls, flow: Ints, path: Smalls, held: Smalls,
    frames: Smalls, arriving: Smalls, at_node: Smalls, state: Ints,
) -> int:  # fmt: skip
    """Sends whole packets of an egress queue while the credit lasts; gives the credit that is left."""
    while out[queue, OUT_HEAD] >= 0:
        s = out[queue, OUT_HEAD]
        f, count = slab[s, SLAB_FLOW], slab[s, SLAB_BYTES]
        packet = flow[f, FLOW_PACKET]
        sendable = credit // 1000
        if count > sendable:
            count = sendable // packet * packet
            if count == 0:
                return credit
        credit -= count * 1000
        packets = -(-count // packet)
        out[queue, OUT_BYTES] -= count
        if count == slab[s, SLAB_BYTES]:
            out[queue, OUT_HEAD] = slab[s, SLAB_NEXT]
            if out[queue, OUT_HEAD] < 0:
                out[queue, OUT_TAIL] = -1
            leaving = s
        else:
            leaving = take_slab(slab, state)
            first = min(slab[s, SLAB_MARKED], packets)
            slab[leaving, SLAB_FLOW] = f
            slab[leaving, SLAB_BYTES] = count
            slab[leaving, SLAB_MARKED] = first
            slab[leaving, SLAB_HOP] = slab[s, SLAB_HOP]
            slab[s, SLAB_BYTES] -= count
            slab[s, SLAB_MARKED] -= first
        if not (state[ACK_OFFSET] and f >= state[ACK_OFFSET]):
            new = marks(queue, out[queue, OUT_BYTES] + count - min(packet, count), packets, packet, out, state)
            # Which of them were marked before is not known: the new marks fall on the others first.
            slab[leaving, SLAB_MARKED] = min(slab[leaving, SLAB_MARKED] + new, packets)
            into[queue, IN_TX_MARKED] += slab[leaving, SLAB_MARKED]
        hop = slab[leaving, SLAB_HOP]
        if hop > 0:
            release(path[f, hop - 1], out[queue, OUT_PLACE], count, into, node, held, frames, state)
        put_on_link(leaving, queue, packet, out, into, slab, arriving, at_node, state)
    return credit


@inner
def may_send(f: int, flow: Ints) -> bool:
    """Whether the flow that this one follows has delivered enough."""
    gate = flow[f, FLOW_GATE]
    return gate < 0 or flow[f, FLOW_SENT] < flow[gate, FLOW_DELIVERED] + flow[f, FLOW_WINDOW]


@inner
def serve_source(
    queue: int, credit: int, out: Ints, into: Ints, rare: Ints, slab: Smalls, flow: Ints, pace: Floats, senders: Ints,
    arriving: Smalls, at_node: Smalls, wheel: Ints, timer: Ints, state: Ints,
) -> int:  # fmt: skip
    """Sends new packets of the source's flows in turn; gives the credit left, or -1 - credit if all of them wait."""
    offset = rare[queue, RARE_FLOW_OFFSET]
    waiting = 0
    wake = state[NOW] + LONGEST_SLEEP
    while out[queue, OUT_FLOWS] > 0:
        if waiting >= out[queue, OUT_FLOWS]:
            link = queue - queue % state[PRIORITIES]
            set_timer(WAKE, link, max(wake, state[NOW] + 1), wheel, timer, state)
            return -1 - credit
        place = out[queue, OUT_TURN]
        f = senders[offset + place]
        packet = min(flow[f, FLOW_PACKET], flow[f, FLOW_LEFT])
        if credit < packet * 1000:
            return credit
        following = place + 1 if place + 1 < out[queue, OUT_FLOWS] else 0
        if not may_send(f, flow):
            out[queue, OUT_TURN] = following
            waiting += 1
            continue
        count = packet
        if state[HAS_DCQCN]:
            catch_up(flow[f], pace[f], state[NOW], state)
        if pace[f, PACE_RATE] < state[LINE_RATE]:
            refill(flow[f], pace[f], packet, state[NOW])
            missing = packet * 1000 - pace[f, PACE_TOKENS]
            if missing > 0:
                out[queue, OUT_TURN] = following
                waiting += 1
                wake = min(wake, state[NOW] + int(missing / pace[f, PACE_RATE]) + 1)
                continue
            pace[f, PACE_TOKENS] -= packet * 1000
        elif out[queue, OUT_FLOWS] == 1 and flow[f, FLOW_GATE] < 0 and packet == flow[f, FLOW_PACKET]:
            count = min(credit // 1000, flow[f, FLOW_LEFT], MAX_SLAB_BYTES)
            if count < flow[f, FLOW_LEFT]:
                count = count // packet * packet
        waiting = 0
        credit -= count * 1000
        s = take_slab(slab, state)
        slab[s, SLAB_FLOW] = f
        slab[s, SLAB_BYTES] = count
        slab[s, SLAB_MARKED] = 0
        slab[s, SLAB_HOP] = 0
        flow[f, FLOW_LEFT] -= count
        flow[f, FLOW_SENT] += count
        put_on_link(s, queue, flow[f, FLOW_PACKET], out, into, slab, arriving, at_node, state)
        out[queue, OUT_TURN] = following
        if flow[f, FLOW_LEFT] == 0:
            unlist_sender(f, place, flow, out, rare, senders)
    return credit


@inner
def is_ready(queue: int, out: Ints) -> bool:
    """Whether the queue may send and has something to send."""
    return not is_paused(queue, out) and (out[queue, OUT_HEAD] >= 0 or out[queue, OUT_FLOWS] > 0)


@inner
def serve_link(
    link: int, out: Ints, into: Ints, rare: Ints, node: Ints, slab: Smalls, flow: Ints, pace: Floats, path: Smalls,
    held: Smalls, senders: Ints, frames: Smalls, arriving: Smalls, at_node: Smalls, wheel: Ints, timer: Ints,
    state: Ints,
) -> bool:  # fmt: skip
    """One tick of a link: its ready priorities share the credit evenly, then the rest goes to whoever has more to send.

    Gives whether it is to be served again in the next tick.
    """
    priorities = state[PRIORITIES]
    ready = 0
    for queue in range(link, link + priorities):
        ready += is_ready(queue, out)
    if ready == 0:
        out[link, OUT_CREDIT] = min(out[link, OUT_CREDIT], state[PACKET_CREDIT])
        return False
    credit = out[link, OUT_CREDIT] + out[link, OUT_RATE]
    even = credit // ready
    first = rare[link, RARE_NEXT]
    again = False
    for turn in range(priorities if ready == 1 else 2 * priorities):
        queue = link + (first + turn) % priorities
        if not is_ready(queue, out):
            continue
        share = even if turn < priorities else credit
        left = serve_queue(queue, share, out, into, node, slab, flow, path, held, frames, arriving, at_node, state)
        sleeps = False
        if out[queue, OUT_IS_SOURCE] and out[queue, OUT_HEAD] < 0:
            left = serve_source(
                queue, left, out, into, rare, slab, flow, pace, senders, arriving, at_node, wheel, timer, state
            )
            if left < 0:
                sleeps = True
                left = -1 - left
        if turn >= priorities and left < share:
            rare[link, RARE_NEXT] = (queue + 1) % priorities
        credit += left - share
        if out[queue, OUT_HEAD] >= 0 or (out[queue, OUT_FLOWS] > 0 and not sleeps):
            again = True
    if not again:
        # What a link did not use is gone, but for what whole packets left over.
        credit = min(credit, state[PACKET_CREDIT])
    out[link, OUT_CREDIT] = credit
    return again


@inner
def depart(
    n: int, out: Ints, into: Ints, rare: Ints, node: Ints, slab: Smalls, flow: Ints, pace: Floats, path: Smalls,
    held: Smalls, active: Ints, senders: Ints, frames: Smalls, arriving: Smalls, at_node: Smalls, wheel: Ints,
    timer: Ints, state: Ints,
) -> None:  # fmt: skip
    """One tick of all links of a node that have something to send."""
    offset = node[n, NODE_OFFSET]
    place = 0
    while place < node[n, NODE_ACTIVE]:
        link = active[offset + place]
        if serve_link(
            link, out, into, rare, node, slab, flow, pace, path, held, senders, frames, arriving, at_node, wheel,
            timer, state,
        ):  # fmt: skip
            place += 1
        else:
            out[link, OUT_IS_ACTIVE] = 0
            node[n, NODE_ACTIVE] -= 1
            active[offset + place] = active[offset + node[n, NODE_ACTIVE]]
