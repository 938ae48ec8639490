"""The system call bpf(2), by ctypes: an agent that holds file descriptors needs no more of BPF than this.

In: a command and its attributes as bytes. Out: what the kernel returned, or an OSError.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

MAP_LOOKUP, MAP_UPDATE, MAP_DELETE, MAP_LOOKUP_AND_DELETE, MAP_LOOKUP_BATCH = 1, 2, 3, 21, 24
PROG_TEST_RUN, OBJ_GET_INFO, RAW_TRACEPOINT_OPEN, LINK_CREATE, ENABLE_STATS = 10, 15, 17, 28, 32
_NUMBER = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes, _syscall.restype = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint), ctypes.c_long


def bpf(command: int, attributes: bytearray) -> int:
    """Calls bpf(2); the kernel may write into the attributes. Raises OSError. Lets other threads run meanwhile."""
    if _NUMBER is None:
        raise OSError(f"the number of bpf(2) is not known for {platform.machine()}")
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    result = _syscall(_NUMBER, command, ctypes.addressof(buffer), len(attributes))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(result)


def run_time(program_fd: int) -> tuple[int, int]:
    """Time in ns that a program has run and how often, both 0 unless the kernel keeps statistics (ENABLE_STATS)."""
    info = ctypes.create_string_buffer(256)
    bpf(OBJ_GET_INFO, bytearray(struct.pack("=IIQ", program_fd, len(info), ctypes.addressof(info))))
    # struct bpf_prog_info: run_time_ns and run_cnt stand at 192.
    time_ns, count = struct.unpack_from("=QQ", info, 192)
    return int(time_ns), int(count)


def link_target(link_fd: int) -> int:
    """The ifindex that a link of tcx or XDP leads to; 0 when the interface is gone or has left the namespace."""
    info = ctypes.create_string_buffer(128)
    bpf(OBJ_GET_INFO, bytearray(struct.pack("=IIQ", link_fd, len(info), ctypes.addressof(info))))
    # struct bpf_link_info: type, id, prog_id; then at 16 what its type has, here ifindex first.
    return int(struct.unpack_from("=I", info, 16)[0])


def enable_statistics() -> int:
    """Makes the kernel time all BPF programs until the returned file descriptor is closed (Linux 5.8)."""
    return bpf(ENABLE_STATS, bytearray(struct.pack("=I", 0)))
