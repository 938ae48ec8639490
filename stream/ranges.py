"""What names and numbers may be on the way in, declared once: decoders check it and the JSON Schemas show it.

An object made in Python is not checked until it is encoded.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from stream.batch import MAX_EVENTS
from stream.kinds import INT64_MAX
from stream.record import MAX_TIME_NS

MAX_NAME_CHARS = 256
MAX_SOURCE_CHARS = 224
"""Shorter than other names since steps append the topic to the source's name; episodes bear the longer one."""
MAX_STREAMS = 65_536

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
OptionalName = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
FabricName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS, pattern="^[^/]+$")]
"""Without "/", which ends it in a Kafka key."""
SourceName = Annotated[str, Meta(min_length=1, max_length=MAX_SOURCE_CHARS)]
Sentence = Annotated[str, Meta(max_length=4096)]

Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Seq = Annotated[int, Meta(ge=0, le=INT64_MAX - MAX_EVENTS)]
TimeNs = Annotated[int, Meta(ge=0, le=MAX_TIME_NS)]
MarkNs = Annotated[int, Meta(ge=0, le=INT64_MAX)]
"""A time, or MARK_END; what lies between is refused in code, since a schema's range has no holes."""
PeriodNs = Annotated[int, Meta(ge=0, lt=1 << 40)]
SpeedMbps = Annotated[int, Meta(ge=0, lt=1 << 40)]
Ppm = Annotated[int, Meta(ge=0, le=1_000_000)]
PriorityOrNone = Annotated[int, Meta(ge=0, le=255)]
"""0-7, or 255 for none; what lies between is refused in code."""
FlowText = Annotated[str, Meta(min_length=16, max_length=16, pattern="^(?!0{16})[0-9a-f]{16}$")]
"""A flow id as 16 hex digits; 0 is no flow."""
