"""What a story will be: a fabric, flows, a job that trains on it, and what goes wrong from which step to which.

In: nothing. Out: the types that `performance.py` plays and `scenarios.py` makes.
"""

from __future__ import annotations

import dataclasses

from simulation.fabric.settings import Settings
from simulation.fabric.traffic import Flows
from simulation.fabric.wires import Ints, Wires

PCIE = "pcie"
"""Port of a root inside a host."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """Something that goes wrong from the begin of step `from_step` until that of `to_step`.

    `root_class` is Pausetrace's name of it, `device` and `port` where it is; a fault of the job has neither. What it
    does is said by the fields below; each may be left out.
    """

    root_class: str
    device: str
    port: str
    from_step: int
    to_step: int
    links: tuple[int, ...] = ()
    mbps: int = 0
    """Rate of the links, 0: as ever."""
    pulse_ns: int = 0
    """The rate holds only so long in each step, from the begin of its exchange; 0: all the time."""
    loss_ratio: float = 0.0
    """Part of the links' packets that are lost."""
    rows: Ints | None = None
    """Flows that take other ways: those of `paths`."""
    paths: Ints | None = None
    slow_rank: int = -1
    factor: float = 1.0
    """How many times as long the slow rank computes."""
    reports_pcie: bool = False
    """The slot itself says that it is slow."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Burst:
    """Flows that begin with the exchange of every `every`-th step from `from_step` until `to_step`."""

    rows: Ints
    from_step: int
    to_step: int
    every: int = 1
    is_waited: bool = False
    """The step does not end before they do."""
    is_fault: bool = False
    """The run without faults does not have it."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """A story before it is played. Rank k of the job is the host (device) `ranks[k]`."""

    scenario: str
    seed: int
    wires: Wires
    settings: Settings
    flows: Flows
    ranks: Ints
    steps: int
    compute_ns: int
    jitter_ratio: float
    bin_ns: int
    faults: tuple[Fault, ...] = ()
    bursts: tuple[Burst, ...] = ()
    limit_ns: int = 50_000_000
    """A step whose exchange takes longer than this never ends: the story ends with it."""
    use_express: bool = True

    def healthy(self) -> Plot:
        """The same without what goes wrong."""
        bursts = tuple(burst for burst in self.bursts if not burst.is_fault)
        return dataclasses.replace(self, faults=(), bursts=bursts)
