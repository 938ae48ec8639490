"""What is known of a fabric, as people and programs see it: devices, ports, links, and names that do not resolve.

In: the facts of a fabric. Out: one entry a thing, each with what is wrong with it in `notes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

import msgspec

from pausetrace.known_facts import KnownFacts
from stream.facts import Link, Port
from stream.identity import Place, Standing
from stream.inventory import Cable, Inventory, PortName
from stream.priorities import maps_of

NOT_TOLD = "no device fact tells of it"


class DeviceEntry(msgspec.Struct, frozen=True, tag_field="is", tag="device"):
    """A device: `names` are its other names, `sources` who tells of it, `maps` the priority maps that are known."""

    fabric: str
    device: str
    role: str
    names: tuple[str, ...]
    sources: tuple[str, ...]
    ports: int
    cabled: int
    maps: tuple[str, ...]
    notes: tuple[str, ...] = ()


class PortEntry(msgspec.Struct, frozen=True, tag_field="is", tag="port"):
    """A port: `peer` is the far end of its cable as device:port, "" if none is known."""

    fabric: str
    device: str
    port: str
    speed_mbps: int
    names: tuple[str, ...]
    ips: tuple[str, ...]
    lag: str
    rail: str
    peer: str
    notes: tuple[str, ...] = ()


class LinkEntry(msgspec.Struct, frozen=True, tag_field="is", tag="link"):
    """A link by canonical names: `half` if one end alone is known; a link that is not `joined` joins nothing."""

    fabric: str
    a_device: str
    a_port: str
    b_device: str
    b_port: str
    speed_mbps: int
    delay_ns: int
    told_by: str
    half: bool
    joined: bool
    notes: tuple[str, ...] = ()


class NameEntry(msgspec.Struct, frozen=True, tag_field="is", tag="name"):
    """A name that does not resolve: `standing` is conflicting or unknown; of a device `port` is ""."""

    fabric: str
    device: str
    port: str
    standing: str
    why: str
    used_by: str


Entry = DeviceEntry | PortEntry | LinkEntry | NameEntry


class View:
    """One fabric; entries come in the order of names."""

    def __init__(self, fabric: str, known: KnownFacts) -> None:
        self._fabric = fabric
        self._links = [fact for fact in known.facts if isinstance(fact, Link)]
        self._named = known.named
        self._inventory = Inventory.of(known.facts)
        self._names = self._inventory.names
        self._speeds = self._inventory.speeds_mbps()
        self._cables = self._inventory.cables()
        self._peers = {
            one[:2]: other[:2] for a, b, *_ in self._cables for one, other in ((a, b), (b, a))
        }  # fmt: skip
        self._conflicts = self._names.conflicts()
        self._portless = {device for device in self._names.devices() if not self._names.ports(device)}

    def device(self, name: str) -> Place:
        """What the name of a device means."""
        return self._names.resolve(name, "")

    def devices(self) -> list[DeviceEntry]:
        """All devices that facts tell of."""
        roles = self._inventory.roles()
        cabled = Counter(device for device, _ in self._peers)
        disputes: defaultdict[str, list[str]] = defaultdict(list)
        for conflict in self._conflicts:
            for device in (conflict.device,) if conflict.device else conflict.claimed_by:
                disputes[device].append(conflict.name)
        return [
            DeviceEntry(
                fabric=self._fabric,
                device=device,
                role=roles.get(device, ""),
                names=tuple(sorted({name for fact in facts for name in (fact.device, *fact.aliases)} - {device})),
                sources=tuple(sorted({fact.stream.source for fact in facts})),
                ports=len(self._names.ports(device)),
                cabled=cabled[device],
                maps=tuple(name for name, told in msgspec.structs.asdict(maps_of(facts)).items() if told is not None),
                notes=_in_conflict(disputes[device]),
            )
            for device, facts in ((device, self._names.facts_of(device)) for device in self._names.devices())
        ]

    def ports(self, device: str) -> list[PortEntry]:
        """All ports of the device with this canonical name, those too that links alone know."""
        told: defaultdict[str, list[Port]] = defaultdict(list)
        for fact in self._names.facts_of(device):
            for port in fact.ports:
                told[self._names.resolve(device, port.port).port].append(port)
        disputed = {conflict.name for conflict in self._conflicts if conflict.device == device}
        linked = {port for where, port in self._peers if where == device}
        return [self._port(device, port, told.get(port, []), disputed) for port in sorted({*told, *linked})]

    def links(self) -> list[LinkEntry]:
        """All links in force, those that join ports first."""
        disputed = [
            Cable(a, b, link.speed_mbps, link.delay_ns, link)
            for link, a, b in self._inventory.links()
            if Standing.CONFLICTING in (a.standing, b.standing)
        ]
        entries = [self._link(cable, True) for cable in self._cables] + [self._link(cable, False) for cable in disputed]
        return sorted(entries, key=lambda entry: (not entry.joined, entry.a_device, entry.a_port, entry.b_device))

    def names(self) -> list[NameEntry]:
        """Names that are in conflict, and names in use that no device fact knows."""
        found: dict[PortName, NameEntry] = {}
        for conflict in self._conflicts:
            pair = (conflict.device, conflict.name) if conflict.device else (conflict.name, "")
            if not self._names.resolve(*pair).known:
                found[pair] = self._name(pair, self._names.resolve(*pair), "")
        used = [((device, ""), by) for device, by in self._named.items()]
        used += [(end, f"link of {link.stream.source}") for link in self._links for end in _ends(link)]
        for pair, by in used:
            place = self.device(pair[0])
            if place.standing == Standing.TOLD:
                place = self._names.resolve(*pair)
            else:
                pair = pair[0], ""
            if not self._is_told(place) and (pair not in found or not found[pair].used_by):
                found[pair] = self._name(pair, place, by)
        return [entry for _, entry in sorted(found.items())]

    def _port(self, device: str, port: str, told: list[Port], disputed: set[str]) -> PortEntry:
        names = {name for each in told for name in (each.port, *each.aliases)} - {port}
        return PortEntry(
            fabric=self._fabric,
            device=device,
            port=port,
            speed_mbps=self._speeds.get((device, port), 0),
            names=tuple(sorted(names)),
            ips=tuple(sorted({ip for each in told for ip in each.ips})),
            lag=next((each.lag for each in reversed(told) if each.lag), ""),
            rail=next((each.rail for each in reversed(told) if each.rail), ""),
            peer=":".join(self._peers.get((device, port), ())),
            notes=_in_conflict(names & disputed) if told else (NOT_TOLD,),
        )

    def _link(self, cable: Cable, joined: bool) -> LinkEntry:
        a, b = sorted((cable.a, cable.b), key=lambda place: place[:2])
        notes = [note for end in (a, b) if (note := self._note(end))]
        told = [(f"{end.device} says", self._speeds[end[:2]]) for end in (a, b) if end[:2] in self._speeds]
        if cable.speed_mbps:
            told.append(("the link says", cable.speed_mbps))
        if len({speed for _, speed in told}) > 1:
            notes.append(f"speeds differ: {', '.join(f'{who} {speed} Mb/s' for who, speed in told)}")
        return LinkEntry(
            fabric=self._fabric,
            a_device=a.device,
            a_port=a.port,
            b_device=b.device,
            b_port=b.port,
            speed_mbps=cable.speed_mbps or max((speed for _, speed in told), default=0),
            delay_ns=cable.delay_ns,
            told_by=cable.link.stream.source if cable.link else "peer of a port",
            half=joined and self._is_told(a) != self._is_told(b),
            joined=joined,
            notes=tuple(notes),
        )

    def _note(self, end: Place) -> str:
        """What is wrong with the end of a link, if anything is."""
        name = f"{end.device}:{end.port}"
        if end.standing == Standing.CONFLICTING:
            return f"{name} is {end.why}"
        if not self._is_told(end):
            return f"{name}: {NOT_TOLD}"
        members = self._names.lag_members(end.device, end.port)
        return f"{name} is a LAG of {len(members)}: give the links of its members" if members else ""

    def _name(self, pair: PortName, place: Place, by: str) -> NameEntry:
        disputed = place.standing == Standing.CONFLICTING
        standing = Standing.CONFLICTING if disputed else Standing.UNKNOWN
        return NameEntry(self._fabric, *pair, standing.value, place.why if disputed else NOT_TOLD, by)

    def _is_told(self, place: Place) -> bool:
        """Whether a device fact knows the place; a device whose facts tell no port leaves those to links."""
        linked = place.standing == Standing.LINKED and place.device in self._portless
        return linked or place.standing == Standing.TOLD


def _ends(link: Link) -> tuple[PortName, PortName]:
    return (link.a_device, link.a_port), (link.b_device, link.b_port)


def _in_conflict(names: Collection[str]) -> tuple[str, ...]:
    return (f"names in conflict: {', '.join(sorted(names))}",) if names else ()
