"""The flows that facts tell of: their versions in time, and which come from a host, go to one, or leave by a port.

In: flow facts with the time from which each holds. Out: what is known of a flow at a time. Names in facts are looked up
by what they mean at the moment, so indices go by the names as they were told.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from analytics.flow_places import FlowPlaces
from analytics.layout import FOREVER, NEVER, Ints
from analytics.topology import Topology
from stream.facts import Flow
from stream.identity import Resolver

Name = TypeVar("Name", bound=Hashable)
Version = tuple[int, Flow]
"""From when on it holds, and what it says."""


class Known(NamedTuple):
    """What facts say of a flow: where it begins, since when, and its size (-1: unknown)."""

    src_device: int
    from_ns: int
    size_bytes: int


class _ByName(Generic[Name]):
    """Flows by a name that their facts give."""

    def __init__(self, meaning: Callable[[Resolver, Name], Name]) -> None:
        self._meaning = meaning
        self._flows: dict[Name, set[int]] = {}
        self._named: tuple[int, int, dict[Name, list[Name]]] = (-1, 0, {})
        """By what they mean, the names; for a generation of the resolver, and so many names."""

    def add(self, name: Name, number: int) -> None:
        self._flows.setdefault(name, set()).add(number)

    def discard(self, name: Name, number: int) -> None:
        flows = self._flows.get(name, set())
        flows.discard(number)
        if not flows and self._flows.pop(name, None) is not None:
            self._named = (-1, 0, {})

    def of(self, meant: Name, names: Resolver) -> set[int]:
        """Flows of which some version has a name that means this."""
        generation, count, named = self._named
        if (generation, count) != (names.generation, len(self._flows)):
            named = {}
            for name in self._flows:
                named.setdefault(self._meaning(names, name), []).append(name)
            self._named = names.generation, len(self._flows), named
        return set().union(*(self._flows[name] for name in named.get(meant, ())))


class KnownFlows:
    """All flows that facts have told of."""

    def __init__(self) -> None:
        self._versions: dict[int, list[Version]] = {}
        self._from = _ByName[str](lambda names, device: names.device(device))
        self._to = _ByName[str](lambda names, device: names.device(device))
        self._through = _ByName[tuple[str, str]](lambda names, place: names.resolve(*place)[:2])
        # For whole runs of rows: the place of a flow in two columns, from when on its only version holds (FOREVER where
        # there are several), and the number of its destination's name.
        self._rows = FlowPlaces()
        self._only_ns, self._destination = array("q"), array("q")
        self._destinations: dict[str, int] = {}
        self._placed: tuple[Topology | None, int, list[int]] = (None, -1, [])
        """What each destination's name means, by a topology and a generation of its names."""

    def __len__(self) -> int:
        return len(self._versions)

    def add(self, flow: Flow, from_ns: int, needed_ns: int = NEVER) -> None:
        """Takes a version in; those that ended before `needed_ns` are forgotten."""
        number = int(flow.flow, 16)
        versions = self._versions.setdefault(number, [])
        insort(versions, (from_ns, flow), key=lambda v: (v[0], v[1].stream.source, v[1].stream.epoch, v[1].stream.seq))
        while len(versions) > 1 and versions[1][0] <= needed_ns:
            self._forget(versions.pop(0)[1], number)
        # Only now, since what was forgotten may have had the same names.
        for _, kept in versions:
            self._from.add(kept.src_device, number)
            self._to.add(kept.dst_device, number)
            for hop in kept.path:
                self._through.add((hop.device, hop.out_port), number)
        row = self._rows.place(number)
        if row == len(self._only_ns):
            self._only_ns.append(FOREVER)
            self._destination.append(0)
        only = len(versions) == 1
        self._only_ns[row] = versions[0][0] if only else FOREVER
        name = versions[0][1].dst_device
        self._destination[row] = self._destinations.setdefault(name, len(self._destinations))

    def _forget(self, flow: Flow, number: int) -> None:
        self._from.discard(flow.src_device, number)
        self._to.discard(flow.dst_device, number)
        for hop in flow.path:
            self._through.discard((hop.device, hop.out_port), number)

    def versions(self, number: int) -> list[Version]:
        """What is kept of a flow, in order."""
        return self._versions.get(number, [])

    def at(self, number: int, time_ns: int) -> Flow | None:
        """The flow as it was known at a time: what is read early of later times must not show."""
        flow = None
        for from_ns, version in self._versions.get(number, ()):
            if from_ns > time_ns:
                break
            flow = version
        return flow

    def to(self, host: str, names: Resolver) -> set[int]:
        """Flows of which some version ends at this host."""
        return self._to.of(host, names)

    def through(self, device: str, port: str, names: Resolver) -> set[int]:
        """Flows of which some version has a path that leaves by this port."""
        return self._through.of((device, port), names)

    def sent_by(self, host: str, names: Resolver) -> set[int]:
        """Flows of which some version comes from this host."""
        return self._from.of(host, names)

    def destinations(self, flows: npt.NDArray[np.uint64], times_ns: Ints, topology: Topology) -> Ints:
        """Index of each flow's destination device + 1, 0 where the flow is not known at the row's time."""
        if not self._versions or not len(flows):
            return np.zeros(len(flows), np.int64)
        rows = self._rows.places(flows)
        place = np.array(self._places(topology), np.int64)[np.frombuffer(self._destination, np.int64)] + 1
        destinations: Ints = place[rows]
        # The others ask for each row, by its time.
        destinations[np.frombuffer(self._only_ns, np.int64)[rows] > times_ns] = -1
        destinations[rows < 0] = 0
        for row in np.flatnonzero(destinations < 0).tolist():
            known = self.at(int(flows[row]), int(times_ns[row]))
            destinations[row] = topology.place_device(known.dst_device) + 1 if known is not None else 0
        return destinations

    def then(self, until_ns: int, topology: Topology) -> FlowsThen:
        """What facts in force at a time say of flows."""
        return FlowsThen(self, until_ns, topology)

    def last_alone(self) -> KnownFlows:
        """The last version of each flow, as something that was always so."""
        fresh = KnownFlows()
        for versions in self._versions.values():
            fresh.add(versions[-1][1], NEVER)
        return fresh

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        return [
            [from_ns, _encoder.encode(flow)]
            for _, versions in sorted(self._versions.items())
            for from_ns, flow in versions
        ]

    @classmethod
    def of_state(cls, state: list[Any]) -> KnownFlows:
        """Continues from `state()`."""
        flows = cls()
        for from_ns, message in state:
            flows.add(_decoder.decode(message), from_ns)
        return flows

    def _places(self, topology: Topology) -> list[int]:
        known, generation, places = self._placed
        if known is not topology or generation != topology.names.generation:
            places = []
        for name in list(self._destinations)[len(places) :] if len(places) < len(self._destinations) else ():
            places.append(topology.place_device(name))
        self._placed = topology, topology.names.generation, places
        return places


class FlowsThen:
    """Flows as facts know them at one time."""

    def __init__(self, flows: KnownFlows, until_ns: int, topology: Topology) -> None:
        self._flows, self._until_ns, self._topology = flows, until_ns, topology

    def known(self, number: int) -> Known | None:
        """Of one flow, None if nothing is."""
        known = [(from_ns, flow) for from_ns, flow in self._flows.versions(number) if from_ns <= self._until_ns]
        if not known:
            return None
        flow = known[-1][1]
        # What an earlier life of the fabric knew says nothing of when the flow began in this one.
        begun = next((version for from_ns, version in known if from_ns > NEVER), flow)
        topology = self._topology
        return Known(topology.find_device(topology.names.device(flow.src_device)), begun.valid_from_ns, flow.size_bytes)

    def sent_by(self, host: int) -> set[int]:
        """The flows of a host."""
        return self._flows.sent_by(self._topology.devices[host], self._topology.names)


# There may be 100,000 flows: messages.encode, which checks what it makes, would take seconds.
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Flow)
