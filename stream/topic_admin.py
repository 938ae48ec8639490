"""Makes, lists and describes the topics of a fabric on Kafka; what exists is reported and never changed.

The embedded broker made its topics when it started: there only the list works, and the rest refuses clearly.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException

# Public names of the package, which its type hints forget to export.
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from stream.errors import BrokerError
from stream.kafka_log import error_text
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings, admin_client, look, require_topics
from stream.refusals import GRANT, principal
from stream.topics import BY_NAME, FACTS, TOPICS, Topic, full_name

ADMIN_DEADLINE_S = 30.0
_RETRY_S = 0.05
_AFTER = "message.timestamp.after.max.ms"
_NO_LIMIT_MS = (1 << 63) - 1
BROKER_DEFAULT = -1
"""Replication factor that leaves the number to the broker's default.replication.factor."""

SHOWN_CONFIGS = ("cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes", "min.insync.replicas")


class TopicListing(msgspec.Struct, frozen=True):
    """One of our topics as it stands; partitions is 0 where Kafka does not have it."""

    name: str
    topic: str
    partitions: int
    meaning: str


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic of ours on Kafka with its settings, and where they differ from the table: `differences` in words."""

    name: str
    topic: str
    partitions: int
    replication: int
    configs: dict[str, str]
    differences: tuple[str, ...]


class TopicCreation(msgspec.Struct, frozen=True):
    """What `create` did to one topic; `differences` where it existed already with other partitions or settings."""

    name: str
    topic: str
    created: bool
    differences: tuple[str, ...] = ()


def wanted_configs(topic: Topic) -> dict[str, str]:
    """The settings that a topic of the table is made with."""
    return {
        "cleanup.policy": "compact" if topic.compacted else "delete",
        "retention.ms": str(topic.retention_ms),
        **dict(topic.configs),
    }


def list_topics(settings: KafkaSettings, deadline_s: float = CONNECT_DEADLINE_S) -> list[TopicListing]:
    """Every topic of the table with its partitions on Kafka."""
    partitions = look(settings, deadline_s).partitions
    return [
        TopicListing(topic.name, full, partitions.get(full, 0), topic.meaning)
        for topic in TOPICS
        for full in [full_name(settings.prefix, topic.name)]
    ]


def create_topics(
    settings: KafkaSettings,
    *,
    partitions: int | Mapping[str, int] | None = None,
    replication: int = BROKER_DEFAULT,
    for_ever: bool = False,
    deadline_s: float = ADMIN_DEADLINE_S,
) -> list[TopicCreation]:
    """Makes those topics of the table that Kafka does not have; `partitions` replaces the count where that is not one.

    A mapping has the counts by topic. With `for_ever`, the new topics keep everything whatever the table says. Raises
    BrokerError if a topic cannot be made, and on the embedded broker.
    """
    view = look(settings, min(deadline_s, CONNECT_DEADLINE_S))
    if view.broker.embedded:
        raise _embedded_refuses("create topics")
    given = partitions if isinstance(partitions, Mapping) else dict.fromkeys(BY_NAME, partitions)
    counts = {t.name: t.partitions if t.partitions == 1 else given.get(t.name) or t.partitions for t in TOPICS}
    existing = [t.name for t in TOPICS if full_name(settings.prefix, t.name) in view.partitions]
    missing = [t for t in TOPICS if t.name not in existing]
    made: set[str] = set()
    if missing:
        new = [
            NewTopic(
                full_name(settings.prefix, topic.name),
                num_partitions=counts[topic.name],
                replication_factor=replication,
                config=wanted_configs(topic) | (_kept_for_ever(topic) if for_ever else {}),
            )
            for topic in missing
        ]
        client = admin_client(settings)  # lives until its futures are done
        futures = client.create_topics(new, operation_timeout=deadline_s, request_timeout=deadline_s)
        for topic in missing:
            full = full_name(settings.prefix, topic.name)
            # Made by another process in this moment: then it exists, and its settings are looked at like others'.
            if _await(
                settings, futures[full], f"topic {full} cannot be made", "Create", deadline_s,
                allow=KafkaError.TOPIC_ALREADY_EXISTS,
            ):  # fmt: skip
                made.add(topic.name)
            else:
                existing.append(topic.name)
        _await_use(settings, missing, deadline_s)
    described = {d.name: d for d in describe_topics(settings, existing, deadline_s=deadline_s)} if existing else {}
    creations = []
    for topic in TOPICS:
        differences: tuple[str, ...] = ()
        if topic.name in described:
            found = described[topic.name]
            differences = _differences(topic, counts[topic.name], found.partitions, found.configs)
        full = full_name(settings.prefix, topic.name)
        creations.append(TopicCreation(topic.name, full, topic.name in made, differences))
    return creations


def describe_topics(
    settings: KafkaSettings, names: Sequence[str], *, deadline_s: float = ADMIN_DEADLINE_S
) -> list[TopicDescription]:
    """Partitions, replicas and settings of these topics (bare names); raises BrokerError if one is missing."""
    view = look(settings, min(deadline_s, CONNECT_DEADLINE_S))
    if view.broker.embedded:
        raise _embedded_refuses("describe topics")
    require_topics(settings, view, names)
    client = admin_client(settings)
    resources = {n: ConfigResource(ResourceType.TOPIC, full_name(settings.prefix, n)) for n in names}
    futures = client.describe_configs(list(resources.values()), request_timeout=deadline_s)
    described = []
    for name, resource in resources.items():
        full = full_name(settings.prefix, name)
        what = f"topic {full} cannot be described"
        entries = _await(settings, futures[resource], what, "DescribeConfigs", deadline_s) or {}
        shown = (*SHOWN_CONFIGS, *wanted_configs(BY_NAME[name]))
        configs = {key: str(entries[key].value) for key in dict.fromkeys(shown) if key in entries}
        partitions = view.partitions[full]
        differences = _differences(BY_NAME[name], BY_NAME[name].partitions, partitions, configs)
        described.append(TopicDescription(name, full, partitions, view.replication.get(full, 0), configs, differences))
    return described


def timestamp_limit_ms(settings: KafkaSettings, names: Sequence[str], *, deadline_s: float = ADMIN_DEADLINE_S) -> int:
    """How far ahead of its clock Kafka takes times: the least of these topics (bare names), else what a broker has.

    Where that may not be asked, or it is older than such a limit, there is no telling: as far as a time can be.
    """
    client = admin_client(settings)
    resources = [ConfigResource(ResourceType.TOPIC, full_name(settings.prefix, name)) for name in names]
    try:
        if not resources:
            broker = next(iter(client.list_topics(timeout=deadline_s).brokers))
            resources = [ConfigResource(ResourceType.BROKER, str(broker))]
        futures = client.describe_configs(resources, request_timeout=deadline_s)
        entries = [future.result(deadline_s) for future in futures.values()]
    except (KafkaException, FutureTimeoutError):
        return _NO_LIMIT_MS
    limits = [_NO_LIMIT_MS]
    for told in entries:
        stamps = [told[key].value for key in ("message.timestamp.type", "log.message.timestamp.type") if key in told]
        if "LogAppendTime" not in stamps:
            limits += [int(str(told[prefix + _AFTER].value)) for prefix in ("", "log.") if prefix + _AFTER in told]
    return min(limits)


def _kept_for_ever(topic: Topic) -> dict[str, str]:
    # Of snapshots the last ones are everything; superseded facts are told apart from lost ones only if they stay.
    return {"retention.ms": "-1"} | ({"cleanup.policy": "delete"} if topic.name in FACTS else {})


def _await_use(settings: KafkaSettings, made: Sequence[Topic], deadline_s: float) -> None:
    """Waits until brokers know the topics: for a moment after they are made, some still deny that they exist."""
    end_s = time.monotonic() + deadline_s
    names = {full_name(settings.prefix, topic.name) for topic in made}
    while True:
        view = look(settings, deadline_s)
        missing = (names - view.partitions.keys()) | (names & view.leaderless)
        if not missing:
            return
        if time.monotonic() >= end_s:
            raise BrokerError(
                f"made, but not to be used within {deadline_s:g} s: {', '.join(sorted(missing))}",
                "see whether all brokers of the cluster run",
            )
        time.sleep(_RETRY_S)


def _differences(topic: Topic, wanted_partitions: int, partitions: int, configs: dict[str, str]) -> tuple[str, ...]:
    differences = []
    if partitions != wanted_partitions:
        differences.append(f"has {partitions} partitions, not {wanted_partitions}")
    for key, wanted in wanted_configs(topic).items():
        if configs.get(key) != wanted:
            differences.append(f"has {key}={configs.get(key)}, not {wanted}")
    return tuple(differences)


def _await(
    settings: KafkaSettings,
    future: Future[Any],
    what: str,
    operation: str,
    deadline_s: float,
    allow: int | None = None,
) -> Any:
    """The result of an admin call, True if that is nothing; None for the error allowed."""
    try:
        result = future.result(deadline_s)
    except KafkaException as err:
        error: KafkaError = err.args[0]
        if allow is not None and error.code() == allow:
            return None
        if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
            raise BrokerError(f"{what}: {principal(settings)} has no right to {operation} it", GRANT) from err
        raise BrokerError(
            f"{what}: {error_text(error)}", "see the broker's log, or ask for the right to do it"
        ) from err
    except FutureTimeoutError as err:
        raise BrokerError(f"{what}: no answer within {deadline_s:g} s", "check that the broker runs") from err
    return True if result is None else result


def _embedded_refuses(what: str) -> BrokerError:
    return BrokerError(
        f"the embedded broker cannot {what}: it made its topics when it started",
        "use a real Kafka: docker compose up -d --wait kafka",
    )
