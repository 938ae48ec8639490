"""Fabrics to be built by size: leaf and spine, oversubscribed, rail-optimised, three-tier fat-tree, and a ring.

In: numbers of hosts and switches. Out: `Topology`. A switch numbers its ports from p1 on, hosts first; a host has eth0.
"""

from __future__ import annotations

from simulation.fabric.wires import Cable, Topology

MBPS = 100_000


class _Builder:
    def __init__(self, name: str, mbps: int) -> None:
        self.name, self.mbps = name, mbps
        self.kinds: dict[str, str] = {}
        self.cables: list[Cable] = []
        self._used: dict[str, int] = {}

    def add(self, kind: str, *names: str) -> None:
        for name in names:
            self.kinds[name] = kind

    def port(self, device: str) -> str:
        if self.kinds[device] == "host":
            return "eth0"
        self._used[device] = self._used.get(device, 0) + 1
        return f"p{self._used[device]}"

    def join(self, a: str, b: str, count: int = 1) -> None:
        for _ in range(count):
            self.cables.append(Cable(a, self.port(a), b, self.port(b), self.mbps))

    def build(self) -> Topology:
        return Topology(self.name, tuple(self.kinds), tuple(self.kinds.values()), tuple(self.cables))


def leaf_spine(
    hosts: int, *, per_leaf: int, spines: int, parallel: int = 1, storage: int = 0, mbps: int = MBPS
) -> Topology:
    """Leaves of `per_leaf` hosts, each with `parallel` links to every spine.

    `storage` hosts, `st0` on, hang on leaves of their own, `per_leaf` each. It is oversubscribed where `per_leaf` is
    more than `spines * parallel`.
    """
    _divides(hosts, per_leaf, "hosts of a leaf")
    made = _Builder(f"leaf-spine-{hosts}", mbps)
    leaves = [f"leaf{n}" for n in range(hosts // per_leaf)]
    store_leaves = [f"sleaf{n}" for n in range(-(-storage // per_leaf))]
    made.add("host", *(f"h{n}" for n in range(hosts)), *(f"st{n}" for n in range(storage)))
    made.add("leaf", *leaves, *store_leaves)
    made.add("spine", *(f"spine{n}" for n in range(spines)))
    for n in range(hosts):
        made.join(f"h{n}", leaves[n // per_leaf])
    for n in range(storage):
        made.join(f"st{n}", store_leaves[n // per_leaf])
    for leaf in leaves + store_leaves:
        for n in range(spines):
            made.join(leaf, f"spine{n}", parallel)
    return made.build()


def oversubscribed(hosts: int, *, per_leaf: int, factor: int = 2, storage: int = 0, mbps: int = MBPS) -> Topology:
    """A leaf and spine fabric whose leaves have `factor` times as many hosts as uplinks."""
    _divides(per_leaf, factor, "hosts of an uplink")
    return leaf_spine(hosts, per_leaf=per_leaf, spines=per_leaf // factor, storage=storage, mbps=mbps)


def rail(servers: int, *, rails: int = 8, per_leaf: int = 32, spines: int = 8, mbps: int = MBPS) -> Topology:
    """Servers of `rails` NICs, `s<server>r<rail>`: each rail has leaves of its own for `per_leaf` servers each."""
    _divides(servers, per_leaf, "servers of a leaf")
    _divides(per_leaf, spines, "links to a spine")
    made = _Builder(f"rail-{servers * rails}", mbps)
    made.add("host", *(f"s{server}r{r}" for server in range(servers) for r in range(rails)))
    leaves = {(r, block): f"rail{r}leaf{block}" for r in range(rails) for block in range(servers // per_leaf)}
    made.add("leaf", *leaves.values())
    made.add("spine", *(f"spine{n}" for n in range(spines)))
    for server in range(servers):
        for r in range(rails):
            made.join(f"s{server}r{r}", leaves[r, server // per_leaf])
    for leaf in leaves.values():
        for n in range(spines):
            made.join(leaf, f"spine{n}", per_leaf // spines)
    return made.build()


def fat_tree(k: int, mbps: int = MBPS) -> Topology:
    """The k-ary fat-tree of Al-Fares et al. (SIGCOMM 2008): k^3 / 4 hosts, k pods, k^2 / 4 cores."""
    _divides(k, 2, "ports of a switch that go up")
    half = k // 2
    made = _Builder(f"fat-tree-{k}", mbps)
    made.add("host", *(f"h{n}" for n in range(k * half * half)))
    made.add("tor", *(f"tor{n}" for n in range(k * half)))
    made.add("agg", *(f"agg{n}" for n in range(k * half)))
    made.add("core", *(f"core{n}" for n in range(half * half)))
    for n in range(k * half * half):
        made.join(f"h{n}", f"tor{n // half}")
    for tor in range(k * half):
        for n in range(half):
            made.join(f"tor{tor}", f"agg{tor // half * half + n}")
    for agg in range(k * half):
        for n in range(half):
            made.join(f"agg{agg}", f"core{agg % half * half + n}")
    return made.build()


def ring(switches: int, *, per_switch: int = 2, mbps: int = MBPS) -> Topology:
    """Switches in a ring, p1 towards the next one and p2 towards the one before: where ways can wait in a circle."""
    if switches < 3:
        raise ValueError("a ring has three switches at least")
    made = _Builder(f"ring-{switches}", mbps)
    made.add("host", *(f"h{n}" for n in range(switches * per_switch)))
    made.add("switch", *(f"sw{n}" for n in range(switches)))
    for n in range(switches):
        made.cables.append(Cable(f"sw{n}", made.port(f"sw{n}"), f"sw{(n + 1) % switches}", "p2", mbps))
        made.port(f"sw{n}")
    for n in range(switches * per_switch):
        made.join(f"h{n}", f"sw{n // per_switch}")
    return made.build()


def _divides(whole: int, part: int, what: str) -> None:
    if part < 1 or whole < part or whole % part:
        raise ValueError(f"{whole} is no multiple of {part}, the number of {what}")
