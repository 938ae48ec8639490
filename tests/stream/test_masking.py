"""Secrets are told from other settings by their keys, and never shown."""

import pytest

from stream.kafka_settings import KafkaSettings
from stream.masking import MASK, is_secret, masked, masked_settings

SECRETS = [
    "sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config", "ssl.key.pem", "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase", "kafka.password",
]  # fmt: skip
OPEN = [
    "sasl.username", "ssl.ca.location", "ssl.key.location", "ssl.certificate.pem", "password_file",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id",
]  # fmt: skip


@pytest.mark.parametrize("key", SECRETS)
def test_a_secret_is_masked(key: str) -> None:
    assert is_secret(key)
    assert masked(f"kafka.librdkafka.{key}", "hush") == MASK
    assert masked(key, "") == ""


@pytest.mark.parametrize("key", OPEN)
def test_what_is_no_secret_is_shown(key: str) -> None:
    assert not is_secret(key, "/etc/x")
    assert masked(key, "/etc/x") == "/etc/x"
    assert masked(key, 3) == 3


def test_credentials_in_urls_are_secrets_and_masked() -> None:
    url = "https://ann:hush@host/path?token=hush&level=3"
    assert is_secret("x", url)
    assert masked("x", url) == f"https://{MASK}@host/path?token={MASK}&level={MASK}"


def test_the_settings_of_kafka_do_not_show_their_secrets() -> None:
    settings = KafkaSettings("h:9092", librdkafka={"sasl.password": "hush", "sasl.username": "ann"})
    assert "hush" not in repr(settings)
    assert "hush" not in f"{settings} {settings!s}"
    assert "ann" in repr(settings)
    assert masked_settings(settings.librdkafka) == {"sasl.password": MASK, "sasl.username": "ann"}
