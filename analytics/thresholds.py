"""How many bytes an ingress held when its device sent XOFF: the law of dynamic thresholds, read from a cascade's stops.

In: stops, and what flows show of the bytes that stood at each pauser. Out: bytes by stop. Switches of shared memory
stop an ingress when it holds a fixed part of the buffer that is still free (Choudhury and Hahne, IEEE/ACM Transactions
on Networking 1998), so that it is stopped at fewer bytes the more the others hold. What flows show of one stop errs by
the bursts inside a window; the buffer behind all stops of a kind of device is one and the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analytics.compiled import kernel
from analytics.layout import MEMORY_NS, Floats, Ints
from analytics.topology import Topology
from stream.kinds import INT64_MAX

FREE_PARTS = 8
"""An ingress is stopped at an eighth of what is free: the usual setting of lossless classes (Zhu et al., SIGCOMM 2015,
section 4). One that is alone gets a ninth of the buffer then, and each byte of others costs it a ninth."""
MOST_BYTES = INT64_MAX // 1_000_000
"""Of one stop, terabytes: only absurd rows say more, and products with shares in ppm must not overflow."""


class Readings(NamedTuple):
    """By stop, bytes of its ingress and of the device's other ones: when XOFF was sent, and when its window ended.

    0 of the own ones: no reading. The end of the window is one where the ingress was stopped still: what stands then
    is known to the byte, but for what was on its way when XOFF was sent.
    """

    own: Ints
    others: Ints
    own_at_end: Ints
    others_at_end: Ints


def bytes_at_stops(
    readings: Readings,
    queue: Ints,
    begin_ns: Ints,
    end_ns: Ints,
    device: Ints,
    more: tuple[Readings, Ints],
    topology: Topology,
) -> Ints:
    """What each stop found in its ingress, 0 where nothing is known; `device` is its pauser's (-1: unknown).

    `more` are readings of stops that others than this cascade have around, and the devices of their pausers.
    """
    every = Readings(*(np.concatenate(both) for both in zip(readings, more[0], strict=True)))
    kind = _kinds(np.concatenate((device, more[1])), topology)
    alone = np.full(len(kind), _alone(every, np.ones(len(kind), np.bool_)))
    for number in np.unique(kind).tolist():
        same = kind == number
        found = _alone(every, same)
        if found:
            alone[same] = found
    alone = alone[: len(queue)]
    ports = np.where(device >= 0, np.diff(topology.fan_start)[device], 1)
    least = alone * (FREE_PARTS + 1) / (FREE_PARTS + np.maximum(ports, 1))
    bytes_ = np.maximum(alone - readings.others / (FREE_PARTS + 1), least)
    # Where no flow tells, the others that are stopped hold as much, and the rest nothing.
    by_count = alone * parts_of_one_alone(queue, begin_ns, end_ns, device)
    return np.minimum(np.where(readings.own > 0, bytes_, by_count), MOST_BYTES).astype(np.int64)


def parts_of_one_alone(queue: Ints, begin_ns: Ints, end_ns: Ints, device: Ints) -> Floats:
    """What each stop found by what it would have found of one ingress alone, all that are stopped holding as much.

    One that was stopped within the last W is full still.
    """
    parts = np.ones(len(queue))
    order = np.lexsort((begin_ns, queue))
    until_ns = end_ns + (MEMORY_NS + 1)
    follows = queue[order][1:] == queue[order][:-1]
    until_ns[order[:-1][follows]] = np.minimum(until_ns[order[:-1]], begin_ns[order[1:]])[follows]
    stopped = np.ones(len(queue), np.int64)
    _stopped_at_once(
        device, begin_ns, until_ns, np.lexsort((begin_ns, device)), np.lexsort((until_ns, device)), stopped
    )
    known = device >= 0
    parts[known] = (FREE_PARTS + 1) / (FREE_PARTS + np.maximum(stopped[known], 1))
    return parts


@kernel
def _stopped_at_once(
    device: Ints, begin_ns: Ints, until_ns: Ints, by_begin: Ints, by_until: Ints, stopped: Ints
) -> None:
    """Fills how many of a device's stops had begun when each one begins, less those that were over.

    `by_begin` and `by_until` are orders by device, then by that time.
    """
    begun = over = 0
    for at in range(len(by_begin)):
        stop = by_begin[at]
        if at == 0 or device[by_begin[at - 1]] != device[stop]:
            begun = over = at
        while begun < len(by_begin) and device[by_begin[begun]] == device[stop]:
            if begin_ns[by_begin[begun]] > begin_ns[stop]:
                break
            begun += 1
        while over < len(by_until) and device[by_until[over]] == device[stop]:
            if until_ns[by_until[over]] > begin_ns[stop]:
                break
            over += 1
        stopped[stop] = begun - over


def _kinds(device: Ints, topology: Topology) -> Ints:
    """A number for each kind of device: those with as many ports of the same speeds share out buffers of one size."""
    numbers: dict[tuple[int, ...], int] = {}
    of_device = {-1: -1}
    for one in np.unique(device[device >= 0]).tolist():
        ports = topology.fan_ports[topology.fan_start[one] : topology.fan_start[one + 1]]
        speeds = tuple(sorted(topology.port_speed_mbps[ports].tolist()))
        of_device[one] = numbers.setdefault(speeds, len(numbers))
    return np.array([of_device[one] for one in device.tolist()], np.int64)


def _alone(readings: Readings, some: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    """What one ingress alone would be stopped at: the mean of two medians, which err in ways of their own."""
    medians = []
    for own, others in ((readings.own, readings.others), (readings.own_at_end, readings.others_at_end)):
        read = some & (own > 0)
        if read.any():
            medians.append(float(np.median(own[read] + others[read] / (FREE_PARTS + 1))))
    return sum(medians) / len(medians) if medians else 0.0
