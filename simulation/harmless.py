"""Made fabrics whose pausing hurts nobody, rings that stop themselves and still move, and rings that never move again.

In: a seed. Out: a `Case`: a plan for the fluid model, and rows that dirty counters add. What a case is, its run shows:
how much of its time a flow lost against a fabric that never pauses, and whether bytes were left that could not move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from simulation.lossless import BYTES_PER_STEP, Burst, Plan, PlannedFlow, Port, Run, Slow, run, shortest_path
from simulation.model_trace import CounterRow, Planted, write_model_trace

HARMLESS_SHARE = 0.05
"""What a flow may lose of its time unnoticed: a job's steps vary by as much from one to the next."""
OLD_FRAMES = 100_000_000
"""Pause frames that a port that has been up for years may show, from storms that nobody remembers."""


@dataclass(frozen=True, slots=True)
class Case:
    """A fabric, what happens in it and what its counters add to that."""

    name: str
    plan: Plan
    dirt: tuple[CounterRow, ...] = ()


def leaf_spine(leaves: int, spines: int, hosts: int) -> Plan:
    """Every leaf is joined to every spine and to its own hosts."""
    plan = Plan({f"h{leaf}{host}" for leaf in range(leaves) for host in range(hosts)})
    for leaf in range(leaves):
        for host in range(hosts):
            plan.cable((f"h{leaf}{host}", "eth0"), (f"leaf{leaf}", f"d{host}"))
        for spine in range(spines):
            plan.cable((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"p{leaf}"))
    return plan


def fat_tree(hosts: int) -> Plan:
    """Two pods of two edge and two aggregation switches, joined by two cores to each aggregation switch's place."""
    plan = Plan({f"h{edge}{host}" for edge in range(4) for host in range(hosts)})
    for edge in range(4):
        for host in range(hosts):
            plan.cable((f"h{edge}{host}", "eth0"), (f"edge{edge}", f"d{host}"))
        for up in range(2):
            plan.cable((f"edge{edge}", f"u{up}"), (f"agg{edge // 2 * 2 + up}", f"d{edge % 2}"))
    for agg in range(4):
        for core in range(2):
            plan.cable((f"agg{agg}", f"u{core}"), (f"core{agg % 2 * 2 + core}", f"p{agg // 2}"))
    return plan


def ring(switches: int) -> Plan:
    """Switches in a circle, each with a host."""
    plan = Plan({f"h{here}" for here in range(switches)})
    for here in range(switches):
        plan.cable((f"h{here}", "eth0"), (f"s{here}", "host"))
        plan.cable((f"s{here}", "next"), (f"s{(here + 1) % switches}", "last"))
    return plan


def short_pauses(random: Random) -> Case:
    """A burst from several hosts at once to one, now and then: more than its link carries, for some ten us."""
    plan = _fabric(random)
    _background(plan, random)
    hosts = sorted(plan.hosts)
    target = random.choice(hosts)
    senders = random.sample([host for host in hosts if host[:2] != target[:2]], 3)
    size_bytes = random.randrange(450_000, 600_000)
    every = random.randrange(900, 1_600)
    for sender in senders:
        bursts = tuple(Burst(at, size_bytes) for at in range(random.randrange(300, 330), plan.steps - 800, every))
        _flow(plan, random, sender, target, bursts)
    return Case("short_pauses", plan)


def one_short_stall(random: Random) -> Case:
    """A host that takes nothing for a moment, once, as when it reclaims memory."""
    plan = _fabric(random)
    _background(plan, random)
    target = random.choice(sorted(plan.hosts))
    _to(plan, random, target, 0.3)
    at = random.randrange(1_500, 3_000)
    plan.slow.append(Slow(target, at, at + random.randrange(80, 180), 0.0))
    return Case("one_short_stall", plan)


def briefly_slow(random: Random) -> Case:
    """A host that is at a third of line rate for a moment, again and again."""
    plan = _fabric(random)
    _background(plan, random)
    target = random.choice(sorted(plan.hosts))
    _to(plan, random, target, 0.5)
    length, every = random.randrange(80, 160), random.randrange(1_500, 2_200)
    for at in range(random.randrange(400, 600), plan.steps - 1_000, every):
        plan.slow.append(Slow(target, at, at + length, 0.3))
    return Case("briefly_slow", plan)


def slow_for_long(random: Random) -> Case:
    """The opposite, to compare with: a host that takes less than it is sent for half of the time."""
    plan = _fabric(random)
    _background(plan, random)
    target = random.choice(sorted(plan.hosts))
    _to(plan, random, target, 0.5)
    at = random.randrange(400, 600)
    plan.slow.append(Slow(target, at, at + plan.steps // 2, 0.3))
    return Case("slow_for_long", plan)


def lifetime_counters(random: Random) -> Case:
    """Short pauses in one place; elsewhere, idle ports first tell what they have counted in all their life."""
    plan = short_pauses(random).plan
    used = {port for flow in plan.flows for port in flow.path}
    idle = [port for port in sorted(plan.peers) if port not in used and port[0] not in plan.hosts]
    year_ns = 365 * 86_400 * 1_000_000_000
    dirt = [CounterRow(0, port, OLD_FRAMES, OLD_FRAMES, year_ns) for port in idle]
    return Case("lifetime_counters", plan, tuple(dirt))


def frames_on_empty_queues(random: Random) -> Case:
    """Ports that get pause frames in every bin, though nothing waits behind them and no time of pause is counted."""
    plan = _fabric(random)
    _background(plan, random)
    ports = random.sample([port for port in sorted(plan.peers) if port[0] not in plan.hosts], 4)
    bins = range(plan.steps // 100)
    dirt = [CounterRow(here, port, random.randrange(1, 200)) for port in ports for here in bins]
    return Case("frames_on_empty_queues", plan, tuple(dirt))


def ring_at_ease(random: Random) -> Case:
    """A ring whose queues stop each other for some ten us at a time, one place after another."""
    plan = _ring_of_bursts(random, size_bytes=(450_000, 560_000), every=(400, 600))
    return Case("ring_at_ease", plan)


def live_cycle(random: Random) -> Case:
    """A ring whose queues stop each other all round, again and again, for a large part of the time, and still move."""
    plan = _ring_of_bursts(random, size_bytes=(500_000, 900_000), every=(110, 160))
    return Case("live_cycle", plan)


def deadlock(random: Random) -> Case:
    """A ring in which every host sends two places on; one host stalls until the stops have gone all the way round.

    When it takes bytes again, each queue of the ring waits for the next one, and the last for the first.
    """
    plan = ring(random.randint(4, 6))
    for here in range(len(plan.hosts)):
        _round(plan, here, (Burst(random.randrange(100), 40_000_000, random.uniform(0.6, 1.0)),))
    at = random.randrange(300, 600)
    plan.slow.append(Slow("h0", at, at + random.randrange(200, 300), 0.0))
    # To be told from a stop that only lasts long, it has to last ten times as long as those before it.
    plan.steps = 6_000
    return Case("deadlock", plan)


HARMLESS: tuple[Callable[[Random], Case], ...] = (
    short_pauses, one_short_stall, briefly_slow, lifetime_counters, frames_on_empty_queues, ring_at_ease,
)  # fmt: skip
SEEDS = 4


def made(make: Callable[[Random], Case], seed: int) -> Case:
    """The case of this sort and seed."""
    return make(Random(f"{make.__name__} {seed}"))


def write_case(folder: Path, case: Case, planted: tuple[Planted, ...] = (), scenario: str = "harmless") -> Run:
    """Runs the case and writes it as a trace folder."""
    happened = run(case.plan)
    write_model_trace(folder, case.plan, happened, scenario, planted, case.dirt)
    return happened


def _fabric(random: Random) -> Plan:
    return random.choice((leaf_spine(3, 2, 3), leaf_spine(2, 2, 4), fat_tree(2)))


def _background(plan: Plan, random: Random) -> None:
    """Every host sends to another all the time, at a tenth of line rate: no link comes near to being full."""
    hosts = sorted(plan.hosts)
    turn = random.randrange(1, len(hosts))
    for place, host in enumerate(hosts):
        size_bytes = int(0.1 * BYTES_PER_STEP * (plan.steps - 500))
        _flow(plan, random, host, hosts[(place + turn) % len(hosts)], (Burst(0, size_bytes, 0.1),))


def _to(plan: Plan, random: Random, target: str, rate: float) -> None:
    """Two hosts send to a third all the time, together at so much of line rate."""
    for sender in random.sample([host for host in sorted(plan.hosts) if host[:2] != target[:2]], 2):
        size_bytes = int(rate / 2 * BYTES_PER_STEP * (plan.steps - 500))
        _flow(plan, random, sender, target, (Burst(0, size_bytes, rate / 2),))


def _flow(plan: Plan, random: Random, src: str, dst: str, bursts: tuple[Burst, ...]) -> None:
    path = shortest_path(plan.peers, plan.hosts, src, dst, random.randrange(4))
    plan.flows.append(PlannedFlow(path, bursts))


def _ring_of_bursts(random: Random, size_bytes: tuple[int, int], every: tuple[int, int]) -> Plan:
    """Hosts of a ring that take turns in sending a burst two places on, each before the last one's has passed."""
    plan = ring(random.randint(4, 6))
    count = len(plan.hosts)
    bursts: list[list[Burst]] = [[] for _ in range(count)]
    turn, at = 0, 100
    while at < plan.steps - 1_000:
        for here in (turn, turn + 1):
            bursts[here % count].append(Burst(at, random.randrange(*size_bytes)))
        turn += 1
        at += random.randrange(*every)
    for here in range(count):
        _round(plan, here, tuple(bursts[here]))
    return plan


def _round(plan: Plan, here: int, bursts: tuple[Burst, ...]) -> None:
    """A flow from one host of a ring to the one two places on."""
    count = len(plan.hosts)
    turns = [f"s{(here + turn) % count}" for turn in range(3)]
    way: tuple[Port, ...] = ((f"h{here}", "eth0"), (turns[0], "next"), (turns[1], "next"), (turns[2], "host"))
    plan.flows.append(PlannedFlow(way, bursts))
