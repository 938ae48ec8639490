"""What has been published on the cascade topic, for a step that begins: the last word on each cascade."""

from __future__ import annotations

from stream.cascade import Cascade
from stream.errors import WireError
from stream.kafka_settings import KafkaSettings
from stream.messages import decode
from stream.subscriber import Subscriber

READ_DEADLINE_S = 60.0


def read_cascades(settings: KafkaSettings) -> list[Cascade]:
    """The last revision of every cascade on the topic, in the order in which these stand there.

    Values that cannot be read are passed over: whoever subscribes to the topic hears of them. Raises BrokerError.
    """
    last: dict[tuple[str, str], Cascade] = {}
    with Subscriber(settings, ["cascade"]) as reader:
        for message in reader.read_up_to_now(READ_DEADLINE_S):
            try:
                item = decode(message.topic, message.key, message.value)
            except WireError:
                continue
            if isinstance(item, Cascade):
                last.pop((item.fabric, item.id), None)
                last[item.fabric, item.id] = item
    return list(last.values())
