"""Writes a story as a trace folder (docs/trace-format.md), so that it is analysed and judged like any other.

In: a `Story` and a folder. Out: its files. What no device could have seen is in truth.json and truth_edges.csv alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from simulation.fabric.roots import edge_bytes
from simulation.fabric.stories import Story
from simulation.fabric.story_truth import truth, ways_in_trouble
from simulation.fabric.traffic import ROCE_PORT


def write(story: Story, folder: Path, *, with_truth: bool = True, most_events: int | None = None) -> None:
    """Writes the trace; the folder is made. With its truth the story without faults is played too.

    Of a story with more than `most_events` pause events only so many are written, and truth.json says so: who reads
    the trace goes by counters then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_fabric(story, folder)
    total, written = _write_pauses(story, folder, most_events)
    _write_counters(story, folder)
    _write_flows(story, folder)
    _write_hosts(story, folder)
    if with_truth:
        events = {"pfc_events_total": total, "pfc_events_written": written}
        edges = edge_bytes(story.run.fabric, story.run.edges)
        rows = ((*key, count) for key, count in sorted(edges.items()))
        _table(folder / "truth_edges.csv", ("device", "ingress_port", "egress_port", "bytes"), rows)
        (folder / "truth.json").write_bytes(msgspec.json.format(msgspec.json.encode(truth(story) | events), indent=1))


def _table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _write_fabric(story: Story, folder: Path) -> None:
    topology = story.topology
    _table(folder / "devices.csv", ("device", "kind"), zip(topology.devices, topology.kinds, strict=True))
    columns = ("a", "a_port", "b", "b_port", "speed_mbps", "delay_ns")
    _table(folder / "links.csv", columns, topology.cables)


def _write_pauses(story: Story, folder: Path, most: int | None) -> tuple[int, int]:
    wires, settings = story.plot.wires, story.plot.settings
    count = len(settings.priorities)
    log = story.run.pauses
    log = log[~wires.is_inside_host[log[:, 1] // count]]
    total = len(log)
    log = log[:most]
    rows = (
        (time, *wires.end(queue // count), settings.priorities[queue % count], "xoff_rx" if stop else "xon_rx")
        for time, queue, stop in log.tolist()
    )
    _table(folder / "pfc.csv", ("time_ns", "device", "port", "prio", "event"), rows)
    return total, len(log)


def _write_counters(story: Story, folder: Path) -> None:
    counters, plot = story.counters, story.plot
    ends = [plot.wires.end(link) for link in range(2 * len(story.topology.cables))]
    is_host = {name for name, kind in zip(story.topology.devices, story.topology.kinds, strict=True) if kind == "host"}
    names = (
        "tx_bytes", "rx_bytes", "q_max_bytes", "tx_ce_packets", "rx_ce_packets", "rx_pause_frames", "tx_pause_frames",
        "rx_paused_ns",
    )  # fmt: skip
    columns = np.stack([getattr(counters, name) for name in ("bin_index", "link", "priority", *names)], axis=1)
    known = [ends[link][0] not in is_host for link in range(len(ends))]

    def rows() -> Iterable[Sequence[Any]]:
        for number, link, place, tx, rx, depth, *rest in columns.tolist():
            device, port = ends[link]
            peak = depth if known[link] else ""
            yield number * plot.bin_ns, device, port, plot.settings.priorities[place], tx, rx, peak, *rest

    told = ("bin_start_ns", "device", "port", "prio", *(name.replace("packets", "pkts") for name in names))
    _table(folder / "port_counters.csv", told, rows())


def _write_flows(story: Story, folder: Path) -> None:
    flows, wires = story.flows, story.plot.wires
    devices, priorities = story.topology.devices, story.plot.settings.priorities
    run = story.run
    first = np.where((run.took_ns >= 0).any(axis=0), (run.took_ns >= 0).argmax(axis=0), -1)
    begun = _first_starts(story)

    def rows() -> Iterable[Sequence[Any]]:
        for f in range(len(flows.src)):
            took = int(run.took_ns[first[f], f]) if first[f] >= 0 else -1
            yield (
                f, devices[flows.src[f]], devices[flows.dst[f]], int(flows.src_port[f]), ROCE_PORT,
                priorities[flows.priority[f]], int(flows.size_bytes[f]), begun[f], took,
            )  # fmt: skip

    columns = ("flow", "src", "dst", "sport", "dport", "prio", "size_bytes", "start_ns", "fct_ns")
    _table(folder / "flows.csv", columns, rows())
    inside = wires.is_inside_host
    peer = {link: wires.end(link ^ 1) for link in range(2 * len(story.topology.cables))}

    def hops() -> Iterable[Sequence[Any]]:
        for f, way in enumerate(ways_in_trouble(story).tolist()):
            links = [link for link in way if link >= 0 and not inside[link]]
            came_by = ""
            for hop, link in enumerate(links):
                device, port = wires.end(link)
                yield f, hop, device, came_by, port
                came_by = peer[link][1]
            yield f, len(links), peer[links[-1]][0], came_by, ""

    _table(folder / "paths.csv", ("flow", "hop", "device", "in_port", "out_port"), hops())


def _first_starts(story: Story) -> list[int]:
    """When each flow was opened: a rank's with its first exchange, a burst's with that of its first step."""
    plot, run = story.plot, story.run
    rank = np.zeros(len(story.topology.devices), np.int64)
    rank[plot.ranks] = np.arange(len(plot.ranks))
    begun = plot.flows.start_ns.copy()
    if len(run.computed_ns):
        begun = np.where(plot.flows.is_training, run.computed_ns[0, rank[plot.flows.src]], begun)
        for burst in plot.bursts:
            if burst.from_step < len(run.computed_ns):
                begun[burst.rows] = int(run.computed_ns[burst.from_step].min())
    return [max(start, 0) for start in begun.tolist()]


def _write_hosts(story: Story, folder: Path) -> None:
    wires, run, plot = story.plot.wires, story.run, story.plot
    now = dict(zip(wires.topology.hosts, wires.speed_mbps[wires.to_host].tolist(), strict=True))
    most = dict(now)
    for fault in plot.faults:
        if fault.reports_pcie:
            now[fault.device] = fault.mbps
    rows: Iterable[Sequence[Any]] = ((host, most[host], now[host]) for host in now)
    _table(folder / "host_pcie.csv", ("host", "link_max_mbps", "link_now_mbps"), rows)
    names = [wires.topology.devices[device] for device in plot.ranks]
    steps = (
        (step, name, int(run.released_ns[step, k]), int(run.computed_ns[step, k]), int(run.ended_ns[step, k]))
        for step in range(len(run.released_ns))
        for k, name in enumerate(names)
    )
    _table(folder / "steps.csv", ("step", "host", "start_ns", "comm_start_ns", "end_ns"), steps)
