"""Where a replay goes: guards against writing where nobody wants it or where Kafka would delete it, and its topics.

In: a capture's manifest and the target's settings. Out: a `Target`, or an error that says which guard it met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stream.capture_manifest import Manifest
from stream.capture_message import NS_PER_MS
from stream.errors import BrokerError, ConfigError
from stream.kafka_settings import CONNECT_DEADLINE_S, ClusterView, KafkaSettings, look
from stream.topic_admin import create_topics, describe_topics, timestamp_limit_ms
from stream.topics import full_name

PREFIX = "replay"


class Target(NamedTuple):
    """The cluster, and the partitions of each topic that is replayed."""

    cluster_id: str
    embedded: bool
    partitions: dict[str, int]


def default_prefix(manifest: Manifest) -> str:
    """What was captured, called a replay."""
    return f"{PREFIX}.{manifest.plan.prefix}"


def guard_prefix(manifest: Manifest, prefix: str, *, any_prefix: bool) -> None:
    """Raises ConfigError for topics whose names do not tell of a replay."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", prefix) or prefix.endswith("."):
        raise ConfigError(
            f"--to-prefix {prefix!r} can begin no topic",
            "a prefix has 1 to 200 letters, digits, '.', '_' and '-', and does not end with a '.'",
        )
    if not prefix.startswith(f"{PREFIX}.") and not any_prefix:
        raise ConfigError(
            f"a replay into {prefix}.* could be taken for what happens now: its prefix does not begin with {PREFIX}.",
            f"give --to-prefix {default_prefix(manifest)}, or --any-prefix if you mean it",
        )


def guard_source(manifest: Manifest, settings: KafkaSettings, *, into_source: bool) -> ClusterView:
    """The target's cluster and topics; raises ConfigError if they are those that were captured."""
    view = look(settings, CONNECT_DEADLINE_S)
    plan = manifest.plan
    if (settings.prefix, view.broker.cluster_id) == (plan.prefix, plan.cluster_id) and not into_source:
        raise ConfigError(
            f"{settings.prefix}.* on this cluster is what was captured",
            f"give --to-prefix {default_prefix(manifest)}, or --into-source if you mean it",
        )
    return view


def prepare(
    manifest: Manifest,
    settings: KafkaSettings,
    view: ClusterView,
    topics: Sequence[str],
    *,
    keep_partitions: bool,
) -> Target:
    """Makes the topics that are missing, which keep everything; raises where those that exist are too narrow."""
    needed = _partitions_needed(manifest)
    missing = [topic for topic in topics if full_name(settings.prefix, topic) not in view.partitions]
    if missing and view.broker.embedded:
        raise BrokerError(
            f"the embedded broker has no topic {full_name(settings.prefix, missing[0])} and cannot make one",
            "start it with that prefix, or use a real Kafka",
        )
    if missing:
        # All of the table, so that detect and correlate can work on the replay.
        create_topics(settings, partitions=needed, for_ever=True)
        view = look(settings, CONNECT_DEADLINE_S)
    partitions = {topic: view.partitions[full_name(settings.prefix, topic)] for topic in topics}
    for topic in topics:
        if keep_partitions and partitions[topic] < needed[topic]:
            full = full_name(settings.prefix, topic)
            raise ConfigError(
                f"{full} has {partitions[topic]} partitions, and {needed[topic]} were captured",
                "give --partitions by-key, or another prefix: its topics are then made as wide as they must be",
            )
    return Target(view.broker.cluster_id, view.broker.embedded, partitions)


def guard_times(
    settings: KafkaSettings, view: ClusterView, oldest_ms: Mapping[str, int], newest_ms: int, speed: float, now_ns: int
) -> None:
    """Raises ConfigError if Kafka would refuse the replay's timestamps, or delete what is older than a topic keeps.

    Times are those to be sent, with the shift; `speed` 0 waits for nothing. Topics that are missing are made to keep
    everything, and take what the brokers are set to.
    """
    if view.broker.embedded or not oldest_ms:
        return
    now_ms = now_ns // NS_PER_MS
    there = [topic for topic in oldest_ms if full_name(settings.prefix, topic) in view.partitions]
    for description in describe_topics(settings, there) if there else []:
        if "delete" not in description.configs.get("cleanup.policy", "delete"):
            continue
        retention_ms = int(description.configs.get("retention.ms", "-1"))
        age_ms = now_ms - oldest_ms[description.name]
        if 0 <= retention_ms < age_ms:
            raise ConfigError(
                f"Kafka would delete the replay: {description.topic} keeps {_hours(retention_ms)} and the capture's "
                f"oldest message there is {_hours(age_ms)} old",
                "give --shift now, or another prefix: the topics made for it keep everything",
            )
    first_ms = min(oldest_ms.values())
    lasts_ms = int((newest_ms - first_ms) / speed) if speed else 0
    ahead_ms = max(first_ms - now_ms, newest_ms - lasts_ms - now_ms)
    limit_ms = timestamp_limit_ms(settings, there) if ahead_ms > 0 else ahead_ms
    if ahead_ms > limit_ms:
        raise ConfigError(
            f"Kafka would refuse the replay: its times would be {_hours(ahead_ms)} ahead of now, and Kafka takes "
            f"{_hours(limit_ms)} (message.timestamp.after.max.ms)",
            "give another --shift, further back; nothing was sent, and no topic made",
        )


def _partitions_needed(manifest: Manifest) -> dict[str, int]:
    needed = dict.fromkeys(manifest.plan.topics, 0)
    for plan in manifest.plan.partitions:
        needed[plan.topic] = max(needed[plan.topic], plan.partition + 1)
    return needed


def _hours(duration_ms: int) -> str:
    return f"{duration_ms / 3_600_000:,.1f} h"
