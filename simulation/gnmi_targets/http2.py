"""The server's half of HTTP/2 and gRPC framing, as far as a fake target needs it, on an asyncio connection.

In: bytes of a client. Out: requests (the messages of its RPCs), and frames as the script wants them, wrong ones too.
It decodes no header: a Subscribe has a message with bytes in it, a Capabilities has an empty one.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, INTERNAL_ERROR, ENHANCE_YOUR_CALM = 0, 2, 11
MAX_FRAME = 16_384
_DEFAULT_WINDOW = 65_535


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def grpc_message(message: bytes, compressed: bool = False) -> bytes:
    """A message with gRPC's prefix of five bytes."""
    return struct.pack(">BI", compressed, len(message)) + message


def _header(name: bytes, value: bytes) -> bytes:
    """A literal header field without indexing and without Huffman coding (RFC 7541, 6.2.2); short texts alone."""
    assert len(name) < 127
    assert len(value) < 127
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


RESPONSE_HEADERS = b"\x88" + _header(b"content-type", b"application/grpc")
"""`:status: 200` from the static table, and gRPC's content type."""


def trailers(status: int, message: str = "") -> bytes:
    """The status of an RPC."""
    return _header(b"grpc-status", b"%d" % status) + _header(b"grpc-message", message.encode()[:120])


@dataclass
class Stream:
    """One RPC of a client."""

    connection: Connection
    number: int
    window: int
    received: bytearray = field(default_factory=bytearray)
    backlog: deque[bytes] = field(default_factory=deque)
    """Frames' payloads that flow control does not let through yet."""
    began: bool = False
    open: bool = True
    stalls: int = 0
    """Times that the client's windows were full: it does not read."""
    sent: int = 0
    """Messages given to the client's windows."""

    def send(self, message: bytes) -> None:
        """A message, as soon as flow control lets it through."""
        self.send_data(grpc_message(message))

    def send_data(self, data: bytes) -> None:
        """Bytes of the RPC, which may be anything."""
        self._begin()
        self.sent += 1
        if not self.backlog and len(data) <= min(self.window, self.connection.window, MAX_FRAME):
            self._write(data)
            return
        self.backlog.extend(data[at : at + MAX_FRAME] for at in range(0, len(data), MAX_FRAME))
        self.drain()

    def drain(self) -> None:
        """Sends of the backlog what flow control lets through."""
        while self.backlog and self.open:
            payload = self.backlog[0]
            room = min(self.window, self.connection.window)
            if room <= 0:
                self.stalls += 1
                return
            part, rest = payload[:room], payload[room:]
            if rest:
                self.backlog[0] = rest
            else:
                self.backlog.popleft()
            self._write(part)

    def end(self, status: int = 0, message: str = "") -> None:
        """Ends the RPC in order, with gRPC's status."""
        flags = END_HEADERS | END_STREAM
        block = trailers(status, message)
        if not self.began:
            block = RESPONSE_HEADERS + block
        self.connection.write(frame(HEADERS, flags, self.number, block))
        self.open = False

    def reset(self, code: int = INTERNAL_ERROR) -> None:
        """Breaks the RPC off."""
        self.connection.write(frame(RST_STREAM, 0, self.number, struct.pack(">I", code)))
        self.open = False

    def _begin(self) -> None:
        if not self.began:
            self.began = True
            self.connection.write(frame(HEADERS, END_HEADERS, self.number, RESPONSE_HEADERS))

    def _write(self, payload: bytes) -> None:
        self.window -= len(payload)
        self.connection.window -= len(payload)
        self.connection.write(frame(DATA, 0, self.number, payload))


class Connection(asyncio.Protocol):
    """One client. `on_request` is called with each RPC's first message."""

    def __init__(self, on_request: Callable[[Stream, bytes], None]) -> None:
        self.window = _DEFAULT_WINDOW
        self.streams: dict[int, Stream] = {}
        self.silent = False
        """Half-open: answers nothing any more, not even a PING."""
        self.pings = 0
        self._on_request = on_request
        self._first_window = _DEFAULT_WINDOW
        self._buffer = bytearray()
        self._greeted = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greets."""
        self._transport = cast(asyncio.Transport, transport)
        self.write(frame(SETTINGS, 0, 0))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        for stream in self.streams.values():
            stream.open = False
        self._transport = None

    def write(self, data: bytes) -> None:
        """Bytes, whatever they are."""
        if self._transport is not None and not self.silent:
            self._transport.write(data)

    def goaway(self, code: int = NO_ERROR, why: bytes = b"") -> None:
        """Tells the client that this connection takes no more RPCs."""
        last = max(self.streams, default=0)
        self.write(frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + why))

    def abort(self) -> None:
        """Breaks the TCP connection off (RST)."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Closes the TCP connection (FIN)."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Takes frames apart."""
        buffer = self._buffer
        buffer += data
        if not self._greeted:
            if len(buffer) < len(PREFACE):
                return
            if not buffer.startswith(PREFACE):
                self.abort()
                return
            del buffer[: len(PREFACE)]
            self._greeted = True
        at = 0
        while len(buffer) - at >= 9:
            length = int.from_bytes(buffer[at : at + 3], "big")
            if len(buffer) - at < 9 + length:
                break
            kind, flags, number = struct.unpack_from(">BBI", buffer, at + 3)
            self._frame(kind, flags, number & 0x7FFFFFFF, bytes(buffer[at + 9 : at + 9 + length]))
            at += 9 + length
        del buffer[:at]

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            self._settings(payload)
        elif kind == PING and not flags & ACK:
            self.pings += 1
            self.write(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._window_update(number, struct.unpack(">I", payload)[0] & 0x7FFFFFFF)
        elif kind == HEADERS:
            self.streams[number] = Stream(self, number, self._first_window)
        elif kind == RST_STREAM and (gone := self.streams.pop(number, None)) is not None:
            gone.open = False
        elif kind == DATA and (stream := self.streams.get(number)) is not None:
            self._data(stream, payload)

    def _settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            name, value = struct.unpack_from(">HI", payload, at)
            if name == 4:  # SETTINGS_INITIAL_WINDOW_SIZE
                for stream in self.streams.values():
                    stream.window += value - self._first_window
                self._first_window = value
        self.write(frame(SETTINGS, ACK, 0))

    def _window_update(self, number: int, more: int) -> None:
        if number:
            if (stream := self.streams.get(number)) is not None:
                stream.window += more
                stream.drain()
            return
        self.window += more
        for stream in list(self.streams.values()):
            stream.drain()

    def _data(self, stream: Stream, payload: bytes) -> None:
        received = stream.received
        received += payload
        if len(received) >= 5:
            length = int.from_bytes(received[1:5], "big")
            if len(received) >= 5 + length:
                message = bytes(received[5 : 5 + length])
                del received[: 5 + length]
                self._on_request(stream, message)
