"""Publishes a topology from files as a source of facts does: roster, devices, links, the end of its streams.

In: a `Topology` and the time from which it holds. Out: facts on Kafka, each import an epoch of its own.
"""

from __future__ import annotations

import secrets
import time
from typing import NamedTuple

from pausetrace.topology_file import Topology
from stream.kafka_settings import KafkaSettings
from stream.publisher import UNSENT, Publisher
from stream.roster import StreamUp

CHUNK = 500
"""Facts between two waits for Kafka, so that nothing overflows however large the fabric."""


class ImportedTopology(NamedTuple):
    """What was published."""

    fabric: str
    source: str
    epoch: str
    devices: int
    links: int


def import_topology(
    topology: Topology, settings: KafkaSettings, fabric: str, source: str, valid_from_ns: int
) -> ImportedTopology:
    """Publishes devices and links that hold from a time on. Raises BrokerError for what cannot be delivered."""
    epoch = f"{time.time_ns():x}-{secrets.token_hex(4)}"
    with Publisher(settings, fabric, source, epoch, live=False) as publisher:
        publisher.up((StreamUp("device"), StreamUp("link")), valid_from_ns)
        for number, fact in enumerate(topology.facts(fabric, valid_from_ns, UNSENT), 1):
            publisher.fact(fact)
            if number % CHUNK == 0:
                publisher.flush()
        publisher.down(valid_from_ns)
    return ImportedTopology(fabric, source, epoch, len(topology.devices), len(topology.links))
