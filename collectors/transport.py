"""What a session asks of a transport: raw messages in batches, and every end told as a `Failure`.

In: an address, TLS and metadata. Out: bytes of SubscribeResponses, undecoded. A leaner transport has to be this and no
more; tests/collectors/test_transport.py runs over every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

MAX_MESSAGE_BYTES = 4 << 20
"""What gRPC takes unless told otherwise, and what devices keep to."""


class Tls(msgspec.Struct, frozen=True):
    """How a target is verified. Without files of its own, the system's authorities are trusted.

    `server_name` is the name that the certificate has to bear where it is not the address's. `skip_verify` trusts
    whatever answers; it has to be written by hand, and is told of at every connect. `digest` is of what the files held
    when they were read: new certificates make another target.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""
    skip_verify: bool = False
    digest: str = ""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a target is and how it is reached; `tls` None is plain text. `metadata` may hold secrets."""

    address: str
    tls: Tls | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    connect_deadline_s: float = 10.0
    keepalive_s: float = 60.0
    max_message_bytes: int = MAX_MESSAGE_BYTES
    window_bytes: int = 256 << 10

    def __repr__(self) -> str:
        names = [name for name, _ in self.metadata]
        return f"Endpoint({self.address!r}, tls={self.tls!r}, metadata={names!r})"


class RawStream(Protocol):
    """One Subscribe RPC."""

    async def read(self) -> Sequence[bytes]:
        """The next messages, at least one; none at all once the target has ended the RPC in order. Raises Failure."""
        ...

    def cancel(self) -> None:
        """Ends the RPC; a `read` that waits then raises Failure or CancelledError."""
        ...


class Transport(Protocol):
    """One connection to one target."""

    async def open(self) -> None:
        """Connects, within the endpoint's deadline. Raises Failure."""
        ...

    async def capabilities(self, deadline_s: float) -> bytes:
        """The bytes of a CapabilityResponse. Raises Failure."""
        ...

    async def subscribe(self, request: bytes, *, once: bool = False) -> RawStream:
        """Begins an RPC with this SubscribeRequest; `once` tells the target that no further one follows."""
        ...

    async def close(self) -> None:
        """Ends everything; never raises."""
        ...
