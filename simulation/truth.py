"""Reads what really went on in a trace: truth.json and truth_edges.csv of its folder. Only the judge may look.

In: a folder. Out: `Truth`: planted faults, shares of the true roots, byte shares of the edges, flows by label.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated

import msgspec

from simulation.trace_table import LAYOUT, exists, find_table, read_json, read_table
from stream.errors import TraceError

RootKey = tuple[str, str]
"""Device and port of a root; the port of a host is `HOST_PORT` whatever name it bears in a file."""
HOST_PORT = "*"
EdgeKey = tuple[str, str, str]

MIN_ROOT_SHARE = 0.02
"""Smaller roots are dropped on both sides: the traces' own truth lists none."""

DEADLOCK_CLASS = "pfc_deadlock"
NO_PAUSE_CLASS = "microburst_no_pfc"
"""A planted event that ECN absorbs: there is nothing to find."""

CLASS_OF_TRACE: dict[str, str] = {
    "slow_receiver": "slow_receiver_pcie",
    "degraded_link": "link_degraded",
    "spine_downlink": "ecmp_collision",
    "fabric_hotspot": "fabric_overload",
    "deadlock": DEADLOCK_CLASS,
}
"""Class names of traces that differ from Pausetrace's own."""


class PlantedRoot(msgspec.Struct, frozen=True, rename={"trace_class": "cls"}):
    """An entry of expected_roots: a fault that the run was made to have, without times if it was there all along."""

    trace_class: str
    device: str = ""
    port: str = ""
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def root_class(self) -> str:
        """Pausetrace's name of the class."""
        return CLASS_OF_TRACE.get(self.trace_class, self.trace_class)


class RootShare(msgspec.Struct, frozen=True):
    """A true root's part of all pause time."""

    device: str
    port: str
    share: Annotated[float, msgspec.Meta(ge=0, le=1)]


class Window(msgspec.Struct, frozen=True):
    """A span of a long run with one set of active faults, and its own true roots."""

    start_ns: int
    end_ns: int
    packet_level_roots: tuple[RootShare, ...] = ()


class SlowHost(msgspec.Struct, frozen=True):
    """A host that held up the job by its own compute."""

    host: str


class _TruthFile(msgspec.Struct, frozen=True):
    expected_roots: tuple[PlantedRoot, ...]
    packet_level_roots: tuple[RootShare, ...]
    scenario: str = ""
    packet_level_roots_visible: tuple[RootShare, ...] | None = None
    windows: tuple[Window, ...] | None = None
    flows: dict[str, tuple[int | str, ...]] = {}
    not_the_fabric: tuple[SlowHost, ...] | None = None


class Truth:
    """The truth of one folder, with hosts' roots under one key and shares that sum to 1."""

    def __init__(self, name: str, file: _TruthFile, hosts: frozenset[str], edges: dict[EdgeKey, float]) -> None:
        self.name = name
        self.scenario = file.scenario
        self.planted = tuple(root for root in file.expected_roots if root.trace_class != NO_PAUSE_CLASS)
        self.windows = file.windows or ()
        self.edges = edges
        self.slow_hosts = (
            frozenset(slow.host for slow in file.not_the_fabric) if file.not_the_fabric is not None else None
        )
        """Hosts that held up the job without any pause; None where the truth says nothing of that."""
        self.label_of_flow = {str(flow): label for label, flows in file.flows.items() for flow in flows}
        self._hosts = hosts
        visible = (
            file.packet_level_roots if file.packet_level_roots_visible is None else file.packet_level_roots_visible
        )
        self.roots = self.shares(visible)

    @property
    def has_deadlock(self) -> bool:
        """Whether a true deadlock was planted: it has a cycle, not an origin, so that shares of roots say nothing."""
        return any(root.root_class == DEADLOCK_CLASS for root in self.planted)

    @property
    def has_live_cycle(self) -> bool:
        """Whether the run was made to come near a deadlock without one."""
        return self.scenario.startswith(("cyclic_dependency", "deadlock_none"))

    def key(self, device: str, port: str) -> RootKey:
        """The key of a root, true or predicted."""
        return (device, HOST_PORT) if device in self._hosts else (device, port)

    def shares(self, roots: tuple[RootShare, ...]) -> dict[RootKey, float]:
        """Share of each root, those below `MIN_ROOT_SHARE` dropped and the rest summing to 1."""
        summed: dict[RootKey, float] = {}
        for root in roots:
            key = self.key(root.device, root.port)
            summed[key] = summed.get(key, 0.0) + root.share
        return kept_shares(summed)

    def planted_in(self, window: Window) -> tuple[PlantedRoot, ...]:
        """The faults that were active during some of the window."""
        return tuple(
            root
            for root in self.planted
            if (root.start_ns is None or root.start_ns < window.end_ns)
            and (root.end_ns is None or root.end_ns > window.start_ns)
        )


def kept_shares(shares: dict[RootKey, float]) -> dict[RootKey, float]:
    """The shares of at least `MIN_ROOT_SHARE`, scaled to sum to 1; empty if there is none."""
    kept = {key: share for key, share in shares.items() if share >= MIN_ROOT_SHARE}
    total = sum(kept.values())
    return {key: share / total for key, share in kept.items()}


def has_truth(folder: Path) -> bool:
    """Whether the folder is a trace that can be judged."""
    return exists(folder / "truth.json")


def read_truth(folder: Path) -> Truth:
    """The folder's truth; raises TraceError where it is missing or malformed."""
    path = folder / "truth.json"
    if not exists(path):
        raise TraceError(f"{path} is missing", "only a trace whose truth is known can be judged; try analyze instead")
    try:
        file = msgspec.json.decode(read_json(path), type=_TruthFile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as err:
        raise TraceError(f"{path} cannot be read: {err}", LAYOUT) from err
    devices_path = find_table(folder, "devices")
    if devices_path is None:
        raise TraceError(f"{folder / 'devices.csv'} is missing", LAYOUT)
    devices = read_table(devices_path, ("device", "kind"))
    names = frozenset(devices.texts("device"))
    for device in _devices_of(file):
        if device not in names:
            raise TraceError(f"{path}: no device {device!r} in devices.csv", "correct either file")
    hosts = frozenset(
        device for device, kind in zip(devices.texts("device"), devices.texts("kind"), strict=True) if kind == "host"
    )
    return Truth(folder.resolve().name, file, hosts, _read_edges(folder, names))


def _devices_of(file: _TruthFile) -> Iterator[str]:
    """The devices that the truth names; a planted root may have none."""
    yield from (root.device for root in file.expected_roots if root.device)
    shares = (*file.packet_level_roots, *(file.packet_level_roots_visible or ()))
    for window in file.windows or ():
        shares += window.packet_level_roots
    yield from (root.device for root in shares)
    yield from (slow.host for slow in file.not_the_fabric or ())


def _read_edges(folder: Path, devices: AbstractSet[str]) -> dict[EdgeKey, float]:
    path = find_table(folder, "truth_edges")
    if path is None:
        return {}
    table = read_table(path, ("device", "ingress_port", "egress_port", "bytes"))
    for row, device in enumerate(table.texts("device")):
        if device not in devices:
            table.fail(row, f"no device {device!r} in devices.csv", "correct either file")
    names = (table.texts(column) for column in ("device", "ingress_port", "egress_port"))
    summed: dict[EdgeKey, float] = {}
    # An edge has one row for the XOFFs at which its egress was stopped itself, and one for the others.
    for key, count in zip(zip(*names, strict=True), table.ints("bytes").tolist(), strict=True):
        summed[key] = summed.get(key, 0) + count
    total = sum(summed.values())
    return {key: count / total for key, count in summed.items() if count}
