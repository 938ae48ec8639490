"""The one table of all probes: what each sees, where its rows go, how often it is read, and which module makes it.

In: a name. Out: its `ProbeKind`. Imports no probe: a module is imported when its probe is asked for, so that an agent
holds in memory only what it runs.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple, Protocol, cast

from probes.probe import Options, Probe, Unavailable

MS_NS = 1_000_000
S_NS = 1_000_000_000


class ProbeKind(NamedTuple):
    """One row of the table.

    `topics` are all that its rows and facts can go on. `sums`: its rows sum over windows (all of correlate waits as
    long as the longest of them), instead of telling instants and states. `instants`: its rows may lie anywhere between
    two reads, as those of a ring buffer do, instead of at the read. `threshold_ns` is 0 where the probe knows none.
    """

    name: str
    module: str
    topics: tuple[str, ...]
    sees: str
    on: bool = True
    interval_ns: int = S_NS
    threshold_ns: int = 0
    sums: bool = True
    instants: bool = False


# fmt: off
PROBES: tuple[ProbeKind, ...] = (
)
# fmt: on


class ProbeModule(Protocol):
    """What a module of the table has."""

    def available(self, options: Options) -> Unavailable | None:
        """Why the probe cannot run here; None if it can. Looks and loads nothing."""

    def make(self, options: Options) -> Probe:
        """The probe, attached; raises PausetraceError with the next step where it cannot be."""


def module_of(kind: ProbeKind) -> ProbeModule:
    """The module that makes this probe, imported."""
    return cast("ProbeModule", importlib.import_module(kind.module))
