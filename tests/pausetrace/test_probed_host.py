"""A PCIe link that came up narrow, from the files of the host to the verdict.

The demo's trace without its PCIe rows, and beside it what the pollers say of a recorded host whose PCIe switch has 8 of
16 lanes: they alone tell why the root is slow.
"""

from __future__ import annotations

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
from tests.probes.recorded import Recorded

TRACE = Path(__file__).parents[2] / "pausetrace/demo_trace"
START_NS = 1_780_000_000_000_000_000
HOST = "h9"
FABRIC, SOURCE, EPOCH = "demo", "probe-h9", "boot-1"
MS = 1_000_000


def from_the_probes(host: Recorded) -> list[Item]:
    """What an agent on the host would publish of its PCIe links and its identity."""
    identity = host.make("identity").read(START_NS).facts[0]
    fact = msgspec.structs.replace(identity, fabric=FABRIC, device=HOST, stream=FactStream(SOURCE, EPOCH, 0, START_NS))
    told = host.make("pcie").read(START_NS).rows[0]
    batch = Batch(
        StreamKey(FABRIC, SOURCE, EPOCH, told.topic, HOST), 0, START_NS, tuple(told.ports), told.events,
        texts=tuple(told.texts),
    )  # fmt: skip
    up = SourceUp(FABRIC, SOURCE, EPOCH, START_NS, (StreamUp("device"), StreamUp("pcie", HOST)))
    ends = (StreamDown("device", "", 0), StreamDown("pcie", HOST, len(told.events) - 1))
    down = SourceDown(FABRIC, SOURCE, EPOCH, START_NS + 100 * MS, ends)
    return [up, fact, batch, down]


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
    root = root_of(cascades(from_the_probes(host)))
    assert (root.root_class, root.layer) == ("slow_receiver_pcie", "pcie")
    assert f"PCIe width of {HOST} is 8 of 16 lanes" in root.evidence


def test_a_whole_link_does_not(tmp_path: Path) -> None:
    extra = from_the_probes(Recorded("bnxt", tmp_path))
    assert np.array_equal(extra[2].events["value"], extra[2].events["extra"])  # type: ignore[union-attr]
    root = root_of(cascades(extra))
    assert root.root_class != "slow_receiver_pcie"
    assert "its PCIe link is not reported" not in root.evidence
