"""Nobody is trusted on first use: a certificate is verified, or the inventory says that it is not and the log too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from collectors.breaker import State
from collectors.failures import Failure
from collectors.grpc_transport import GrpcTransport, _refused_behind_handshake
from collectors.transport import Endpoint, Tls
from simulation.gnmi_targets.behaviour import Behaviour
from simulation.gnmi_targets.server import FakeTarget
from tests.certificates import Authority
from tests.collectors.lab_device import lab_leaves
from tests.collectors.running import collecting, target_at


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom the tests' targets are signed by."""
    return Authority(tmp_path_factory.mktemp("tls"), "lab")


def credentials(pair: tuple[Path, Path], clients: Path | None = None) -> grpc.ServerCredentials:
    """What a fake target shows; with `clients` it asks for a certificate of that authority's."""
    certificate, key = pair
    return grpc.ssl_server_credentials(
        [(key.read_bytes(), certificate.read_bytes())],
        clients.read_bytes() if clients is not None else None,
        require_client_auth=clients is not None,
    )


def outcome(tls: Tls, shown: grpc.ServerCredentials, behaviour: Behaviour | None = None, **changes: object) -> str:
    """Connects for a while; returns "up", or how the session failed."""

    async def run() -> str:
        async with FakeTarget(lab_leaves(), behaviour, credentials=shown) as fake:
            metadata = changes.pop("metadata", ())
            endpoint = Endpoint(fake.address, tls, metadata, connect_deadline_s=5.0)  # type: ignore[arg-type]
            async with collecting(target_at(fake.address, endpoint=endpoint)) as running:
                await running.until(lambda: running.status().up or running.status().failures > 0)
                at = running.status()
                assert at.up or at.last_failure != "tls" or at.breaker is not State.CLOSED
                return "up" if at.up else at.last_failure

    return asyncio.run(run())


def test_a_verified_target_is_up(authority: Authority) -> None:
    assert outcome(Tls(authority.file), credentials(authority.issue("right"))) == "up"


def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    assert outcome(Tls(authority.file), credentials(authority.issue("old", expired=True))) == "tls"


def test_a_certificate_of_another_name_is_refused(authority: Authority) -> None:
    shown = credentials(authority.issue("other", dns="leaf1.example"))
    assert outcome(Tls(authority.file), shown) == "tls"
    assert outcome(Tls(authority.file, server_name="leaf1.example"), shown) == "up"


def test_a_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    assert outcome(Tls(authority.file), credentials(stranger.issue("right"))) == "tls"


def test_a_target_may_ask_for_a_certificate(authority: Authority, tmp_path: Path) -> None:
    shown = credentials(authority.issue("right"), clients=authority.file)
    certificate, key = authority.issue("collector")
    assert outcome(Tls(authority.file, certificate, key), shown) == "up"
    assert outcome(Tls(authority.file), shown) == "tls"
    assert outcome(Tls(skip_verify=True), shown) == "tls"
    certificate, key = Authority(tmp_path, "stranger").issue("collector")
    assert outcome(Tls(authority.file, certificate, key), shown) == "tls"


def test_a_target_that_speaks_behind_the_handshake_wants_no_certificate(authority: Authority) -> None:
    async def run() -> str:
        shown = credentials(authority.issue("right"))
        async with FakeTarget(lab_leaves(), None, credentials=shown) as fake:
            return await asyncio.to_thread(_refused_behind_handshake, Endpoint(fake.address, Tls(authority.file)))

    assert asyncio.run(run()) == ""


def test_what_is_not_verified_is_told_at_every_connect(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path, "stranger")
    shown = credentials(stranger.issue("any", dns="anything.example"))
    assert outcome(Tls(skip_verify=True), shown) == "up"
    assert "insecure_skip_verify: whoever answers there is trusted" in caplog.text


def test_plain_text_is_no_answer_to_tls(authority: Authority) -> None:
    async def run() -> str:
        async with FakeTarget(lab_leaves()) as fake:
            endpoint = Endpoint(fake.address, Tls(authority.file), connect_deadline_s=5.0)
            async with collecting(target_at(fake.address, endpoint=endpoint)) as running:
                await running.until(lambda: running.status().failures > 0)
                return running.status().last_failure

    assert asyncio.run(run()) == "tls"


def test_tls_is_no_answer_to_plain_text(authority: Authority) -> None:
    async def run() -> str:
        async with FakeTarget(lab_leaves(), credentials=credentials(authority.issue("right"))) as fake:
            transport = GrpcTransport(Endpoint(fake.address, connect_deadline_s=5.0))
            try:
                with pytest.raises(Failure) as failure:
                    await transport.open()
            finally:
                await transport.close()
            return str(failure.value)

    assert "the target may take TLS alone, then leave plaintext out" in asyncio.run(run())


def test_a_user_is_known_by_name_and_password(authority: Authority) -> None:
    shown = credentials(authority.issue("right"))
    behaviour = Behaviour(username="admin", password="secret")
    right = (("username", "admin"), ("password", "secret"))
    assert outcome(Tls(authority.file), shown, behaviour, metadata=right) == "up"
    wrong = (("username", "admin"), ("password", "guess"))
    assert outcome(Tls(authority.file), shown, behaviour, metadata=wrong) == "unauthenticated"


def test_an_expired_certificate_is_refused_even_where_nothing_else_is_verified(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    assert outcome(Tls(skip_verify=True), credentials(stranger.issue("old", expired=True))) == "tls"
