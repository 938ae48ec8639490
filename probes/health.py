"""The health of an agent for people, as JSON on the health topic: what its probes do, and why some do not.

In: where the probes stand. Out: one JSON object.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from probes.runner import ProbeStatus
from stream.agent_health import AgentHealth, ProbeHealth

_NORMAL = ("starting", "running", "unavailable", "stopped")
"""States that need nobody: what a host has not got cannot be watched."""


def state(statuses: Sequence[ProbeStatus]) -> str:
    """ok, degraded (something costs too much) or failing (something cannot be read)."""
    states = {status.state for status in statuses}
    if states & {"failing", "stuck"}:
        return "failing"
    return "ok" if states <= set(_NORMAL) else "degraded"


def report(fabric: str, device: str, statuses: Sequence[ProbeStatus], now_ns: int) -> bytes:
    """The JSON object."""
    probes = tuple(
        ProbeHealth(
            status.name, status.state, status.reason, round(status.used_share * 1_000_000), status.rows,
            status.lost_rows, status.errors, status.last_read_ns,
        )
        for status in statuses
    )  # fmt: skip
    return msgspec.json.encode(AgentHealth(fabric, device, now_ns, state(statuses), probes))
