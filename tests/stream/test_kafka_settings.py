"""The settings reach every client, and a broker that does not answer is told in one clear line."""

import contextlib
import logging
import socket
import threading

import pytest

from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError, ConfigError
from stream.kafka_settings import (
    BrokerInfo,
    KafkaSettings,
    admin_config,
    connect,
    consumer_config,
    look,
    producer_config,
    require_topics,
)

NOWHERE = KafkaSettings("127.0.0.1:1")
REAL = BrokerInfo("cGF1c2V0cmFjZS10ZXN0cw", embedded=False)
EMBEDDED = BrokerInfo("mockCluster1", embedded=True)


def test_an_unreachable_broker_is_one_line_with_a_next_step(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokerError) as caught:
        connect(NOWHERE, deadline_s=0.5)
    assert "127.0.0.1:1" in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "docker compose up" in caught.value.next_step
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_host_that_does_not_exist_is_told_as_such() -> None:
    with pytest.raises(BrokerError, match="resolve"):
        connect(KafkaSettings("nowhere.invalid:9092"), deadline_s=0.5)


@pytest.mark.parametrize(
    ("answers", "said"),
    [(False, "no Kafka broker answers at .* takes connections and says nothing"), (True, "ended every connection")],
)
def test_a_port_that_says_nothing_is_told_from_one_that_hangs_up(answers: bool, said: str) -> None:
    held = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = server.accept()[0]
                    if answers:
                        connection.close()
                    else:
                        held.append(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        servers = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(BrokerError, match=said):
            connect(KafkaSettings(servers, librdkafka={"api.version.request.timeout.ms": "300"}), deadline_s=3.0)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    for connection in held:
        connection.close()


def test_what_librdkafka_logs_goes_to_python_logging_as_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "pausetrace.kafka"), pytest.raises(BrokerError):
        connect(NOWHERE, deadline_s=0.5)
    lines = [record for record in caplog.records if record.name == "pausetrace.kafka"]
    assert lines
    assert {record.levelno for record in lines} == {logging.DEBUG}


def test_a_setting_that_librdkafka_does_not_know_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.setting"):
        connect(KafkaSettings("127.0.0.1:1", librdkafka={"no.such.setting": "1"}), deadline_s=0.5)


def test_a_setting_of_the_user_goes_to_every_client_and_wins() -> None:
    settings = KafkaSettings("127.0.0.1:1", librdkafka={"compression.type": "zstd", "fetch.wait.max.ms": "77"})
    configs = [
        admin_config(settings),
        producer_config(settings, queue_bytes=1 << 20, message_timeout_ms=1000),
        consumer_config(settings, EMBEDDED, None),
    ]
    for config in configs:
        assert config["compression.type"] == "zstd"
        assert config["fetch.wait.max.ms"] == "77"


def test_the_embedded_broker_gets_what_it_needs_and_a_real_one_does_not() -> None:
    embedded, real = consumer_config(NOWHERE, EMBEDDED, "detect"), consumer_config(NOWHERE, REAL, "detect")
    assert embedded["fetch.wait.max.ms"] == 20
    assert embedded["partition.assignment.strategy"] == "range"
    assert "fetch.wait.max.ms" not in real
    assert real["partition.assignment.strategy"] == "cooperative-sticky"
    assert embedded["group.id"] == real["group.id"] == "fabric.detect"


def test_missing_topics_are_named_with_how_to_make_them(embedded_broker: EmbeddedBroker) -> None:
    view = look(embedded_broker.settings)
    require_topics(embedded_broker.settings, view, ["pfc", "control"])
    with pytest.raises(BrokerError, match=r"no topic other\.pfc, other\.control.*pausetrace topics create"):
        require_topics(KafkaSettings(embedded_broker.bootstrap_servers, "other"), view, ["pfc", "control"])
