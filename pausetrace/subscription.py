"""The library's way to a fabric's topics: iterators of columns and of cascades.

In: a topic's name and where Kafka is (else the configuration's). Out: what comes, for as long as the caller iterates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import get_args

from pausetrace.columns import Columns
from pausetrace.config import KafkaConfig, load
from pausetrace.kafka_access import settings_of
from pausetrace.reader import Read, Reader, Start
from stream.batch import Batch
from stream.cascade import Cascade
from stream.errors import ConfigError
from stream.kafka_settings import KafkaSettings
from stream.masking import Scalar
from stream.topics import BY_NAME, PACKED


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
    Raises ConfigError at once for a wrong argument.
    """
    settings = settings_of(_kafka(bootstrap_servers, prefix, config, librdkafka))
    name = topic.removeprefix(f"{settings.prefix}.")
    if name not in PACKED:
        why = f"topic {name!r} has no columns" if name in BY_NAME else f"no topic {topic!r}"
        raise ConfigError(why, f"choose from: {', '.join(PACKED)}; or use cascades()")
    readings = _readings(settings, name, _checked(start), follow)
    found = (
        [read.item for read in reads if isinstance(read.item, Batch) and len(read.item.events)] for reads in readings
    )
    return (Columns.of(batches) for batches in found if batches)


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
    readings = _readings(settings, "cascade", _checked(start), follow)
    return (read.item for reads in readings for read in reads if isinstance(read.item, Cascade))


def _checked(start: Start) -> Start:
    if start not in get_args(Start):
        raise ConfigError(f"start {start!r} is no place to begin", f"choose from: {', '.join(get_args(Start))}")
    return start


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
