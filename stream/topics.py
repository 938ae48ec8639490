"""The topics of a fabric: one table of names, encodings, partitions and retention; creation is in topic_admin.py.

Code, values and the roster use the bare name (`pfc`); on Kafka it is `<prefix>.<name>`, by default `fabric.pfc`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stream.errors import ConfigError

DEFAULT_PREFIX = "fabric"

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class Topic:
    """One row of the table; encoding is packed, json or binary; retention_ms -1 keeps for ever.

    `transactional` topics are written by steps, in transactions where they work exactly once. `configs` are further
    settings of Kafka's.
    """

    name: str
    encoding: str
    partitions: int
    retention_ms: int
    compacted: bool
    meaning: str
    transactional: bool = False
    configs: tuple[tuple[str, str], ...] = ()


_SOON_COMPACTED = (
    # Who takes over reads it to the end: every second's snapshots must not lie there until a gigabyte is full.
    ("segment.bytes", str(16 << 20)),
    ("max.compaction.lag.ms", "60000"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("delete.retention.ms", "3600000"),
)

# fmt: off
TOPICS: tuple[Topic, ...] = (
    Topic("pfc", "packed", 4, _DAY_MS, False, "PFC pause events and counters"),
    Topic("ecn", "packed", 4, _DAY_MS, False, "ECN marks and congestion notification packets"),
    Topic("queue", "packed", 4, _DAY_MS, False, "queue depth, drops, headroom, port bytes, link errors"),
    Topic("flowbytes", "packed", 4, _DAY_MS, False, "bytes of flows by port"),
    Topic("pcie", "packed", 4, _DAY_MS, False, "PCIe width, speed, errors and stalls of hosts"),
    Topic("kernel", "packed", 4, _DAY_MS, False, "kernel latency histograms and outliers"),
    Topic("host", "packed", 4, _DAY_MS, False, "RDMA, memory, CPU, GPU and job measures of hosts"),
    Topic("episode", "packed", 4, 7 * _DAY_MS, False, "pause intervals and evidence for correlate, by detect", True),
    Topic("device", "json", 1, -1, True, "devices, their ports and other names"),
    Topic("link", "json", 1, -1, True, "links between ports"),
    Topic("flow", "json", 1, -1, True, "flows, their ends and paths"),
    Topic("cascade", "json", 1, 30 * _DAY_MS, False, "congestion cascades, upserted by id", True),
    Topic("health", "json", 1, 7 * _DAY_MS, False, "health of Pausetrace itself, for people"),
    Topic("control", "json", 1, -1, False, "the roster of streams", True),
    Topic("deadletter", "json", 1, 7 * _DAY_MS, False, "values that could not be read, with where they stood", True),
    Topic("state", "binary", 4, -1, True, "snapshots of steps", True, _SOON_COMPACTED),
)
# fmt: on

BY_NAME: dict[str, Topic] = {topic.name: topic for topic in TOPICS}
PACKED: tuple[str, ...] = tuple(topic.name for topic in TOPICS if topic.encoding == "packed")
RAW: tuple[str, ...] = tuple(name for name in PACKED if name != "episode")
"""The topics that sources publish and detect reads."""
FACTS: tuple[str, ...] = ("device", "link", "flow")


def full_name(prefix: str, name: str) -> str:
    """The topic's name on Kafka."""
    return f"{prefix}.{name}"


def bare_name(prefix: str, topic: str, choices: Collection[str] = BY_NAME.keys()) -> str:
    """The bare name of a topic on Kafka, or of a bare name itself; raises ConfigError if it is none of the choices."""
    name = topic.removeprefix(f"{prefix}.")
    if name not in choices:
        raise ConfigError(f"no topic {topic!r}", f"choose from: {', '.join(choices)}")
    return name
