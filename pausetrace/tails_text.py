"""Stalls and tails for people: what the mean said, what the tail said, who was waited for and what that cost.

In: FabricTails. Out: text on a console; names come from the fabric and are made harmless first.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analytics.capacity import Limit
from analytics.stalls import CASCADE, MAX_NAMED, NOT_THE_FABRIC, Stall
from analytics.tails.fleet import Tail
from pausetrace.plain_text import printable
from pausetrace.tails_view import FabricTails, Period
from pausetrace.units import duration_text, time_text
from stream.kinds import NO_PRIORITY

MOST_TAILS = 20
FIRST_LIMITS = 3
LAYERS = {
    "host": "the host, which tells no more", "compute": "the host itself", "pcie": "its PCIe link", "nic": "its NIC",
    "link": "a link of the fabric", "queue": "a queue of the fabric", "storage": "storage",
    "application": "the application",
}  # fmt: skip
"""Layers, for people."""
HOUR_NS = 3_600 * 1_000_000_000


def print_tails(found: list[FabricTails], console: Console, price: float | None, local: bool = False) -> None:
    """Everything; `price` is that of a rank for an hour."""
    if not any(of.rows for of in found):
        console.print(Text(" No row was found: nothing was looked at."))
    elif not any(of.stalls or of.tails for of in found):
        console.print(Text(" No series stands out, and no step lasted longer than usual."))
    for of in found:
        for job in of.periods:
            console.print(Text(_period(job), style="dim"))
        for stall in of.stalls:
            console.print(Text("\n".join(stall_sentences(stall, price, local)), overflow="fold"))
            console.print()
        if of.limits:
            console.print(Text("\n".join(limit_sentences(of.limits[:FIRST_LIMITS])), overflow="fold"))
            console.print()
        if of.tails:
            console.print(_table(of.tails[:MOST_TAILS], local))
        if len(of.tails) > MOST_TAILS:
            console.print(Text(f" and {len(of.tails) - MOST_TAILS:,} more: -o jsonl has them all", style="dim"))


def limit_sentences(limits: tuple[Limit, ...]) -> list[str]:
    """What is full first as load grows."""
    said = [" as load grows, full first:"]
    for limit in limits:
        place = printable(f"{limit.device}:{limit.port}" if limit.port else limit.device)
        of = "its size" if not limit.rate_mbps else f"{limit.rate_mbps:,} Mb/s"
        slower = f", which could be {limit.nominal_mbps:,}" if limit.nominal_mbps > limit.rate_mbps > 0 else ""
        full = f"full at {limit.times:,.1f} times the load"
        said.append(f"   {limit.resource} of {place}: {limit.use:.1%} of {of}{slower}; {full}")
    return said


def _period(job: Period) -> str:
    """What the bytes of a job without a hook tell of its steps."""
    hosts = f" job {printable(job.job)} of {job.hosts:,} hosts has no hook"
    told = f"{hosts}: by their bytes, steps take {duration_text(job.period_ns)}"
    if job.steps:
        return f"{told}; {job.steps:,} of them are told within {duration_text(job.bin_ns)}"
    return f"{told}; windows of {duration_text(job.bin_ns)} are too long to tell which rank is late"


def stall_sentences(stall: Stall, price: float | None = None, local: bool = False) -> list[str]:
    """A stall in sentences, the first of which is its headline."""
    longer = stall.step_ns / stall.usual_ns
    cost_s = stall.cost_rank_ns / 1e9
    money = f", {cost_s / 3600 * price:,.2f} at the price given" if price is not None else ""
    steps = f"steps {stall.first_step} to {stall.last_step}"
    if stall.long_steps != stall.last_step - stall.first_step + 1:
        steps = f"{stall.long_steps} of {steps}"
    moved = (stall.mean_ns - stall.mean_usual_ns) / stall.mean_usual_ns if stall.mean_usual_ns else 0.0
    what = "computes for" if stall.mean_of_compute else "ends its step after"
    how = ", by its bytes" if stall.inferred else ""
    said = [
        f" job {printable(stall.job_name or stall.job)}{how}: {steps} took {duration_text(stall.step_ns)} where"
        f" {duration_text(stall.usual_ns)} is usual: {longer:.2f} times as long,"
        f" from {time_text(stall.start_ns, local)}",
        f"   the mean said: of {stall.ranks:,} ranks one {what} {duration_text(stall.mean_ns)}, {moved:+.1%}",
        f"   the tail said: {_behind(stall)}",
        f"   cost: {cost_s:,.1f} rank-seconds{money}; waiting at the barrier, fault or not:"
        f" {stall.waiting_rank_ns / 1e9:,.1f} rank-seconds",
    ]
    if stall.cause == CASCADE:
        behind = [
            f"cascade {printable(name)}{f' ({printable(began)})' if began else ''}"
            for name, began in zip(stall.cascades, stall.began, strict=True)
        ]
        said.append(f"   behind it: {', '.join(behind)}{_first_cause(stall)}")
    elif stall.cause == NOT_THE_FABRIC:
        why = "the rank's own compute, and no pause in that time explains it"
        said.append(f"   behind it: not the fabric: {why}{_first_cause(stall)}")
    else:
        said.append("   behind it: not known; no cascade that does harm is known of that time")
    return said


def _first_cause(stall: Stall) -> str:
    return f"; it began in {LAYERS.get(stall.layer, printable(stall.layer))}" if stall.layer else ""


def _behind(stall: Stall) -> str:
    if not stall.ranks_behind:
        return "no rank stands out"
    named = [
        printable(f"{each.rank} on {each.device}" + (f", NIC {each.nic}" if each.nic else ""))
        for each in stall.ranks_behind[:MAX_NAMED]
    ]
    more = len(stall.ranks_behind) - MAX_NAMED
    who = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    first = stall.ranks_behind[0]
    how = "by its own compute" if stall.own_compute else "and compute does not tell why"
    late = f"{duration_text(first.late_ns)} later than the median rank in {first.steps} of {stall.long_steps} steps"
    return f"all wait for {who}: {late}, {how}"


def _table(tails: tuple[Tail, ...], local: bool) -> Table:
    table = Table(box=None, pad_edge=True, header_style="bold")
    for name in ("what stands out", "where", "peers", "mean said", "tail said", "median", "z peers", "z past", "since"):
        table.add_column(name, overflow="fold", justify="right" if name[0] in "zm" else "left")
    for tail in tails:
        priority = "" if tail.priority == NO_PRIORITY else f"/{tail.priority}"
        before = "" if tail.mean_before is None else f" (before {_number(tail.mean_before)})"
        table.add_row(
            f"{tail.measure}, {tail.unit}",
            printable(f"{tail.device}:{tail.port}{priority}" if tail.port else tail.device),
            printable(f"{tail.peers:,} {tail.role}"),
            f"{_number(tail.peer_mean)}{before}",
            _number(tail.value),
            _number(tail.peer_median),
            _z(tail.against_peers),
            "-" if tail.against_past is None else _z(tail.against_past),
            time_text(tail.since_ns, local),
        )
    return table


def _z(z: float) -> str:
    return "> 1000" if z > 1000 else f"{z:.1f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
