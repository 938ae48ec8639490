"""BPF programs of tests and benchmarks, compiled by bcc in this process, runs of programs without any traffic, and a
ring that such runs fill.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

from probes import bpf_call
from probes.bpf_call import bpf
from probes.compile import bcc_directory, compiler_flags, load_bcc
from probes.hardware_errors import COUNT
from probes.maps import Map
from probes.ring import Ring
from stream.record import c_header

BPF = Path(__file__).parent / "bpf"


@functools.cache
def bcc() -> ModuleType:
    """The distribution's bcc."""
    directory = bcc_directory()
    assert directory is not None
    return load_bcc(directory)


def compiled(name: str, **macros: int) -> Any:
    """A module of bcc of the file bpf/<name>.bpf.c, which is a context: at its end it is unloaded."""
    text = c_header() + (BPF / f"{name}.bpf.c").read_text()
    return bcc().BPF(text=text.encode(), cflags=compiler_flags(macros))


def run_program(fd: int, *, packet: bytes = b"", context: bytes = b"", repeat: int = 0) -> int:
    """Runs a program by BPF_PROG_TEST_RUN on a packet or with a context; ns a run, where it was repeated."""
    data = ctypes.create_string_buffer(packet, len(packet)) if packet else None
    given = ctypes.create_string_buffer(context, len(context)) if context else None
    attributes = bytearray(
        struct.pack(
            "=IIIIQQIIIIQQIII4x", fd, 0, len(packet), 0, ctypes.addressof(data) if data else 0, 0, repeat, 0,
            len(context), 0, ctypes.addressof(given) if given else 0, 0, 0, 0, 0,
        )
    )  # fmt: skip
    bpf(bpf_call.PROG_TEST_RUN, attributes)
    return int(struct.unpack_from("=I", attributes, 36)[0])


class Producer:
    """A ring of so many pages and a program that fills it, all of it unloaded by `close`."""

    def __init__(self, pages: int, discard_every: int) -> None:
        self.module = compiled("produce", RING_PAGES=pages, DISCARD_EVERY=discard_every)
        self._program_fd = self.module.load_func(b"produce", self.module.XDP).fd
        self.ring = Ring(self.fd(), self._count("produced_lost"))

    def fd(self) -> int:
        """A file descriptor of the ring, which is the caller's."""
        return os.dup(self.module[b"produced"].map_fd)

    def _count(self, name: str) -> Map:
        return Map(os.dup(self.module[name.encode()].map_fd), COUNT)

    def total(self, name: str) -> int:
        """One of the program's counts, of all CPUs."""
        with closing(self._count(name)) as count:
            return int(count.at(0).sum())

    def run(self, rounds: int, repeat: int, cpu: int | None = None) -> None:
        """Makes rounds * repeat records, on the CPU asked for."""
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        for _ in range(rounds):
            run_program(self._program_fd, packet=bytes(64), repeat=repeat)

    def close(self) -> None:
        """Unloads the program and its maps."""
        self.ring.close()
        self.module.cleanup()
