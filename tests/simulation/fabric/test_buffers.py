"""The kernels of a switch's buffer against their twin, packet by packet."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.fabric import layout as at
from simulation.fabric.buffers import admit, release
from simulation.fabric.fabric import Fabric, FlowTable
from simulation.fabric.routes import Routes
from simulation.fabric.settings import Settings
from simulation.fabric.wires import Cable, Topology, make_wires
from tests.reference.shared_buffer import Packet, SharedBuffer

HOSTS = 3
SWITCH = HOSTS


def switch_of(buffer_bytes: int) -> Fabric:
    """One switch with a few hosts, and a flow that is never started."""
    cables = tuple(Cable(f"h{n}", "eth0", "s", f"p{n}", 100_000) for n in range(HOSTS))
    names = tuple(f"h{n}" for n in range(HOSTS))
    wires = make_wires(Topology("one", (*names, "s"), ("host",) * HOSTS + ("switch",), cables))
    one = np.array([1])
    paths = Routes(wires).paths(one - 1, one, (one, one))
    return Fabric(wires, FlowTable(paths, one * 5000, one - 1), Settings(buffer_bytes=buffer_bytes, dcqcn=False))


def frames_sent(fabric: Fabric) -> list[tuple[int, str]]:
    """Pause frames on their way: link that is told, and what; no tick passes in this test."""
    slot = next((row for row in fabric.frames if row[0]), fabric.frames[0])
    told = slot[1 : slot[0] + 1].tolist()
    return [(frame // 4, "xoff" if frame % 4 == at.XOFF else "xon") for frame in told]


@settings(max_examples=60, deadline=None)
@given(
    room_kb=st.integers(30, 400),
    packets=st.lists(
        st.tuples(
            st.integers(0, HOSTS - 1), st.integers(0, HOSTS - 1), st.sampled_from([60, 1048, 4158, 9000]), st.booleans()
        ),
        max_size=150,
    ),
)
def test_accounts_and_frames_are_those_of_the_twin(room_kb: int, packets: list[tuple[int, int, int, bool]]) -> None:
    fabric = switch_of(200_000 + room_kb * 1000)
    into, node = fabric.into, fabric.node
    limit = 20_000
    into[:, at.IN_LIMIT] = limit
    twin = SharedBuffer(pool=int(node[SWITCH, at.NODE_POOL]), limit=limit)
    lost = twin_lost = 0
    seen: list[tuple[int, str]] = []
    for host, egress, count, goes in packets:
        if goes and twin.packets:
            packet = twin.packets[(count + host) % len(twin.packets)]
            twin.go(packet)
            release(
                2 * packet.ingress, packet.egress, packet.count, into, node, fabric.held, fabric.frames, fabric.state
            )
        else:
            twin_lost += 0 if twin.come(Packet(host, egress, count)) else count
            lost += admit(
                2 * host, egress, count, count, fabric.out, into, fabric.rare, node, fabric.held, fabric.edges,
                fabric.parts, fabric.egresses, fabric.frames, fabric.wheel, fabric.timer, fabric.state,
            )  # fmt: skip
        seen += frames_sent(fabric)
        fabric.frames[:, 0] = 0
        for one in range(HOSTS):
            queue = 2 * one
            assert into[queue, at.IN_HELD] == twin.held(one)
            assert into[queue, at.IN_HEADROOM] == twin.headroom.get(one, 0)
            assert bool(into[queue, at.IN_IS_STOPPING]) == (one in twin.stopping)
    assert lost == twin_lost
    assert seen == [(2 * one, what) for one, what in twin.frames]
    by_cell = np.zeros((HOSTS, HOSTS), np.int64)
    for packet in twin.packets:
        by_cell[packet.ingress, packet.egress] += packet.count
    first = int(node[SWITCH, at.NODE_MATRIX])
    assert fabric.held[first : first + HOSTS * HOSTS].reshape(HOSTS, HOSTS).tolist() == by_cell.tolist()
