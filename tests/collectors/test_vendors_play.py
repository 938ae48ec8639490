"""Switches of every vendor in a played fabric, followed by a collector: nothing that they tell is lost or twice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from collectors.target import Target
from collectors.transport import Endpoint
from simulation.gnmi_targets.played import pace_over
from simulation.gnmi_targets.played_fabric import PlayedFabric
from simulation.gnmi_targets.spellings import SPELLINGS
from simulation.trace import read_trace
from stream import kinds
from stream.errors import ConfigError
from stream.facts import Link
from stream.record import Events
from tests.collectors.running import collecting

TRACE = read_trace(Path(__file__).parents[1] / "data/ns3/deadlock-hk-s4")
SECOND_NS = 1_000_000_000
OWNERS = [TRACE.devices[device] for device in TRACE.ports.device.tolist()]
OF_SWITCHES = [port for port, device in enumerate(TRACE.ports.device.tolist()) if TRACE.roles[device] != "host"]
CABLES = {(OWNERS[port], OWNERS[int(TRACE.ports.peer[port])]) for port in OF_SWITCHES}
SIDES = {"rx_pause_frames": kinds.SIDE_RX, "tx_pause_frames": kinds.SIDE_TX}
TELLS_TIME = {"sonic", "eos", "cumulus"}
VENDORS = [vendor for vendor in SPELLINGS if vendor != "sonic-defaults"]
"""Of SONiC once: what it counts does not depend on how often it reads its queues."""


async def told_by(vendor: str, folder: Path) -> tuple[dict[str, int], Events, set[tuple[str, str]]]:
    """What the switches have counted in the end, and what a collector made of it: rows of pauses, and cables."""
    folder.mkdir()
    async with PlayedFabric(TRACE, pace_over(TRACE, SECOND_NS), vendor, SECOND_NS, folder) as fabric:
        made = [Target(name, name, Endpoint(fake.address), interval_ms=1000) for name, fake in fabric.targets.items()]
        async with collecting(*made) as running:
            _, last_ns = await fabric.begin()
            until_ns = last_ns + 3 * SECOND_NS
            await running.until(lambda: time.time_ns() > until_ns)
        played = fabric.played
        queues = [(port, priority) for port in OF_SWITCHES for priority in played.priorities]
        counted = {column: sum(played.count(column, *queue, until_ns) for queue in queues) for column in SIDES}
        links = {(fact.a_device, fact.b_device) for _, fact in running.out.facts if isinstance(fact, Link)}
        return counted, running.out.events("pfc"), links


def test_what_switches_count_arrives_in_each_vendors_words(tmp_path: Path) -> None:
    async def run() -> None:
        found = await asyncio.gather(*(told_by(vendor, tmp_path / vendor) for vendor in VENDORS))
        for vendor, (counted, events, links) in zip(VENDORS, found, strict=True):
            for column, side in SIDES.items():
                frames = events[(events["kind"] == kinds.PFC_FRAMES) & (events["side"] == side)]
                assert counted[column] > 0
                assert int(frames["value"].sum()) == counted[column], (vendor, column)
            timed = events[(events["kind"] == kinds.PFC_PAUSED) & (events["value"] > 0)]
            assert bool(len(timed)) == (vendor in TELLS_TIME), vendor
            assert links == CABLES, vendor

    asyncio.run(run())


def test_a_vendor_is_not_polled_more_often_than_it_takes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="every 1 s at most"):
        PlayedFabric(TRACE, pace_over(TRACE, SECOND_NS), "sonic", SECOND_NS // 2, tmp_path)
