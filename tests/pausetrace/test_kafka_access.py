"""Passwords come out of their files, and a file that cannot be used is told with the setting that names it."""

from pathlib import Path

import pytest

from pausetrace.config import KafkaConfig
from pausetrace.kafka_access import settings_of
from stream.errors import ConfigError


@pytest.mark.parametrize("content", [b"hush", b"hush\n", b"hush\r\n"])
def test_a_password_is_the_one_line_of_its_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    settings = settings_of(KafkaConfig(password_file=str(file), key_password_file=str(file)))
    assert settings.librdkafka == {"sasl.password": "hush", "ssl.key.password": "hush"}


def test_a_variable_wins_over_the_file_and_librdkafkas_own_over_both(tmp_path: Path) -> None:
    kafka = KafkaConfig(password="direct", password_file=str(tmp_path / "not looked for"))
    assert settings_of(kafka).librdkafka == {"sasl.password": "direct"}
    kafka = KafkaConfig(password="direct", librdkafka={"sasl.password": "own", "enable.x": True, "n": 3})
    assert settings_of(kafka).librdkafka == {"sasl.password": "own", "enable.x": "true", "n": "3"}


def test_without_a_password_nothing_is_added() -> None:
    assert settings_of(KafkaConfig()).librdkafka == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "does not hold one line"),
        (b"\n", "does not hold one line"),
        (b"hush\nmore", "does not hold one line"),
        (b"x" * 70_000, "does not hold one line"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_a_file_without_a_password_is_told(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        settings_of(KafkaConfig(password_file=str(file)))
    assert str(caught.value).startswith(f"kafka.password_file: {file}")
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)
