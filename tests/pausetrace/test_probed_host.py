"""A PCIe link that came up narrow, from the files of the host to the verdict.

The demo's trace without its PCIe rows, and beside it what the pollers say of a recorded host whose PCIe switch has 8 of
16 lanes: they alone tell why the root is slow.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analytics.offline import final_cascades
from probes.host_root import HostRoot
from probes.interfaces import NET
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.batch import Batch, StreamKey
from stream.cascade import Cascade, Root
from stream.facts import FactStream
from stream.messages import Item, decode, encode
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.probes.recorded import SECOND_NS, Recorded

TRACE = Path(__file__).parents[2] / "pausetrace/demo_trace"
START_NS = 1_780_000_000_000_000_000
HOST = "h9"
FABRIC, SOURCE, EPOCH = "demo", "probe-h9", "boot-1"


def from_the_probes(host: Recorded, *pollers: str) -> list[Item]:
    """What an agent on the host would publish of its identity, and of what these pollers saw in a second."""
    probes = [host.make(name) for name in pollers]
    readings = [probe.read(START_NS) for probe in probes]
    identity = host.make("identity").read(START_NS).facts[0]
    fact = msgspec.structs.replace(identity, fabric=FABRIC, device=HOST, stream=FactStream(SOURCE, EPOCH, 0, START_NS))
    host.advance()
    readings += [probe.read(START_NS + SECOND_NS) for probe in probes]
    batches: list[Item] = []
    sent: Counter[str] = Counter()
    for told in (rows for reading in readings for rows in reading.rows):
        stream = StreamKey(FABRIC, SOURCE, EPOCH, told.topic, HOST)
        mark_ns = int(told.events["time_ns"].max())
        batches.append(
            Batch(stream, sent[told.topic], mark_ns, tuple(told.ports), told.events, texts=tuple(told.texts))
        )
        sent[told.topic] += len(told.events)
    ups = (StreamUp("device"), *(StreamUp(topic, HOST, SECOND_NS) for topic in sent))
    ends = (StreamDown("device", "", 0), *(StreamDown(topic, HOST, count - 1) for topic, count in sent.items()))
    up = SourceUp(FABRIC, SOURCE, EPOCH, START_NS, ups)
    down = SourceDown(FABRIC, SOURCE, EPOCH, START_NS + 2 * SECOND_NS, ends)
    return [up, fact, *batches, down]


def cascades(extra: list[Item]) -> list[Cascade]:
    streams = trace_streams(read_trace(TRACE, absent={"host_pcie"}), FABRIC, "taps", "boot-1", START_NS)
    up, *rest = trace_items(streams)
    # Everything as it comes out of Kafka.
    items = [up, *extra[:-1], *rest, *extra[-1:]]
    return final_cascades([decode(*encode(item)) for item in items])


def root_of(found: list[Cascade]) -> Root:
    roots = [root for cascade in found for root in cascade.roots if root.device == HOST]
    assert len(roots) == 1
    return roots[0]


def test_without_the_probes_nobody_knows_of_the_link() -> None:
    assert "its PCIe link is not reported" in root_of(cascades([])).evidence


@pytest.mark.parametrize("called", ["ens1np0", "eth0"])
def test_a_narrow_link_above_the_nic_makes_it_a_slow_receiver(called: str, tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    path = HostRoot(host.root).target(f"{NET}/ens1np0")
    assert path is not None
    host.write(f"{path}/ifalias", f"{called}\n")
    root = root_of(cascades(from_the_probes(host, "pcie")))
    assert (root.root_class, root.layer) == ("slow_receiver_pcie", "pcie")
    assert f"PCIe width of {HOST} is 8 of 16 lanes" in root.evidence


def test_a_whole_link_does_not(tmp_path: Path) -> None:
    extra = from_the_probes(Recorded("bnxt", tmp_path), "pcie")
    assert np.array_equal(extra[2].events["value"], extra[2].events["extra"])  # type: ignore[union-attr]
    root = root_of(cascades(extra))
    assert root.root_class != "slow_receiver_pcie"
    assert "its PCIe link is not reported" not in root.evidence


def test_all_that_a_host_counts_stands_beside_the_verdict_and_changes_no_other(tmp_path: Path) -> None:
    pollers = ("pcie", "ethtool", "rdma", "aer", "pressure", "cpu_throttle", "gpu")
    host = Recorded("mlx5", tmp_path)
    found = cascades(from_the_probes(host, *pollers))
    assert root_of(found).evidence == (
        "PCIe width of h9 is 8 of 16 lanes",
        "10 out of sequence RDMA errors at ens1np0 in 1000.0 ms",
        "2 packet sequence NAK RDMA errors at ens1np0 in 1000.0 ms",
        "7 corrected PCIe errors at ens1np0 in 1000.0 ms",
        "the NIC waited for its PCIe link for 62% of 1000.0 ms",
        "tasks stalled for cpu for 15% of 1000.0 ms",
        "the CPU was throttled 2 times at package0, 40.0 ms in all",
        "1 ECC corrected GPU error in 1000.0 ms",
        "1 XID 79 (fallen off the bus) GPU error in 1000.0 ms",
    )
    alone = [cascade for cascade in cascades([]) if HOST not in {root.device for root in cascade.roots}]
    assert [cascade for cascade in found if HOST not in {root.device for root in cascade.roots}] == alone
