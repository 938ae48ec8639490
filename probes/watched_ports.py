"""The interfaces that packets are looked at on: they come and go, and are attached to and given up as they do.

In: which there are, and how to attach to one. Out: their numbers in rows, and since when one was not looked at.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from probes.attach import Attached
from probes.maps import Map
from stream.kinds import SIDE_RX, SIDE_TX

_log = logging.getLogger(__name__)

PORT_KEY = np.dtype([("ifindex", "<u4"), ("side", "<u4")])
LOOK_AGAIN_NS = 1_000_000_000
MAX_PORTS = 256
"""Half as many as the map `ports` has entries."""
Ints = npt.NDArray[np.int64]


class Unseen(NamedTuple):
    """An interface that is looked at again, or for the first time, and since when it may not have been."""

    name: str
    since_ns: int


class _Port:
    def __init__(self, name: str, number: int, attached: Sequence[Attached]) -> None:
        self.name, self.number, self.attached = name, number, attached
        self.is_gone = False

    def close(self) -> None:
        for each in self.attached:
            each.close()


class WatchedPorts:
    """Interfaces by ifindex. `ports` is the map of the program, which looks at nothing that has no entry there.

    One that is gone keeps its number until `forget_gone`, so that what is left of it can be read.
    """

    def __init__(
        self, ports: Map, find: Callable[[], Mapping[int, str]], attach: Callable[[str], Sequence[Attached]]
    ) -> None:
        """Attaches to all that there are. Raises OSError."""
        self.counted: Counter[str] = Counter()
        self.names: list[str] = []
        """By number; "" where none has it."""
        self._map, self._find, self._attach = ports, find, attach
        self._ports: dict[int, _Port] = {}
        self._unseen_since_ns: dict[int, int] = {}
        """Of those that could not be attached to."""
        self._indexes, self._numbers = np.zeros(0, np.uint32), np.zeros(0, np.int64)
        self._looked_ns = 0
        self._all: list[tuple[int, str]] = []
        self._found: Mapping[int, str] = {}
        try:
            for index, name in self._find_if_changed().items():
                self._add(index, name)
        except BaseException:
            self.close()
            raise
        self._sort()

    def numbers(self, indexes: npt.NDArray[Any]) -> Ints:
        """The numbers of the interfaces with these ifindexes, all of which have one."""
        found: Ints = self._numbers[np.searchsorted(self._indexes, indexes)]
        return found

    def look(self, now_ns: int) -> list[Unseen]:
        """Follows what came and went since the last look; says which interfaces are looked at only from now on."""
        if 0 <= now_ns - self._looked_ns < LOOK_AGAIN_NS:
            return []
        before_ns, self._looked_ns = self._looked_ns or now_ns, now_ns
        found = self._find_if_changed()
        for index, port in self._ports.items():
            if index not in found and not port.is_gone:
                _log.warning("probe packets: interface %s is gone", port.name)
                self.counted["interfaces_gone"] += 1
                port.close()
                port.is_gone = True
        unseen: list[Unseen] = []
        waiting: dict[int, int] = {}
        for index, name in found.items():
            known = self._ports.get(index)
            if known is not None and not known.is_gone and all(each.holds() for each in known.attached):
                self._rename(known, name)
                continue
            since_ns = self._unseen_since_ns.get(index, before_ns)
            try:
                if known is None:
                    self._add(index, name)
                else:
                    self._attach_again(known, name)
            except OSError as error:
                waiting[index] = since_ns
                if index not in self._unseen_since_ns:
                    self.counted["interfaces_refused"] += 1
                    _log.warning("probe packets: interface %s cannot be looked at: %s", name, error)
            else:
                self.counted["interfaces_come"] += 1
                _log.warning("probe packets: interface %s is looked at from now on", name)
                unseen.append(Unseen(name, since_ns))
        self._unseen_since_ns = waiting
        self._sort()
        return unseen

    def _find_if_changed(self) -> Mapping[int, str]:
        """Looks closer, which takes 40 ms where there are 500 interfaces, only if there are others than before."""
        everything = socket.if_nameindex()
        if everything != self._all:
            self._found, self._all = self._find(), everything
        return self._found

    def forget_gone(self) -> None:
        """Gives up those that were gone already when all counters were read last."""
        for index in [index for index, port in self._ports.items() if port.is_gone]:
            self.names[self._ports.pop(index).number] = ""
            self._clear(index)
        self._sort()

    def _rename(self, port: _Port, name: str) -> None:
        port.name = self.names[port.number] = name

    def _attach_again(self, port: _Port, name: str) -> None:
        """To an interface that came back, or from which somebody has taken the programs."""
        port.close()
        port.attached = ()
        port.is_gone = True
        port.attached = self._attach(name)
        port.is_gone = False
        self._rename(port, name)

    def _add(self, index: int, name: str) -> None:
        if len(self._ports) == MAX_PORTS:
            raise OSError(f"{MAX_PORTS} interfaces are as many as can be")
        for side in (SIDE_RX, SIDE_TX):
            self._map.update(_key(index, side), bytes(self._map.value_bytes))
        try:
            attached = self._attach(name)
        except OSError:
            self._clear(index)
            raise
        number = self.names.index("") if "" in self.names else len(self.names)
        self.names[number : number + 1] = [name]
        self._ports[index] = _Port(name, number, attached)

    def _clear(self, index: int) -> None:
        for side in (SIDE_RX, SIDE_TX):
            self._map.delete(_key(index, side))

    def _sort(self) -> None:
        self._indexes = np.array(sorted(self._ports), np.uint32)
        self._numbers = np.array([self._ports[index].number for index in sorted(self._ports)], np.int64)

    def close(self) -> None:
        """Detaches from all and closes the map; may be called twice."""
        for port in self._ports.values():
            port.close()
        self._map.close()


def _key(index: int, side: int) -> bytes:
    return np.array([(index, side)], PORT_KEY).tobytes()
