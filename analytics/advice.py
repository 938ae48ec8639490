"""What could be set better, beside the roots: one small function an advice, with its rule and source.

In: a cascade's roots and the engine's state at the moment of closing. Out: "name: sentence" for each advice.
"""

from __future__ import annotations

from analytics import layout
from analytics.announced import Announced
from analytics.bounds import ACCEPT_PPM
from analytics.engine import Closed, Engine
from stream.cascade import Root


def advice(engine: Engine, closed: Closed, announced: Announced, roots: list[Root]) -> tuple[str, ...]:
    """All advice on a cascade, in the order of its roots."""
    return tuple(
        sentence
        for root in roots
        if root.kind == "egress" and root.share_ppm >= ACCEPT_PPM
        for sentence in ecn_after_pfc(engine, closed, announced, root)
    )


def ecn_after_pfc(engine: Engine, closed: Closed, announced: Announced, root: Root) -> tuple[str, ...]:
    """PFC stopped the neighbours before ECN slowed the senders, so that others were held up too.

    Rule: the root is an egress queue whose device reported ECN all the time of the cascade, and no packet that left by
    its port was marked from the cascade's beginning until it closed. Windows of marks that touch that time count, so a
    long window may hide the advice but never make it. A root that is a host has no queue that could mark.
    Sources: RFC 3168 (a queue marks before it is full); Zhu et al., SIGCOMM 2015, "Congestion control for large-scale
    RDMA deployments", section 4: the thresholds of DCQCN are to make ECN act before PFC.
    """
    topology = engine.topology
    if not announced.covers(root.device, closed.start_ns, closed.end_ns, topology.names, topic="ecn"):
        return ()
    port = topology.port(root.device, root.port)
    if int(engine.ports[port, layout.P_LAST_MARK]) >= closed.start_ns:
        return ()
    place = f"{root.device}:{root.port}"
    return (
        f"ecn_after_pfc: ECN should act before PFC: no packet was CE-marked at {place}"
        f" while {root.device} stopped its neighbours because of it: lower the marking threshold (Kmin) of that queue,"
        " or raise the XOFF thresholds",
    )
