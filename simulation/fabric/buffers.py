"""Kernels of a switch's buffer: room for what arrives, XOFF and XON by dynamic thresholds, queues of slabs, timers.

In and out: the arrays of layout.py. The rules are those of HPCC's `switch-mmu` (Choudhury and Hahne 1998).
"""

from __future__ import annotations

from simulation.fabric.compiled import Ints, Smalls, inner, kernel
from simulation.fabric.layout import (
    FRAMES,
    FREE_SLAB,
    FREE_SLABS,
    HAS_PARTS,
    IN_DELAY,
    IN_HEADROOM,
    IN_HELD,
    IN_IS_STOPPING,
    IN_LIMIT,
    IN_NODE,
    IN_PLACE,
    IN_SHIFT,
    IN_XOFFS,
    MAX_SLAB_BYTES,
    NODE_EGRESSES,
    NODE_MATRIX,
    NODE_OFFSET,
    NODE_POOL,
    NODE_SHARED,
    NOW,
    OUT_BYTES,
    OUT_HEAD,
    OUT_PAUSED,
    OUT_PEAK,
    OUT_TAIL,
    PARTS,
    PRIORITIES,
    QUANTA,
    RARE_IS_SILENT,
    RESERVE_BYTES,
    RESUME_BYTES,
    SEND_AGAIN,
    SLAB_BYTES,
    SLAB_FLOW,
    SLAB_HOP,
    SLAB_MARKED,
    SLAB_NEXT,
    TIMERS,
    WHEEL,
    XOFF,
    XON,
)  # fmt: skip


@inner
def take_slab(slab: Smalls, state: Ints) -> int:
    """A free slab, which the caller fills; there is one, as `advance` stops before they run out."""
    new = state[FREE_SLAB]
    state[FREE_SLAB] = slab[new, SLAB_NEXT]
    state[FREE_SLABS] -= 1
    slab[new, SLAB_NEXT] = -1
    return new


@inner
def free_slab(old: int, slab: Smalls, state: Ints) -> None:
    """Gives a slab back."""
    slab[old, SLAB_NEXT] = state[FREE_SLAB]
    state[FREE_SLAB] = old
    state[FREE_SLABS] += 1


@inner
def set_timer(kind: int, queue: int, due: int, wheel: Ints, timer: Ints, state: Ints) -> None:
    """Has `kind` happen to the queue at tick `due`, unless it is already to happen: who is woken looks what is due."""
    number = kind * (timer.shape[0] // 3) + queue
    if timer[number, 1]:
        return
    timer[number, 0] = wheel[due % WHEEL]
    timer[number, 1] = due
    wheel[due % WHEEL] = number
    state[TIMERS] += 1


@inner
def send_frame(queue: int, kind: int, into: Ints, frames: Smalls, state: Ints) -> None:
    """A pause frame to the egress of the queue. It acts one tick after its delay: a switch decides at a tick's end."""
    slot = (state[NOW] + into[queue, IN_DELAY] + 1) % frames.shape[0]
    frames[slot, 0] += 1
    frames[slot, frames[slot, 0]] = queue * 4 + kind
    state[FRAMES] += 1


@inner
def threshold(queue: int, into: Ints, node: Ints) -> int:
    """What the ingress may hold of the shared buffer at this moment."""
    n = into[queue, IN_NODE]
    return (node[n, NODE_POOL] - node[n, NODE_SHARED]) >> into[queue, IN_SHIFT]


@inner
def room(queue: int, count: int, packet: int, into: Ints, node: Ints) -> int:
    """Of `count` bytes, those whole packets that fit below the threshold, which falls as the shared buffer fills."""
    free = max(RESERVE_BYTES - into[queue, IN_HELD], 0)
    if count <= free:
        return count
    shift = into[queue, IN_SHIFT]
    left = max(threshold(queue, into, node) - max(into[queue, IN_HELD] - RESERVE_BYTES, 0), 0)
    fits = free + left * (1 << shift) // ((1 << shift) + 1)
    if fits >= count:
        return count
    return fits // packet * packet


@kernel
def admit(
    queue: int, egress: int, count: int, packet: int, out: Ints, into: Ints, rare: Ints, node: Ints, held: Smalls,
    edges: Ints, parts: Ints, egresses: Ints, frames: Smalls, wheel: Ints, timer: Ints, state: Ints,
) -> int:  # fmt: skip
    """Books `count` bytes that came in; sends XOFF where it is due. Gives the bytes for which there is no room."""
    n = into[queue, IN_NODE]
    fits = room(queue, count, packet, into, node)
    dropped = 0
    rest = count - fits
    if rest:
        free = into[queue, IN_LIMIT] - into[queue, IN_HEADROOM]
        if rest > free:
            kept = max(free, 0) // packet * packet
            dropped = rest - kept
            rest = kept
        into[queue, IN_HEADROOM] += rest
    before = max(into[queue, IN_HELD] - RESERVE_BYTES, 0)
    into[queue, IN_HELD] += fits
    node[n, NODE_SHARED] += max(into[queue, IN_HELD] - RESERVE_BYTES, 0) - before
    row = node[n, NODE_MATRIX] + into[queue, IN_PLACE] * node[n, NODE_EGRESSES]
    held[row + egress] += count - dropped
    if not into[queue, IN_IS_STOPPING] and (
        into[queue, IN_HEADROOM] > 0 or into[queue, IN_HELD] - RESERVE_BYTES >= threshold(queue, into, node)
    ):
        into[queue, IN_IS_STOPPING] = 1
        into[queue, IN_XOFFS] += 1
        send_frame(queue, XOFF, into, frames, state)
        if state[QUANTA] and not rare[queue, RARE_IS_SILENT]:
            set_timer(SEND_AGAIN, queue, state[NOW] + state[QUANTA] // 2, wheel, timer, state)
        count_contents(queue, row, out, node[n], held, edges, parts, egresses, state)
    return dropped


@inner
def count_contents(
    queue: int, row: int, out: Ints, at: Ints, held: Smalls, edges: Ints, parts: Ints, egresses: Ints, state: Ints,
) -> None:  # fmt: skip
    """Notes where the bytes of an ingress lie as it sends XOFF: into `edges` for the sum, into `parts` one by one."""
    priorities = state[PRIORITIES]
    for egress in range(at[NODE_EGRESSES]):
        count = held[row + egress]
        if count > 0:
            edges[row + egress] += count
            if state[HAS_PARTS]:
                at_queue = egresses[at[NODE_OFFSET] + egress] * priorities + queue % priorities
                new = state[PARTS]
                parts[new, 0] = state[NOW]
                parts[new, 1] = queue
                parts[new, 2] = at_queue
                parts[new, 3] = count
                state[PARTS] += 1


@kernel
def release(
    queue: int, egress: int, count: int, into: Ints, node: Ints, held: Smalls, frames: Smalls, state: Ints,
) -> None:  # fmt: skip
    """Books `count` bytes that went on, the headroom's first; sends XON where it is due."""
    n = into[queue, IN_NODE]
    of_headroom = min(count, into[queue, IN_HEADROOM])
    rest = count - of_headroom
    of_shared = min(rest, max(into[queue, IN_HELD] - RESERVE_BYTES, 0))
    into[queue, IN_HEADROOM] -= of_headroom
    into[queue, IN_HELD] -= rest
    node[n, NODE_SHARED] -= of_shared
    held[node[n, NODE_MATRIX] + into[queue, IN_PLACE] * node[n, NODE_EGRESSES] + egress] -= count
    if into[queue, IN_IS_STOPPING] and into[queue, IN_HEADROOM] == 0:
        over = into[queue, IN_HELD] - RESERVE_BYTES
        if over <= 0 or over + RESUME_BYTES <= threshold(queue, into, node):
            into[queue, IN_IS_STOPPING] = 0
            send_frame(queue, XON, into, frames, state)


@inner
def is_alike(a: int, b: int, packet: int, slab: Smalls) -> bool:
    """Whether two slabs can be one: same flow and hop, and marks that are still known to be on all or none."""
    if slab[a, SLAB_FLOW] != slab[b, SLAB_FLOW] or slab[a, SLAB_HOP] != slab[b, SLAB_HOP]:
        return False
    if slab[a, SLAB_BYTES] + slab[b, SLAB_BYTES] > MAX_SLAB_BYTES or slab[a, SLAB_BYTES] % packet:
        return False
    if slab[a, SLAB_MARKED] == 0 and slab[b, SLAB_MARKED] == 0:
        return True
    return slab[a, SLAB_MARKED] * packet >= slab[a, SLAB_BYTES] and slab[b, SLAB_MARKED] * packet >= slab[b, SLAB_BYTES]


@inner
def append(new: int, queue: int, packet: int, out: Ints, slab: Smalls, state: Ints) -> None:
    """Puts a slab at the end of an egress queue."""
    out[queue, OUT_BYTES] += slab[new, SLAB_BYTES]
    out[queue, OUT_PEAK] = max(out[queue, OUT_PEAK], out[queue, OUT_BYTES])
    tail = out[queue, OUT_TAIL]
    if tail < 0:
        out[queue, OUT_HEAD] = new
        out[queue, OUT_TAIL] = new
    elif is_alike(tail, new, packet, slab):
        slab[tail, SLAB_BYTES] += slab[new, SLAB_BYTES]
        slab[tail, SLAB_MARKED] += slab[new, SLAB_MARKED]
        free_slab(new, slab, state)
    else:
        slab[tail, SLAB_NEXT] = new
        out[queue, OUT_TAIL] = new


@inner
def is_paused(queue: int, out: Ints) -> bool:
    """Whether the egress queue has been told to stop."""
    return out[queue, OUT_PAUSED] != 0
