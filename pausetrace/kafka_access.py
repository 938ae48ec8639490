"""From the configuration to the settings of Kafka's clients, with the secrets that the configuration only points to.

In: a `KafkaConfig`. Out: `KafkaSettings`, whose passwords were read from their files.
"""

from __future__ import annotations

from pathlib import Path

from pausetrace.config import KafkaConfig
from stream.errors import ConfigError
from stream.kafka_settings import KafkaSettings

MAX_SECRET_BYTES = 64 * 1024
"""Far more than any password: a larger file is another file."""


def settings_of(kafka: KafkaConfig) -> KafkaSettings:
    """The settings of the Kafka clients; raises ConfigError for a password's file that cannot be used.

    librdkafka reads text, and its booleans are lower-case words. What stands in its own table wins over ours.
    """
    texts = {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in kafka.librdkafka.items()}
    passwords = {
        "sasl.password": kafka.password or _secret("password_file", kafka.password_file),
        "ssl.key.password": kafka.key_password or _secret("key_password_file", kafka.key_password_file),
    }
    return KafkaSettings(kafka.bootstrap_servers, kafka.prefix, {k: v for k, v in passwords.items() if v} | texts)


def _secret(key: str, path: str) -> str:
    """The first line of the file, since editors and `echo` end it with a newline."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_SECRET_BYTES + 1)
    except OSError as err:
        raise ConfigError(f"kafka.{key}: {path}: {err.strerror}", "check that the file may be read") from err
    lines = content.splitlines()
    if len(content) > MAX_SECRET_BYTES or len(lines) != 1 or not lines[0]:
        raise ConfigError(f"kafka.{key}: {path} does not hold one line", "write the password into it, and nothing else")
    try:
        return lines[0].decode()
    except UnicodeDecodeError:
        raise ConfigError(f"kafka.{key}: {path} is not UTF-8", "save the file as UTF-8") from None
