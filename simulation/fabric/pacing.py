"""Kernels of DCQCN, the rate control of a sending queue pair (Zhu et al., SIGCOMM 2015; HPCC `rdma-hw`, "mlx").

In and out: one flow's rows of layout.py. Timers are advanced when the flow is looked at, in the order of their times.
"""

from __future__ import annotations

from simulation.fabric.compiled import Floats, Ints, inner
from simulation.fabric.layout import (
    FLOW_ALPHA_CNP,
    FLOW_ALPHA_NS,
    FLOW_CNP_NS,
    FLOW_CNPS,
    FLOW_CUT_CNP,
    FLOW_CUT_NS,
    FLOW_IS_CUT,
    FLOW_RISE_NS,
    FLOW_STAGE,
    FLOW_TOKEN_TICK,
    FOREVER,
    LINE_RATE,
    PACE_ALPHA,
    PACE_RATE,
    PACE_TARGET,
    PACE_TOKENS,
    TICK_NS,
)  # fmt: skip

ALPHA_NS = 1_000
CUT_NS = 4_000
RISE_NS = 900_000
GAIN = 1 / 256
MIN_MBPS = 100
STEP_MBPS = 50
BIG_STEP_MBPS = 100


@inner
def per_tick(mbps: int, state: Ints) -> float:
    """A rate in thousandths of a byte a tick."""
    return mbps * state[TICK_NS] / 8


@inner
def notify(flow: Ints, pace: Floats, now_ns: int, state: Ints) -> None:
    """A congestion notification arrives."""
    flow[FLOW_CNPS] += 1
    flow[FLOW_ALPHA_CNP] = 1
    flow[FLOW_CUT_CNP] = 1
    if not flow[FLOW_IS_CUT]:
        flow[FLOW_IS_CUT] = 1
        flow[FLOW_ALPHA_CNP] = 0
        flow[FLOW_ALPHA_NS] = now_ns + ALPHA_NS
        flow[FLOW_CUT_NS] = now_ns + CUT_NS + 1  # after alpha, where both are due at once
        flow[FLOW_RISE_NS] = FOREVER
        flow[FLOW_STAGE] = 0
        pace[PACE_ALPHA] = 1.0
        pace[PACE_RATE] = state[LINE_RATE]
        pace[PACE_TARGET] = state[LINE_RATE]


@inner
def run_timers(flow: Ints, pace: Floats, now_ns: int, state: Ints) -> None:
    """Advances alpha, cuts and rises to `now_ns`."""
    if not flow[FLOW_IS_CUT]:
        return
    while True:
        due = min(flow[FLOW_ALPHA_NS], flow[FLOW_CUT_NS], flow[FLOW_RISE_NS])
        if due > now_ns:
            return
        if due == flow[FLOW_ALPHA_NS]:
            pace[PACE_ALPHA] *= 1 - GAIN
            if flow[FLOW_ALPHA_CNP]:
                pace[PACE_ALPHA] += GAIN
                flow[FLOW_ALPHA_CNP] = 0
            flow[FLOW_ALPHA_NS] = due + ALPHA_NS
        elif due == flow[FLOW_CUT_NS]:
            if flow[FLOW_CUT_CNP]:
                flow[FLOW_CUT_CNP] = 0
                if flow[FLOW_STAGE] > 0:
                    pace[PACE_TARGET] = pace[PACE_RATE]
                pace[PACE_RATE] = max(per_tick(MIN_MBPS, state), pace[PACE_RATE] * (1 - pace[PACE_ALPHA] / 2))
                flow[FLOW_STAGE] = 0
                flow[FLOW_RISE_NS] = due + RISE_NS
            flow[FLOW_CUT_NS] = due + CUT_NS
        else:
            if flow[FLOW_STAGE] >= 1:
                step = STEP_MBPS if flow[FLOW_STAGE] == 1 else BIG_STEP_MBPS
                pace[PACE_TARGET] = min(pace[PACE_TARGET] + per_tick(step, state), float(state[LINE_RATE]))
            pace[PACE_RATE] = (pace[PACE_RATE] + pace[PACE_TARGET]) / 2
            flow[FLOW_STAGE] += 1
            flow[FLOW_RISE_NS] = due + RISE_NS


@inner
def catch_up(flow: Ints, pace: Floats, now: int, state: Ints) -> None:
    """Advances the flow to tick `now`, with a notification that was on its way."""
    now_ns = now * state[TICK_NS]
    if flow[FLOW_CNP_NS] and flow[FLOW_CNP_NS] <= now_ns:
        run_timers(flow, pace, flow[FLOW_CNP_NS], state)
        notify(flow, pace, flow[FLOW_CNP_NS], state)
        flow[FLOW_CNP_NS] = 0
    run_timers(flow, pace, now_ns, state)


@inner
def refill(flow: Ints, pace: Floats, packet: int, now: int) -> None:
    """Tokens of a flow that sends below line rate: at most those of a tick and one packet."""
    passed = now - flow[FLOW_TOKEN_TICK]
    flow[FLOW_TOKEN_TICK] = now
    depth = pace[PACE_RATE] + packet * 1000
    pace[PACE_TOKENS] = min(pace[PACE_TOKENS] + passed * pace[PACE_RATE], depth)
