"""What a session relies on in its transport; the same tests run over each one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from collectors.failures import Failure
from collectors.grpc_transport import GrpcTransport
from collectors.transport import Endpoint, RawStream, Transport
from simulation.gnmi_targets.http2 import Stream
from simulation.gnmi_targets.messages import capabilities
from simulation.gnmi_targets.raw_target import RawTarget, Script

DEADLINE_S = 20.0
REQUEST = b"\x0a\x02\x22\x00"


@pytest.fixture(params=[GrpcTransport])
def make(request: pytest.FixtureRequest) -> Callable[[Endpoint], Transport]:
    """Each transport that there is."""
    made: Callable[[Endpoint], Transport] = request.param
    return made


def over(
    make: Callable[[Endpoint], Transport],
    script: Script,
    act: Callable[[RawTarget, Transport], Awaitable[None]],
    **settings: float,
) -> None:
    """Does something with a transport that is open, within a deadline."""

    async def run() -> None:
        async with RawTarget(script) as target, asyncio.timeout(DEADLINE_S):
            transport = make(Endpoint(target.address, **settings))  # type: ignore[arg-type]  # each test says which
            await transport.open()
            try:
                await act(target, transport)
            finally:
                await transport.close()

    asyncio.run(run())


async def silent(_stream: Stream, _request: bytes) -> None:
    """Says nothing."""


async def messages_of(stream: RawStream, count: int) -> list[bytes]:
    """The next so many messages."""
    found: list[bytes] = []
    while len(found) < count:
        batch = await stream.read()
        assert batch, "the target has ended the RPC"
        found += batch
    return found


async def failure_of(stream: RawStream) -> Failure:
    """How an RPC ends badly, after the messages before that."""
    try:
        while await stream.read():
            pass
    except Failure as failure:
        return failure
    pytest.fail("the RPC ended in order")


def test_messages_come_as_they_were_sent_and_an_end_in_order_is_none(make: Callable[[Endpoint], Transport]) -> None:
    sent = [b"\x18\x01", b"", b"\xff" * 3, bytes(100_000), b"last"]
    asked: list[bytes] = []

    async def script(stream: Stream, request: bytes) -> None:
        asked.append(request)
        for message in sent:
            stream.send(message)
        while stream.backlog:
            await asyncio.sleep(0.01)
        stream.end()

    async def act(_target: RawTarget, transport: Transport) -> None:
        stream = await transport.subscribe(REQUEST)
        assert await messages_of(stream, len(sent)) == sent
        assert not await stream.read()
        assert asked == [REQUEST]

    over(make, script, act)


def test_capabilities_are_the_target_s_bytes(make: Callable[[Endpoint], Transport]) -> None:
    async def act(_target: RawTarget, transport: Transport) -> None:
        assert await transport.capabilities(5.0) == capabilities()

    over(make, silent, act)


def test_several_rpcs_share_one_connection_and_end_alone(make: Callable[[Endpoint], Transport]) -> None:
    async def script(stream: Stream, request: bytes) -> None:
        stream.send(request)

    async def act(target: RawTarget, transport: Transport) -> None:
        streams = [await transport.subscribe(b"\x0a" + bytes([at])) for at in range(3)]
        assert [await messages_of(stream, 1) for stream in streams] == [[b"\x0a" + bytes([at])] for at in range(3)]
        assert len(target.connections) == 1
        streams[0].cancel()
        while target.subscribes[0].open:
            await asyncio.sleep(0.01)
        target.subscribes[1].send(b"still there")
        assert await messages_of(streams[1], 1) == [b"still there"]

    over(make, script, act)


@pytest.mark.parametrize(
    ("status", "sort"),
    [(7, "permission_denied"), (14, "unavailable"), (3, "invalid_argument"), (8, "resource_exhausted")],
)
def test_a_status_is_a_failure_with_the_target_s_words(
    make: Callable[[Endpoint], Transport], status: int, sort: str
) -> None:
    async def script(stream: Stream, _request: bytes) -> None:
        stream.send(b"first")
        stream.end(status, "in its words")

    async def act(_target: RawTarget, transport: Transport) -> None:
        failure = await failure_of(await transport.subscribe(REQUEST))
        assert (failure.sort.name, failure.text) == (sort, "in its words")

    over(make, script, act)


def test_a_message_may_be_as_large_as_the_endpoint_says_and_no_larger(make: Callable[[Endpoint], Transport]) -> None:
    async def script(stream: Stream, _request: bytes) -> None:
        stream.send(bytes(100_000))
        stream.send(bytes(100_001))

    async def act(_target: RawTarget, transport: Transport) -> None:
        stream = await transport.subscribe(REQUEST)
        assert await messages_of(stream, 1) == [bytes(100_000)]
        assert (await failure_of(stream)).sort.name == "oversize"

    over(make, script, act, max_message_bytes=100_000)


def test_a_read_that_waits_ends_with_its_cancel(make: Callable[[Endpoint], Transport]) -> None:
    async def act(_target: RawTarget, transport: Transport) -> None:
        stream = await transport.subscribe(REQUEST)
        reading = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0.1)
        assert not reading.done()
        stream.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled() or isinstance(reading.exception(), Failure)

    over(make, silent, act)


def test_what_nobody_reads_stays_with_the_target(make: Callable[[Endpoint], Transport]) -> None:
    size, window = 10_000, 64 << 10

    async def script(stream: Stream, _request: bytes) -> None:
        for _ in range(1000):
            stream.send(bytes(size))

    async def act(target: RawTarget, transport: Transport) -> None:
        stream = await transport.subscribe(REQUEST)
        while not (target.subscribes and target.subscribes[0].stalls):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        left = sum(map(len, target.subscribes[0].backlog))
        assert 1000 * size - left < 4 * window
        assert len(await messages_of(stream, 1000)) == 1000

    over(make, script, act, window_bytes=window)


def test_a_connection_on_which_nothing_comes_is_asked_whether_it_lives(make: Callable[[Endpoint], Transport]) -> None:
    async def act(target: RawTarget, transport: Transport) -> None:
        await transport.subscribe(REQUEST)
        (connection,) = target.connections
        while connection.pings < 2:
            await asyncio.sleep(0.02)

    over(make, silent, act, keepalive_s=0.2)


def test_a_connection_is_not_asked_before_it_is_time(make: Callable[[Endpoint], Transport]) -> None:
    async def act(target: RawTarget, transport: Transport) -> None:
        await transport.subscribe(REQUEST)
        await asyncio.sleep(1.0)
        # Of its own accord it may ask once, as it begins.
        assert target.connections[0].pings <= 1

    over(make, silent, act, keepalive_s=60.0)


def test_nobody_there_and_nobody_who_answers_are_failures_within_the_deadline(
    make: Callable[[Endpoint], Transport],
) -> None:
    async def opened(address: str) -> str:
        transport = make(Endpoint(address, connect_deadline_s=0.5))
        with pytest.raises(Failure) as raised:
            async with asyncio.timeout(DEADLINE_S):
                await transport.open()
        await transport.close()
        return raised.value.sort.name

    async def run() -> None:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            assert await opened(f"127.0.0.1:{port}") in ("connect_deadline", "unreachable")
        assert await opened(f"127.0.0.1:{port}") == "unreachable"

    asyncio.run(run())


def test_closing_ends_everything_and_may_come_twice(make: Callable[[Endpoint], Transport]) -> None:
    async def act(target: RawTarget, transport: Transport) -> None:
        stream = await transport.subscribe(REQUEST)
        reading = asyncio.ensure_future(stream.read())
        while not target.subscribes:
            await asyncio.sleep(0.01)
        await transport.close()
        await asyncio.wait([reading])
        assert reading.cancelled() or isinstance(reading.exception(), Failure)
        while target.subscribes[0].open:
            await asyncio.sleep(0.01)
        with pytest.raises(Failure):
            await transport.subscribe(REQUEST)

    over(make, silent, act)
