"""Where pause time truly began: every pause is followed through what lay in the buffer when it was decided.

In: the logs of a `Performance`. Out: shares of the roots, and the byte sums of the edges.

A pause falls to the egress queues whose bytes filled the ingress at that moment, by their bytes. A queue that was
stopped itself, or had been until at most `MEMORY_NS` before, hands its part on to what stopped it; any other is a root.
What a NIC stops has its root inside the host.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulation.fabric import layout as at
from simulation.fabric.compiled import Ints
from simulation.fabric.fabric import Fabric
from simulation.fabric.plot import PCIE
from simulation.fabric.wires import Wires

MEMORY_NS = 20_000
"""A queue that goes on again has held up others for as long as it takes to drain one threshold: 160 to 300 kB."""
MIN_SHARE = 1e-4
"""A smaller part of one pause is followed no further."""

Root = tuple[str, str]
Blame = dict[Root, float]


def pause_intervals(pauses: Ints, end_ns: int) -> list[tuple[int, int, int]]:
    """Begin, end and queue of each pause, in order of begins; those that never end do so at `end_ns`."""
    since: dict[int, int] = {}
    found: list[tuple[int, int, int]] = []
    for time, queue, is_stop in pauses.tolist():
        if is_stop:
            since.setdefault(queue, time)
        elif queue in since:
            found.append((since.pop(queue), time, queue))
    found.extend((time, end_ns, queue) for queue, time in since.items())
    return sorted(found)


class Roots:
    """Blame of every pause between devices, found once; shares of any span of time are sums over it."""

    def __init__(self, fabric: Fabric, pauses: Ints, contents: Ints, end_ns: int) -> None:
        wires, tick_ns = fabric.wires, fabric.settings.tick_ns
        count = fabric.priorities
        inside = wires.is_inside_host
        nics = len(wires.topology.devices)
        host_of = dict(zip((nics + np.arange(len(wires.hosts))).tolist(), wires.topology.hosts, strict=True))
        lag = ((fabric.delay + 1) * tick_ns).tolist()
        at_xoff = _by_xoff(contents)
        last: dict[int, tuple[int, int, Blame]] = {}
        self.blames: list[tuple[int, int, Blame]] = []
        target = wires.target.tolist()
        for begin, end, queue in pause_intervals(pauses, end_ns):
            link = queue // count
            if inside[link]:
                continue
            decided = begin - lag[link]
            host = host_of.get(target[link])
            if host is not None:
                blame = {(host, PCIE): 1.0}
            else:
                blame = _blame(at_xoff.get((decided, queue), []), decided, last, wires, count)
            last[queue] = (begin, end, blame)
            self.blames.append((begin, end, blame))

    def shares(self, begin_ns: int = 0, end_ns: int = 1 << 62) -> Blame:
        """Part of each root in the pause time of a span; empty if nothing was stopped there."""
        summed: Blame = {}
        for begin, end, blame in self.blames:
            weight = min(end, end_ns) - max(begin, begin_ns)
            if weight > 0:
                for root, part in blame.items():
                    summed[root] = summed.get(root, 0.0) + part * weight
        total = sum(summed.values())
        return {root: mass / total for root, mass in sorted(summed.items(), key=lambda item: -item[1])}


def _by_xoff(contents: Ints) -> dict[tuple[int, int], list[tuple[int, int]]]:
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for time, queue, egress, count in contents.tolist():
        found.setdefault((time, queue), []).append((egress, count))
    return found


def _blame(
    parts: list[tuple[int, int]], decided: int, last: Mapping[int, tuple[int, int, Blame]], wires: Wires, count: int
) -> Blame:
    total = sum(held for _, held in parts)
    found: Blame = {}
    for egress, held in parts:
        share = held / total
        before = last.get(egress)
        if before is not None and before[0] <= decided and before[1] >= decided - MEMORY_NS:
            for root, part in before[2].items():
                if part * share >= MIN_SHARE:
                    found[root] = found.get(root, 0.0) + part * share
        else:
            root = wires.end(egress // count)
            found[root] = found.get(root, 0.0) + share
    # What was too small to be followed is spread over the rest.
    whole = sum(found.values())
    return {root: part / whole for root, part in found.items()} if whole else {}


def edge_bytes(fabric: Fabric, edges: Ints) -> dict[tuple[str, str, str], int]:
    """Bytes by device, ingress port and egress port, summed over all XOFFs of switches."""
    wires, node = fabric.wires, fabric.node
    devices = wires.topology.devices
    found: dict[tuple[str, str, str], int] = {}
    for queue in range(fabric.queues):
        link = queue // fabric.priorities
        n = int(fabric.into[queue, at.IN_NODE])
        if n >= len(devices) or fabric.into[queue, at.IN_IS_SINK]:
            continue
        degree = int(node[n, at.NODE_EGRESSES])
        row = int(node[n, at.NODE_MATRIX]) + int(fabric.into[queue, at.IN_PLACE]) * degree
        for place in np.flatnonzero(edges[row : row + degree]).tolist():
            egress = int(fabric.egresses[node[n, at.NODE_OFFSET] + place])
            key = (devices[n], wires.end(link ^ 1)[1], wires.end(egress)[1])
            found[key] = found.get(key, 0) + int(edges[row + place])
    return found
