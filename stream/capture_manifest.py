"""What a capture says of itself: the plan it was made by, its parts with their files and hashes, and what is missing.

The manifest is a JSON file that exists only for a finished capture; until then the same parts are in a journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from stream.errors import CaptureError
from stream.offset_gaps import PartitionId
from stream.record import MAX_TIME_NS

FORMAT = "pausetrace-capture"
VERSION = 1
MANIFEST = "_manifest.json"
JOURNAL = "_journal.jsonl"
"""Names that begin with `_`: readers of Parquet datasets pass over them."""

Text = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
RelativePath = Annotated[str, msgspec.Meta(pattern=r"^(?!/)(?!.*\.\.)[^\\]+$", max_length=512)]
"""Below the capture's folder: a manifest from elsewhere must not lead a reader out of it."""


class OffsetRange(msgspec.Struct, frozen=True):
    """Offsets of a topic from first up to end (not included); partition -1 is each of them, end -1 is its end."""

    topic: Text
    partition: Annotated[int, msgspec.Meta(ge=-1)]
    first: Count
    end: Annotated[int, msgspec.Meta(ge=-1)]


class Range(msgspec.Struct, frozen=True):
    """What of the topics is captured: by event time, by Kafka's time, or by offsets."""

    by: Literal["event", "kafka", "offset"] = "event"
    from_ns: Count = 0
    to_ns: Count = MAX_TIME_NS + 1
    offsets: tuple[OffsetRange, ...] = ()


class PartitionPlan(msgspec.Struct, frozen=True):
    """A partition to be captured from offset first up to end (not included), both fixed when the capture began."""

    topic: Text
    partition: Count
    first: Count
    end: Count

    @property
    def id(self) -> PartitionId:
        """The partition."""
        return PartitionId(self.topic, self.partition)


class Plan(msgspec.Struct, frozen=True, tag_field="line", tag="plan"):
    """What a capture is of; `cluster_id` is "" for an imported trace."""

    format: str
    version: int
    made_by: Text
    begun_ns: Count
    cluster_id: Text
    embedded: bool
    prefix: Text
    topics: tuple[Text, ...]
    range: Range
    partitions: tuple[PartitionPlan, ...]


class Gap(msgspec.Struct, frozen=True):
    """Offsets from first up to end (not included) that Kafka no longer had."""

    first: Count
    end: Count
    reason: Text

    @property
    def missing(self) -> int:
        """How many offsets."""
        return self.end - self.first


class FileEntry(msgspec.Struct, frozen=True):
    """A file; its rows are between first_ns and last_ns."""

    path: RelativePath
    table: Literal["events", "messages"]
    rows: Count
    bytes: Count
    sha256: Sha256
    first_ns: int
    last_ns: int


class Part(msgspec.Struct, frozen=True, tag_field="line", tag="part"):
    """Offsets from first up to end (not included) of a partition: the messages in the files, and what is not there.

    `unselected` messages are outside the range asked for; `natural` offsets never were messages or are gone for good
    reason (markers of transactions, compaction); `gaps` are losses. `number` is in the names of its files; a part that
    was captured again has a later one than those after it.
    """

    topic: Text
    partition: Count
    number: Count
    first: Count
    end: Count
    messages: Count
    events: Count
    unselected: Count
    natural: Count
    gaps: tuple[Gap, ...]
    files: tuple[FileEntry, ...]

    @property
    def id(self) -> PartitionId:
        """The partition."""
        return PartitionId(self.topic, self.partition)

    @property
    def missing(self) -> int:
        """Offsets that hold no message of the capture."""
        return self.unselected + self.natural + sum(gap.missing for gap in self.gaps)


class Manifest(msgspec.Struct, frozen=True):
    """A finished capture; `sha256` is that of the manifest with this field empty."""

    plan: Plan
    finished_ns: Count
    messages: Count
    events: Count
    bytes: Count
    gaps: Count
    parts: tuple[Part, ...]
    sha256: str = ""

    @staticmethod
    def of(plan: Plan, parts: Iterable[Part], finished_ns: int) -> Manifest:
        """The manifest of these parts."""
        ordered = tuple(sorted(parts, key=lambda part: (plan.topics.index(part.topic), part.partition, part.first)))
        manifest = Manifest(
            plan, finished_ns,
            messages=sum(part.messages for part in ordered),
            events=sum(part.events for part in ordered),
            bytes=sum(file.bytes for part in ordered for file in part.files),
            gaps=sum(gap.missing for part in ordered for gap in part.gaps),
            parts=ordered,
        )  # fmt: skip
        return msgspec.structs.replace(manifest, sha256=manifest.digest())

    def digest(self) -> str:
        """SHA-256 of the manifest without its own."""
        return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(self, sha256=""))).hexdigest()

    def parts_of(self, topic: str) -> list[Part]:
        """The parts of a topic, by partition and offset."""
        return [part for part in self.parts if part.topic == topic]


def encode_manifest(manifest: Manifest) -> bytes:
    """As the file has it."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def load_manifest(folder: Path) -> Manifest:
    """The manifest of a finished capture; raises CaptureError that says what is there instead."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError as err:
        raise _no_manifest(folder) from err
    except OSError as err:
        raise CaptureError(f"{path}: {err.strerror}", "check that the file may be read") from err
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise CaptureError(f"{path} is damaged: {str(err)[:200]}", "take it from a copy of the capture") from err
    if manifest.plan.format != FORMAT or manifest.plan.version != VERSION:
        raise CaptureError(
            f"{path} is of {manifest.plan.format} version {manifest.plan.version}, not of {FORMAT} version {VERSION}",
            "read it with the Pausetrace that made it",
        )
    if manifest.sha256 != manifest.digest():
        raise CaptureError(f"{path} is damaged: its SHA-256 is not its own", "take it from a copy of the capture")
    return manifest


def looks_like_capture(folder: Path) -> bool:
    """Whether a capture is there, finished or not, or what is left of one."""
    return any((folder / name).exists() for name in (MANIFEST, JOURNAL)) or any(
        any((folder / table).glob("topic=*")) for table in ("events", "messages")
    )


def _no_manifest(folder: Path) -> CaptureError:
    if (folder / JOURNAL).exists():
        return CaptureError(
            f"the capture {folder} is not finished", "run the same `pausetrace capture` again: it goes on"
        )
    if not folder.is_dir():
        return CaptureError(f"{folder} is no folder", "give the folder of a capture")
    if looks_like_capture(folder):
        return CaptureError(
            f"{folder} is a capture without its {MANIFEST}", f"take {MANIFEST} from a copy of it, or capture again"
        )
    return CaptureError(f"{folder} holds no capture: it has no {MANIFEST}", "give the folder of a capture")
