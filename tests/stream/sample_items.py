"""One valid item of every JSON topic, with every optional field in use."""

from __future__ import annotations

from stream.cascade import FINAL, Cascade, Contributor, Damage, Edge, HeldBy, PausedQueue, Root, Victim
from stream.facts import Device, FactStream, Flow, Hop, Idle, Link, Peer, Port, PriorityMaps
from stream.messages import JsonItem
from stream.roster import SourceDown, SourceResumed, SourceSuspended, SourceUp, StreamDown, StreamName, StreamUp

NOW_NS = 1_790_000_000_000_000_000
STREAM = FactStream("inventory", "boot-1", 3, NOW_NS)

DEVICE = Device(
    "dc-1", "leaf-1", "leaf", NOW_NS, STREAM, (Port("Ethernet0", 400_000, ("etp1", "98:03:9b:00:00:01")), Port("cpu")),
    ("leaf-1.example.net",),
)  # fmt: skip
SORTING_HOST = Device(
    "dc-1", "host-7", "host", NOW_NS, STREAM,
    (Port("enp65s0f0np0", 400_000, ("mlx5_0", "0000:41:00.0"), ("10.0.0.7", "fd00::7"), "bond0", "rail0",
          Peer("leaf-1", "etp1")),),
    ("host-7.example.net",),
    PriorityMaps(tuple(dscp // 8 for dscp in range(64)), tuple(range(8)), tuple(range(10, 18)), (0,) * 8),
)  # fmt: skip
LINK = Link("dc-1", "leaf-1", "Ethernet0", "host-7", "mlx5_0", 400_000, NOW_NS, STREAM, 500)
FLOW = Flow(
    "dc-1", "00f1a2b3c4d5e6f7", "host-1", "host-7", "10.0.0.1", "10.0.0.7", 17, 49_152, 4_791, NOW_NS, STREAM,
    0x1234, 3, 1 << 30, "all-reduce 7",
    (Hop("host-1", "", "mlx5_0"), Hop("leaf-1", "Ethernet8", "Ethernet0"), Hop("host-7", "mlx5_0")),
)  # fmt: skip
UP = SourceUp(
    "dc-1", "gnmi:leaf-1", "boot-1", NOW_NS, (StreamUp("pfc", "leaf-1"), StreamUp("queue", "leaf-1", 10_000_000))
)
DOWN = SourceDown("dc-1", "inventory", "boot-1", NOW_NS, (StreamDown("device", "", 41), StreamDown("link")), "restart")
IDLE = Idle("dc-1", "link", STREAM)
SUSPENDED = SourceSuspended(
    "dc-1", "gnmi:leaf-1", "boot-1", NOW_NS, (StreamName("pfc", "leaf-1"), StreamName("queue", "leaf-1"))
)
RESUMED = SourceResumed("dc-1", "gnmi:leaf-1", "boot-1", NOW_NS + 1, (StreamName("pfc", "leaf-1"),))
CASCADE = Cascade(
    id="c0ffee0123456789",
    fabric="dc-1",
    revision=FINAL,
    start_ns=NOW_NS,
    end_ns=NOW_NS + 5_000_000,
    mode="exact",
    confidence_ppm=930_000,
    suspect_set=False,
    severity="high",
    severity_reason="2 hosts were stopped for more than half of the time",
    pause_ns=4_000_000,
    pauses=12,
    roots=(
        Root("host-7", "", 3, "host", 1_000_000, 4_000_000, "slow_receiver_pcie", ("PCIe x8 of x16",),
             (Contributor("00f1a2b3c4d5e6f7", "all-reduce 7", "host-1", "host-7", 1 << 30, 1_000_000),)),
    ),
    queues=(
        PausedQueue("leaf-1", "Ethernet0", 3, "host-7", "mlx5_0", 12, 4_000_000, 1_000_000, 1, ("leaf-1:Ethernet8:3",)),
    ),
    edges=(Edge("leaf-1", "Ethernet8", "Ethernet0", 1_000_000),),
    missing_evidence=("queue depths",),
    losses={"gnmi:leaf-1": 7},
    victims=(
        Victim("00f1a2b3c4d5e6f8", "all-gather 2", "host-1", "host-9", 350_000, (HeldBy("host-7", "", 255, 350_000),),
               Damage(12_000, 95_000, 41_500)),
    ),
)  # fmt: skip

SAMPLES: dict[str, JsonItem] = {
    "device": DEVICE,
    "device that sorts packets": SORTING_HOST,
    "link": LINK,
    "flow": FLOW,
    "idle facts": IDLE,
    "source up": UP,
    "source down": DOWN,
    "source suspended": SUSPENDED,
    "source resumed": RESUMED,
    "cascade": CASCADE,
}
