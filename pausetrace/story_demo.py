"""The demo of a whole fabric: a story is played by the model, and found out by what its devices tell.

In: a scenario's name, a seed. Out: `Findings`. The model writes a trace folder (docs/trace-format.md) without its
truth; from there on all is what `pausetrace analyze` and `pausetrace tails` do with anybody's folder.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from analytics.offline import final_cascades
from analytics.stalls import Stall
from pausetrace.fleet_averages import Averages, fleet_averages
from pausetrace.progress import Bar
from pausetrace.tails_view import FabricTails, fabric_tails
from simulation.fabric.scenarios import SCENARIOS
from simulation.fabric.stories import SLOWBURN, Story, story
from simulation.fabric.writing import write
from simulation.trace import read_trace
from simulation.trace_columns import Trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.batch import Batch
from stream.cascade import Cascade
from stream.messages import Item

Say = Callable[[str], None]
"""Is told of everything that begins, in a sentence."""

SLOWBURN_SCENARIO = "pcie_narrow"
ALIASES = {"slowburn": SLOWBURN_SCENARIO}
TRACE_SCENARIO = "trace"
START_NS = 1_796_083_200_000_000_000
"""2026-12-01T00:00:00Z: when the story begins, so that equal seeds print equal times."""


class HeldUp(NamedTuple):
    """A rank whose flows were held up by roots that they did not feed, and for how long the longest of them was."""

    host: str
    rank: str
    pause_ns: int
    flows: int


class Findings(NamedTuple):
    """What was found out, and for contrast what averages over the fleet said."""

    cascades: tuple[Cascade, ...]
    tails: FabricTails | None
    held_up: tuple[HeldUp, ...]
    averages: Averages
    lengths_ns: tuple[int, ...]
    """Of the steps, as the ranks told them."""


def scenarios() -> dict[str, str]:
    """Every scenario's name, and what happens in it."""
    told = {"slowburn": f"The default: {SCENARIOS[SLOWBURN_SCENARIO].about} At step 10 of a job of 2,048 ranks."}
    told |= {name: scenario.about for name, scenario in SCENARIOS.items()}
    return told | {TRACE_SCENARIO: "The small one: a recorded trace, over a broker, with detect and correlate live."}


def run_story(name: str, seed: int, keep: Path | None, say: Say) -> Findings:
    """Plays and finds out; `keep` gets a capture. Raises ConfigError for a scenario that there is not."""
    sizes: dict[str, Any] = SLOWBURN if name == "slowburn" else {}
    with tempfile.TemporaryDirectory(prefix="pausetrace-") as temporary:
        say("playing the story (the first time, the model is compiled)")
        played = story(ALIASES.get(name, name), seed=seed, **sizes)
        say(_told(played))
        folder = Path(temporary) / name.replace("_", "-")
        say("the devices tell: pauses, counters, PCIe links, and the steps of the ranks, as a trace folder")
        write(played, folder, with_truth=False)
        del played
        say("reading it")
        trace = read_trace(folder)
        if keep is not None:
            from pausetrace.capture_import import capture_trace

            say(f"keeping it as a capture in {keep}")
            capture_trace(trace, keep, trace.name, START_NS)
        return _findings(trace, say)


def _findings(trace: Trace, say: Say) -> Findings:
    items = trace_items(trace_streams(trace, trace.name, "trace", "demo", START_NS))
    rows = sum(len(item.events) for item in items if isinstance(item, Batch))
    say(f"detect and correlate read {rows:,} rows")
    with Bar("traced", "rows") as bar:

        def counted() -> Iterator[Item]:
            done, quarter = 0, 0
            for item in items:
                yield item
                done += len(item.events) if isinstance(item, Batch) else 0
                bar.update(done, max(rows, 1))
                if done * 4 // max(rows, 1) > quarter:
                    quarter = done * 4 // rows
                    say(f"{quarter * 25}% of the rows are read")

        cascades = tuple(final_cascades(counted()))
    say("comparing steps, ports and NICs")
    found = fabric_tails([*items, *cascades], max(trace.period_ns, 1_000_000))
    tails = found[0] if found else None
    stall = max(tails.stalls, key=lambda stall: stall.cost_rank_ns, default=None) if tails else None
    return Findings(
        cascades, tails, held_up(trace, cascades), fleet_averages(trace, _since_ns(stall)), step_lengths_ns(trace)
    )


def _since_ns(stall: Stall | None) -> int:
    """From when on, on the trace's own clock, steps lasted longer; 0 where none did."""
    return stall.start_ns - START_NS if stall is not None else 0


def _told(played: Story) -> str:
    hosts = len(played.topology.hosts)
    links = len(played.topology.cables)
    return f"{hosts:,} hosts and {links:,} links, {len(played.step_ns)} steps of a training job, seed {played.seed}"


def held_up(trace: Trace, cascades: tuple[Cascade, ...]) -> tuple[HeldUp, ...]:
    """The ranks behind the victims of cascades, the longest held up first."""
    ranks: dict[str, str] = {}
    if trace.steps is not None:
        for host in trace.steps.host.tolist():
            ranks.setdefault(trace.devices[host], f"rank{len(ranks)}")
    times: Counter[str] = Counter()
    flows: Counter[str] = Counter()
    for cascade in cascades:
        for victim in cascade.victims:
            times[victim.src_device] = max(times[victim.src_device], victim.pause_ns)
            flows[victim.src_device] += 1
    found = [HeldUp(host, ranks.get(host, ""), times[host], flows[host]) for host in times]
    return tuple(sorted(found, key=lambda each: (-each.pause_ns, each.host)))


def step_lengths_ns(trace: Trace) -> tuple[int, ...]:
    """Of each step, the time from the first release to the end of the last rank."""
    if trace.steps is None:
        return ()
    begun: dict[int, int] = {}
    ended: dict[int, int] = {}
    for step, start, end in zip(
        trace.steps.step.tolist(), trace.steps.start_ns.tolist(), trace.steps.end_ns.tolist(), strict=True
    ):
        begun[step] = min(begun.get(step, start), start)
        ended[step] = max(ended.get(step, end), end)
    return tuple(ended[step] - begun[step] for step in sorted(begun))
