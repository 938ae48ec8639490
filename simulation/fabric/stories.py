"""The door to the fabric's model: a story by name, played, with what the devices saw and what really went on.

In: a scenario, a seed, sizes. Out: `Story`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from simulation.fabric.bins import PortCounters
from simulation.fabric.compiled import Ints
from simulation.fabric.performance import Performance, perform
from simulation.fabric.plot import Plot
from simulation.fabric.roots import Roots
from simulation.fabric.scenarios import SCENARIOS
from simulation.fabric.settings import Settings
from simulation.fabric.stage import Size
from simulation.fabric.traffic import Flows
from simulation.fabric.wires import Topology
from stream.errors import ConfigError

SLOWBURN: dict[str, Any] = {
    "hosts": 2048, "steps": 30, "message_bytes": 25_000_000, "queue_pairs": 8, "compute_ns": 4_096_000,
    "bin_ns": 1_000_000, "fault_steps": (10, 30), "settings": Settings(dcqcn=False),
}  # fmt: skip
"""Sizes of the story of 2,048 hosts: 25 MB of each host a step, 8 queue pairs, the fault at step 10."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Story:
    """A story that was played. `run` has all that happened; `healthy` is the same without faults, played when asked."""

    scenario: str
    seed: int
    run: Performance
    _kept: dict[str, Any]

    @property
    def plot(self) -> Plot:
        """What it was made from: wires, settings, flows, faults."""
        return self.run.plot

    @property
    def topology(self) -> Topology:
        """Devices and cables."""
        return self.plot.wires.topology

    @property
    def flows(self) -> Flows:
        """Queue pairs by row."""
        return self.plot.flows

    @property
    def counters(self) -> PortCounters:
        """What ports counted, by bin of `plot.bin_ns`."""
        return self.run.counters

    @property
    def step_ns(self) -> Ints:
        """Length of each step, from its release to the end of its last rank."""
        longest: Ints = (self.run.ended_ns - self.run.released_ns).max(axis=1)
        return longest

    @property
    def roots(self) -> Roots:
        """Where pause time truly began."""
        if "roots" not in self._kept:
            run = self.run
            self._kept["roots"] = Roots(run.fabric, run.pauses, run.contents, run.end_ns)
        found: Roots = self._kept["roots"]
        return found

    @property
    def healthy(self) -> Performance:
        """The counterfactual: the same seed without what goes wrong."""
        if "healthy" not in self._kept:
            self._kept["healthy"] = perform(self.plot.healthy())
        found: Performance = self._kept["healthy"]
        return found


def story(scenario: str, *, seed: int = 1, hosts: int = 256, **sizes: Any) -> Story:
    """Plays a scenario. `sizes` are fields of `stage.Size`: steps, message_bytes, compute_ns, bin_ns, fault_steps, ...

    `story("pcie_narrow", **SLOWBURN)` is the one of 2,048 hosts. Raises ConfigError for a name that SCENARIOS has not.
    """
    if scenario not in SCENARIOS:
        raise ConfigError(f"there is no scenario {scenario!r}", f"choose from: {', '.join(SCENARIOS)}")
    size = Size(scenario, seed=seed, hosts=hosts, **sizes)
    return Story(scenario, seed, perform(SCENARIOS[scenario].make(size)), {})
