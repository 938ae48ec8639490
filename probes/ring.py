"""The consumer of a BPF ring buffer: rows straight from the kernel's memory, without a Python object an event.

In: the file descriptors of a ring and of its per-CPU count of losses. Out: `Drained`, at most what the ring holds.

The kernel maps the data twice in a row, so that a backlog never wraps (kernel/bpf/ringbuf.c). A record is a header of 8
bytes and the payload; ours all have 56, so that a backlog is an array with a stride of 64. Plain loads and stores are
enough where the CPU keeps the order of stores, which x86-64 does; elsewhere libbpf consumes, which bcc does too.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from probes.maps import Map, ring_bytes
from stream.errors import MissingDependencyError, PausetraceError
from stream.record import EVENT, RECORD_BYTES, Events

HEADER_BYTES = 8
STRIDE = HEADER_BYTES + RECORD_BYTES
BUSY, DISCARDED = 1 << 31, 1 << 30
_OPAQUE = np.dtype((np.void, RECORD_BYTES))
_PART = 1 << 14
"""Records that are checked, copied and moved in time together, while a CPU has them in its cache: 1 MiB."""
_LIBBPF = "libbpf.so.1"
_U64 = np.dtype("<u8")


class Drained(NamedTuple):
    """Rows in the order of the ring, time_ns since the Unix epoch; `lost` rows found no room since the last drain."""

    events: Events
    lost: int


def consumer() -> str:
    """What reads the rings on this machine, for people."""
    if platform.machine() == "x86_64":
        return "mmap"
    return f"libbpf's callback, as in bcc (mmap needs x86-64, this is {platform.machine()})"


def epoch_offset_ns() -> int:
    """What makes CLOCK_MONOTONIC, which programs stamp, ns since the Unix epoch; the two clocks are read as one."""
    before = time.monotonic_ns()
    now = time.time_ns()
    return now - (before + time.monotonic_ns()) // 2


class Ring:
    """One ring, and the only consumer of it; it owns both file descriptors. Safe for several threads."""

    def __init__(self, fd: int, lost: Map) -> None:
        self._lost, self._told_lost = lost, 0
        self._lost_now = lost.reader(0)
        self._lock = threading.Lock()
        self._consumer = _Mapped(fd) if platform.machine() == "x86_64" else CallbackConsumer(fd)

    def drain(self) -> Drained:
        """All rows that programs have finished, and how many were lost meanwhile."""
        with self._lock:
            events = self._consumer.take(epoch_offset_ns())
            # The loss is read last: a row that is lost now and counted is a row that came before.
            lost = int(self._lost_now.read().sum(dtype=np.uint64))
            told, self._told_lost = self._told_lost, lost
        return Drained(events, lost - told)

    def close(self) -> None:
        """Unmaps the ring; may be called twice."""
        with self._lock:
            self._consumer.close()
            self._lost.close()


class _Mapped:
    """A ring mapped into memory."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._bytes = ring_bytes(fd)
        page = mmap.PAGESIZE
        self._consumer_page = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0)
        self._pages = mmap.mmap(fd, page + 2 * self._bytes, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        self._consumed: npt.NDArray[Any] = np.frombuffer(self._consumer_page, _U64, 1)
        self._produced: npt.NDArray[Any] = np.frombuffer(self._pages, _U64, 1)
        self._data = memoryview(self._pages)[page:]

    def take(self, offset_ns: int) -> Events:
        """All finished records, their times moved by this much."""
        consumed = int(self._consumed[0])
        count = (int(self._produced[0]) - consumed) // STRIDE
        if not count:
            return np.zeros(0, EVENT)
        place = consumed & (self._bytes - 1)
        # Of a header, four bytes are the length and its flags; the rest is the kernel's own.
        shared = np.ndarray(count, "<u4", self._data, place, STRIDE)
        # As opaque bytes rows are copied twice as fast as by field or word.
        rows = np.ndarray(count, _OPAQUE, self._data, place + HEADER_BYTES, STRIDE)
        taken = np.empty(count, _OPAQUE)
        times = taken.view(EVENT)["time_ns"]
        # Every header is read once, and before its payload: what was finished then, is.
        done = 0
        while done < count and (shared[done : done + _PART] == RECORD_BYTES).all():
            part = slice(done, done + _PART)
            taken[part] = rows[part]
            times[part] += offset_ns
            done = min(done + _PART, count)
        kept = done
        if done < count:
            finished, rest = _finished(shared[done:].copy(), rows[done:])
            done, kept = done + finished, kept + len(rest)
            taken[kept - len(rest) : kept] = rest
            times[kept - len(rest) : kept] += offset_ns
        self._consumed[0] = consumed + done * STRIDE
        return taken[:kept].view(EVENT)

    def close(self) -> None:
        if self._fd < 0:
            return
        del self._consumed, self._produced
        self._data.release()
        self._consumer_page.close()
        self._pages.close()
        os.close(self._fd)
        self._fd = -1


def _finished(headers: npt.NDArray[Any], rows: npt.NDArray[Any]) -> tuple[int, npt.NDArray[Any]]:
    """How many records programs have finished, up to the first that is not, and those of them that are no discards."""
    busy = (headers & BUSY) != 0
    count = int(busy.argmax()) if busy.any() else len(headers)
    headers = headers[:count]
    if ((headers & ~np.uint32(DISCARDED)) != RECORD_BYTES).any():
        raise PausetraceError("a ring has a record of another size than 56 bytes", "report this as a bug")
    return count, rows[:count][(headers & DISCARDED) == 0]


class CallbackConsumer:
    """libbpf's consumer, which calls back once an event; many times slower, right on every CPU."""

    def __init__(self, fd: int) -> None:
        try:
            self._library = ctypes.CDLL(_LIBBPF)
        except OSError as error:
            raise MissingDependencyError(
                f"{_LIBBPF} cannot be loaded: {error}", "install it (Debian: apt-get install libbpf1)"
            ) from error
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        self._callback = callback(self._seen)
        self._library.ring_buffer__new.restype = ctypes.c_void_p
        self._library.ring_buffer__new.argtypes = [ctypes.c_int, callback, ctypes.c_void_p, ctypes.c_void_p]
        self._library.ring_buffer__consume.argtypes = [ctypes.c_void_p]
        self._library.ring_buffer__free.argtypes = [ctypes.c_void_p]
        self._fd = fd
        self._rows: list[bytes] = []
        self._ring = self._library.ring_buffer__new(fd, self._callback, None, None)
        if not self._ring:
            raise PausetraceError("libbpf refuses the ring buffer")

    def _seen(self, _context: int, data: int, size: int) -> int:
        self._rows.append(ctypes.string_at(data, size))
        return 0

    def take(self, offset_ns: int) -> Events:
        """All finished records, their times moved by this much."""
        self._library.ring_buffer__consume(self._ring)
        rows, self._rows = self._rows, []
        events = np.frombuffer(bytearray(b"".join(rows)), EVENT)
        events["time_ns"] += offset_ns
        return events

    def close(self) -> None:
        if self._fd >= 0:
            self._library.ring_buffer__free(self._ring)
            os.close(self._fd)
            self._fd = -1
