"""The resolver: what (device, port) a pair of names means, by all facts that are in force.

In: device facts, and the names by which links call their ends. Out: for any pair of names the canonical pair, or that
it is unknown or in conflict; never a guess. A pure function of the facts, in whatever order they came.
"""

from __future__ import annotations

import enum
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stream.facts import Device, Link, Peer
from stream.namespace import Dispute, Namespace, Told
from stream.spellings import asked_port_keys, device_keys, mac_digits, told_port_keys

_generations = itertools.count()


class Standing(enum.Enum):
    """How a name is known: told by a device fact, named by links or peers alone, by nothing, or claimed by several."""

    TOLD = "told"
    LINKED = "linked"
    UNKNOWN = "unknown"
    CONFLICTING = "conflicting"


class Place(NamedTuple):
    """What a pair of names means. A name that does not resolve stays as it was asked; `why` says what stood against it.

    A device that does not resolve decides for its ports too.
    """

    device: str
    port: str
    standing: Standing
    why: str = ""

    @property
    def known(self) -> bool:
        """Whether the name means one thing that some fact tells of."""
        return self.standing in (Standing.TOLD, Standing.LINKED)


class Conflict(NamedTuple):
    """A name that several things claim; of a port `device` says on which device, of a device it is ""."""

    device: str
    name: str
    claimed_by: tuple[str, ...]


class _FactKey(NamedTuple):
    """Of two versions that one source tells of a device, the one with the greater key is in force."""

    from_ns: int
    source: str
    epoch: str
    seq: int


class Resolver:
    """Resolves names by the facts added so far.

    Of each device only the latest version of each source counts: to look at another time, add what held by then.
    """

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], tuple[_FactKey, Device]] = {}
        self._linked: dict[str, dict[str, None]] = {}
        self._peers: dict[tuple[str, str], list[Peer]] = {}
        self._compiled = _Compiled({}, {}, None)
        self._newest = [self._compiled]
        """What was compiled last, by this one or one of its copies: they mostly take the same facts in."""
        self._stale = False
        self.generation = next(_generations)
        """Another number for other facts, of all resolvers of this process."""

    def add(self, fact: Device | Link, from_ns: int | None = None) -> None:
        """Takes a fact in, valid from its own time or from another."""
        if isinstance(fact, Link):
            self.add_linked(((fact.a_device, fact.a_port), (fact.b_device, fact.b_port)))
            return
        told = fact.stream
        key = _FactKey(fact.valid_from_ns if from_ns is None else from_ns, told.source, told.epoch, told.seq)
        before = self._facts.get((told.source, fact.device))
        if before is None or before[0] < key:
            self._facts[told.source, fact.device] = key, fact
            self._peers[told.source, fact.device] = [port.peer for port in fact.ports if port.peer is not None]
            self._outdate()

    def add_linked(self, names: Iterable[tuple[str, str]]) -> None:
        """Takes pairs of names in by which links have called their ends."""
        for device, port in names:
            if port not in self._linked.get(device, ()):
                self._linked.setdefault(device, {})[port] = None
                self._outdate()

    def resolve(self, device: str, port: str) -> Place:
        """What a pair of names means."""
        if self._stale:
            self._compile()
        places = self._compiled.places.get(device)
        place = None if places is None else places.get(port)
        return place if place is not None else self._compiled.resolve(device, port)

    def device(self, name: str) -> str:
        """The canonical name of a device, the name itself if it does not resolve."""
        return self.resolve(name, "").device

    def cable_end(self, device: str, port: str) -> Place:
        """What the end of a link means: a LAG with a single member stands for that member."""
        place = self.resolve(device, port)
        if not place.known:
            return place
        members = self._compiled.ports_of(place.device).lag_members.get(place.port, ())
        return self.resolve(place.device, members[0]) if len(members) == 1 else place

    def lag_members(self, device: str, port: str) -> list[str]:
        """Canonical names of the members of a LAG; both names are canonical."""
        return self._now().ports_of(device).lag_members.get(port, [])

    def facts(self) -> list[Device]:
        """The device facts in force, in the order of the times from which they hold."""
        return _in_order(self._facts.values())

    def versions(self) -> list[tuple[int, Device]]:
        """The device facts in force as they were added, with the time from which each holds."""
        return [(key.from_ns, fact) for key, fact in self._facts.values()]

    def linked_names(self) -> list[tuple[str, str]]:
        """The pairs of names by which links called their ends, as they were added."""
        return [(device, port) for device, ports in self._linked.items() for port in ports]

    def devices(self) -> list[str]:
        """Canonical names of all devices that device facts tell of, in order."""
        return self._now().told.things()

    def own_names(self, device: str) -> list[str]:
        """The names by which device facts tell of a device that has this canonical name."""
        return self._now().told.own_names(device)

    def facts_of(self, device: str) -> list[Device]:
        """The facts in force of the device with this canonical name, in the order of the times from which they hold."""
        return self._now().facts_of(device)

    def ports(self, device: str) -> list[str]:
        """Canonical names of the ports that device facts tell of, in order."""
        return self._now().ports_of(device).told.things()

    def conflicts(self) -> list[Conflict]:
        """All names told by device facts that more than one thing claims: devices, then ports device by device."""
        compiled = self._now()
        found = [Conflict("", *dispute) for dispute in compiled.told.disputes()]
        for device in compiled.told.things():
            disputes: list[Dispute] = compiled.ports_of(device).told.disputes()
            found += [Conflict(device, *dispute) for dispute in disputes]
        return found

    def copy(self) -> Resolver:
        """A copy that further facts change alone."""
        twin = Resolver()
        twin._facts = dict(self._facts)
        twin._linked = {device: dict(ports) for device, ports in self._linked.items()}
        twin._peers = dict(self._peers)
        twin._compiled, twin._stale, twin.generation = self._compiled, self._stale, self.generation
        twin._newest = self._newest
        return twin

    def _outdate(self) -> None:
        self._stale = True
        self.generation = next(_generations)

    def _now(self) -> _Compiled:
        if self._stale:
            self._compile()
        return self._compiled

    def _compile(self) -> None:
        linked = {device: set(ports) for device, ports in self._linked.items()}
        for peers in self._peers.values():
            for peer in peers:
                linked.setdefault(peer.device, set()).add(peer.port)
        self._compiled = self._newest[0] = _Compiled(self._facts, linked, self._newest[0])
        self._stale = False


class _Ports:
    """The ports of one device: those that device facts tell of, and names that only links and peers know."""

    def __init__(self, facts: list[Device], linked: list[str]) -> None:
        self.facts, self.linked_names = facts, linked
        told = [
            Told(fact.stream.source, port.port, port.aliases, port.lag) for fact in facts for port in fact.ports
        ]  # fmt: skip
        self.told = Namespace(told, told_port_keys, asked_port_keys)
        named = [Told("", name) for name in linked if not self.told.find(name)]
        self.linked = Namespace(named, told_port_keys, asked_port_keys)
        self.lag_members: defaultdict[str, list[str]] = defaultdict(list)
        for name in self.told.things():
            if lag := self.told.lag_of(name):
                self.lag_members[lag].append(name)

    def is_of(self, facts: list[Device], linked: list[str]) -> bool:
        """Whether it was made of these."""
        same = len(facts) == len(self.facts) and all(a is b for a, b in zip(facts, self.facts, strict=True))
        return same and linked == self.linked_names


class _Compiled:
    """What a set of facts says; parts that the set before it had too are taken over from there."""

    told: Namespace
    linked: Namespace
    places: dict[str, dict[str, Place]]
    _ports: dict[str, _Ports]

    def __init__(
        self,
        facts: dict[tuple[str, str], tuple[_FactKey, Device]],
        linked: dict[str, set[str]],
        before: _Compiled | None,
    ) -> None:
        self._facts: defaultdict[str, list[tuple[_FactKey, Device]]] = defaultdict(list)
        for key, fact in facts.values():
            self._facts[fact.device].append((key, fact))
        self._told_of = {key: fact.aliases for key, (_, fact) in facts.items()}
        self._linked_devices = linked.keys()
        if before is not None and before._told_of == self._told_of and before._linked_devices == self._linked_devices:
            self.told, self.linked = before.told, before.linked
        else:
            told = [Told(source, device, aliases) for (source, device), aliases in self._told_of.items()]
            self.told = Namespace(told, device_keys, device_keys, with_domains=True)
            named = [Told("", name) for name in linked if not self.told.find(name)]
            self.linked = Namespace(named, device_keys, device_keys, with_domains=True)
        self._by_mac: dict[str, set[str]] | None = None
        linked_ports: defaultdict[str, list[str]] = defaultdict(list)
        for name, ports in linked.items():
            device = self.find_device(name)
            if device.known:
                linked_ports[device.device] += ports
        self._linked_ports = {device: sorted(set(names)) for device, names in linked_ports.items()}
        self._ports, self.places = {}, {}
        if before is not None:
            self._ports = {device: ports for device, ports in before._ports.items() if self._holds(device, ports)}
            self.places = {name: places for name, places in before.places.items() if self._hold(name, places)}

    def resolve(self, device: str, port: str) -> Place:
        """What a pair of names means, kept for the next time."""
        places = self.places.setdefault(device, {})
        found = places.get("") or self.find_device(device)
        places[""] = found
        if not found.known or not port:
            # Of a device that does not resolve nobody knows the ports either.
            place = found._replace(port=port)
        else:
            ports = self.ports_of(found.device)
            place = _place(found.device, port, ports.told, ports.linked)
        places[port] = place
        return place

    def find_device(self, name: str) -> Place:
        """What a device's name means; a MAC address of a port, which LLDP may give as the chassis, means its device."""
        place = _place("", name, self.told, self.linked)
        if place.standing != Standing.TOLD and (mac := mac_digits(name)):
            owners = tuple(sorted(self._devices_by_mac().get(mac, ())))
            if owners and place.standing != Standing.CONFLICTING:
                place = _meaning("", name, owners, Standing.TOLD)
        return place._replace(device=place.port, port="")

    def ports_of(self, device: str) -> _Ports:
        """The ports of the device with this canonical name."""
        ports = self._ports.get(device)
        if ports is None:
            ports = self._ports[device] = _Ports(self.facts_of(device), self._linked_ports.get(device, []))
        return ports

    def facts_of(self, device: str) -> list[Device]:
        """The facts of the device with this canonical name, in the order of the times from which they hold."""
        if self.told.canonical(device) != device:
            return []
        return _in_order(entry for name in self.told.own_names(device) for entry in self._facts[name])

    def _holds(self, device: str, ports: _Ports) -> bool:
        return ports.is_of(self.facts_of(device), self._linked_ports.get(device, []))

    def _hold(self, name: str, places: dict[str, Place]) -> bool:
        """Whether what the names of a device's ports meant is what they still mean."""
        return self.find_device(name) == places[""] and (not places[""].known or places[""].device in self._ports)

    def _devices_by_mac(self) -> dict[str, set[str]]:
        if self._by_mac is None:
            self._by_mac = defaultdict(set)
            for device in self.told.things():
                for fact in self.facts_of(device):
                    for port in fact.ports:
                        for mac in filter(None, map(mac_digits, (port.port, *port.aliases))):
                            self._by_mac[mac].add(device)
        return self._by_mac


def _in_order(facts: Iterable[tuple[_FactKey, Device]]) -> list[Device]:
    return [fact for _, fact in sorted(facts, key=lambda entry: (entry[0], entry[1].device))]


def _place(device: str, name: str, told: Namespace, linked: Namespace) -> Place:
    """A name on a device, by what device facts and else links let it mean."""
    for standing, names in ((Standing.TOLD, told), (Standing.LINKED, linked)):
        if found := names.find(name):
            return _meaning(device, name, found, standing)
    return Place(device, name, Standing.UNKNOWN, "no fact tells of it")


def _meaning(device: str, name: str, found: tuple[str, ...], standing: Standing) -> Place:
    if len(found) == 1:
        return Place(device, found[0], standing)
    return Place(device, name, Standing.CONFLICTING, f"claimed by {some(found)}")


def some(names: Sequence[str], most: int = 4) -> str:
    """The first names for people."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
