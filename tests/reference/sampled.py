"""Blame of one period of counters, by names and dictionaries: the slow twin of analytics.transit and sampled_blame.

A stop of k was sent by its link's other end. A host takes the blame; at a switch the egresses take it by the byte-time
that they held of k's bytes, and pass on what their own stops can have caused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.reference.topology import Fabric, Port

MEMORY_NS = 20_000.0
LEAST_CAUSE = 0.001
FAINT = 1e-4
ROUNDS = 120
Root = tuple[str, ...]


@dataclass
class Counted:
    """What was counted in one period, by egress port; a port that is not there counted 0."""

    length_ns: float
    bytes_per_ns: float
    paused_ns: dict[Port, float] = field(default_factory=dict)
    stops: dict[Port, float] = field(default_factory=dict)
    sent: dict[Port, float] = field(default_factory=dict)
    received: dict[Port, float] = field(default_factory=dict)
    peak: dict[Port, float] = field(default_factory=dict)
    without_depths: set[str] = field(default_factory=set)
    """Switches that tell no depths, and no marks."""
    without_bytes: set[str] = field(default_factory=set)


def transit(fabric: Fabric, device: str) -> dict[tuple[Port, Port], float]:
    """Of what waits at each egress, the part that came in by each ingress, by equal-cost paths."""
    ports = fabric.ports(device)
    away = {port: fabric.links[port][0] for port in ports}
    weight = {(one, other): 0.0 for one in ports for other in ports}
    for ingress in ports:
        behind, served = 0.0, 0
        row = dict.fromkeys(ports, 0.0)
        for hops in fabric.distances.values():
            here, there = hops.get(device), hops.get(away[ingress])
            if here is None or there is None:
                continue
            nearer = [port for port in ports if hops.get(away[port], here) == here - 1]
            if there == here - 1:
                behind += 1 / len(nearer)
            if there == here + 1 and nearer:
                served += 1
                for port in nearer:
                    row[port] += 1 / len(nearer)
        if behind and served:
            for port in ports:
                weight[ingress, port] = row[port] * behind / served
    for ingress in ports:
        allowed = fabric.exits(ingress)
        for egress in ports:
            if egress not in allowed:
                weight[ingress, egress] = 0.0
    for egress in ports:
        if not any(weight[ingress, egress] for ingress in ports):
            for ingress in ports:
                weight[ingress, egress] = float(egress in fabric.exits(ingress))
        total = sum(weight[ingress, egress] for ingress in ports)
        for ingress in ports:
            weight[ingress, egress] = weight[ingress, egress] / total if total else 0.0
    return weight


class Chain:
    """Edges of the pause graph, and of each stopped port its blame by root under each rule."""

    def __init__(self, fabric: Fabric, counted: Counted) -> None:
        self.fabric, self.counted = fabric, counted
        self.stopped = sorted(port for port, ns in counted.paused_ns.items() if ns > 0)
        self.edges = {port: self._edges(port) for port in self.stopped}
        """By stopped port: egress, depth, share."""
        self.weights: dict[bool, dict[Port, dict[Port, float]]] = {False: {}, True: {}}
        for port in self.stopped:
            by_rule = [self._weights(port, capped) for capped in (False, True)]
            counts = {egress for weights in by_rule for egress, weight in weights.items() if weight >= FAINT}
            self.edges[port] = [edge for edge in self.edges[port] if edge[0] in counts]
            for capped, weights in enumerate(by_rule):
                total = sum(weights[egress] for egress in counts)
                self.weights[bool(capped)][port] = {egress: weights[egress] / total for egress in counts}
        self.reaches = self._reaches()

    def blame(self, rule: str) -> dict[Port, dict[Root, float]]:
        """By stopped port; rule is main, low, capped, high or counts."""
        blamed: dict[Port, dict[Root, float]] = {port: {} for port in self.stopped}
        for _ in range(ROUNDS):
            for port in self.stopped:
                total: dict[Root, float] = {}
                end = self._end(port)
                if end is not None:
                    total[end] = 1.0
                for egress, weight in self.weights[rule == "capped"][port].items():
                    passed = self._passed(port, egress, weight, rule)
                    total["egress", *egress] = total.get(("egress", *egress), 0.0) + weight * (1 - passed)
                    for root, share in blamed.get(egress, {}).items():
                        total[root] = total.get(root, 0.0) + weight * passed * share
                blamed[port] = total
        for port in self.stopped:
            blamed[port]["cycle",] = max(0.0, 1.0 - sum(blamed[port].values()))
        return {port: {root: share for root, share in roots.items() if share > 1e-6} for port, roots in blamed.items()}

    def _end(self, port: Port) -> Root | None:
        pauser = self.fabric.links.get(port)
        if pauser is None:
            return ("unknown", port[0])
        if pauser[0] in self.fabric.hosts:
            return ("host", pauser[0])
        return None if self.edges[port] else ("unknown", pauser[0])

    def _edges(self, port: Port) -> list[tuple[Port, float, float]]:
        pauser = self.fabric.links.get(port)
        if pauser is None or pauser[0] in self.fabric.hosts:
            return []
        shares = self._fed(pauser[0])
        found = []
        for egress in self.fabric.ports(pauser[0]):
            depth = self._depth(egress)
            if shares[pauser, egress] > 0 and depth > 0:
                found.append((egress, depth, shares[pauser, egress]))
        return found

    def _fed(self, device: str) -> dict[tuple[Port, Port], float]:
        counted = self.counted
        shares = transit(self.fabric, device)
        ports = self.fabric.ports(device)
        fits = {
            port for port in ports
            if counted.sent.get(port, 0.0) > 0 and counted.sent[port] >= 4 * counted.peak.get(port, 0.0)
        }  # fmt: skip
        if not self._fills(device) or not fits or not any(counted.received.get(port) for port in ports):
            return shares
        table = dict(shares)
        for _ in range(20):
            for side, sums in ((0, counted.received), (1, counted.sent)):
                for port in ports:
                    own = [pair for pair in table if pair[side] == port]
                    total = sum(table[pair] for pair in own)
                    for pair in own:
                        table[pair] = table[pair] * sums.get(port, 0.0) / total if total else 0.0
        for egress in fits:
            total = sum(table[ingress, egress] for ingress in ports)
            if total:
                for ingress in ports:
                    shares[ingress, egress] = table[ingress, egress] / total
        return shares

    def _depth(self, egress: Port) -> float:
        counted, device = self.counted, egress[0]
        stopped = counted.paused_ns.get(egress, 0.0) > 0
        if device not in counted.without_depths:
            depth = counted.peak.get(egress, 0.0)
            return max(depth, 1_500.0) if stopped else depth
        if device not in counted.without_bytes:
            return 200_000.0 if stopped or counted.sent.get(egress, 0.0) > 0 else 0.0
        return 200_000.0 if stopped else 0.0

    def _fills(self, device: str) -> bool:
        """Whether stops that a device sent fill a quarter of the period."""
        longest = max(self._reach(self.fabric.links[port]) for port in self.fabric.ports(device))
        return longest >= 0.25 * self.counted.length_ns

    def _n(self, port: Port) -> float:
        return max(self.counted.stops.get(port, 0.0), 1.0)

    def _busy(self, port: Port) -> float:
        return self.counted.sent.get(port, 0.0) / self.counted.bytes_per_ns

    def _reach(self, port: Port) -> float:
        paused = self.counted.paused_ns.get(port, 0.0)
        return min(self.counted.length_ns, paused + self._n(port) * MEMORY_NS) if paused > 0 else 0.0

    def _short(self, port: Port) -> float:
        memory = min(self._n(port) * MEMORY_NS, max(self._busy(port), MEMORY_NS))
        return min(self.counted.length_ns, self.counted.paused_ns[port] + memory)

    def _weights(self, port: Port, capped: bool) -> dict[Port, float]:
        found = {}
        for egress, depth, share in self.edges[port]:
            # Of a depth that is a guess nobody knows how long it drains, unless other traffic fills the period.
            guessed = egress[0] in self.counted.without_depths and self._fills(egress[0])
            waves = float("inf") if guessed else (1 + self._n(port)) * depth / self.counted.bytes_per_ns
            time = min(self.counted.length_ns, self._reach(egress) + min(self._busy(egress), waves))
            height = min(depth, 500_000.0) if capped else depth
            found[egress] = share * (height * time) ** 2
        total = sum(found.values())
        return {egress: weight / total if total else 1 / len(found) for egress, weight in found.items()}

    def _strong(self, port: Port) -> list[Port]:
        return [
            egress
            for egress, weight in self.weights[False][port].items()
            if egress in self.edges and weight >= LEAST_CAUSE
        ]

    def _leads_to(self, port: Port, other: Port) -> bool:
        met, left = set(), [port]
        while left:
            for step in self._strong(left.pop()):
                if step == other:
                    return True
                if step not in met:
                    met.add(step)
                    left.append(step)
        return False

    def _reaches(self) -> dict[Port, float]:
        """The longest reach of all stops that hang together."""
        longest = {}
        for port in self.stopped:
            part, left = {port}, [port]
            while left:
                here = left.pop()
                near = self._strong(here) + [other for other in self.stopped if here in self._strong(other)]
                for step in near:
                    if step not in part:
                        part.add(step)
                        left.append(step)
            longest[port] = max(self._reach(other) for other in part)
        return longest

    def _passed(self, port: Port, egress: Port, weight: float, rule: str) -> float:
        if egress not in self.edges:
            return 0.0
        if rule == "high":
            return 1.0
        count = min(1.0, self._n(egress) / self._n(port))
        if egress == port or (self._leads_to(port, egress) and self._leads_to(egress, port)):
            return count
        paused_ns = self.counted.paused_ns
        time = max(
            self._reach(egress) / self._reach(port), self._short(egress) / self._short(port),
            paused_ns[egress] / paused_ns[port],
        )  # fmt: skip
        if rule == "counts":
            return min(1.0, max(count, time))
        main = min(1.0, time / weight) if weight > 0 else 1.0
        if rule != "low":
            return main
        depth = next(depth for other, depth, _ in self.edges[port] if other == egress)
        stopped_ns = self.counted.paused_ns[egress]
        waves = (1 + self._n(port)) * depth / self.counted.bytes_per_ns
        burst = min(self._busy(egress), max(self.reaches[egress] - stopped_ns, 0.0), waves)
        return min(main, self._reach(egress) / (stopped_ns + burst) if burst > 0 else 1.0)
