"""Who is in a consumer group, by the names that members keep over restarts, and whether they read all between them.

In: a group, and a name or partitions. Out: whether some process works under the name now; what no member reads.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream.errors import UnreachableError
from stream.kafka_log import error_text
from stream.kafka_settings import KafkaSettings, admin_client

QUERY_DEADLINE_S = 10.0
_LOOK_S = 0.5
_STABLE = "Stable"
_UUID_CHARS = 36


def stays_member(settings: KafkaSettings, group: str, instance: str, for_s: float) -> bool:
    """Whether a group (by its full name) keeps a member of this instance's name for so long: longer than a session.

    A member that nobody is any more, such as one whose process asked twice to join, does not outlast its session. One
    without a name whose `client.id` is this name counts as well: Kafka names it alike. Raises UnreachableError if no
    broker says.
    """
    client = admin_client(settings)
    end_s = time.monotonic() + for_s
    while True:
        found = _described(client, group, QUERY_DEADLINE_S)
        # Kafka names a static member by its instance, a dash and a UUID.
        if found is None or all(member.id[: -_UUID_CHARS - 1] != instance for member in found.members):
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
    found = _described(admin_client(settings), group, deadline_s)
    if found is None or found.state != _STABLE:
        return set()
    return set(partitions).difference(*(assigned(member.assignment) for member in found.members))


def assigned(assignment: bytes | None) -> set[tuple[str, int]]:
    """The partitions, by full topic name, of a member's assignment (ConsumerProtocolAssignment.json of Kafka)."""
    found: set[tuple[str, int]] = set()
    if not assignment:
        return found
    _version, topics = struct.unpack_from(">hi", assignment)
    at = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, at)
        topic = assignment[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = struct.unpack_from(">i", assignment, at)
        found |= {(topic, partition) for partition in struct.unpack_from(f">{count}i", assignment, at + 4)}
        at += 4 + 4 * count
    return found


def _described(client: AdminClient, group: str, deadline_s: float) -> Any:
    """The group with its members, None if there is none.

    Not by DescribeConsumerGroups: in librdkafka 2.16 requests of coordinators by the admin API abort the process where
    a connection ends meanwhile (its issues 3663 and 4605). What it calls deprecated is what does not.
    """
    try:
        return next(iter(client.list_groups(group, timeout=deadline_s)), None)
    except KafkaException as err:
        raise UnreachableError(f"cannot ask who is in group {group}: {error_text(err.args[0])}") from err
