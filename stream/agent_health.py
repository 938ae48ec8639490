"""What an agent says of its probes on the health topic, for people.

In: nothing. Out: `AgentHealth`, one JSON value an agent; what workers say there is in source_health.py.
"""

from __future__ import annotations

import msgspec

from stream.ranges import Count


class ProbeHealth(msgspec.Struct, frozen=True):
    """One probe. `state`: starting, running, degraded, failing, unavailable, stuck or stopped, with the reason.

    `cpu_ppm`: the part of one core that it used; `rows` it read and `lost_rows` it could not; `last_read_ns`: when it
    last read, by the agent's clock.
    """

    probe: str
    state: str
    reason: str = ""
    cpu_ppm: Count = 0
    rows: Count = 0
    lost_rows: Count = 0
    errors: Count = 0
    last_read_ns: Count = 0


class AgentHealth(msgspec.Struct, frozen=True, tag_field="what", tag="agent"):
    """One host's agent. `state`: ok, degraded (something costs too much) or failing (something cannot be read)."""

    fabric: str
    device: str
    time_ns: Count
    state: str
    probes: tuple[ProbeHealth, ...]
