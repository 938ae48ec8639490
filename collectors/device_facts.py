"""What a device says of itself and its neighbours becomes facts: a `Device` with its ports, and a `Link` a cable.

In: single leaves (names, MACs, speeds, LAGs, LLDP neighbours, the sorting of packets), in the order in which they come.
Out: the facts that changed. The names stay as they were sent: stream/identity.py resolves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from collectors.link_speed import speed_mbps
from collectors.path_map import Slow
from collectors.profile import Fact
from collectors.sorting import Sorting
from stream.facts import MAX_ALIASES, MAX_PORTS, Device, Link, Peer, Port, PriorityMaps
from stream.priorities import NO_MAPS
from stream.publisher import UNSENT
from stream.ranges import MAX_NAME_CHARS

_NO_VALUE = ("", "none", "n/a", "not-available", "unknown")
_MAX_NEIGHBOURS = 64
"""Of one port: a cable has one, and a device that tells of more is joined to a segment of several hosts or lies."""


@dataclass(slots=True)
class _Neighbour:
    device: str = ""
    chassis: str = ""
    port: str = ""

    def peer(self) -> Peer | None:
        device = self.device or self.chassis
        return Peer(device, self.port) if device and self.port else None


@dataclass(slots=True)
class _PortFacts:
    aliases: dict[str, str] = field(default_factory=dict)
    """By the leaf that told it."""
    ips: dict[str, None] = field(default_factory=dict)
    speed_mbps: int = 0
    lag: str = ""
    neighbours: dict[str, _Neighbour] = field(default_factory=dict)


class DeviceFacts:
    """What one target has told of itself. `known_speed` hears of each port's speed, `sorts` of new priority maps."""

    def __init__(
        self,
        fabric: str,
        device: str,
        role: str,
        aliases: Sequence[str],
        known_speed: Callable[[str, int], None],
        sorts: Callable[[PriorityMaps], None],
        queue_number: Callable[[str], int | None],
    ) -> None:
        self._fabric, self._device, self._role = fabric, device, role
        self._aliases: dict[str, str] = {f"inventory {number}": alias for number, alias in enumerate(aliases)}
        self._ports: dict[str, _PortFacts] = {}
        self._sorting = Sorting()
        self._known_speed, self._sorts, self._queue_number = known_speed, sorts, queue_number
        self._maps = NO_MAPS
        self._last: dict[int, Sequence[str]] = {}
        """By number of a leaf, what it said last: most say the same again."""
        self._told: Device | None = None
        self._links: dict[str, Link] = {}
        self._from_ns = 0
        self._refused = 0
        self.changed = True
        """Whether something was told since the facts were made last."""

    @property
    def refused(self) -> int:
        """Leaves for which there was no room: of ports, neighbours or names beyond what is kept of one device."""
        return self._refused + self._sorting.refused

    def take(self, number: int, entry: Slow, values: Sequence[str], time_ns: int) -> None:
        """One leaf; `values` has one text, or the members of a list. What makes no sense is passed over."""
        fact = entry.fact
        if fact is None or not values or self._last.get(number) == values:
            return
        # A member of a LAG may be told by a path that names both.
        text = entry.captured.get("lag") or values[0].strip()
        captured = entry.captured
        if fact.says.startswith(("port_", "peer_")):
            port = self._port(captured["port"])
            before = msgspec.to_builtins(port)
            if port is not None:
                self._of_port(fact, port, captured, text, values)
            else:
                self._refused += 1
            changed = before != msgspec.to_builtins(port)
        elif fact.says in ("device_name", "device_mac"):
            changed = _name(text) and self._aliases.get(fact.says) != text
            if changed:
                self._aliases[fact.says] = text
        else:
            changed = self._sort(fact, captured, text, values)
        self._last[number] = values
        if changed:
            self.changed = True
            self._from_ns = max(self._from_ns, time_ns)

    def forget(self, entries: Sequence[tuple[int, Slow]], time_ns: int) -> None:
        """Leaves were deleted: the neighbours that they told of are gone."""
        for number, entry in entries:
            self._last.pop(number, None)
            if (neighbour := neighbour_of(entry)) is not None:
                port = self._ports.get(neighbour[0])
                if port is not None and port.neighbours.pop(neighbour[1], None) is not None:
                    self.changed = True
                    self._from_ns = max(self._from_ns, time_ns)

    def begin_anew(self) -> list[tuple[str, str]]:
        """The numbers of leaves will be others. Answers the neighbours that there are, as `neighbour_of` does."""
        self._last.clear()
        return [(name, peer) for name, port in self._ports.items() for peer in port.neighbours]

    def make(self, time_ns: int) -> list[Device | Link]:
        """The facts that differ from those made last, the device first."""
        if not self.changed:
            return []
        self.changed = False
        from_ns = self._from_ns or time_ns
        ports = tuple(self._fact_of(name, port) for name, port in sorted(self._ports.items()))
        aliases = tuple(dict.fromkeys(name for name in self._aliases.values() if name != self._device))[:MAX_ALIASES]
        maps = None if self._maps == NO_MAPS else self._maps
        device = Device(self._fabric, self._device, self._role, from_ns, UNSENT, ports, aliases, maps)
        made: list[Device | Link] = []
        if self._told is None or msgspec.structs.replace(device, valid_from_ns=self._told.valid_from_ns) != self._told:
            self._told = device
            made.append(device)
        for port in ports:
            if port.peer is None:
                self._links.pop(port.port, None)
                continue
            link = Link(
                self._fabric,
                self._device,
                port.port,
                port.peer.device,
                port.peer.port,
                port.speed_mbps,
                from_ns,
                UNSENT,
            )
            before = self._links.get(port.port)
            if before is None or msgspec.structs.replace(link, valid_from_ns=before.valid_from_ns) != before:
                self._links[port.port] = link
                made.append(link)
        return made

    def _port(self, name: str) -> _PortFacts | None:
        port = self._ports.get(name)
        if port is None and _name(name) and len(self._ports) < MAX_PORTS:
            port = self._ports[name] = _PortFacts()
        return port

    def _of_port(
        self, fact: Fact, port: _PortFacts, captured: dict[str, str], text: str, values: Sequence[str]
    ) -> None:
        if fact.says == "port_speed":
            port.speed_mbps = speed_mbps(text, fact.unit) or port.speed_mbps
            self._known_speed(captured["port"], port.speed_mbps)
        elif fact.says == "port_lag":
            port.lag = text if _name(text) else ""
        elif fact.says == "port_ip":
            port.ips |= dict.fromkeys(value for value in values[:MAX_ALIASES] if _name(value))
            for oldest in list(port.ips)[:-MAX_ALIASES]:
                del port.ips[oldest]
        elif fact.says in ("port_alias", "port_mac"):
            if _name(text):
                port.aliases[f"{fact.says} {fact.path}"] = text
            else:
                port.aliases.pop(f"{fact.says} {fact.path}", None)
        elif len(port.neighbours) < _MAX_NEIGHBOURS or captured.get("peer", "") in port.neighbours:
            neighbour = port.neighbours.setdefault(captured.get("peer", ""), _Neighbour())
            name = text if _name(text) else ""
            if fact.says == "peer_device":
                neighbour.device = name
            elif fact.says == "peer_chassis":
                neighbour.chassis = name
            else:
                neighbour.port = name
        else:
            self._refused += 1

    def _sort(self, fact: Fact, captured: dict[str, str], text: str, values: Sequence[str]) -> bool:
        number = self._queue_number(text) if (told := _small(text)) is None else told
        sorting, says = self._sorting, fact.says
        if says == "term_dscp":
            dscps = tuple(dscp for value in values if (dscp := _small(value)) is not None)
            sorting.term_dscp(captured["term"], dscps)
        elif says == "term_class":
            sorting.term_class(captured["term"], text)
        elif number is None:
            return False
        elif says == "dscp_class":
            sorting.dscp_class(int(captured["dscp"]), number)
        elif says == "class_queue":
            sorting.class_queue(int(captured["class"]), number)
        elif says == "class_group":
            sorting.class_group(int(captured["class"]), number)
        elif says == "priority_queue":
            sorting.priority_queue(int(captured["priority"]), number)
        else:
            sorting.class_name_queue(captured["class_name"], number)
        maps = sorting.maps()
        if maps == self._maps:
            return False
        self._maps = maps
        self._sorts(maps)
        return True

    def _fact_of(self, name: str, port: _PortFacts) -> Port:
        aliases = tuple(dict.fromkeys(alias for alias in port.aliases.values() if alias != name))[:MAX_ALIASES]
        # Of several neighbours the first by its id: the same whatever their order.
        peers = [peer for _, neighbour in sorted(port.neighbours.items()) if (peer := neighbour.peer()) is not None]
        return Port(
            name, port.speed_mbps, aliases, tuple(port.ips)[:MAX_ALIASES], port.lag, "", peers[0] if peers else None
        )


def neighbour_of(entry: Slow) -> tuple[str, str] | None:
    """The port and the id of the neighbour that a leaf is about; None if it is not about one."""
    if entry.fact is None or not entry.fact.says.startswith("peer_"):
        return None
    return entry.captured["port"], entry.captured.get("peer", "")


def _small(text: str) -> int | None:
    """The number of a queue, class, priority or code point, which one byte holds; None of all else."""
    if not 0 < len(text) <= 3 or not (text.isascii() and text.isdecimal()):
        return None
    return number if (number := int(text)) <= 255 else None


def _name(text: str) -> bool:
    """Whether it can be a name in a fact, and is one."""
    if not 0 < len(text) <= MAX_NAME_CHARS or text.lower() in _NO_VALUE:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
