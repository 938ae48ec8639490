"""BPF programs of tests and benchmarks, compiled by bcc in this process, and runs of programs without any traffic."""

from __future__ import annotations

import ctypes
import functools
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

from probes import bpf_call
from probes.bpf_call import bpf
from probes.compile import bcc_directory, compiler_flags, load_bcc
from stream.record import c_header

BPF = Path(__file__).parent / "bpf"


@functools.cache
def bcc() -> ModuleType:
    """The distribution's bcc."""
    directory = bcc_directory()
    assert directory is not None
    return load_bcc(directory)


def compiled(name: str, **macros: int) -> Any:
    """A module of bcc of the file bpf/<name>.bpf.c."""
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
