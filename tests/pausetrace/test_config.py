"""Configuration: which layer wins, where each value came from, and what a wrong one is told."""

from pathlib import Path

import pytest

from pausetrace.config import load
from stream.errors import ConfigError
from stream.masking import MASK

WHOLE = """\
# where Kafka is
[kafka]
bootstrap_servers = "file:9092"
prefix = "file"

[kafka.librdkafka]
sasl.mechanism = "PLAIN"
"ssl.ca.location" = "/etc/ca.pem"
"""


def write(folder: Path, text: str) -> str:
    path = folder / "pausetrace.toml"
    path.write_text(text)
    return str(path)


def origins(loaded_settings: tuple[tuple[str, object, str], ...]) -> dict[str, str]:
    return {key: origin for key, _, origin in loaded_settings}


def test_defaults_hold_where_nothing_is_said(tmp_path: Path) -> None:
    loaded = load({}, {}, directory=tmp_path)
    assert (loaded.config.kafka.bootstrap_servers, loaded.config.kafka.prefix) == ("localhost:9092", "fabric")
    assert set(origins(loaded.settings).values()) == {"default"}
    assert loaded.file is None


def test_the_file_of_the_working_directory_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE)
    loaded = load({}, {}, directory=tmp_path)
    assert loaded.config.kafka.bootstrap_servers == "file:9092"
    assert origins(loaded.settings)["kafka.prefix"] == f"{path}:4"


def test_a_variable_names_the_file_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    named, other = tmp_path / "a.toml", tmp_path / "b.toml"
    named.write_text("[kafka]\nprefix = 'a'\n")
    other.write_text("[kafka]\nprefix = 'b'\n")
    environ = {"PAUSETRACE_CONFIG": str(named)}
    assert load({}, environ, directory=tmp_path).config.kafka.prefix == "a"
    assert load({}, environ, str(other), tmp_path).config.kafka.prefix == "b"


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, WHOLE)
    environ = {"PAUSETRACE_KAFKA_BOOTSTRAP_SERVERS": "variable:9092", "PAUSETRACE_KAFKA_PREFIX": "variable"}
    loaded = load({"kafka.prefix": "flag", "kafka.bootstrap_servers": None}, environ, file)
    assert loaded.config.kafka.prefix == "flag"
    assert loaded.config.kafka.bootstrap_servers == "variable:9092"
    told = origins(loaded.settings)
    assert told["kafka.prefix"] == "flag --prefix"
    assert told["kafka.bootstrap_servers"] == "variable PAUSETRACE_KAFKA_BOOTSTRAP_SERVERS"


def test_settings_of_librdkafka_pass_from_every_layer(tmp_path: Path) -> None:
    file = write(tmp_path, WHOLE)
    environ = {"PAUSETRACE_KAFKA_LIBRDKAFKA_SASL_USERNAME": "ann"}
    loaded = load({"kafka.librdkafka.debug": "broker"}, environ, file)
    assert loaded.config.kafka.librdkafka == {
        "sasl.mechanism": "PLAIN",
        "ssl.ca.location": "/etc/ca.pem",
        "sasl.username": "ann",
        "debug": "broker",
    }


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[kafka]\n\nbootstrap_server = 'x'", 3, "did you mean 'bootstrap_servers'?"),
        ("\n[kakfa]\nprefix = 'x'", 3, "did you mean 'kafka'?"),
        ("[kakfa]", 1, "did you mean 'kafka'?"),
        ("[kafka]\n[kafka.librdkakfa]", 2, "did you mean 'librdkafka'?"),
        ("kafka = 3", 1, "kafka is a section"),
        ("[kafka]\nlibrdkafka = 3", 2, "kafka.librdkafka is a table"),
        ("[kafka]\nprefix = 3", 2, "kafka.prefix is 3, not a name of letters"),
        ("[kafka]\nprefix = 'a b'", 2, "kafka.prefix is 'a b', not a name of letters"),
        ("[kafka]\nprefix.x = 'y'", 2, "no key 'prefix.x'"),
        ("kafka = {\n}", 1, "not TOML"),
        ("[kafka]\nbootstrap_servers = ''", 2, "not a list like host:9092"),
        ("[kafka.librdkafka]\n# a list\nretries = [\n 1,\n]", 3, "not a string, number or boolean"),
        ("[kafka.librdkafka]\n'bootstrap.servers' = 'x'", 2, "set kafka.bootstrap_servers instead"),
        ("[kafka]\nprefix = x", 2, "not TOML"),
    ],
)
def test_a_wrong_file_is_told_with_line_and_key(tmp_path: Path, text: str, line: int, said: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load({}, {}, file)
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert said in str(caught.value)


def test_the_line_is_that_on_which_a_value_begins(tmp_path: Path) -> None:
    file = write(tmp_path, '[kafka]\n# two lines:\nprefix = """\nx"""\nbootstrap_servers = "y"\n')
    told = origins(load({}, {}, file).settings)
    assert (told["kafka.prefix"], told["kafka.bootstrap_servers"]) == (f"{file}:3", f"{file}:5")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PAUSETRACE_KAKFA_PREFIX", "did you mean PAUSETRACE_KAFKA_PREFIX?"),
        ("PAUSETRACE_KAFKA_PREFIXES", "did you mean PAUSETRACE_KAFKA_PREFIX?"),
        ("PAUSETRACE_KAFKA_ZZZ", "known are: PAUSETRACE_KAFKA_BOOTSTRAP_SERVERS"),
    ],
)
def test_a_wrong_variable_is_told_by_its_name(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({}, {name: "x"}, directory=tmp_path)
    assert name in str(caught.value)
    assert said in str(caught.value)


def test_variables_of_other_things_are_left_alone(tmp_path: Path) -> None:
    environ = {"PAUSETRACE_REQUIRE": "all", "PAUSETRACE_KAFKA_PORT": "9092", "PAUSETRACE_SITE": "x", "HOME": "/"}
    assert load({}, environ, directory=tmp_path).config.kafka.prefix == "fabric"


def test_a_missing_file_is_told_with_who_named_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="check the path given by --config"):
        load({}, {}, str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="check the path given by PAUSETRACE_CONFIG"):
        load({}, {"PAUSETRACE_CONFIG": str(tmp_path / "none.toml")})


def test_a_folder_in_place_of_a_file_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder, not a configuration file; give the file by --config, such as"):
        load({}, {}, str(tmp_path))


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"[kafka]\n\xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 8"):
        load({}, {}, str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kafka]\npassword = 'hush'", "its path, or set the variable PAUSETRACE_KAFKA_PASSWORD"),
        ("[kafka.librdkafka]\nsasl.password = 'hush'", "set kafka.password_file to its path"),
        ("[kafka.librdkafka]\n'ssl.key.password' = 'hush'", "or set the variable PAUSETRACE_KAFKA_KEY_PASSWORD"),
        ("[kafka.librdkafka]\nssl.key.pem = 'hush'", "put the key into a file and set ssl.key.location to its path"),
        (
            "[kafka.librdkafka]\nsasl.oauthbearer.client.secret = 'hush'",
            "set the variable PAUSETRACE_KAFKA_LIBRDKAFKA_SASL_OAUTHBEARER_CLIENT_SECRET",
        ),
        (
            "[kafka.librdkafka]\nsasl.oauthbearer.token.endpoint.url = 'https://ann:hush@host/'",
            "set the variable PAUSETRACE_KAFKA_LIBRDKAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL",
        ),
    ],
)  # fmt: skip
def test_a_secret_in_the_file_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load({}, {}, file)
    assert str(caught.value).startswith(f"{file}:2: ")
    assert "is a secret, and a configuration file is no place for it" in str(caught.value)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_what_only_looks_like_a_secret_stands_in_the_file(tmp_path: Path) -> None:
    text = "[kafka]\npassword_file = '/run/x'\n[kafka.librdkafka]\nsasl.oauthbearer.token.endpoint.url = 'https://h/'\n"
    file = write(tmp_path, text + "ssl.key.location = '/x'\nssl.certificate.pem = 'y'\n")
    loaded = load({}, {}, file)
    assert loaded.config.kafka.password_file == "/run/x"
    assert [s.shown for s in loaded.settings if s.key.startswith("kafka.librdkafka.")] == ["https://h/", "/x", "y"]


def test_secrets_come_from_variables_and_are_masked_wherever_they_are_shown(tmp_path: Path) -> None:
    environ = {
        "PAUSETRACE_KAFKA_PASSWORD": "hush",
        "PAUSETRACE_KAFKA_KEY_PASSWORD": "hush",
        "PAUSETRACE_KAFKA_LIBRDKAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": "hush",
    }
    loaded = load({}, environ, directory=tmp_path)
    assert loaded.config.kafka.password == "hush"
    assert [setting.shown for setting in loaded.settings if setting.value == "hush"] == [MASK] * 3
    assert "hush" not in f"{loaded} {loaded.config.kafka!r}"


def test_an_error_does_not_show_a_secret(tmp_path: Path) -> None:
    file = write(tmp_path, "[kafka.librdkafka]\nsasl.password = ['hush']")
    with pytest.raises(ConfigError) as caught:
        load({}, {}, file)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "servers", ["h", "h:1", "h:65535", "a:1, b:2", "[::1]:9092", "[::1]", "::1", "SASL_SSL://h:9093,SASL_SSL://i"]
)
def test_servers_as_librdkafka_takes_them_are_taken(servers: str, tmp_path: Path) -> None:
    loaded = load({"kafka.bootstrap_servers": servers}, {}, directory=tmp_path)
    assert loaded.config.kafka.bootstrap_servers == servers


@pytest.mark.parametrize("servers", ["h:0", "h:65536", "h:", "h:x", "a:1,b:-2", "[::1]:0", "SSL://h:99999", "h:²"])
def test_a_port_that_is_none_is_refused_where_it_stands(servers: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"[kafka]\nbootstrap_servers = '{servers}'\n")
    with pytest.raises(ConfigError, match=r"toml:2: kafka\.bootstrap_servers is .* no port from 1 to 65535"):
        load({}, {}, path)


@pytest.mark.parametrize("servers", [",", "a:1,", ":9092", "SSL://:1"])
def test_a_server_without_a_name_is_refused(servers: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which has a server without a name; write it like host:9092"):
        load({"kafka.bootstrap_servers": servers}, {}, directory=tmp_path)
