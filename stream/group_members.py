"""Who is in a consumer group, by the names that members keep over restarts.

In: a group and a name. Out: the client id of the member that has the name now.
"""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import KafkaException

from stream.errors import UnreachableError
from stream.kafka_log import error_text
from stream.kafka_settings import KafkaSettings, admin_client

QUERY_DEADLINE_S = 10.0


def member_of(settings: KafkaSettings, group: str, instance: str, deadline_s: float = QUERY_DEADLINE_S) -> str:
    """Client id of the member of a group (by its full name) with this instance's name; "" if there is none.

    Raises UnreachableError if no broker says.
    """
    client = admin_client(settings)
    try:
        (described,) = client.describe_consumer_groups([group], request_timeout=deadline_s).values()
        members = described.result(deadline_s).members
    except (KafkaException, FutureTimeoutError) as err:
        why = error_text(err.args[0]) if isinstance(err, KafkaException) else f"no answer within {deadline_s:g} s"
        raise UnreachableError(f"cannot ask who is in group {group}: {why}") from err
    return next((str(member.client_id) for member in members if member.group_instance_id == instance), "")
