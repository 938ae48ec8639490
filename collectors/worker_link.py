"""What a supervisor and its workers say to each other: JSON lines over pipes, which nobody else can read.

In: structs. Out: lines. Secrets travel here and on no command line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from collectors.target import Target
from collectors.target_status import TargetStatus
from stream.kafka_settings import KafkaSettings

LIMIT_BYTES = 256 << 20
"""A line with all targets of a worker."""


class Setup(msgspec.Struct, frozen=True, tag=True):
    """The first line that a worker reads. `kafka` None publishes nothing."""

    fabric: str
    source: str
    epoch: str
    budget_bytes: int
    kafka: KafkaSettings | None = None
    profiles: str = ""


class Assign(msgspec.Struct, frozen=True, tag=True):
    """These targets are the worker's from now on, and no others."""

    number: int
    targets: tuple[Target, ...]


class Assigned(msgspec.Struct, frozen=True, tag=True):
    """The worker has taken in that assignment: sessions with other targets are closed, and the roster is told."""

    number: int


class Standing(msgspec.Struct, frozen=True, tag=True):
    """Where a worker stands, once a second."""

    statuses: tuple[TargetStatus, ...]
    counters: dict[str, int]
    held_bytes: int


FromSupervisor = Setup | Assign
FromWorker = Assigned | Standing


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"no JSON for {type(value)}")


def _of_plain(wanted: Any, value: Any) -> Any:
    if wanted is Path:
        return Path(value)
    raise NotImplementedError(f"no {wanted} from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_from_supervisor: msgspec.json.Decoder[FromSupervisor] = msgspec.json.Decoder(FromSupervisor, dec_hook=_of_plain)
_from_worker: msgspec.json.Decoder[FromWorker] = msgspec.json.Decoder(FromWorker)


def line(said: FromSupervisor | FromWorker) -> bytes:
    """One line."""
    return _encoder.encode(said) + b"\n"


def read_from_supervisor(text: bytes) -> FromSupervisor:
    """What a worker reads."""
    return _from_supervisor.decode(text)


def read_from_worker(text: bytes) -> FromWorker:
    """What a supervisor reads."""
    return _from_worker.decode(text)
