"""Cascades built by hand, for tests of what people see."""

from msgspec.structs import replace

from stream.cascade import FINAL, Cascade, Contributor, Edge, HeldBy, PausedQueue, Root, Victim

CHAIN = (
    ("tor4", "p2", "h9", "eth0", 53, 375_977, 1, ()),
    ("agg5", "p1", "tor4", "p4", 42, 298_762, 2, ("tor4:p2",)),
    ("core2", "p3", "agg5", "p3", 35, 252_100, 3, ("agg5:p1",)),
    ("core3", "p3", "agg5", "p4", 7, 27_543, 3, ("agg5:p1",)),
    ("agg3", "p3", "core2", "p2", 29, 206_615, 4, ("core2:p3",)),
    ("tor3", "p4", "agg3", "p2", 23, 166_856, 5, ("agg3:p3",)),
    ("h6", "eth0", "tor3", "p1", 30, 177_829, 6, ("tor3:p4",)),
    ("h7", "eth0", "tor3", "p2", 12, 50_593, 1, ()),
)
PAUSE_NS = sum(row[5] for row in CHAIN)


def _queue(row: tuple[str, str, str, str, int, int, int, tuple[str, ...]]) -> PausedQueue:
    device, port, by_device, by_port, pauses, pause_ns, depth, caused_by = row
    return PausedQueue(
        device, port, 3, by_device, by_port, pauses, pause_ns, pause_ns * 1_000_000 // PAUSE_NS, depth, caused_by
    )


SLOW_HOST = Root(
    "h9", "", 3, "host", 882_800, 1_373_900, "slow_receiver_pcie",
    ("PCIe link of h9 runs at 31500 of 100000 Mb/s", "h9 sends pause itself: 53 stops of tor4:p2"),
    (Contributor("00c0ffee00c0ffee", "flow 3", "h6", "h9", 2_914_560, 1_000_000),),
)  # fmt: skip
COLLISION = Root(
    "tor3", "p4", 3, "egress", 117_200, 182_400, "ecmp_collision",
    ("tor3:p4 carried 3.1 times the mean of its 2 uplinks",),
    (Contributor("00c0ffee00c0ffee", "flow 3", "h6", "h9", 1_514_560, 512_000),
     Contributor("00c0ffee00c0ffef", "", "h6", "h3", 914_560, 308_000)),
)  # fmt: skip
EDGES = tuple(
    Edge(device, ingress, egress, share)
    for device, ingress, egress, share in (
        ("tor4", "p4", "p2", 290_000), ("agg5", "p3", "p1", 242_000), ("agg5", "p4", "p1", 45_000),
        ("core2", "p2", "p3", 200_000), ("agg3", "p2", "p3", 159_000), ("tor3", "p1", "p4", 199_000),
        ("tor3", "p2", "p4", 74_000),
    )
)  # fmt: skip

VICTIMS = tuple(
    Victim(f"00c0ffee00c0{number:04x}", name, src, dst, 300_000 // number, (HeldBy("h9", "", 255, 300_000 // number),))
    for number, (name, src, dst) in enumerate(
        (("flow 7", "h6", "h1"), ("", "h7", "h2"), ("flow 9", "h6", "h3"), ("flow 11", "h7", "h4")), 1
    )
)

SLOW_RECEIVER = Cascade(
    id="8a3f52c19b0d44e7", fabric="ns3", revision=FINAL, start_ns=1_764_540_600_000_368_238,
    end_ns=1_764_540_600_001_124_302, mode="exact", confidence_ppm=930_000, suspect_set=False, severity="critical",
    severity_reason="flow 3 (h6 to h9) lost 43 % of its life", pause_ns=PAUSE_NS, pauses=231,
    roots=(SLOW_HOST, COLLISION), queues=tuple(_queue(row) for row in CHAIN), edges=EDGES, missing_evidence=(),
    losses={}, victims=VICTIMS,
)  # fmt: skip

SUSPECTS = replace(
    SLOW_RECEIVER, suspect_set=True, confidence_ppm=310_000, severity="warning",
    missing_evidence=("queue depths of tor4 and agg5", "PCIe state of h9"), losses={"late rows": 3},
)  # fmt: skip
