"""The inventory: which targets there are and how each is reached, with defaults, groups and secrets filled in.

In: TOML files (docs/collectors.md), the environment, files with secrets. Out: an `Inventory` of frozen `Target`s.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from collectors import profiles
from collectors.grpc_transport import split_address
from collectors.inventory_file import Files, Place, Table, read_files
from collectors.paths import parse_path
from collectors.plan import ENCODINGS
from collectors.request import Asked
from collectors.target import AUTO, Target
from collectors.transport import Endpoint, Tls
from stream.errors import ConfigError

DEFAULT_PORT = 9339
"""IANA's for gNMI/gNOI; many vendors have another."""
MAX_TARGETS = 100_000
MAX_INTERVAL_S = 86_400
MB = 1 << 20

_NO_CONTROLS = r"^[^\x00-\x1f\x7f]*\Z"
_Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=_NO_CONTROLS)]
_Port = Annotated[int, Meta(ge=1, le=65_535)]


class Collect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[collect]: the process itself."""

    fabric: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f\x7f]+\Z")]
    source: Annotated[str, Meta(max_length=150, pattern=_NO_CONTROLS)] = ""
    workers: Annotated[int, Meta(ge=0, le=256)] = 0
    budget_mb: Annotated[int, Meta(ge=1, le=1 << 20)] = 128
    profiles: str = ""
    include: list[str] = []


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `subscriptions`: asked for instead of the profile's own."""

    path: Annotated[str, Meta(min_length=1, max_length=1000)]
    mode: str = "SAMPLE"
    interval: str = ""
    heartbeat: str = ""
    suppress_redundant: bool = False


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What [defaults], a group and a target may say; a target says besides `address`, `device`, `group`, `role`."""

    address: _Name = ""
    device: _Name = ""
    group: str = ""
    role: Literal["switch", "host"] = "switch"
    aliases: list[_Name] = []
    port: _Port = DEFAULT_PORT
    profile: _Name = AUTO
    encodings: list[str] = []
    interval: str = ""
    subscriptions: list[Subscribe] = []
    origin: str = ""
    prefix_target: str = ""
    updates_only: bool = False
    username: str = ""
    username_env: str = ""
    password_env: str = ""
    password_file: str = ""
    token_env: str = ""
    token_file: str = ""
    plaintext: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""
    insecure_skip_verify: bool = False
    connect_deadline: str = "10s"
    first_deadline: str = "30s"
    stall: str = ""
    keepalive: str = "60s"
    max_message_mb: Annotated[int, Meta(ge=1, le=64)] = 4


class Inventory(msgspec.Struct, frozen=True):
    """Everything at one time; `files` are what it depends on, to be watched with what `includes` mean."""

    fabric: str
    targets: tuple[Target, ...]
    files: tuple[Path, ...]
    source: str = ""
    workers: int = 0
    budget_bytes: int = 128 * MB
    profiles: Path | None = None
    includes: tuple[tuple[Path, str], ...] = ()

    def target(self, name: str) -> Target:
        """A target by its name or device; raises ConfigError."""
        for target in self.targets:
            if name in (target.name, target.device):
                return target
        near = difflib.get_close_matches(name, [target.name for target in self.targets], 1)
        raise ConfigError(
            f"no target {name!r}", f"did you mean {near[0]}?" if near else "`collect --dry-run` lists them"
        )


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Inventory:
    """Reads and checks all of it; raises ConfigError with file, line and key."""
    files = read_files(path)
    if "fabric" not in files.collect.settings:
        raise ConfigError(f"{path}: no fabric is named", 'begin with [collect] and fabric = "NAME"')
    collect = _checked(files.collect, files.collect.settings, Collect)
    folder = _profiles(files.collect, path.parent / collect.profiles) if collect.profiles else None
    _check_shared(files)
    depends = list(files.read)
    targets = [_target(name, table, files, environ, depends) for name, table in files.targets.items()]
    if len(targets) > MAX_TARGETS:
        raise ConfigError(f"{path}: more than {MAX_TARGETS:,} targets", "share them out among several collectors")
    by_device: dict[str, str] = {}
    for target in targets:
        if (other := by_device.setdefault(target.device, target.name)) != target.name:
            place = files.targets[target.name].place
            raise place.error("device", f"{target.device!r} is the device of {other} too", "a device is one target's")
    for target in {target.profile: target for target in targets if target.profile != AUTO}.values():
        _check_profile(target, folder, files)
    return Inventory(
        collect.fabric, tuple(targets), tuple(dict.fromkeys(depends)), collect.source, collect.workers,
        collect.budget_mb * MB, folder, tuple(files.includes),
    )  # fmt: skip


def _profiles(collect: Table, folder: Path) -> Path:
    if not folder.is_dir():
        raise collect.place.error("profiles", f"{folder}: no such folder", "check the path, or leave it out")
    return folder


def _check_shared(files: Files) -> None:
    """What is one target's own has no place where several have it from; a group is in no group."""
    for table, kept in ((files.defaults, ("address", "device")), *(
        (group, ("address", "device", "group")) for group in files.groups.values()
    )):  # fmt: skip
        for key in kept:
            if key in table.settings:
                raise table.place.error(key, "is each target's own", "set it in [targets.NAME]")


def _check_profile(target: Target, folder: Path | None, files: Files) -> None:
    try:
        profiles.load(target.profile, folder)
    except ConfigError as err:
        own = files.targets[target.name]
        group = files.groups.get(own.settings.get("group", files.defaults.settings.get("group", "")))
        tables = [table for table in (own, group, files.defaults) if table is not None]
        place = next(table.place for table in tables if "profile" in table.settings)
        raise place.error("profile", err.message, err.next_step) from err


def _target(name: str, table: Table, files: Files, environ: Mapping[str, str], depends: list[Path]) -> Target:
    layers = [files.defaults]
    if not re.fullmatch(r"[^\x00-\x1f\x7f]{1,200}", name):
        raise table.place.error("", "is no name of a target", "1 to 200 characters, none of them a control character")
    for layer in (files.defaults, table):
        _checked(layer, layer.settings, Settings)
    group = table.settings.get("group", files.defaults.settings.get("group", ""))
    if group:
        if group not in files.groups:
            near = difflib.get_close_matches(str(group), files.groups, 1)
            raise table.place.error("group", f"there is no group {group!r}", _known(near, files.groups))
        layers.append(files.groups[group])
    layers.append(table)
    merged: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for layer in layers:
        # Each layer by itself first, so that an error names the place where the value stands.
        _checked(layer, layer.settings, Settings)
        for key in layer.settings:
            for other in _replaced(key, layer.settings[key]):
                merged.pop(other, None)
        for key, value in layer.settings.items():
            merged[key], places[key] = value, layer.place
    told = _Told(_checked(table, merged, Settings), places, table.place)
    address = told.address(name)
    return Target(
        name=name,
        device=told.settings.device or name,
        endpoint=Endpoint(
            address=address,
            tls=told.tls(depends),
            metadata=told.metadata(environ, depends),
            connect_deadline_s=told.seconds("connect_deadline", 0.1, 300),
            keepalive_s=told.seconds("keepalive", 10, 86_400),
            max_message_bytes=told.settings.max_message_mb * MB,
        ),
        profile=told.profile(),
        role=told.settings.role,
        aliases=tuple(told.settings.aliases),
        encodings=told.encodings(),
        interval_ms=int(told.seconds("interval", 0, MAX_INTERVAL_S) * 1000),
        subscriptions=told.subscriptions(),
        origin=told.settings.origin,
        prefix_target=told.settings.prefix_target,
        updates_only=told.settings.updates_only,
        first_deadline_s=told.seconds("first_deadline", 1, 3600),
        stall_s=told.seconds("stall", 0, 86_400),
    )


_WAYS = (("username", "username_env"), ("password_env", "password_file"), ("token_env", "token_file"))
"""Settings that are one thing told in several ways."""
_OF_TLS = ("ca", "certificate", "key", "server_name", "insecure_skip_verify")


def _replaced(key: str, value: object) -> tuple[str, ...]:
    """What a setting takes the place of where a layer below has said it in another way."""
    if key == "plaintext" and value is True:
        return _OF_TLS
    return next((ways for ways in _WAYS if key in ways), ())


class _Told(msgspec.Struct):
    """A target's settings, and where each of them stands."""

    settings: Settings
    places: Mapping[str, Place]
    own: Place

    def error(self, key: str, message: str, next_step: str) -> ConfigError:
        return self.places.get(key, self.own).error(key, message, next_step)

    def address(self, name: str) -> str:
        address = self.settings.address or name
        if address.count(":") > 1 and "/" not in address and not address.startswith("["):
            address = f"[{address}]"
        if not re.search(r":\d+$", address.rpartition("]")[2] or address):
            address = f"{address}:{self.settings.port}"
        try:
            split_address(address)
        except ConfigError as err:
            raise self.error("address", err.message, err.next_step) from err
        return address

    def profile(self) -> str:
        profile = self.settings.profile
        if profile.endswith(".toml"):
            return str(self.places["profile"].file.parent / profile)
        return profile

    def encodings(self) -> tuple[str, ...]:
        for encoding in self.settings.encodings:
            if encoding not in ENCODINGS:
                raise self.error("encodings", f"{encoding!r} is none", f"known are {', '.join(ENCODINGS)}")
        return tuple(self.settings.encodings)

    def seconds(self, key: str, least: float, most: float) -> float:
        text = getattr(self.settings, key)
        if not text:
            return 0.0
        found = seconds_of(text)
        if found is None or not least <= found <= most:
            raise self.error(
                key, f"{text!r} is no time from {least:g} s to {most:g} s", 'write it like "10s" or "500ms"'
            )
        return found

    def subscriptions(self) -> tuple[Asked, ...]:
        made = []
        for entry in self.settings.subscriptions:
            if entry.mode not in ("SAMPLE", "ON_CHANGE", "TARGET_DEFINED"):
                raise self.error("subscriptions", f"{entry.mode!r} is no mode", "SAMPLE, ON_CHANGE or TARGET_DEFINED")
            try:
                parse_path(entry.path)
            except ConfigError as err:
                raise self.error("subscriptions", err.message, err.next_step) from err
            times = {key: seconds_of(text) if text else 0.0
                     for key, text in (("interval", entry.interval), ("heartbeat", entry.heartbeat))}  # fmt: skip
            for key, seconds in times.items():
                if seconds is None or seconds > MAX_INTERVAL_S:
                    raise self.error(
                        "subscriptions", f"{key} of {entry.path} is no time up to {MAX_INTERVAL_S:,} s",
                        'write it like "10s"',
                    )  # fmt: skip
            interval_s, heartbeat_s = times["interval"] or 0.0, times["heartbeat"] or 0.0
            made.append(Asked(
                entry.path, entry.mode, int(interval_s * 1000), int(heartbeat_s * 1000), entry.suppress_redundant,
            ))  # fmt: skip
        return tuple(made)

    def tls(self, depends: list[Path]) -> Tls | None:
        settings = self.settings
        if settings.plaintext:
            for key in _OF_TLS:
                if getattr(settings, key):
                    raise self.error(key, "is of no use with plaintext = true", "leave one of them out")
            return None
        files = {key: self.path(key, getattr(settings, key)) for key in ("ca", "certificate", "key")}
        if bool(settings.certificate) != bool(settings.key):
            raise self.error("certificate", "certificate and key go together", "name both files")
        depends += [path for path in files.values() if path is not None]
        digest = "".join(self.pem(key, path) for key, path in files.items() if path is not None)
        return Tls(
            files["ca"], files["certificate"], files["key"], settings.server_name, settings.insecure_skip_verify, digest
        )

    def pem(self, key: str, path: Path) -> str:
        """The digest of a PEM file's content."""
        try:
            content = path.read_bytes()
        except OSError as err:
            raise self.error(key, f"{path} cannot be read: {err.strerror}", "check its rights") from err
        if b"-----BEGIN" not in content:
            raise self.error(key, f"{path} is no PEM file", "it holds lines like -----BEGIN CERTIFICATE-----")
        return hashlib.sha256(content).hexdigest()

    def path(self, key: str, text: str) -> Path | None:
        if not text:
            return None
        path = self.places[key].file.parent / text
        try:
            there = path.is_file()
        except (OSError, ValueError):
            there = False
        if not there:
            raise self.error(key, f"{path}: no such file", "check the path; it counts from the inventory's folder")
        return path

    def metadata(self, environ: Mapping[str, str], depends: list[Path]) -> tuple[tuple[str, str], ...]:
        username = self._sendable("username", "it", self.settings.username)
        username = username or self._secret("username", environ, depends)
        password = self._secret("password", environ, depends)
        token = self._secret("token", environ, depends)
        if bool(username) != bool(password):
            missing = "password_file or password_env" if username else "username"
            raise self.own.error("", "a username and a password go together", f"set {missing}")
        made = [("username", username), ("password", password)] if username else []
        return (*made, *([("authorization", f"Bearer {token}")] if token else []))

    def _secret(self, name: str, environ: Mapping[str, str], depends: list[Path]) -> str:
        variable = getattr(self.settings, f"{name}_env")
        file = getattr(self.settings, f"{name}_file", "")
        if variable and file:
            raise self.error(f"{name}_env", f"{name}_file is set too", "leave one of them out")
        if variable:
            if not environ.get(variable):
                raise self.error(f"{name}_env", f"the variable {variable} is not set", f"set it to the {name}")
            return self._sendable(f"{name}_env", f"the variable {variable}", environ[variable])
        if not file:
            return ""
        path = self.path(f"{name}_file", file)
        assert path is not None
        depends.append(path)
        try:
            secret = path.read_text("utf-8").strip("\r\n")
        except (OSError, UnicodeDecodeError) as err:
            raise self.error(f"{name}_file", f"{path} cannot be read", "check its rights and that it is text") from err
        if not secret or "\n" in secret:
            raise self.error(f"{name}_file", f"{path} holds no single line", f"put the {name} alone into it")
        return self._sendable(f"{name}_file", str(path), secret)

    def _sendable(self, key: str, where: str, text: str) -> str:
        """What may stand in gRPC metadata; raises ConfigError without the text."""
        if not _SENDABLE.fullmatch(text):
            raise self.error(key, f"{where} has a character that gRPC does not send", "printable ASCII alone")
        return text


_SENDABLE = re.compile(r"[ -~]*")
"""Values of metadata (gRPC over HTTP/2, ASCII-Value)."""


def seconds_of(text: str) -> float | None:
    """Seconds of a text such as 500ms, 10s, 1.5s or 2m; None if it is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)", text)
    return float(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[found[2]] if found else None


_SECRETS = {"password": "password_file or password_env", "token": "token_file or token_env"}


def _checked(table: Table, settings: Mapping[str, Any], of: type[Any]) -> Any:
    fields = {field.name: field for field in msgspec.structs.fields(of)}
    for key in settings:
        if key in _SECRETS and key not in fields:
            raise table.place.error(key, "a secret has no place in an inventory", f"set {_SECRETS[key]}")
        if key not in fields:
            raise table.place.error(
                key, "there is no such setting", _known(difflib.get_close_matches(key, fields, 1), fields)
            )
    try:
        return msgspec.convert(dict(settings), of)
    except msgspec.ValidationError as err:
        found = re.search(r"at `\$\.([a-z_]+)", str(err))
        message = str(err).partition(" - at ")[0]
        raise table.place.error(found[1] if found else "", message, "docs/collectors.md lists all settings") from err


def _known(near: list[str], known: Any) -> str:
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(known)}" if known else "there are none"
