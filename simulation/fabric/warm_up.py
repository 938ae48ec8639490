"""Compiles the fabric's kernels before a story begins.

In: nothing. Out: nothing; ten seconds where Numba's cache is cold, half a second where it is warm.
"""

from __future__ import annotations

import numpy as np

from simulation.fabric.fabric import Fabric, FlowTable
from simulation.fabric.routes import Routes
from simulation.fabric.settings import Settings
from simulation.fabric.wires import Cable, Topology, make_wires


def warm_up() -> None:
    """Sends one message over one switch."""
    cables = (Cable("a", "eth0", "s", "p1", 100_000), Cable("b", "eth0", "s", "p2", 100_000))
    wires = make_wires(Topology("two", ("a", "b", "s"), ("host", "host", "switch"), cables))
    one = np.array([1])
    paths = Routes(wires).paths(one - 1, one, (one, one))
    fabric = Fabric(wires, FlowTable(paths, one * 5000, one - 1), Settings())
    fabric.start(one - 1, one)
    fabric.run(1000)
