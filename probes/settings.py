"""How an agent is to run: which probes, how often, from which threshold on, for whom, and at what cost.

In: what the configuration or a caller says. Out: the `Options` of each probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from probes.probe import Options
from probes.table import PROBES, ProbeKind

DEFAULT_CPU_PERCENT = 2.0


class ProbeSettings(NamedTuple):
    """Of one probe."""

    interval_ns: int
    threshold_ns: int = 0
    attach: str = ""


class AgentSettings(NamedTuple):
    """Of one agent: `probes` are those that are to run, in the order of the table; `cpu_share` is of one core, each."""

    fabric: str
    device: str
    probes: Mapping[str, ProbeSettings]
    root: Path = Path("/")
    interfaces: tuple[str, ...] = ()
    rails: Mapping[str, str] = MappingProxyType({})
    per_cpu: bool = False
    cpu_share: float = DEFAULT_CPU_PERCENT / 100

    def kinds(self, table: tuple[ProbeKind, ...] = PROBES) -> tuple[ProbeKind, ...]:
        """The rows of the table that are to run, read as often as the settings say."""
        chosen = (kind for kind in table if kind.name in self.probes)
        return tuple(kind._replace(interval_ns=self.probes[kind.name].interval_ns) for kind in chosen)

    def options(self, kind: ProbeKind) -> Options:
        """How this probe is to be made."""
        own = self.probes.get(kind.name, _own(kind))
        return Options(
            kind.name, self.device, self.fabric, own.interval_ns, own.threshold_ns, self.root, self.interfaces,
            self.per_cpu, self.rails, own.attach,
        )  # fmt: skip


def defaults(table: tuple[ProbeKind, ...] = PROBES) -> dict[str, ProbeSettings]:
    """The probes that run where nobody says which."""
    return {kind.name: _own(kind) for kind in table if kind.on}


def _own(kind: ProbeKind) -> ProbeSettings:
    return ProbeSettings(kind.interval_ns, kind.threshold_ns, kind.attach)
