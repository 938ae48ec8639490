"""The library's iterators over topics, on the embedded broker and on a real Kafka."""

import logging
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

import pausetrace
from stream.errors import BrokerError, ConfigError
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded
from tests.pausetrace.publishing import publish
from tests.pausetrace.sample_batches import PAUSES, QUEUES
from tests.pausetrace.sample_cascades import SLOW_RECEIVER, SUSPECTS


def test_rows_come_as_columns(any_kafka: KafkaSettings) -> None:
    publish(any_kafka, PAUSES, QUEUES)
    found = list(
        pausetrace.subscribe(
            "pfc",
            bootstrap_servers=any_kafka.bootstrap_servers,
            prefix=any_kafka.prefix,
            start="earliest",
            follow=False,
        )
    )
    assert [columns.kind.tolist() for columns in found] == [["PFC_XOFF", "PFC_XON", "PFC_PAUSED"]]
    assert found[0].measure("paused_ns").tolist() == [None, None, 412_000]


def test_the_newest_rows_alone_come_from_latest(any_kafka: KafkaSettings) -> None:
    publish(any_kafka, PAUSES)
    servers, prefix = any_kafka.bootstrap_servers, any_kafka.prefix
    assert list(pausetrace.subscribe("pfc", bootstrap_servers=servers, prefix=prefix, follow=False)) == []


def test_a_bad_value_is_skipped_counted_and_logged(any_kafka: KafkaSettings, caplog: pytest.LogCaptureFixture) -> None:
    publish(any_kafka, PAUSES, Encoded("pfc", PAUSES.key, b"junk"), PAUSES)
    with caplog.at_level(logging.WARNING):
        found = list(
            pausetrace.subscribe(
                f"{any_kafka.prefix}.pfc",
                bootstrap_servers=any_kafka.bootstrap_servers,
                prefix=any_kafka.prefix,
                start="earliest",
                follow=False,
            )
        )
    assert sum(map(len, found)) == 6
    assert [record.getMessage() for record in caplog.records if "@1" in record.getMessage()] != []


def test_cascades_come_in_every_revision(any_kafka: KafkaSettings) -> None:
    publish(any_kafka, replace(SUSPECTS, revision=1), SLOW_RECEIVER)
    found = list(
        pausetrace.cascades(
            bootstrap_servers=any_kafka.bootstrap_servers, prefix=any_kafka.prefix, start="earliest", follow=False
        )
    )
    assert [cascade.revision for cascade in found] == [1, "final"]
    assert found[1] == SLOW_RECEIVER


def test_a_topic_without_columns_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no columns"):
        pausetrace.subscribe("cascade")


def test_a_topic_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="no topic 'pcf'"):
        pausetrace.subscribe("pcf")


@pytest.mark.parametrize("start", ["sideways", "", None])
def test_a_start_that_does_not_exist_is_refused_before_kafka_is_asked(start: Any) -> None:
    nowhere = "127.0.0.1:1"
    with pytest.raises(ConfigError, match="is no place to begin; choose from: earliest, latest"):
        pausetrace.subscribe("pfc", bootstrap_servers=nowhere, start=start)
    with pytest.raises(ConfigError, match="choose from: earliest, latest"):
        pausetrace.cascades(bootstrap_servers=nowhere, start=start)


def test_a_missing_topic_is_told(any_kafka: KafkaSettings) -> None:
    with pytest.raises(BrokerError, match="pausetrace topics create"):
        next(pausetrace.subscribe("pfc", bootstrap_servers=any_kafka.bootstrap_servers, prefix="nobody-has-this"))


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import pausetrace, sys; assert not {'numpy', 'msgspec', 'confluent_kafka', 'typing'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)


def test_the_public_names_are_there_and_no_others() -> None:
    assert all(getattr(pausetrace, name) is not None for name in pausetrace.__all__)
    assert set(pausetrace.__all__) <= set(dir(pausetrace))
    with pytest.raises(AttributeError, match="has no attribute 'subscrieb'"):
        getattr(pausetrace, "subscrieb")  # noqa: B009 - a name that the type checker refuses
