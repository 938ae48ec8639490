"""What holds for every test of the probes: it leaves no BPF program, map or link behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest


def bpf_descriptors() -> dict[str, str]:
    """What this process holds of BPF: file descriptor -> what it is of."""
    found = {}
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder's own is gone already
            found[each.name] = str(each.readlink())
    return {name: what for name, what in found.items() if what.startswith("anon_inode:bpf")}


@pytest.fixture(autouse=True)
def _no_bpf_descriptor_stays() -> Iterator[None]:
    before = bpf_descriptors()
    yield
    left = bpf_descriptors().items() - before.items()
    assert not left, f"the test leaves BPF programs, maps or links behind: {sorted(left)}"
