"""What has been published on the cascade topic, for a step that begins: the last word on each cascade."""

from __future__ import annotations

from collections.abc import Mapping

from stream.cascade import Cascade
from stream.errors import WireError
from stream.kafka_settings import KafkaSettings, for_one_reading
from stream.messages import decode
from stream.offset_gaps import PartitionId
from stream.subscriber import Subscriber

SILENCE_S = 60.0


def read_cascades(settings: KafkaSettings, since: Mapping[PartitionId, int] | None = None) -> list[Cascade]:
    """The last revision of every cascade on the topic, or of those since some offsets, in the order that they have.

    Values that cannot be read are passed over: whoever subscribes to the topic hears of them. Raises UnreachableError.
    """
    last: dict[tuple[str, str], Cascade] = {}
    with Subscriber(for_one_reading(settings), ["cascade"], starts=lambda _partitions: since or {}) as reader:
        for message in reader.up_to_now(SILENCE_S):
            try:
                item = decode(message.topic, message.key, message.value)
            except WireError:
                continue
            if isinstance(item, Cascade):
                last.pop((item.fabric, item.id), None)
                last[item.fabric, item.id] = item
    return list(last.values())
