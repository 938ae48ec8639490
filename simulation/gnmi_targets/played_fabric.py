"""A fabric that plays a trace: its switches are gNMI targets of a vendor, its hosts are folders for pollers.

In: a trace, a vendor, how often the switches are polled and the pace. Out: a gNMI port a switch; DIR/fabric.toml for
`pausetrace collect` and DIR/hosts for `pausetrace probe --hosts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from simulation.gnmi_targets.behaviour import Behaviour
from simulation.gnmi_targets.host_trees import HostTrees
from simulation.gnmi_targets.played import Pace, Played
from simulation.gnmi_targets.server import FakeTarget
from simulation.gnmi_targets.spellings import SPELLINGS
from simulation.trace_columns import Trace
from stream.errors import ConfigError

WRITES_A_PERIOD = 10
"""A host's counters are so much fresher than the period that they are polled in."""
SLOWEST_WRITE_S = 0.1
QUIET_PERIODS = 2
LEAST_QUIET_NS = 3_000_000_000
"""Whoever polls has so many readings of a quiet fabric before anything happens, and time to be known to who listens."""
INVENTORY = "fabric.toml"
HOSTS = "hosts"


class PlayedFabric:
    """`async with PlayedFabric(trace, pace, "sonic", period_ns, folder):` everything of it can be polled."""

    def __init__(
        self,
        trace: Trace,
        pace: Pace,
        vendor: str,
        period_ns: int,
        folder: Path,
        *,
        fabric: str = "played",
        port: int = 0,
    ) -> None:
        """The switches listen on ports of 127.0.0.1 from `port` on (0: any)."""
        if vendor not in SPELLINGS:
            raise ConfigError(f"no vendor is called {vendor}", f"choose from: {', '.join(SPELLINGS)}")
        self.spelling = SPELLINGS[vendor]
        if period_ns < self.spelling.least_ns:
            raise ConfigError(
                f"switches of {vendor} tell their counters every {self.spelling.least_ns / 1e9:g} s at most",
                "make the period longer, or choose another vendor",
            )
        self.played = Played(trace, pace)
        self.targets: dict[str, FakeTarget] = {}
        self._period_ns, self._fabric, self._folder = period_ns, fabric, folder
        for device, (name, role) in enumerate(zip(trace.devices, trace.roles, strict=True)):
            if role != "host":
                leaves = self.spelling.leaves(self.played, device, period_ns)
                behaviour = Behaviour(self.spelling.answer, target=name, least_interval_ns=self.spelling.least_ns)
                target = self.targets[name] = FakeTarget(leaves, behaviour)
                target.port = port + len(self.targets) - 1 if port else 0
        self._trees = HostTrees(self.played, folder / HOSTS)
        self._writer: asyncio.Task[None] | None = None

    async def begin(self) -> tuple[int, int]:
        """Waits until every switch is polled, then lets the trace happen; returns when its incident begins and ends."""
        while not all(target.open_streams for target in self.targets.values()):
            await asyncio.sleep(0.05)
        self.played.begin(time.time_ns() + max(QUIET_PERIODS * self._period_ns, LEAST_QUIET_NS))
        return self.played.incident_ns

    async def __aenter__(self) -> Self:
        await asyncio.gather(*(target.start() for target in self.targets.values()))
        self._trees.write(time.time_ns())
        self._write_inventory()
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
        await asyncio.gather(*(target.stop() for target in self.targets.values()))
        self._trees.close()

    def _write_inventory(self) -> None:
        interval = json.dumps(f"{self._period_ns // 1_000_000}ms")
        lines = [
            "[collect]", f"fabric = {json.dumps(self._fabric)}", 'source = "collector@played"', "",
            "[defaults]", "plaintext = true", f'profile = "{self.spelling.profile}"',
            f"interval = {interval}",
        ]  # fmt: skip
        if self.spelling.intervals:
            told = ", ".join(f"{metric} = {interval}" for metric in self.spelling.intervals)
            lines.append(f"intervals = {{ {told} }}")
        for name, target in self.targets.items():
            lines += ["", f"[targets.{json.dumps(name)}]", f'address = "{target.address}"']
        path = self._folder / INVENTORY
        aside = path.with_suffix(".new")
        aside.write_text("\n".join([*lines, ""]))
        # Who waits for the file finds all of it.
        aside.replace(path)

    async def _write(self) -> None:
        pause_s = min(self._period_ns * 1e-9 / WRITES_A_PERIOD, SLOWEST_WRITE_S)
        while True:
            await asyncio.sleep(pause_s)
            self._trees.write(time.time_ns())
