"""What is seen of a fabric now: which of its switches tell anything, and of what kinds.

In: what correlate holds of a fabric. Out: `Coverage`, for people. A switch whose streams are all down or suspended is
silent: its stops are known from its neighbours, but not which of its queues held the bytes.
"""

from __future__ import annotations

from analytics.fabric import Fabric
from analytics.layout import D_REPORTS, REPORTS_BYTES, REPORTS_DEPTH, REPORTS_ECN
from stream.roster import announced_as
from stream.source_health import Coverage

KINDS = {"depth": REPORTS_DEPTH, "bytes": REPORTS_BYTES, "ecn": REPORTS_ECN}


def coverage_of(fabric: Fabric) -> Coverage:
    """The switches that have a link, and those of which a stream of rows is up."""
    topology = fabric.engine.topology
    # Names that came since the last tick have no place in the arrays yet.
    count = len(topology.is_host)
    linked = {
        int(device)
        for device, peer in zip(topology.port_device.tolist(), topology.port_peer.tolist(), strict=True)
        if peer >= 0 and device < count
    }
    switches = {device for device in linked if not topology.is_host[device]}
    names = {topology.devices[device] for device in switches}
    speaking = {
        topology.names.device(announced_as(key).device)
        for key, stream in fabric.streams.items()
        if key.topic == "episode" and not stream.down and not stream.suspended
    }
    reports = fabric.engine.devices[:, D_REPORTS].tolist()
    told = {
        kind: sum(bool(reports[device] & bit) for device in switches if device < len(reports))
        for kind, bit in KINDS.items()
    }
    return Coverage(frozenset(names), frozenset(speaking & names), told, *fabric.counts())
