"""Every fault of a target ends in the state that it should, within its deadline, and the session goes on behind it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from collectors.breaker import State
from collectors.inbox import Taken
from collectors.pump import NOT_DECODED, STREAM_BROKEN, Found
from collectors.transport import Endpoint
from simulation.gnmi_targets.behaviour import Behaviour, Refusal
from simulation.gnmi_targets.http2 import ENHANCE_YOUR_CALM, Stream, frame, grpc_message
from simulation.gnmi_targets.messages import notification, sync
from simulation.gnmi_targets.raw_target import RawTarget
from simulation.gnmi_targets.server import FakeTarget
from tests.collectors.lab_device import COUNTERS, lab_leaves
from tests.collectors.running import LAB, collecting, target_at

BASE = "/interfaces/interface[name=Ethernet1]/state/counters"


def sample(number: int) -> bytes:
    """The number-th sample of one counter."""
    return notification(time.time_ns(), [("out-octets", 1000 * number)], prefix=BASE)


@pytest.mark.parametrize(
    ("status", "sort", "state"),
    [
        ("UNAUTHENTICATED", "unauthenticated", State.OPEN),
        ("PERMISSION_DENIED", "permission_denied", State.OPEN),
        ("RESOURCE_EXHAUSTED", "resource_exhausted", None),
        ("INVALID_ARGUMENT", "invalid_argument", State.OPEN),
        ("UNIMPLEMENTED", "unimplemented", State.OPEN),
        ("UNAVAILABLE", "unreachable", None),
        ("INTERNAL", "internal", None),
        ("ABORTED", "reset", None),
    ],
)
def test_a_refusal_becomes_its_failure_and_is_tried_again(status: str, sort: str, state: State | None) -> None:
    async def run() -> None:
        behaviour = Behaviour(refusals=(Refusal(status, "not you"),))
        async with FakeTarget(lab_leaves(), behaviour) as fake, collecting(target_at(fake.address)) as running:
            at = await running.until_failed(sort)
            assert not at.up
            assert "not you" in at.last_failure_text
            assert state is None or at.breaker in (state, State.HALF_OPEN)
            # A wrong password that is mended is noticed without a restart.
            fake.behaviour = Behaviour()
            await running.until(lambda: running.status().up)
            assert running.status().breaker is State.CLOSED

    asyncio.run(run())


Fault = Callable[[Stream], Awaitable[None]]


async def _rst(stream: Stream) -> None:
    stream.reset()


async def _goaway(stream: Stream) -> None:
    stream.connection.goaway()
    stream.connection.close()


async def _calm(stream: Stream) -> None:
    stream.connection.goaway(ENHANCE_YOUR_CALM, b"too_many_pings")
    stream.connection.close()


async def _fin(stream: Stream) -> None:
    stream.connection.close()


async def _tcp_reset(stream: Stream) -> None:
    stream.connection.abort()


async def _end(stream: Stream) -> None:
    stream.end(0)


async def _unavailable(stream: Stream) -> None:
    stream.end(14, "restarting")


async def _oversize(stream: Stream) -> None:
    stream.send(bytes(5 << 20))
    await asyncio.sleep(30)


async def _truncated(stream: Stream) -> None:
    stream.send_data(grpc_message(bytes(100))[:50])
    stream.end(0)


async def _no_http2(stream: Stream) -> None:
    stream.connection.write(b"\xff" * 64)
    await asyncio.sleep(30)


async def _compressed_without_a_word(stream: Stream) -> None:
    stream.send_data(grpc_message(b"\x1f\x8b" + bytes(20), compressed=True))
    await asyncio.sleep(30)


async def _garbage(stream: Stream) -> None:
    while stream.open:
        stream.send(b"\x0a\xff\xff\xff\xff\xff")
        await asyncio.sleep(0.005)


async def _silence(stream: Stream) -> None:
    stream.connection.silent = True
    await asyncio.sleep(30)


async def _frames_of_nobody(stream: Stream) -> None:
    while stream.open:
        stream.connection.write(frame(0, 0, 999, b"x"))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("fault", "sort"),
    [
        (_rst, "reset"),
        (_goaway, "unavailable"),
        (_calm, "unavailable"),
        (_fin, "unavailable"),
        (_tcp_reset, "unavailable"),
        (_end, "ended"),
        (_unavailable, "unavailable"),
        (_oversize, "oversize"),
        (_truncated, "ended"),
        (_no_http2, "internal"),
        (_compressed_without_a_word, "internal"),
        (_garbage, "garbage"),
        (_silence, "stalled"),
        (_frames_of_nobody, "stalled"),
    ],
)
def test_a_stream_that_breaks_is_told_and_begun_anew(fault: Fault, sort: str) -> None:
    broken: list[bool] = []

    async def script(stream: Stream, _request: bytes) -> None:
        number = 0
        stream.send(sample(number))
        stream.send(sync())
        if not broken:
            await asyncio.sleep(0.3)
            broken.append(True)
            await fault(stream)
            return
        while stream.open:
            number += 1
            await asyncio.sleep(0.05)
            stream.send(sample(number))

    async def run() -> None:
        async with RawTarget(script) as fake, collecting(target_at(fake.address, stall_s=1.5)) as running:
            at = await running.until_failed(sort)
            assert at.failures == 1, at.failures_by_sort
            await running.until(lambda: running.status().up and running.status().synced)
            await running.until(lambda: len(running.out.events()) > 3)
            assert running.status().breaker is State.CLOSED
            assert running.out.told[0] == ("up", 0)
            # It was back soon enough to be no new target, and what it may have said meanwhile is told as lost.
            assert running.out.told == [("up", 0)] or ("down", 0) in running.out.told
            assert ("down", 0) in running.out.told or (0, 1, STREAM_BROKEN) in running.out.losses
            if sort == "garbage":
                assert sum(count for _, count, reason in running.out.losses if reason == NOT_DECODED) >= 50

    asyncio.run(run())


def test_a_target_that_says_nothing_at_all_is_given_up_by_the_deadline() -> None:
    async def script(stream: Stream, _request: bytes) -> None:
        await asyncio.sleep(30)

    async def run() -> None:
        async with RawTarget(script) as fake, collecting(target_at(fake.address, first_deadline_s=0.5)) as running:
            at = await running.until_failed("stalled")
            assert not at.up
            assert running.out.told == []

    asyncio.run(run())


def test_a_port_that_accepts_and_does_not_answer_is_given_up_by_the_deadline() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            endpoint = Endpoint(address, connect_deadline_s=0.5)
            async with collecting(target_at(address, endpoint=endpoint)) as running:
                await running.until(lambda: running.status().failures > 0)
                assert running.status().last_failure in ("connect_deadline", "unreachable")

    asyncio.run(run())


def test_nobody_listens() -> None:
    async def run() -> None:
        async with collecting(target_at("127.0.0.1:1")) as running:
            await running.until_failed("unreachable")
            await running.until(lambda: running.status().breaker is not State.CLOSED)
            # It counts, and it exists, while it is down.
            assert running.status().attempts >= 5

    asyncio.run(run())


def test_one_refused_path_costs_no_other() -> None:
    async def run() -> None:
        behaviour = Behaviour(refusals=(Refusal("INVALID_ARGUMENT", "unknown path", "/nothing/here"),))
        asked = tuple(
            msgspec_asked(path) for path in (COUNTERS, "/nothing/here", "/interfaces/interface[name=*]/state/mtu")
        )
        async with (
            FakeTarget(lab_leaves(), behaviour) as fake,
            collecting(target_at(fake.address, subscriptions=asked)) as running,
        ):
            await running.until(lambda: running.status().up)
            assert running.status().refused_paths == ("/nothing/here",)
            assert running.status().failures == 0

    asyncio.run(run())


def test_an_interval_that_is_too_short_is_made_longer() -> None:
    async def run() -> None:
        behaviour = Behaviour(least_interval_ns=2_000_000_000)
        async with FakeTarget(lab_leaves(), behaviour) as fake, collecting(target_at(fake.address)) as running:
            await running.until(lambda: running.status().up)
            assert fake.requests[-1].subscribe.subscription[0].sample_interval == 2_000_000_000
            assert running.status().refused_paths == ()

    asyncio.run(run())


def test_on_change_becomes_sample_where_a_target_does_not_have_it() -> None:
    async def run() -> None:
        asked = (msgspec_asked(COUNTERS, mode="ON_CHANGE"),)
        async with (
            FakeTarget(lab_leaves(), Behaviour(on_change=False)) as fake,
            collecting(target_at(fake.address, subscriptions=asked)) as running,
        ):
            await running.until(lambda: running.status().up)
            assert fake.requests[-1].subscribe.subscription[0].mode == 2

    asyncio.run(run())


def msgspec_asked(path: str, mode: str = "SAMPLE"):  # type: ignore[no-untyped-def]
    """A subscription of the inventory."""
    from collectors.request import Asked

    return Asked(path, mode, 200 if mode == "SAMPLE" else 0)


@pytest.mark.parametrize("told", [0, 1, 12])
def test_an_rpc_that_falls_silent_is_not_hidden_by_another_ones_messages(told: int, tmp_path: Path) -> None:
    # Two origins make two RPCs.
    rows = Path(LAB).read_text().split('metric = "port bytes"\n', 1)[1]
    asked = '[[subscribe]]\npath = "/interfaces/interface[name=*]/state/counters"\n'
    head = 'name = "two"\ntitle = "t"\nencodings = ["PROTO"]\n[match]\nmodels = ["zz"]\nrank = 1\n'
    other = '[[subscribe]]\npath = "/interfaces/interface[name=*]/state/other"\norigin = "eos_native"\n'
    profile = tmp_path / "two.toml"
    profile.write_text(head + asked + other + rows)
    begun = 0

    async def script(stream: Stream, _request: bytes) -> None:
        nonlocal begun
        begun += 1
        silent, number = begun % 2 == 0, 0
        stream.send(sync())
        while stream.open:
            number += 1
            if not silent or number <= told:
                stream.send(sample(number))
            await asyncio.sleep(0.1)

    async def run() -> None:
        async with (
            RawTarget(script) as fake,
            collecting(target_at(fake.address, profile=str(profile), interval_ms=100, stall_s=0.5)) as running,
        ):
            if told > 1:
                assert "subscription 2 of 2" in (await running.until_failed("stalled")).last_failure_text
                return
            # Of counters that a target does not have, it says nothing, or one word: that is no stall.
            await running.until(lambda: running.status().messages > 30)
            assert not running.status().failures

    asyncio.run(run())


def test_a_session_that_held_forgets_the_failures_before_it() -> None:
    """A switch that restarts once a day is back after a second each time, not after a minute."""

    async def script(stream: Stream, _request: bytes) -> None:
        stream.send(sync())
        for number in range(8):
            stream.send(sample(number))
            await asyncio.sleep(0.05)
        stream.end()

    async def run() -> None:
        # In the tests' time 0.4 s are more than HELD_S.
        async with RawTarget(script) as fake, collecting(target_at(fake.address)) as running:
            await running.until(lambda: running.status().failures >= 3)
            assert running.collector.session("leaf1")._backoff.failures == 1

    asyncio.run(run())


def test_a_turn_that_fails_is_told_as_lost_for_each_of_its_targets() -> None:
    async def script(stream: Stream, _request: bytes) -> None:
        stream.send(sync())
        number = 0
        while stream.open:
            number += 1
            stream.send(sample(number))
            await asyncio.sleep(0.02)

    async def run() -> None:
        async with RawTarget(script) as fake:
            targets = [target_at(fake.address, name) for name in ("leaf1", "leaf2")]
            async with collecting(*targets) as running:
                await running.until(lambda: all(status.updates > 2 for status in running.collector.statuses()))
                pump = running.collector.pump
                failed: list[Counter[int]] = []
                turn = pump.turn

                def fails_once(taken: Taken) -> Found:
                    if not failed and len(set(taken.targets)) == 2:
                        failed.append(Counter(taken.targets))
                        raise RuntimeError("of the test's")
                    return turn(taken)

                pump.turn = fails_once  # type: ignore[method-assign]
                await running.until(lambda: running.collector.counters()["turns_failed"] == 1)
                await running.until(lambda: len(running.out.losses) == 2)
                lost = {target: messages for target, messages, reason in running.out.losses if reason == NOT_DECODED}
                assert lost == failed[0]
                assert running.collector.counters()["messages_lost_in_turns"] == failed[0].total()

    asyncio.run(run())
