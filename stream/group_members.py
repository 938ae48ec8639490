"""Who is in a consumer group, by the names that members keep over restarts, and whether they read all between them.

In: a group, and a name or partitions. Out: whether some process works under the name now; what no member reads.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from stream.errors import UnreachableError
from stream.kafka_log import error_text
from stream.kafka_settings import KafkaSettings, admin_client

QUERY_DEADLINE_S = 10.0
_LOOK_S = 0.5


def stays_member(settings: KafkaSettings, group: str, instance: str, for_s: float) -> bool:
    """Whether a group (by its full name) keeps a member of this instance's name for so long: longer than a session.

    A member that nobody is any more, such as one whose process asked twice to join, does not outlast its session.
    Raises UnreachableError if no broker says.
    """
    client = admin_client(settings)
    end_s = time.monotonic() + for_s
    while True:
        members = _described(client, group, QUERY_DEADLINE_S).members
        if all(member.group_instance_id != instance for member in members):
            return False
        if time.monotonic() >= end_s:
            return True
        time.sleep(_LOOK_S)


def unread(
    settings: KafkaSettings, group: str, partitions: Collection[tuple[str, int]], deadline_s: float
) -> set[tuple[str, int]]:
    """Partitions (by full topic name) that no member of a group has; none while its shares are being given out.

    Raises UnreachableError if no broker says within deadline_s.
    """
    described = _described(admin_client(settings), group, deadline_s)
    if described.state != ConsumerGroupState.STABLE:
        return set()
    read = {(place.topic, place.partition) for member in described.members
            for place in (member.assignment.topic_partitions if member.assignment else ())}  # fmt: skip
    return set(partitions) - read


def _described(client: AdminClient, group: str, deadline_s: float) -> Any:
    try:
        (described,) = client.describe_consumer_groups([group], request_timeout=deadline_s).values()
        return described.result(deadline_s)
    except (KafkaException, FutureTimeoutError) as err:
        why = error_text(err.args[0]) if isinstance(err, KafkaException) else "no answer"
        raise UnreachableError(f"cannot ask who is in group {group}: {why}") from err
