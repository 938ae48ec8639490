"""How much a cascade cost: the largest share of its active time that a port was stopped, and so all flows through it.

In: a closed cascade's ledger and when ports were sending. Out: info, warning or critical, with the reason in words.
"""

from __future__ import annotations

from analytics import layout
from analytics.bounds import CRITICAL_SHARE, WARNING_SHARE
from analytics.engine import Closed, Engine
from analytics.topology import PRIORITIES

HARMLESS_NS = 100_000
"""About what one message of 1 MB takes at 100 Gb/s: stops that are shorter in all hold up no step to speak of."""
LIFE_MIN_NS = 1_000_000
"""Shorter times count as this long: a few short stops in a millisecond hurt nobody."""


def severity_of(engine: Engine, closed: Closed, pause_ns: int) -> tuple[str, str]:
    """The severity, and the port that was stopped for the largest share of its active time."""
    if pause_ns < HARMLESS_NS:
        return "info", f"all stops together lasted {pause_ns / 1000:.1f} us"
    topology = engine.topology
    shares = {
        queue: (tally.pause_ns / active_ns(engine, closed, queue), tally.pause_ns)
        for queue, tally in closed.ledger.queues.items()
    }
    worst = max(shares, key=lambda queue: (*shares[queue], -_rank(engine, queue)))
    share = min(1.0, shares[worst][0])
    device, port, _ = topology.queue_name(worst)
    reason = f"{device}:{port} was stopped for {share:.1%} of {active_ns(engine, closed, worst) / 1e6:.2f} ms"
    if share >= CRITICAL_SHARE:
        return "critical", reason
    return ("warning" if share >= WARNING_SHARE else "info"), reason


def active_ns(engine: Engine, closed: Closed, queue: int) -> int:
    """For how long the queue's port has been sending around the cascade, and at least for as long as that lasted.

    Within GAP_NS before and after a cascade no stop is known that could belong to it, so a port that has been sending
    in that time lost no more of it. Of a port whose bytes nobody counts, the cascade's own time is all that is known.
    """
    begin_ns, end_ns = closed.start_ns, closed.end_ns
    run_begin_ns, run_end_ns = engine.ports[queue // PRIORITIES, [layout.P_RUN_BEGIN, layout.P_RUN_END]].tolist()
    if run_begin_ns <= end_ns + layout.GAP_NS and begin_ns - layout.GAP_NS <= run_end_ns:
        begin_ns = min(begin_ns, max(run_begin_ns, begin_ns - layout.GAP_NS))
        end_ns = max(end_ns, min(run_end_ns, end_ns + layout.GAP_NS))
    return max(end_ns - begin_ns, LIFE_MIN_NS)


def _rank(engine: Engine, queue: int) -> int:
    """Smaller for a queue whose name comes first."""
    return int(engine.topology.port_rank[queue // PRIORITIES]) * PRIORITIES + queue % PRIORITIES
