"""Devices and links in force at one moment, by canonical names: roles, speeds, and which port is cabled to which.

In: device and link facts in the order from which they hold. Out: what the topology is made of, live, offline and in
`pausetrace links`. A link replaces earlier links of the same ports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from stream import messages
from stream.facts import DEFAULT_DELAY_NS, Device, Link
from stream.identity import Place, Resolver, Standing

PortName = tuple[str, str]


class Cable(NamedTuple):
    """Two joined ports. `link` is the fact that joins them, None where only a port's own device tells its peer."""

    a: Place
    b: Place
    speed_mbps: int
    delay_ns: int
    link: Link | None


class Inventory:
    """What is in force after the facts added so far."""

    def __init__(self) -> None:
        self.names = Resolver()
        self._links: dict[tuple[PortName, PortName], Link] = {}
        self._link_at: dict[PortName, tuple[PortName, PortName]] = {}
        self._encoded: dict[int, tuple[Device | Link, list[Any]]] = {}

    @classmethod
    def of(cls, facts: Iterable[Device | Link]) -> Inventory:
        """What facts that came in any order say."""
        inventory = cls()
        for fact in sorted(facts, key=lambda fact: fact_order(fact.valid_from_ns, fact)):
            inventory.add(fact)
        return inventory

    def add(self, fact: Device | Link, from_ns: int | None = None) -> None:
        """Takes a fact in that holds from a time on, its own if no other is given."""
        self.names.add(fact, from_ns)
        if isinstance(fact, Link):
            ends = (fact.a_device, fact.a_port), (fact.b_device, fact.b_port)
            for end in ends:
                self._links.pop(self._link_at.get(end, (end, end)), None)
            self._links[ends] = fact
            self._link_at |= dict.fromkeys(ends, ends)

    def roles(self) -> dict[str, str]:
        """The role of each device, as told last."""
        names = self.names
        return {names.device(fact.device): fact.role for fact in names.facts() if fact.role}

    def speeds_mbps(self) -> dict[PortName, int]:
        """The speed of each port of which one is known, as told last."""
        return {
            self.names.resolve(fact.device, port.port)[:2]: port.speed_mbps
            for fact in self.names.facts()
            for port in fact.ports
            if port.speed_mbps
        }

    def ranks(self) -> dict[PortName, tuple[str, str]]:
        """Of each port that is a rank of a job: the port of its host that it sends by ("" = not known), and the job."""
        names = self.names
        return {
            names.resolve(fact.device, port.port)[:2]: (
                names.resolve(fact.device, port.nic).port if port.nic else "", port.job
            )
            for fact in names.facts()
            for port in fact.ports
            if port.nic or port.job
        }  # fmt: skip

    def cables(self) -> list[Cable]:
        """All cables between two ports, in the order of the links that tell of them, then by peers.

        A link of which an end is in conflict joins nothing.
        """
        joined: dict[PortName, Cable] = {}
        for link, a, b in self.links():
            one, other = a[:2], b[:2]
            if Standing.CONFLICTING in (a.standing, b.standing) or one == other:
                continue
            for end in (one, other):
                if before := joined.get(end):
                    del joined[before.a[:2]], joined[before.b[:2]]
            joined[one] = joined[other] = Cable(a, b, link.speed_mbps, link.delay_ns, link)
        for a, b in self._peers(joined):
            joined[a[:2]] = joined[b[:2]] = Cable(a, b, 0, DEFAULT_DELAY_NS, None)
        return [cable for end, cable in joined.items() if end == cable.a[:2]]

    def links(self) -> list[tuple[Link, Place, Place]]:
        """The links in force and what their ends mean."""
        end = self.names.cable_end
        return [
            (link, end(link.a_device, link.a_port), end(link.b_device, link.b_port)) for link in self._links.values()
        ]

    def conflicting_ends(self) -> set[PortName]:
        """The names by which links call ends that several things claim."""
        names = self.names
        return {end for ends in self._links for end in ends if names.resolve(*end).standing == Standing.CONFLICTING}

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        before, self._encoded = self._encoded, {}
        devices = [[from_ns, *self._encode(fact, before)] for from_ns, fact in self.names.versions()]
        links = [self._encode(link, before) for link in self._links.values()]
        return [devices, links, [list(name) for name in self.names.linked_names()]]

    @classmethod
    def of_state(cls, state: list[Any]) -> Inventory:
        """The inventory of a `state()`."""
        inventory = cls()
        devices, links, linked_names = state
        for from_ns, *message in devices:
            inventory.names.add(cast(Device, messages.decode(*message)), from_ns)
        inventory.names.add_linked((device, port) for device, port in linked_names)
        for message in links:
            inventory.add(cast(Link, messages.decode(*message)))
        return inventory

    def copy(self) -> Inventory:
        """A copy that further facts change alone."""
        twin = Inventory()
        twin.names = self.names.copy()
        twin._links, twin._link_at = dict(self._links), dict(self._link_at)
        return twin

    def _encode(self, fact: Device | Link, before: dict[int, tuple[Device | Link, list[Any]]]) -> list[Any]:
        """The fact's message; facts stay for long and snapshots are many."""
        known = before.get(id(fact))
        entry = known if known is not None and known[0] is fact else (fact, list(messages.encode(fact)))
        self._encoded[id(fact)] = entry
        return entry[1]

    def _peers(self, joined: dict[PortName, Cable]) -> list[tuple[Place, Place]]:
        """Pairs of ports without a link that tell of each other; or of which one tells, and no other port says more."""
        places: dict[PortName, Place] = {}
        tells: defaultdict[PortName, set[PortName]] = defaultdict(set)
        for fact in self.names.facts():
            for port in fact.ports:
                if port.peer is None:
                    continue
                here = self.names.cable_end(fact.device, port.port)
                there = self.names.cable_end(port.peer.device, port.peer.port)
                if there.standing != Standing.CONFLICTING and here[:2] != there[:2]:
                    places |= {here[:2]: here, there[:2]: there}
                    tells[here[:2]].add(there[:2])
        told_of: defaultdict[PortName, set[PortName]] = defaultdict(set)
        for one, others in tells.items():
            for other in others:
                told_of[other].add(one)
        pairs = []
        for one in sorted(tells):
            (other, *more) = sorted(tells[one])
            if more or one in joined or other in joined:
                continue
            mutual = tells.get(other) == {one}
            alone = other not in tells and told_of[other] == {one} and not told_of[one]
            if (mutual and one < other) or alone:
                pairs.append((places[one], places[other]))
        return pairs


def fact_order(from_ns: int, fact: Device | Link) -> tuple[int, bool, str, str, int]:
    """By the time from which a fact holds, devices first, then as their streams have them: never by arrival."""
    return from_ns, isinstance(fact, Link), fact.stream.source, fact.stream.epoch, fact.stream.seq
