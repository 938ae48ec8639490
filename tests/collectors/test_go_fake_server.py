"""Against OpenConfig's fake server: the same rows as from our fake, and the right state each time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from collectors.transport import Endpoint, Tls
from simulation.gnmi_targets.http2 import Stream
from simulation.gnmi_targets.messages import notification
from simulation.gnmi_targets.raw_target import RawTarget
from stream.record import Events
from tests.certificates import Authority
from tests.collectors import go_fake
from tests.collectors.running import Running, collecting, target_at

pytestmark = [pytest.mark.go, pytest.mark.slow]

BASE = "/interfaces/interface[name=Ethernet1]/state/counters"
SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server, built once."""
    return go_fake.build(tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom its certificates are signed by."""
    return Authority(tmp_path_factory.mktemp("tls"), "lab")


def samples(count: int = 10) -> list[bytes]:
    """Readings of two counters, a second apart, the last one now."""
    begin_ns = time.time_ns() - count * SECOND_NS
    return [
        notification(begin_ns + at * SECOND_NS, [("in-octets", 500 * at), ("out-octets", 1000 * at)], prefix=BASE)
        for at in range(count)
    ]


def endpoint_of(port: int, tls: Tls) -> Endpoint:
    """At this port."""
    return Endpoint(f"localhost:{port}", tls, connect_deadline_s=5.0)


async def state(port: int, tls: Tls) -> str:
    """ "up", or how the session failed."""
    async with collecting(target_at("", endpoint=endpoint_of(port, tls))) as running:
        await running.until(lambda: running.status().up or running.status().failures > 0)
        return "up" if running.status().up else running.status().last_failure


def rows(running: Running) -> Events:
    """What the readings became, but for when they were seen."""
    events = running.out.events()
    events["seen_ns"] = 0
    return events


def test_it_gives_the_same_rows_as_our_fake(program: Path, authority: Authority, tmp_path: Path) -> None:
    responses = samples()
    tls = Tls(authority.file)

    async def of_ours() -> bytes:
        async def script(stream: Stream, _request: bytes) -> None:
            for response in responses:
                stream.send(response)
            await asyncio.sleep(60)

        async with RawTarget(script) as fake, collecting(target_at(fake.address)) as running:
            await running.until(lambda: len(running.out.events()) == 2 * (len(responses) - 1))
            return rows(running).tobytes()

    async def of_theirs(port: int) -> bytes:
        async with collecting(target_at("", endpoint=endpoint_of(port, tls))) as running:
            await running.until(lambda: len(running.out.events()) == 2 * (len(responses) - 1))
            await running.until(lambda: running.status().synced)
            return rows(running).tobytes()

    with go_fake.serving(program, tmp_path, go_fake.fixed(responses), authority.issue("right")) as port:
        assert asyncio.run(of_theirs(port)) == asyncio.run(of_ours())


@pytest.mark.parametrize(("what", "ends"), [("right", "up"), ("wrong-name", "tls"), ("expired", "tls")])
def test_its_certificate_is_verified(program: Path, authority: Authority, tmp_path: Path, what: str, ends: str) -> None:
    dns = "leaf1.example" if what == "wrong-name" else "localhost"
    pair = authority.issue(what, dns=dns, expired=what == "expired")
    with go_fake.serving(program, tmp_path, go_fake.fixed(samples()), pair) as port:
        assert asyncio.run(state(port, Tls(authority.file))) == ends


def test_it_may_ask_for_a_certificate(program: Path, authority: Authority, tmp_path: Path) -> None:
    config, pair = go_fake.fixed(samples()), authority.issue("right")
    certificate, key = authority.issue("collector")
    with go_fake.serving(program, tmp_path, config, pair, authority.file) as port:
        assert asyncio.run(state(port, Tls(authority.file, certificate, key))) == "up"
        assert asyncio.run(state(port, Tls(authority.file))) in ("tls", "unreachable", "unavailable")


def test_what_it_makes_up_becomes_rows(program: Path, authority: Authority, tmp_path: Path) -> None:
    async def run(port: int) -> None:
        async with collecting(target_at("", endpoint=endpoint_of(port, Tls(authority.file)))) as running:
            await running.until(lambda: len(running.out.events()) == 49)
            events = running.out.events()
            assert (events["span_ns"] == SECOND_NS // 10).all()
            assert (events["value"] > 0).all()
            assert (events["value"] <= 1000).all()

    config = go_fake.random_counters([f"{BASE}/out-octets"], 50)
    with go_fake.serving(program, tmp_path, config, authority.issue("right")) as port:
        asyncio.run(run(port))


def test_without_a_sync_response_it_is_up_and_not_synced(program: Path, authority: Authority, tmp_path: Path) -> None:
    async def run(port: int) -> None:
        async with collecting(target_at("", endpoint=endpoint_of(port, Tls(authority.file)))) as running:
            await running.until(lambda: len(running.out.events()) > 10)
            assert running.status().up
            assert not running.status().synced

    with go_fake.serving(program, tmp_path, go_fake.fixed(samples(), sync=False), authority.issue("right")) as port:
        asyncio.run(run(port))


def test_a_stream_that_it_ends_is_begun_anew(program: Path, authority: Authority, tmp_path: Path) -> None:
    async def run(port: int) -> None:
        async with collecting(target_at("", endpoint=endpoint_of(port, Tls(authority.file)))) as running:
            await running.until(lambda: running.status().failures_by_sort.get("ended", 0) >= 2)
            assert running.status().messages >= 20

    with go_fake.serving(program, tmp_path, go_fake.fixed(samples(), end=True), authority.issue("right")) as port:
        asyncio.run(run(port))
