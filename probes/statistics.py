"""The statistics that a driver counts of an interface (`ethtool -S`): by ioctl, since netlink has no private ones.

In: an interface's name. Out: its names and their numbers. In a recorded tree the file `ethtool/NAME.json` answers:
{"statistics": {"rx_prio3_pause": 12, ...}}.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Protocol

import numpy as np
import numpy.typing as npt

from probes.host_root import HostRoot

SIOCETHTOOL = 0x8946
GSTRINGS, GSTATS, GSSET_INFO = 0x1B, 0x1D, 0x37
STATISTICS_SET = 1
NAME_BYTES = 32
MAX_STATISTICS = 65_536
SPARE = 512
"""Room for statistics that a driver may come by between two calls: the kernel writes as many as it has by then."""

Readings = npt.NDArray[np.uint64]


class Statistics(Protocol):
    """The statistics of one interface. `names` changes when the driver counts something else than before."""

    names: tuple[str, ...]

    def read(self) -> Readings | None:
        """The numbers in the order of `names`, valid until the next read; None where they cannot be read now."""

    def close(self) -> None:
        """Gives everything back; may be called twice."""


def statistics(host: HostRoot, interface: str) -> Statistics:
    """The statistics of an interface."""
    return KernelStatistics(interface) if host.live else RecordedStatistics(host, interface)


class RecordedStatistics:
    """Statistics from the file of a recorded tree."""

    def __init__(self, host: HostRoot, interface: str) -> None:
        self.names: tuple[str, ...] = ()
        self._host = host
        self._path = f"/ethtool/{interface}.json"

    def read(self) -> Readings | None:
        """The numbers."""
        told = self._host.recorded(self._path)
        found = told.get("statistics") if isinstance(told, dict) else None
        if not isinstance(found, dict):
            return None
        whole = {name: number for name, number in found.items() if type(number) is int and 0 <= number < 1 << 64}
        # Some drivers' names end with a blank.
        self.names = tuple(name.strip() for name in whole)
        return np.array(list(whole.values()), np.uint64)

    def close(self) -> None:
        """Nothing to give back."""


class KernelStatistics:
    """Statistics from this host's kernel, in two system calls a read."""

    def __init__(self, interface: str) -> None:
        self.names: tuple[str, ...] = ()
        self._name = interface.encode()[:15]
        self._socket: socket.socket | None = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._size_buffer = np.zeros(5, np.uint32)
        self._size_request = self._request(self._size_buffer)
        self._buffer = np.zeros(0, np.uint64)
        self._stats_request = b""

    def read(self) -> Readings | None:
        """The numbers."""
        try:
            count = self._count()
            if (count != len(self.names) or not self._stats_request) and not self._prepare(count):
                return None
            self._buffer[0] = GSTATS | count << 32
            self._call(self._stats_request)
        except OSError:
            self.names = ()
            return None
        told = int(self._buffer[0]) >> 32
        if told != count:
            self.names = ()
            return None
        return self._buffer[1 : count + 1]

    def close(self) -> None:
        """Closes the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _count(self) -> int:
        """How many statistics the driver has now: that changes with the number of queues."""
        self._size_buffer[:] = (GSSET_INFO, 0, 1 << STATISTICS_SET, 0, 0)
        self._call(self._size_request)
        return int(self._size_buffer[4]) if self._size_buffer[2] else 0

    def _prepare(self, count: int) -> bool:
        """Learns the names, and makes room for the numbers; False where there are none."""
        self.names, self._stats_request = (), b""
        if not 0 < count <= MAX_STATISTICS:
            return False
        strings = np.zeros(12 + (count + SPARE) * NAME_BYTES, np.uint8)
        strings[:12].view(np.uint32)[:] = (GSTRINGS, STATISTICS_SET, count)
        self._call(self._request(strings))
        if int(strings[:12].view(np.uint32)[2]) != count:
            return False
        names = strings[12 : 12 + count * NAME_BYTES].tobytes()
        self.names = tuple(
            names[at : at + NAME_BYTES].partition(b"\0")[0].decode("utf-8", "replace").strip()
            for at in range(0, len(names), NAME_BYTES)
        )
        self._buffer = np.zeros(1 + count + SPARE, np.uint64)
        self._stats_request = self._request(self._buffer)
        return True

    def _request(self, buffer: npt.NDArray[np.generic]) -> bytes:
        """An ifreq: the interface's name, and where the kernel finds the command and writes the answer."""
        return struct.pack("16sP16x", self._name, buffer.ctypes.data)

    def _call(self, request: bytes) -> None:
        if self._socket is None:
            raise OSError("closed")
        fcntl.ioctl(self._socket.fileno(), SIOCETHTOOL, request)
