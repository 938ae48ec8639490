"""The truth of a story, as truth.json tells it: planted faults, true roots, flows by what they were.

In: a `Story`. Out: what docs/trace-format.md calls the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulation.fabric import layout as at
from simulation.fabric.compiled import Ints
from simulation.fabric.express import Bools
from simulation.fabric.plot import Fault
from simulation.fabric.stories import Story

WITHOUT_PAUSE = ("link_errors", "not_the_fabric")
"""Faults that stop nobody: there is no root to be named."""
VICTIM_FACTOR = 1.2
VICTIM_NS = 10_000
"""A victim takes 1.2 times as long as without the fault, and 10 us more."""
MARGINAL_FACTOR = 1.05
MIN_SHARE = 0.001


def truth(story: Story) -> dict[str, Any]:
    """The fields of truth.json."""
    run, plot = story.run, story.plot
    spans = sorted({span for fault, span in zip(plot.faults, run.fault_ns, strict=True) if _is_planted(fault)})
    told: dict[str, Any] = {
        "trace": f"{story.scenario}-s{story.seed}",
        "scenario": story.scenario,
        "expected_roots": _expected(story),
        "packet_level_roots": _roots(story, 0, 1 << 62),
        "not_the_fabric": _slow_ranks(story),
        "flows": labels(story),
        "drops": int(run.fabric.into[:, at.IN_DROPPED].sum()),
        "n_xoff": int(run.fabric.into[:, at.IN_XOFFS].sum()),
        "counter_period_ns": plot.bin_ns,
        "length_ns": run.end_ns,
        "seed": story.seed,
        "tick_ns": plot.settings.tick_ns,
        "step_ns": (run.ended_ns - run.released_ns).max(axis=1).tolist(),
    }
    if len(spans) > 1:
        told["windows"] = [
            {"start_ns": begin, "end_ns": end, "packet_level_roots": _roots(story, begin, end)} for begin, end in spans
        ]
    return told


def _is_planted(fault: Fault) -> bool:
    return fault.root_class not in WITHOUT_PAUSE


def _expected(story: Story) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    wires, shares = story.plot.wires, story.roots.shares()
    for fault, (begin, end) in zip(story.plot.faults, story.run.fault_ns, strict=True):
        if not _is_planted(fault):
            continue
        if fault.rows is not None and fault.root_class == "hash_polarization":
            # A hash is no place: all queues that it fills are its roots.
            places = [root for root, share in story.roots.shares(begin, end).items() if share >= 0.02]
            span = {"start_ns": begin, "end_ns": end}
            found += [{"cls": fault.root_class, "device": device, "port": port} | span for device, port in places]
            continue
        entry: dict[str, Any] = {"cls": fault.root_class}
        if fault.device:
            entry |= {"device": fault.device, "port": fault.port}
        found.append(entry | {"start_ns": begin, "end_ns": end})
        # A degraded link is slow both ways; its other end is planted too where something waits there.
        for link in fault.links:
            place = wires.end(link) if not wires.is_inside_host[link] else (fault.device, fault.port)
            if place != (fault.device, fault.port) and shares.get(place, 0.0) >= 0.02:
                other = {"cls": fault.root_class, "device": place[0], "port": place[1]}
                found.append(other | {"start_ns": begin, "end_ns": end, "reverse_of_same_link": True})
    return found


def _roots(story: Story, begin_ns: int, end_ns: int) -> list[dict[str, Any]]:
    shares = story.roots.shares(begin_ns, end_ns)
    return [
        {"device": device, "port": port, "share": round(share, 4)}
        for (device, port), share in shares.items()
        if share >= MIN_SHARE
    ]


def _slow_ranks(story: Story) -> list[dict[str, Any]]:
    return [
        {"host": fault.device, "first_step": fault.from_step, "last_step": fault.to_step - 1, "factor": fault.factor}
        for fault in story.plot.faults
        if fault.slow_rank >= 0
    ]


def labels(story: Story) -> dict[str, list[int]]:
    """Rows of flows by what they were: contributors of a planted root, victims by the run without the fault, others."""
    count = len(story.flows.src)
    found: dict[str, list[int]] = {}
    if not any(_is_planted(fault) for fault in story.plot.faults):
        return found
    guilty = _contributors(story)
    with_fault, without = _slowest(story), _slowest_of(story.healthy.took_ns, _fault_steps(story))
    for f in range(count):
        if guilty[f]:
            label = "contributor"
        elif with_fault[f] < 0 or without[f] < 0:
            label = "unknown"
        elif with_fault[f] > VICTIM_FACTOR * without[f] and with_fault[f] > without[f] + VICTIM_NS:
            label = "victim"
        elif with_fault[f] > MARGINAL_FACTOR * without[f]:
            label = "marginal"
        else:
            label = "unaffected"
        found.setdefault(label, []).append(f)
    return found


def _fault_steps(story: Story) -> tuple[int, int]:
    planted = [fault for fault in story.plot.faults if _is_planted(fault)]
    return min(fault.from_step for fault in planted), max(fault.to_step for fault in planted)


def _slowest(story: Story) -> Ints:
    return _slowest_of(story.run.took_ns, _fault_steps(story))


def _slowest_of(took_ns: Ints, steps: tuple[int, int]) -> Ints:
    """The longest time of each flow in these steps, -1 where it did not end in any."""
    within = took_ns[steps[0] : steps[1]]
    if not len(within):
        return np.full(took_ns.shape[1], -1, np.int64)
    longest: Ints = within.max(axis=0)
    return longest


def _contributors(story: Story) -> Bools:
    """Flows that sent through a planted root while it was one, on the ways that they had then."""
    wires = story.plot.wires
    roots = {(root["device"], root["port"]) for root in _expected(story) if "device" in root}
    slots = dict(zip(wires.topology.hosts, wires.to_host.tolist(), strict=True))
    links = [wires.index.get(root, slots.get(root[0], -1)) for root in roots]
    through: Bools = np.isin(ways_in_trouble(story), [link for link in links if link >= 0])
    found: Bools = np.asarray(through.any(axis=1))
    return found


def ways_in_trouble(story: Story) -> Ints:
    """The ways of flows, those of a fault for flows that it led elsewhere."""
    paths = story.flows.paths.copy()
    for fault in story.plot.faults:
        if fault.rows is not None and fault.paths is not None:
            width = max(paths.shape[1], fault.paths.shape[1])
            paths = np.pad(paths, ((0, 0), (0, width - paths.shape[1])), constant_values=-1)
            paths[fault.rows] = -1
            paths[fault.rows, : fault.paths.shape[1]] = fault.paths
    return paths
