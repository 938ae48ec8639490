"""Who is in a consumer group, by the names that members keep over restarts.

In: a group and a name. Out: whether some process works under the name now.
"""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import KafkaException

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
        try:
            (described,) = client.describe_consumer_groups([group], request_timeout=QUERY_DEADLINE_S).values()
            members = described.result(QUERY_DEADLINE_S).members
        except (KafkaException, FutureTimeoutError) as err:
            why = error_text(err.args[0]) if isinstance(err, KafkaException) else "no answer"
            raise UnreachableError(f"cannot ask who is in group {group}: {why}") from err
        if all(member.group_instance_id != instance for member in members):
            return False
        if time.monotonic() >= end_s:
            return True
        time.sleep(_LOOK_S)
