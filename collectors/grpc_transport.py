"""The default transport: grpc.aio with no deserialiser, so that a message costs what gRPC itself costs and no more.

In: an `Endpoint`. Out: raw bytes. All of grpc's exceptions end here, as `Failure`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import grpc.aio

from collectors.failures import Failure, of_status
from collectors.messages import gnmi_pb2
from collectors.transport import Endpoint, Tls
from stream.errors import ConfigError

_SUBSCRIBE = "/gnmi.gNMI/Subscribe"
_CAPABILITIES = "/gnmi.gNMI/Capabilities"
_CLOSE_DEADLINE_S = 2.0


class GrpcStream:
    """One Subscribe RPC of grpc.aio."""

    def __init__(self, call: Any, refused: Failure | None = None) -> None:
        self._call = call
        self._refused = refused
        self._answered = False

    async def read(self) -> Sequence[bytes]:
        """One message, or none at the end."""
        if self._refused is not None:
            raise self._refused
        try:
            message = await self._call.read()
            if message is not grpc.aio.EOF:
                self._answered = True
                return (message,)
            status = await self._call.code()
            if status is grpc.StatusCode.OK:
                return ()
            raise of_status(status.name, await self._call.details() or "", connected=self._answered)
        except grpc.aio.AioRpcError as err:
            raise _failure(err, connected=self._answered) from err
        except grpc.aio.UsageError as err:  # pragma: no cover - a read after a cancel
            raise Failure("internal", str(err)) from err

    def cancel(self) -> None:
        """Ends the RPC."""
        self._call.cancel()


class GrpcTransport:
    """One channel of its own: channels to one address would otherwise share a connection, and its fate."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._channel: grpc.aio.Channel | None = None
        self._metadata = endpoint.metadata or None

    async def open(self) -> None:
        """Makes the channel and waits until it is connected.

        The channel itself only says READY or not: why it is not, the next RPC tells, at once.
        """
        channel = self._channel = await self._make_channel()
        deadline_s = self._endpoint.connect_deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                state = channel.get_state(try_to_connect=True)
                while state not in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError as err:
            raise Failure("connect_deadline", f"{self._endpoint.address} within {deadline_s:g} s") from err
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            # Only a call is told of the reason.
            try:
                await self.capabilities(deadline_s)
            except Failure as failure:
                if not _CLOSED.search(failure.text):
                    raise
                if self._endpoint.tls is None:
                    told = f"{failure.text}: the target may take TLS alone, then leave plaintext out"
                    raise Failure(failure.sort.name, told, failure.status) from failure
                why = await asyncio.to_thread(_refused_behind_handshake, self._endpoint)
                if not why:
                    raise
                raise Failure("tls", why, failure.status) from failure

    async def capabilities(self, deadline_s: float) -> bytes:
        """The unary RPC, as bytes."""
        call: Any = self._opened.unary_unary(_CAPABILITIES)
        try:
            async with asyncio.timeout(deadline_s):
                answer: bytes = await call(gnmi_pb2.CapabilityRequest().SerializeToString(), metadata=self._metadata)
        except grpc.aio.AioRpcError as err:
            raise _failure(err, connected=False) from err
        except TimeoutError as err:
            raise Failure("connect_deadline", f"Capabilities within {deadline_s:g} s") from err
        return answer

    async def subscribe(self, request: bytes, *, once: bool = False) -> GrpcStream:
        """Begins the RPC; its refusal, if any, comes with the first `read`."""
        call: Any = self._opened.stream_stream(_SUBSCRIBE)(metadata=self._metadata)
        deadline_s = self._endpoint.connect_deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                await call.write(request)
                if once:
                    await call.done_writing()
        except grpc.aio.AioRpcError as err:
            return GrpcStream(call, _failure(err, connected=False))
        except TimeoutError as err:
            call.cancel()
            raise Failure("connect_deadline", f"Subscribe within {deadline_s:g} s") from err
        except (asyncio.InvalidStateError, grpc.aio.UsageError):
            # The RPC was over before we had written; `read` tells how it ended.
            pass
        return GrpcStream(call)

    async def close(self) -> None:
        """Ends the channel with all that goes on in it."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CLOSE_DEADLINE_S):
                    await channel.close(None)

    @property
    def _opened(self) -> grpc.aio.Channel:
        if self._channel is None:
            raise Failure("internal", "the transport is not open")
        return self._channel

    async def _make_channel(self) -> grpc.aio.Channel:
        endpoint = self._endpoint
        options: list[tuple[str, Any]] = [
            ("grpc.use_local_subchannel_pool", 1),
            # The memory that a target may fill before anybody has read: fixed, not as large as the line is fast.
            ("grpc.http2.lookahead_bytes", endpoint.window_bytes),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.max_receive_message_length", endpoint.max_message_bytes),
            # More often than once in five minutes without data, many servers answer ENHANCE_YOUR_CALM.
            ("grpc.keepalive_time_ms", int(endpoint.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.keepalive_permit_without_calls", 0),
            ("grpc.http2.max_pings_without_data", 0),
            # Attempts are the session's to time; within one, a single connection is tried.
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", 60_000),
            ("grpc.min_reconnect_backoff_ms", 60_000),
            ("grpc.enable_http_proxy", 0),
        ]
        if endpoint.tls is None:
            return grpc.aio.insecure_channel(endpoint.address, options)
        credentials, name = await _credentials(endpoint, endpoint.tls)
        if name:
            options += [("grpc.ssl_target_name_override", name), ("grpc.default_authority", name)]
        return grpc.aio.secure_channel(endpoint.address, credentials, options)


def _failure(err: grpc.aio.AioRpcError, *, connected: bool) -> Failure:
    return of_status(err.code().name, err.details() or "", connected=connected)


async def _credentials(endpoint: Endpoint, tls: Tls) -> tuple[grpc.ChannelCredentials, str]:
    """Credentials as gRPC has them, and the name to verify instead of the address's ("" = the address's)."""
    roots = _bytes_of(tls.ca)
    name = tls.server_name
    if tls.skip_verify:
        # gRPC for Python always verifies: what answers now is what is trusted.
        roots, name = await asyncio.to_thread(_whatever_answers, endpoint)
    return grpc.ssl_channel_credentials(roots, _bytes_of(tls.key), _bytes_of(tls.certificate)), name


def _bytes_of(path: Any) -> bytes | None:
    if path is None:
        return None
    try:
        content: bytes = path.read_bytes()
    except OSError as err:
        raise Failure("tls", f"{path}: {err.strerror}") from err
    if b"-----BEGIN" not in content:
        raise Failure("tls", f"{path} is no PEM file")
    return content


def _whatever_answers(endpoint: Endpoint) -> tuple[bytes, str]:
    """The certificate of whoever answers, and a name that stands in it."""
    from cryptography import x509

    host, _ = split_address(endpoint.address)
    try:
        with _unverified(endpoint) as wrapped:
            found = wrapped.getpeercert(binary_form=True)
    except ssl.SSLError as err:
        raise of_status("UNAVAILABLE", f"handshake: {err}", connected=False) from err
    except TimeoutError as err:
        raise Failure("connect_deadline", endpoint.address) from err
    except OSError as err:
        raise Failure("unreachable", f"{endpoint.address}: {err.strerror or err}") from err
    if not found:
        raise Failure("tls", "the target showed no certificate")
    certificate = x509.load_der_x509_certificate(found)
    names: list[str] = []
    with contextlib.suppress(x509.ExtensionNotFound):
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += held.get_values_for_type(x509.DNSName)
        names += [str(address) for address in held.get_values_for_type(x509.IPAddress)]
    names += [str(named.value) for named in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    return ssl.DER_cert_to_PEM_cert(found).encode(), names[0] if names else host


@contextlib.contextmanager
def _unverified(endpoint: Endpoint) -> Iterator[ssl.SSLSocket]:
    """A connection behind the handshake that nothing was verified of. Raises OSError."""
    host, port = split_address(endpoint.address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if endpoint.tls is not None and endpoint.tls.certificate is not None:
        context.load_cert_chain(endpoint.tls.certificate, endpoint.tls.key)
    with (
        socket.create_connection((host, port), endpoint.connect_deadline_s) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        yield wrapped


def _refused_behind_handshake(endpoint: Endpoint) -> str:
    """Why a target closed the connection, if it did so with the handshake done and before a word of HTTP/2; else "".

    In TLS 1.3 (RFC 8446, 4.4.2) a client is through with the handshake before the server has looked at the client's
    certificate: gRPC then knows of a closed socket alone.
    """
    ask = "does the target want another client certificate?" if endpoint.tls and endpoint.tls.certificate else (
        "does the target want a client certificate?"
    )  # fmt: skip
    try:
        with _unverified(endpoint) as wrapped:
            try:
                wrapped.sendall(_PREFACE)
                closed = "" if wrapped.recv(1) else "closed"
            except TimeoutError:
                closed = ""
            except OSError as err:
                closed = str(err)
    except OSError:
        # No handshake: what gRPC said of it holds.
        return ""
    return f"the connection was closed right behind the handshake ({closed}): {ask}" if closed else ""


_CLOSED = re.compile(r"socket closed|connection reset|broken pipe", re.IGNORECASE)
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client begins HTTP/2 (RFC 9113, 3.4), with SETTINGS that say nothing."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port"; raises ConfigError."""
    host, colon, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else ""
    known = _is_ipv6(bare) if bare else _HOST.fullmatch(host) is not None
    if not colon or not known or not _PORT.fullmatch(port) or not 1 <= int(port) <= 65_535:
        raise ConfigError(f"{address!r} is no address", "write it like host:port or [2001:db8::1]:port")
    return bare or host, int(port)


_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_.])?")
_PORT = re.compile(r"[0-9]{1,5}")


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
