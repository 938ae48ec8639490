"""The library's way to a fabric's topics: iterators of columns and of cascades.

In: a topic's name and where Kafka is (else the configuration's). Out: what comes, for as long as the caller iterates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from pausetrace.columns import Columns
from pausetrace.config import KafkaConfig, load
from pausetrace.kafka_access import settings_of
from pausetrace.reader import Read, Reader, Start
from stream.batch import Batch
from stream.cascade import Cascade
from stream.errors import ConfigError
from stream.kafka_settings import KafkaSettings
from stream.masking import Scalar
from stream.topics import PACKED, bare_name


def subscribe(
    topic: str,
    *,
    bootstrap_servers: str | None = None,
    prefix: str | None = None,
    start: Start = "latest",
    follow: bool = True,
    config: str | None = None,
    librdkafka: Mapping[str, Scalar] | None = None,
) -> Iterator[Columns]:
    """Yields the rows of a packed topic (`pfc`, `queue`, ...) as columns, as they come.

    `start` is "earliest" or "latest"; with follow=False it ends at what was there when it began. Whatever is not given
    comes from the configuration (`config`: its file). Values that do not decode and gaps in the offsets are logged.
    """
    settings = settings_of(_kafka(bootstrap_servers, prefix, config, librdkafka))
    name = bare_name(settings.prefix, topic)
    if name not in PACKED:
        raise ConfigError(f"topic {name!r} has no columns", f"choose from: {', '.join(PACKED)}; or use cascades()")
    for reads in _readings(settings, name, start, follow):
        batches = [read.item for read in reads if isinstance(read.item, Batch) and len(read.item.events)]
        if batches:
            yield Columns.of(batches)


def cascades(
    *,
    bootstrap_servers: str | None = None,
    prefix: str | None = None,
    start: Start = "latest",
    follow: bool = True,
    config: str | None = None,
    librdkafka: Mapping[str, Scalar] | None = None,
) -> Iterator[Cascade]:
    """Yields every revision of every cascade, as they come; options as in `subscribe`."""
    settings = settings_of(_kafka(bootstrap_servers, prefix, config, librdkafka))
    for reads in _readings(settings, "cascade", start, follow):
        for read in reads:
            if isinstance(read.item, Cascade):
                yield read.item


def _kafka(
    bootstrap_servers: str | None, prefix: str | None, config: str | None, librdkafka: Mapping[str, Scalar] | None
) -> KafkaConfig:
    flags: dict[str, Scalar | None] = {"kafka.bootstrap_servers": bootstrap_servers, "kafka.prefix": prefix}
    flags |= {f"kafka.librdkafka.{key}": value for key, value in (librdkafka or {}).items()}
    return load(flags, os.environ, config).config.kafka


def _readings(settings: KafkaSettings, topic: str, start: Start, follow: bool) -> Iterator[list[Read]]:
    with Reader(settings, [topic], start) as reader:
        end = None if follow else reader.end()
        while end is None or not reader.has_reached(end):
            if reads := reader.read():
                yield reads
