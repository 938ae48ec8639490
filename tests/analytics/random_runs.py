"""Hypothesis strategies: small fabrics, and pauses, queue marks and flow bytes in them, with every tie and gap."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from tests.reference.attribution import Window
from tests.reference.cascades import FlowWindow
from tests.reference.pauses import Queue, Told
from tests.reference.topology import Fabric, Port

BEGIN_NS = 1_000_000_000
GAPS_NS = (
    0,
    0,
    0,
    0,
    1,
    1_000,
    5_000,
    10_000,
    19_999,
    20_000,
    20_001,
    60_000,
    3_000_000,
    10_000_000,
    10_000_001,
    25_000_000,
)
LENGTHS_NS = (0, 0, 1, 1_000, 5_000, 20_000, 100_000, 100_000, 1_000_000, 12_000_000)
PEAKS_BYTES = (1, 1_000, 1_000, 5_000, 123_456)


@dataclass
class Run:
    """What happened in a fabric: rows as told at the stopped queues, queue marks and bytes of flows."""

    fabric: Fabric
    rows: list[Told]
    windows: list[Window] = field(repr=False)
    flows: list[FlowWindow] = field(repr=False)
    destinations: dict[int, str]
    """Where flows go to, as far as that is known."""
    end_ns: int


def leaf_spine(leaves: int, spines: int, hosts: int) -> Fabric:
    """Every leaf is linked to every spine and to its own hosts."""
    fabric = Fabric({f"h{leaf}{host}" for leaf in range(leaves) for host in range(hosts)})
    for leaf in range(leaves):
        for host in range(hosts):
            fabric.link((f"h{leaf}{host}", "eth0"), (f"leaf{leaf}", f"d{host}"))
        for spine in range(spines):
            fabric.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"p{leaf}"))
    return fabric


def fat_tree(hosts: int) -> Fabric:
    """Two pods of two edge and two aggregation switches, and two cores: a fat-tree with k = 4, cut in half."""
    fabric = Fabric({f"h{edge}{host}" for edge in range(4) for host in range(hosts)})
    for edge in range(4):
        for host in range(hosts):
            fabric.link((f"h{edge}{host}", "eth0"), (f"edge{edge}", f"d{host}"))
        for up in range(2):
            fabric.link((f"edge{edge}", f"u{up}"), (f"agg{edge // 2 * 2 + up}", f"d{edge % 2}"))
    for agg in range(4):
        fabric.link((f"agg{agg}", "u0"), (f"core{agg % 2}", f"p{agg // 2}"))
    return fabric


def ring(switches: int, hosts: int) -> Fabric:
    """Switches in a circle, so that pauses may go round."""
    fabric = Fabric({f"h{switch}{host}" for switch in range(switches) for host in range(hosts)})
    for switch in range(switches):
        for host in range(hosts):
            fabric.link((f"h{switch}{host}", "eth0"), (f"sw{switch}", f"d{host}"))
        fabric.link((f"sw{switch}", "right"), (f"sw{(switch + 1) % switches}", "left"))
    return fabric


FABRICS: st.SearchStrategy[Fabric] = st.one_of(
    st.builds(leaf_spine, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.builds(fat_tree, st.integers(1, 2)),
    st.builds(ring, st.integers(3, 5), st.integers(1, 2)),
    st.builds(leaf_spine, st.just(2), st.just(1), st.integers(9, 14)),
    # Links without any sense: nothing may rest on a fabric that looks as it should.
    st.builds(
        lambda pairs, hosts: _linked(pairs, hosts),
        st.lists(st.tuples(*[st.tuples(st.sampled_from("abcdef"), st.sampled_from("123"))] * 2), max_size=12),
        st.sets(st.sampled_from("abcdef"), max_size=3),
    ),
)


def _linked(pairs: list[tuple[Port, Port]], hosts: set[str]) -> Fabric:
    fabric = Fabric(set(hosts))
    for one, other in pairs:
        if one != other:
            fabric.link(one, other)
    return fabric


@st.composite
def runs(draw: st.DrawFn, most_pauses: int = 25) -> Run:
    """A fabric and what happened in it; some rows are missing, and some have no part in any pause."""
    fabric = draw(FABRICS)
    random = Random(draw(st.integers(0, 2**32 - 1)))
    ports = [*sorted(fabric.links), ("nowhere", "p0")]
    pauses = draw(
        st.lists(
            st.tuples(
                st.sampled_from(GAPS_NS), st.booleans(), st.integers(0, len(ports) - 1),
                st.sampled_from((3, 3, 3, 3, 3, 5)), st.sampled_from(LENGTHS_NS),
                st.sampled_from(("whole",) * 10 + ("end", "begin")),
            ),
            min_size=1, max_size=most_pauses,
        )
    )  # fmt: skip
    rows: list[Told] = []
    orders: dict[Queue, int] = {}
    now_ns = BEGIN_NS
    instants: list[int] = []
    stopped = ports[0]
    for gap_ns, spreads, port, priority, length_ns, told in pauses:
        now_ns += gap_ns
        instants.append(now_ns)
        upstream = [
            end for end in sorted(fabric.links) if fabric.links[end][0] == stopped[0] and fabric.links[end] != stopped
        ]
        stopped = upstream[port % len(upstream)] if spreads and upstream else ports[port]
        queue = (*stopped, priority)
        order = orders[queue] = orders.get(queue, 0) + 1
        if told != "end":
            rows.append(Told(now_ns, queue, False, order))
        if told != "begin":
            rows.append(Told(now_ns + length_ns, queue, True, order, length_ns))
    end_ns = max(row.time_ns for row in rows)
    flows = _flows(fabric, instants, random)
    devices = sorted({port[0] for port in fabric.links})
    destinations = {flow: random.choice(devices) for flow in (1, 2) if devices}
    return Run(fabric, rows, _windows(fabric, instants, random), flows, destinations, end_ns)


def _windows(fabric: Fabric, instants: list[int], random: Random) -> list[Window]:
    width_ns = random.choice((10_000, 100_000))
    density = random.choice((0.0, 0.3, 0.8, 1.0, 1.0))
    queues = [(*port, priority) for port in sorted(fabric.links) for priority in (3, 5)]
    places = {(queue, now_ns // width_ns + back) for now_ns in instants for back in (-2, -1, 0, 1) for queue in queues}
    return [
        Window(queue, place * width_ns, (place + 1) * width_ns, random.choice(PEAKS_BYTES))
        for queue, place in sorted(places)
        if random.random() < density
    ]


def _flows(fabric: Fabric, instants: list[int], random: Random) -> list[FlowWindow]:
    width_ns = 100_000
    ports = sorted(fabric.links)
    return [
        FlowWindow(
            (*random.choice(ports), 3), place * width_ns, (place + 1) * width_ns, flow, random.randrange(1, 10**6)
        )
        for place in sorted({now_ns // width_ns + ahead for now_ns in instants for ahead in (-1, 0, 1)})
        for flow in range(1, 4)
        if ports
    ]
