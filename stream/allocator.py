"""Has the C library keep the memory that a reader of many megabytes a second frees and needs again at once.

In: nothing. Out: nothing; only glibc knows how, and elsewhere nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""From malloc.h."""
KEPT_BYTES = 64 << 20
"""Freed memory that stays ours. By default 128 KiB do: each turn then asks the kernel for its megabytes anew, and
every page of 4 KiB costs a fault of about a microsecond."""
_GROWN_BY_BYTES = 4 << 20
_OWN_MAPPING_BYTES = 32 << 20
"""The most that glibc takes; what is smaller comes from the memory that was kept."""


def keep_freed_memory() -> None:
    """For processes that read megabytes all the time, from Kafka or from a capture; call it at the start.

    Arrow, loaded before or later, takes its memory from the C library too: its own allocator gives memory back.
    """
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.set_memory_pool(arrow.system_memory_pool())
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_TOP_PAD, _GROWN_BY_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
