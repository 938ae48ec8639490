"""Configuration: flags > PAUSETRACE_* variables > a TOML file > defaults, checked and turned into frozen structs.

In: what the command line gave, the environment and a file. Out: a `Loaded` with every setting's value and origin.
A secret comes from a file of its own or from the environment: everybody may read a command line, and many a TOML file.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec

from pausetrace.probe_config import ProbesConfig, complaint
from stream.errors import ConfigError
from stream.masking import Scalar, is_secret, masked, masked_settings
from stream.topics import DEFAULT_PREFIX

DEFAULT_FILE = "pausetrace.toml"
TABLES = "each"
SHOW = "`pausetrace config show` lists all settings"
FILE_VARIABLE = "PAUSETRACE_CONFIG"
VARIABLE_PREFIX = "PAUSETRACE_"
OTHER_VARIABLES = (
    FILE_VARIABLE, "PAUSETRACE_FAST", "PAUSETRACE_GOLDEN", "PAUSETRACE_REQUIRE", "PAUSETRACE_KAFKA_PORT",
)  # fmt: skip
"""Variables that are no settings: of the tests and of docker-compose.yml."""

MAX_PORT = 65_535
_IN_A_FILE = {
    "password": "password", "sasl.password": "password",
    "key_password": "key_password", "ssl.key.password": "key_password",
}  # fmt: skip
"""Secrets that have a setting of ours, and its name."""

_Servers = Annotated[str, msgspec.Meta(min_length=1, description="a list like host:9092,other:9092")]
_Prefix = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9._-]{1,200}$", description="a name of letters, digits, '.', '_' and '-'"
    ),
]  # fmt: skip


class KafkaConfig(msgspec.Struct, frozen=True):
    """Where Kafka is, what Pausetrace calls its topics there, and where the secrets are that open it.

    `librdkafka` holds any setting of that library; it is handed on untouched. The two passwords are librdkafka's
    sasl.password and ssl.key.password; each may stand in a file instead.
    """

    bootstrap_servers: _Servers = "localhost:9092"
    prefix: _Prefix = DEFAULT_PREFIX
    password: str = ""
    password_file: str = ""
    key_password: str = ""
    key_password_file: str = ""
    librdkafka: dict[str, Scalar] = {}

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        values = ((key, getattr(self, key)) for key in self.__struct_fields__)
        return [(k, masked_settings(v) if isinstance(v, dict) else masked(k, v)) for k, v in values]

    def __repr__(self) -> str:
        return f"KafkaConfig({', '.join(f'{key}={value!r}' for key, value in self.__rich_repr__())})"


class Config(msgspec.Struct, frozen=True):
    """The whole configuration; a field is a section of the file.

    A section's field `each` holds tables of one sort, such as [probes.runqueue]; its own name is not written.
    """

    kafka: KafkaConfig = KafkaConfig()
    probes: ProbesConfig = ProbesConfig()


class Setting(NamedTuple):
    """One setting as `config show` tells it; `key` is dotted, as in the file."""

    key: str
    value: Scalar
    origin: str

    @property
    def shown(self) -> Scalar:
        """The value without secrets."""
        return masked(self.key, self.value)

    def __repr__(self) -> str:
        return f"Setting(key={self.key!r}, value={self.shown!r}, origin={self.origin!r})"


class Loaded(NamedTuple):
    """The configuration, and where each of its settings came from."""

    config: Config
    settings: tuple[Setting, ...]
    file: Path | None


def load(
    flags: Mapping[str, Scalar | None],
    environ: Mapping[str, str],
    file: str | None = None,
    directory: Path | None = None,
) -> Loaded:
    """Reads every layer; `flags` has dotted keys (None = not given), `file` is the one asked for by --config.

    Raises ConfigError with file, line and key.
    """
    found: dict[str, Setting] = {setting.key: setting for setting in _defaults()}
    path = _file(file, environ, directory or Path())
    layers = (
        _from_file(path) if path else (),
        _from_environment(environ),
        (_checked(key, value, f"flag {_flag(key)}", False) for key, value in flags.items() if value is not None),
    )
    for layer in layers:
        for setting in layer:
            found[setting.key] = setting
    return Loaded(_built(found), tuple(found.values()), path)


def refuse_secret(key: str, value: Scalar, origin: str, where: str) -> None:
    """Raises ConfigError for a secret that stands where others may read it; `key` is dotted, as in the file."""
    if not is_secret(key, value):
        return
    name = key.removeprefix("kafka.").removeprefix("librdkafka.")
    if name in _IN_A_FILE:
        setting = _IN_A_FILE[name]
        own = variable(f"kafka.{setting}")
        instead = f"put it into a file and set kafka.{setting}_file to its path, or set the variable {own}"
    elif name == "ssl.key.pem":
        instead = "put the key into a file and set ssl.key.location to its path"
    else:
        instead = f"set the variable {variable(key)}"
    raise ConfigError(f"{origin}: {name} is a secret, and {where}", instead)


def variable(key: str) -> str:
    """The environment variable of a setting: kafka.prefix is PAUSETRACE_KAFKA_PREFIX."""
    return VARIABLE_PREFIX + key.upper().replace(".", "_")


def _sections() -> dict[str, dict[str, Any]]:
    """Section -> key -> type of value, from the structs; a key of a table is `table.key`."""
    return {
        section.name: {key: wanted for key, wanted, _ in _keys(section.default)}
        for section in msgspec.structs.fields(Config)
    }


def _keys(section: msgspec.Struct) -> Iterator[tuple[str, Any, Any]]:
    """Key, type and default of each setting of a section; a setting of a table whose default is "" does not exist."""
    for field in msgspec.structs.fields(section):
        if field.name != TABLES:
            yield field.name, field.type, getattr(section, field.name)
            continue
        for name, table in getattr(section, TABLES).items():
            for own in msgspec.structs.fields(table):
                if (default := getattr(table, own.name)) != "":
                    yield f"{name}.{own.name}", own.type, default


def _is_open(wanted: Any) -> bool:
    """Whether a field takes any keys, as librdkafka does."""
    return bool(wanted == dict[str, Scalar])


def _is_table(section: str, name: str) -> bool:
    return any(key.startswith(f"{name}.") for key in _sections().get(section, ()))


def _defaults() -> Iterator[Setting]:
    for section in msgspec.structs.fields(Config):
        for key, wanted, default in _keys(section.default):
            if not _is_open(wanted):
                yield Setting(f"{section.name}.{key}", default, "default")


def _built(found: Mapping[str, Setting]) -> Config:
    tree: dict[str, dict[str, Any]] = {}
    for section, fields in _sections().items():
        values: dict[str, Any] = {}
        for name, wanted in fields.items():
            key = f"{section}.{name}"
            table, dot, own = name.partition(".")
            if _is_open(wanted):
                opened = f"{key}."
                values[name] = {k.removeprefix(opened): s.value for k, s in found.items() if k.startswith(opened)}
            elif dot:
                values.setdefault(TABLES, {}).setdefault(table, {})[own] = found[key].value
            else:
                values[name] = found[key].value
        tree[section] = values
    return msgspec.convert(tree, Config)


def _checked(key: str, value: object, origin: str, from_text: bool) -> Setting:
    """The setting, if its key exists and its value fits; `origin` begins the message of a wrong one."""
    section, _, rest = key.partition(".")
    fields = _sections().get(section)
    if fields is None:
        raise ConfigError(f"{origin}: no section {section!r}", _near(section, _sections()))
    if not rest:
        raise ConfigError(f"{origin}: {section} is a section", f"write [{section}] and its settings below")
    if _is_table(section, rest):
        raise ConfigError(f"{origin}: {key} is a table", f"write [{key}] and its settings below")
    name, open_key = (rest, "") if rest in fields else rest.partition(".")[::2]
    wanted = fields.get(name)
    if wanted is None or (open_key and not _is_open(wanted)):
        raise ConfigError(f"{origin}: no key {rest!r} in section {section!r}", _near(rest, fields))
    if _is_open(wanted):
        if not open_key:
            raise ConfigError(f"{origin}: {key} is a table", f"write [{key}] and its settings below")
        if open_key == "bootstrap.servers":
            raise ConfigError(f"{origin}: {key} has a setting of its own", "set kafka.bootstrap_servers instead")
        wanted = Scalar
    try:
        setting = Setting(key, msgspec.convert(value, wanted, strict=not from_text), origin)
    except msgspec.ValidationError:
        shown = type(value).__name__ if is_secret(key) else f"{value!r}"
        raise ConfigError(f"{origin}: {key} is {shown}, not {_type_name(wanted)}", SHOW) from None
    if key == "kafka.bootstrap_servers":
        _check_servers(str(setting.value), origin)
    elif section == "probes" and (wrong := complaint(key, setting.value)):
        raise ConfigError(f"{origin}: {key} is {setting.value!r}, which {wrong}", SHOW)
    return setting


def _check_servers(servers: str, origin: str) -> None:
    """Raises ConfigError for a list of servers that no client could reach; whether a name exists is theirs to find."""
    for server in servers.split(","):
        # librdkafka takes PROTOCOL://host:port, and IPv6 addresses in brackets; a port may be left out.
        bare = server.strip().rpartition("://")[2]
        host, colon, port = bare.rpartition(":") if bare.rpartition("]")[2].count(":") == 1 else (bare, "", "")
        fits = not colon or (port.isascii() and port.isdigit() and 1 <= int(port) <= MAX_PORT)
        if host and fits:
            continue
        why = f"has no port from 1 to {MAX_PORT} behind its colon" if host else "has a server without a name"
        shown = masked("kafka.bootstrap_servers", servers)
        raise ConfigError(
            f"{origin}: kafka.bootstrap_servers is {shown!r}, which {why}", "write it like host:9092,other:9092"
        )


def _type_name(wanted: Any) -> str:
    meta = next((part for part in get_args(wanted) if isinstance(part, msgspec.Meta)), None)
    if meta and meta.description:
        return meta.description
    return _PLAIN_TYPES.get(wanted, "a string, number or boolean")


_PLAIN_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


def _near(wrong: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(wrong, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(known)}"


def _flag(key: str) -> str:
    name = key.removeprefix("kafka.")
    if name.startswith("librdkafka."):
        return f"-X {name.removeprefix('librdkafka.')}"
    # A flag of a probe is the same for all of them.
    return f"--{name.rpartition('.')[2].replace('_', '-')}"


def _from_environment(environ: Mapping[str, str]) -> Iterator[Setting]:
    known: dict[str, str] = {}
    opened: dict[str, str] = {}
    for section, fields in _sections().items():
        for name, wanted in fields.items():
            key = f"{section}.{name}"
            (opened if _is_open(wanted) else known)[variable(key)] = key
    for name, value in sorted(environ.items()):
        if not name.startswith(VARIABLE_PREFIX) or name in OTHER_VARIABLES:
            continue
        if name in known:
            yield _checked(known[name], value, f"variable {name}", True)
            continue
        start = next((start for start in opened if name.startswith(f"{start}_") and len(name) > len(start) + 1), None)
        if start:
            # librdkafka's names are words joined by dots: SASL_PASSWORD is sasl.password.
            open_key = name.removeprefix(f"{start}_").lower().replace("_", ".")
            yield _checked(f"{opened[start]}.{open_key}", value, f"variable {name}", True)
            continue
        # Compared without the prefix that all share; a variable like no setting may belong to something else.
        bare = {other.removeprefix(VARIABLE_PREFIX): other for other in (*known, *opened, *OTHER_VARIABLES)}
        near = difflib.get_close_matches(name.removeprefix(VARIABLE_PREFIX), bare, 1, 0.8)
        if near or any(name.startswith(f"{variable(section)}_") for section in _sections()):
            raise ConfigError(
                f"variable {name}: no such setting",
                f"did you mean {bare[near[0]]}?" if near else f"known are: {', '.join(known)}",
            )


def _file(asked: str | None, environ: Mapping[str, str], directory: Path) -> Path | None:
    named = asked or environ.get(FILE_VARIABLE)
    if named is None:
        path = directory / DEFAULT_FILE
        # Unlike Path.is_file, it does not raise where this user may not look.
        return path if os.path.isfile(path) else None  # noqa: PTH113
    path, by = Path(named), "--config" if asked else FILE_VARIABLE
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{named}: no such configuration file", f"check the path given by {by}") from None
    except (OSError, ValueError) as err:
        raise ConfigError(f"{named}: {getattr(err, 'strerror', None) or err}", f"check the path given by {by}") from err
    if stat.S_ISDIR(mode):
        raise ConfigError(
            f"{named} is a folder, not a configuration file", f"give the file by {by}, such as {path / DEFAULT_FILE}"
        )
    return path


def _from_file(path: Path) -> Iterator[Setting]:
    try:
        text = path.read_text("utf-8")
        data = tomllib.loads(text)
    except OSError as err:
        raise ConfigError(f"{path}: {err.strerror}", "check that the file may be read") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path}: not UTF-8 at byte {err.start}", "save the file as UTF-8") from err
    except tomllib.TOMLDecodeError as err:
        raise ConfigError(f"{path}{_error_line(str(err))}: not TOML: {err}", "see https://toml.io") from err
    for keys, value in _leaves(data, ()):
        key = ".".join(keys)
        if value != {} or not _may_be_empty(key):
            setting = _checked(key, value, f"{path}:{_line(text, keys)}", False)
            refuse_secret(key, setting.value, setting.origin, "a configuration file is no place for it")
            yield setting


def _may_be_empty(key: str) -> bool:
    section, _, name = key.partition(".")
    if section not in _sections():
        return False
    return not name or _is_open(_sections()[section].get(name)) or _is_table(section, name)


def _error_line(message: str) -> str:
    found = re.search(r"line (\d+)", message)
    return f":{found[1]}" if found else ""


def _leaves(table: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every value with its keys; an unquoted `sasl.password = ...` is a table in TOML and one key to librdkafka."""
    for key, value in table.items():
        keys = (*above, key)
        if isinstance(value, dict) and value:
            yield from _leaves(value, keys)
        else:
            yield keys, value


def _line(text: str, keys: tuple[str, ...]) -> int:
    """The line on which the value of `keys` begins.

    tomllib tells no lines, so the file is read again by growing parts: the first part that parses and holds the keys
    ends with that value, which began behind the last shorter part that parses.
    """
    lines = text.splitlines()
    begin = 0
    for end in range(len(lines) + 1):
        try:
            node: Any = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for key in keys:
            node = node.get(key) if isinstance(node, dict) else None
        if node is not None:
            return begin + 1
        begin = end
    return begin
