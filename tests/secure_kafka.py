"""A real Kafka that lets nobody in without a name: TLS, mTLS, SASL/SCRAM over TLS, and rights by StandardAuthorizer.

Principals are `User:<common name of the certificate>` on the mTLS port and `User:<SCRAM user>` on the other.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from stream.kafka_settings import KafkaSettings, admin_client, connect
from tests.certificates import Authority
from tests.kafka_brokers import KAFKA_START_DEADLINE_S, free_port

PASSWORD = "correct-horse"
"""Of every SCRAM user; the tests look for it in all that is said."""
KEY_PASSWORD = "battery-staple"
ADMIN = "operator"
"""Who may do everything, by certificate and by password."""

_PROPERTIES = """\
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:9093
listeners=CONTROLLER://:9093,INTERNAL://:19092,MTLS://:9094,SCRAM://:9095
advertised.listeners=INTERNAL://localhost:19092,MTLS://127.0.0.1:{mtls_port},SCRAM://127.0.0.1:{scram_port}
listener.security.protocol.map=CONTROLLER:SSL,INTERNAL:SSL,MTLS:SSL,SCRAM:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
log.dirs=/tmp/kafka-logs
auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# Two certificates: the broker's own and the authority that it trusts. The name in a certificate is the principal's.
ssl.keystore.type=PEM
ssl.keystore.location=/secure/broker-chain.pem
ssl.truststore.type=PEM
ssl.truststore.location=/secure/fabric-ca.pem
ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/,DEFAULT
listener.name.scram.ssl.client.auth=none
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
# Whoever has no right has none; the broker itself and the administrator have all.
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:broker;User:operator
"""

_ADMIN_PROPERTIES = """\
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location=/secure/operator-chain.pem
ssl.truststore.type=PEM
ssl.truststore.location=/secure/fabric-ca.pem
"""
INSIDE = "--bootstrap-server localhost:19092 --command-config /secure/admin.properties"
"""What Kafka's own tools need to work as the administrator where the broker runs."""


class SecureKafka(msgspec.Struct, frozen=True):
    """Where it is, and the way in for each principal."""

    mtls_servers: str
    scram_servers: str
    fabric: Authority
    stranger: Authority
    container: str

    def mtls(self, name: str, prefix: str = "fabric") -> KafkaSettings:
        """Settings of whoever has the certificate of this name."""
        certificate, key = self.fabric.issue(name)
        return KafkaSettings(
            self.mtls_servers,
            prefix,
            {
                "security.protocol": "SSL",
                "ssl.ca.location": str(self.fabric.file),
                "ssl.certificate.location": str(certificate),
                "ssl.key.location": str(key),
            },
        )

    def scram(self, name: str, prefix: str = "fabric", password: str = PASSWORD) -> KafkaSettings:
        """Settings of a SCRAM user."""
        return KafkaSettings(
            self.scram_servers,
            prefix,
            {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(self.fabric.file),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": name,
                "sasl.password": password,
            },
        )

    def add_users(self, names: Sequence[str]) -> None:
        """Makes SCRAM users, and waits until each can log in."""
        client: AdminClient = admin_client(self.mtls(ADMIN))
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        users: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, info, PASSWORD.encode()) for name in names
        ]
        for future in client.alter_user_scram_credentials(users).values():
            future.result(30)

    def run_inside(self, script: str) -> str:
        """What a shell script says that runs where the broker runs; Kafka's tools are in /opt/kafka/bin."""
        command = ["docker", "exec", self.container, "sh", "-ec", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def secure_kafka(kafka_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """The broker; a test that uses it bears the marker `kafka`."""
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.container import DockerContainer

    folder = tmp_path_factory.mktemp("secure-kafka")
    fabric, stranger = Authority(folder, "fabric"), Authority(folder, "stranger")
    _write_chain(folder, "broker", fabric)
    _write_chain(folder, ADMIN, fabric)
    (folder / "admin.properties").write_text(_ADMIN_PROPERTIES)
    mtls_port, scram_port = free_port(), free_port()
    config = tmp_path_factory.mktemp("secure-kafka-config")
    (config / "server.properties").write_text(_PROPERTIES.format(mtls_port=mtls_port, scram_port=scram_port))
    # The broker's user in the container is another one.
    for path in (folder, config, *folder.iterdir(), *config.iterdir()):
        path.chmod(0o755)
    container = DockerContainer(kafka_image)
    container.with_env("CLUSTER_ID", "c2VjdXJlLWthZmthLXRlcw").with_env("KAFKA_HEAP_OPTS", "-Xms256m -Xmx512m")
    container.with_volume_mapping(str(folder), "/secure").with_volume_mapping(str(config), "/mnt/shared/config")
    container.ports["9094/tcp"] = ("127.0.0.1", mtls_port)  # type: ignore[assignment]
    container.ports["9095/tcp"] = ("127.0.0.1", scram_port)  # type: ignore[assignment]
    with container:
        identity = container.get_wrapped_container().id
        kafka = SecureKafka(f"127.0.0.1:{mtls_port}", f"127.0.0.1:{scram_port}", fabric, stranger, identity)
        connect(kafka.mtls(ADMIN), KAFKA_START_DEADLINE_S)
        yield kafka


def _write_chain(folder: Path, name: str, authority: Authority) -> None:
    """Key and certificate in one file, which is what Java takes for a keystore."""
    certificate, key = authority.issue(name)
    chain = key.read_bytes() + certificate.read_bytes() + authority.file.read_bytes()
    (folder / f"{name}-chain.pem").write_bytes(chain)
