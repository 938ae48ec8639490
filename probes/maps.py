"""BPF maps by their file descriptors: single entries, and all entries of a hash in a few system calls.

In: a file descriptor. Out: NumPy arrays; a per-CPU map has a row for each possible CPU.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from probes import bpf_call
from probes.bpf_call import bpf

_PER_CPU = (5, 6, 10)  # hash, array, LRU hash
_BATCH = 4096
Array = npt.NDArray[Any]


def possible_cpus() -> int:
    """CPUs that the kernel has room for, which is how many values an entry of a per-CPU map has."""
    last = Path("/sys/devices/system/cpu/possible").read_text().strip().split(",")[-1]
    return int(last.split("-")[-1]) + 1


def _info(fd: int) -> tuple[int, int, int, int]:
    """Type, bytes of a key, bytes of a value and most entries of a map (struct bpf_map_info)."""
    info = ctypes.create_string_buffer(128)
    bpf(bpf_call.OBJ_GET_INFO, bytearray(struct.pack("=IIQ", fd, len(info), ctypes.addressof(info))))
    kind, _, key_bytes, value_bytes, max_entries = struct.unpack_from("=5I", info)
    return kind, key_bytes, value_bytes, max_entries


def ring_bytes(fd: int) -> int:
    """Size of a ring buffer's data."""
    return _info(fd)[3]


class Map:
    """One map; it owns its file descriptor. `value` is the dtype of a value, of a multiple of 8 bytes if per CPU."""

    def __init__(self, fd: int, value: np.dtype[Any]) -> None:
        self.fd = fd
        self._value = value
        kind, self.key_bytes, self.value_bytes, self.max_entries = _info(fd)
        if self.value_bytes != value.itemsize:
            raise ValueError(f"a value of the map has {self.value_bytes} bytes, its dtype {value.itemsize}")
        self._shape = (possible_cpus(),) if kind in _PER_CPU else ()

    def _empty(self, *shape: int) -> Array:
        return np.zeros(shape + self._shape, self._value)

    def lookup(self, key: bytes, *, delete: bool = False) -> Array:
        """The value, per CPU an array of them. Raises KeyError."""
        value = self._empty()
        command = bpf_call.MAP_LOOKUP_AND_DELETE if delete else bpf_call.MAP_LOOKUP
        try:
            self._call(command, key, value.ctypes.data)
        except FileNotFoundError:
            raise KeyError(key) from None
        return value

    def at(self, index: int) -> Array:
        """The value of an array's entry."""
        return self.lookup(struct.pack("=I", index))

    def reader(self, index: int) -> Reader:
        """For an array's entry that is read again and again."""
        return Reader(self.fd, index, self._empty())

    def update(self, key: bytes, value: bytes) -> None:
        """Sets the value of a map that is not per CPU."""
        buffer = ctypes.create_string_buffer(value, self.value_bytes)
        self._call(bpf_call.MAP_UPDATE, key, ctypes.addressof(buffer))

    def delete(self, key: bytes) -> None:
        """Takes an entry out of a hash. Raises KeyError."""
        try:
            self._call(bpf_call.MAP_DELETE, key, 0)
        except FileNotFoundError:
            raise KeyError(key) from None

    def _call(self, command: int, key: bytes, value_address: int) -> None:
        assert len(key) == self.key_bytes
        buffer = ctypes.create_string_buffer(key, len(key))
        bpf(command, bytearray(struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(buffer), value_address, 0)))

    def entries(self, key: np.dtype[Any]) -> tuple[Array, Array]:
        """Keys and values of all entries of a hash, by batches (Linux 5.6)."""
        keys: list[Array] = []
        values: list[Array] = []
        place, batch = ctypes.create_string_buffer(max(self.key_bytes, 8)), min(_BATCH, self.max_entries)
        first = True
        while True:
            some_keys, some_values = np.empty(batch, key), np.empty((batch, *self._shape), self._value)
            attributes = bytearray(struct.pack(
                "=QQQQIIQQ", 0 if first else ctypes.addressof(place), ctypes.addressof(place),
                some_keys.ctypes.data, some_values.ctypes.data, batch, self.fd, 0, 0,
            ))  # fmt: skip
            over = False
            try:
                bpf(bpf_call.MAP_LOOKUP_BATCH, attributes)
            except OSError as error:
                if error.errno == errno.ENOSPC and batch < 1 << 20:  # a bucket of the hash has more than that
                    batch *= 2
                    continue
                if error.errno != errno.ENOENT:
                    raise
                over = True
            (count,) = struct.unpack_from("=I", attributes, 32)
            keys.append(some_keys[:count])
            values.append(some_values[:count])
            if over:
                return np.concatenate(keys), np.concatenate(values)
            first = False

    def close(self) -> None:
        """Gives the file descriptor back; may be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Reader:
    """Reads one entry of an array map, each time into the same memory. Not safe for several threads."""

    def __init__(self, fd: int, index: int, value: Array) -> None:
        self._key = ctypes.c_uint32(index)
        self._value = value
        self._attributes = bytearray(struct.pack("=IIQQQ", fd, 0, ctypes.addressof(self._key), value.ctypes.data, 0))

    def read(self) -> Array:
        """The value as it is now; the next read overwrites it."""
        bpf(bpf_call.MAP_LOOKUP, self._attributes)
        return self._value
