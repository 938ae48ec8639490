"""A target whose every byte a script chooses: load, malformed messages and frames, and connections that break.

In: a script, a coroutine that is given each Subscribe RPC. Out: a listening port.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from simulation.gnmi_targets.http2 import Connection, Stream
from simulation.gnmi_targets.messages import capabilities

Script = Callable[[Stream, bytes], Awaitable[None]]
"""Given the RPC and the SubscribeRequest."""


class RawTarget:
    """`async with RawTarget(script) as target:` listens on `target.address`."""

    def __init__(self, script: Script, answer: bytes | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.connections: list[Connection] = []
        self.subscribes: list[Stream] = []
        self.port = 0
        self._script = script
        self._capabilities = capabilities() if answer is None else answer
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._scripts: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connected, "127.0.0.1", self.port, ssl=self._tls, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._scripts:
            task.cancel()
        await asyncio.gather(*self._scripts, return_exceptions=True)
        for connection in self.connections:
            connection.abort()

    def _connected(self) -> Connection:
        connection = Connection(self._request)
        self.connections.append(connection)
        return connection

    def _request(self, stream: Stream, message: bytes) -> None:
        if not message:
            stream.send(self._capabilities)
            stream.end()
            return
        self.subscribes.append(stream)
        task = asyncio.get_running_loop().create_task(self._run(stream, message))
        self._scripts.add(task)
        task.add_done_callback(self._scripts.discard)

    async def _run(self, stream: Stream, message: bytes) -> None:
        await self._script(stream, message)
