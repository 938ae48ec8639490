"""The fabric's clock: one tick after the other, with leaps over those in which nothing can happen.

In and out: the arrays of layout.py, which `fabric.Fabric` makes. The order of things in a tick is part of the model.
"""

from __future__ import annotations

from simulation.fabric.arrivals import activate, arrive, list_sender
from simulation.fabric.buffers import send_frame, set_timer
from simulation.fabric.compiled import Floats, Ints, Smalls, inner, kernel
from simulation.fabric.departures import depart
from simulation.fabric.layout import (
    ALL_DONE,
    AT_END,
    BUSY,
    FLOW_QUEUE,
    FOREVER,
    FRAMES,
    FREE_SLABS,
    IN_FLIGHT,
    IN_IS_STOPPING,
    IN_PAUSED_SINCE,
    IN_PAUSED_TICKS,
    LOG_FULL,
    NEXT_START,
    NO_SLABS,
    NODE_ACTIVE,
    NODE_IS_BUSY,
    NODE_STAMP,
    NOW,
    OUT_FLOWS,
    OUT_HEAD,
    OUT_PAUSED,
    PARTS,
    PAUSE_MARGIN,
    PAUSES,
    QUANTA,
    RARE_RX_XOFFS,
    REPEAT,
    RUN_OUT,
    SEND_AGAIN,
    SLABS_MARGIN,
    STARTS,
    TIMERS,
    WAITING,
    WAKE,
    WHEEL,
    XOFF,
    XON,
)  # fmt: skip


@inner
def is_still(state: Ints) -> bool:
    """Whether nothing moves: no link has anything to send, and nothing is on its way."""
    return state[BUSY] == 0 and state[IN_FLIGHT] == 0 and state[FRAMES] == 0


@inner
def next_event(until: int, starts: Ints, wheel: Ints, state: Ints) -> int:
    """The next tick in which something can happen while all is still."""
    if state[NEXT_START] < state[STARTS]:
        until = min(until, starts[state[NEXT_START], 0])
    if state[TIMERS]:
        for tick in range(state[NOW], min(until, state[NOW] + WHEEL)):
            if wheel[tick % WHEEL] >= 0:
                return tick
        return min(until, state[NOW] + WHEEL)
    return until


@inner
def log_pause(queue: int, is_stop: int, pauses: Ints, state: Ints) -> None:
    """A pause that begins or ends at the egress."""
    row = state[PAUSES]
    pauses[row, 0] = state[NOW]
    pauses[row, 1] = queue
    pauses[row, 2] = is_stop
    state[PAUSES] += 1


@inner
def resume(queue: int, out: Ints, into: Ints, node: Ints, active: Ints, busy: Ints, pauses: Ints, state: Ints) -> None:
    """Ends a pause, if there is one."""
    if out[queue, OUT_PAUSED] == 0:
        return
    out[queue, OUT_PAUSED] = 0
    into[queue, IN_PAUSED_TICKS] += state[NOW] - into[queue, IN_PAUSED_SINCE]
    log_pause(queue, 0, pauses, state)
    if out[queue, OUT_HEAD] >= 0 or out[queue, OUT_FLOWS] > 0:
        activate(queue, out, node, active, busy, state)


@inner
def apply_frames(
    out: Ints, into: Ints, rare: Ints, node: Ints, active: Ints, busy: Ints, frames: Smalls, pauses: Ints, wheel: Ints,
    timer: Ints, state: Ints,
) -> None:  # fmt: skip
    """The pause frames that act now."""
    slot = state[NOW] % frames.shape[0]
    for place in range(1, frames[slot, 0] + 1):
        queue, kind = frames[slot, place] // 4, frames[slot, place] % 4
        state[FRAMES] -= 1
        if kind == XON:
            resume(queue, out, into, node, active, busy, pauses, state)
            continue
        rare[queue, RARE_RX_XOFFS] += kind == XOFF
        if out[queue, OUT_PAUSED] == 0:
            into[queue, IN_PAUSED_SINCE] = state[NOW]
            log_pause(queue, 1, pauses, state)
        out[queue, OUT_PAUSED] = FOREVER
        if state[QUANTA]:
            out[queue, OUT_PAUSED] = state[NOW] + state[QUANTA]
            set_timer(RUN_OUT, queue, out[queue, OUT_PAUSED], wheel, timer, state)
    frames[slot, 0] = 0


@inner
def run_timers(
    out: Ints, into: Ints, node: Ints, active: Ints, busy: Ints, frames: Smalls, pauses: Ints, wheel: Ints, timer: Ints,
    state: Ints,
) -> None:  # fmt: skip
    """The timers that are due: sources that sleep, pauses that run out, and XOFFs that are sent again."""
    now = state[NOW]
    number = wheel[now % WHEEL]
    wheel[now % WHEEL] = -1
    queues = timer.shape[0] // 3
    while number >= 0:
        following, due = timer[number, 0], timer[number, 1]
        kind, queue = number // queues, number % queues
        timer[number, 1] = 0
        state[TIMERS] -= 1
        if due > now:
            set_timer(kind, queue, due, wheel, timer, state)
        elif kind == WAKE:
            activate(queue, out, node, active, busy, state)
        elif kind == RUN_OUT and out[queue, OUT_PAUSED] > now:
            set_timer(kind, queue, out[queue, OUT_PAUSED], wheel, timer, state)
        elif kind == RUN_OUT:
            resume(queue, out, into, node, active, busy, pauses, state)
        elif kind == SEND_AGAIN and into[queue, IN_IS_STOPPING]:
            send_frame(queue, REPEAT, into, frames, state)
            set_timer(kind, queue, now + state[QUANTA] // 2, wheel, timer, state)
        number = following


@inner
def start_flows(
    flow: Ints, out: Ints, rare: Ints, node: Ints, active: Ints, senders: Ints, busy: Ints, starts: Ints, state: Ints,
) -> None:  # fmt: skip
    """The flows that begin now."""
    while state[NEXT_START] < state[STARTS] and starts[state[NEXT_START], 0] <= state[NOW]:
        f = starts[state[NEXT_START], 1]
        state[NEXT_START] += 1
        list_sender(f, flow, out, rare, senders)
        if out[flow[f, FLOW_QUEUE], OUT_PAUSED] == 0:
            activate(flow[f, FLOW_QUEUE], out, node, active, busy, state)


@kernel
def advance(
    until: int, out: Ints, into: Ints, rare: Ints, node: Ints, slab: Smalls, flow: Ints, pace: Floats, path: Smalls,
    held: Smalls, edges: Ints, egresses: Ints, active: Ints, senders: Ints, busy: Ints, frames: Smalls,
    arriving: Smalls, at_node: Smalls, wheel: Ints, timer: Ints, starts: Ints, pauses: Ints, parts: Ints, state: Ints,
) -> int:  # fmt: skip
    """Runs the fabric to tick `until`, or until the flows that are waited for are done; gives why it came back."""
    waits = state[WAITING] > 0
    while state[NOW] < until:
        if waits and state[WAITING] == 0:
            return ALL_DONE
        if state[FREE_SLABS] < state[SLABS_MARGIN]:
            return NO_SLABS
        if state[PAUSES] + state[PAUSE_MARGIN] > pauses.shape[0] or state[PARTS] + edges.shape[0] > parts.shape[0]:
            return LOG_FULL
        if is_still(state):
            state[NOW] = next_event(until, starts, wheel, state)
            if state[NOW] >= until:
                return AT_END
        now = state[NOW]
        slot = now % arriving.shape[0]
        apply_frames(out, into, rare, node, active, busy, frames, pauses, wheel, timer, state)
        run_timers(out, into, node, active, busy, frames, pauses, wheel, timer, state)
        start_flows(flow, out, rare, node, active, senders, busy, starts, state)
        # Arrivals and departures of one node together, while its records are in the cache.
        for place in range(1, at_node[slot, 0] + 1):
            n = at_node[slot, place]
            first = arriving[slot, n, 0]
            arriving[slot, n, 0] = -1
            arriving[slot, n, 1] = -1
            arrive(
                first, out, into, rare, node, slab, flow, pace, path, held, edges, egresses, active, senders, busy,
                frames, parts, wheel, timer, state,
            )  # fmt: skip
            if node[n, NODE_ACTIVE]:
                node[n, NODE_STAMP] = now
                depart(
                    n, out, into, rare, node, slab, flow, pace, path, held, active, senders, frames, arriving, at_node,
                    wheel, timer, state,
                )  # fmt: skip
        at_node[slot, 0] = 0
        place = 0
        while place < state[BUSY]:
            n = busy[place]
            if node[n, NODE_STAMP] != now and node[n, NODE_ACTIVE]:
                depart(
                    n, out, into, rare, node, slab, flow, pace, path, held, active, senders, frames, arriving, at_node,
                    wheel, timer, state,
                )  # fmt: skip
            if node[n, NODE_ACTIVE]:
                place += 1
            else:
                node[n, NODE_IS_BUSY] = 0
                state[BUSY] -= 1
                busy[place] = busy[state[BUSY]]
        state[NOW] += 1
    return AT_END
