"""What an inventory says of one target, all layers taken together, and what each setting means to a session.

In: merged settings and where each of them stands, the environment, files with secrets and certificates. Out: the parts
of a `Target`, or ConfigError with file, line and key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collectors.grpc_transport import split_address
from collectors.inventory_file import Place
from collectors.paths import parse_path
from collectors.plan import ENCODINGS
from collectors.profile_intervals import Intervals
from collectors.request import Asked
from collectors.target import AUTO
from collectors.transport import Tls
from stream.errors import ConfigError

DEFAULT_PORT = 9339
"""IANA's for gNMI/gNOI; many vendors have another."""
MAX_INTERVAL_S = 86_400

NO_CONTROLS = r"^[^\x00-\x1f\x7f]*\Z"
_Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_CONTROLS)]
_Port = Annotated[int, Meta(ge=1, le=65_535)]


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
    intervals: dict[_Name, str] = {}
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


OF_TLS = ("ca", "certificate", "key", "server_name", "insecure_skip_verify")
"""Settings that are of no use in plain text."""


class Told(msgspec.Struct):
    """A target's settings, and where each of them stands."""

    settings: Settings
    places: Mapping[str, Place]
    own: Place

    def error(self, key: str, message: str, next_step: str) -> ConfigError:
        """An error about one of them, with file, line and key."""
        return self.places.get(key, self.own).error(key, message, next_step)

    def address(self, name: str) -> str:
        """Where it listens: as it says, or by its name."""
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
        """A name, or the path of a file."""
        profile = self.settings.profile
        if profile.endswith(".toml"):
            return str(self.places["profile"].file.parent / profile)
        return profile

    def encodings(self) -> tuple[str, ...]:
        """Those that may be asked for, the best one first."""
        for encoding in self.settings.encodings:
            if encoding not in ENCODINGS:
                raise self.error("encodings", f"{encoding!r} is none", f"known are {', '.join(ENCODINGS)}")
        return tuple(self.settings.encodings)

    def seconds(self, key: str, least: float, most: float) -> float:
        """A time; 0 if it says none."""
        text = getattr(self.settings, key)
        if not text:
            return 0.0
        found = seconds_of(text)
        if found is None or not least <= found <= most:
            raise self.error(
                key, f"{text!r} is no time from {least:g} s to {most:g} s", 'write it like "10s" or "500ms"'
            )
        return found

    def intervals(self) -> Intervals:
        """By metric, how often the switch reads what its profile takes to be read as by default."""
        made = {}
        for metric, text in self.settings.intervals.items():
            found = seconds_of(text)
            if found is None or not 0 < found <= MAX_INTERVAL_S:
                raise self.error(
                    "intervals", f"{metric} = {text!r} is no time up to {MAX_INTERVAL_S:,} s", 'write it like "1s"'
                )
            made[metric] = int(found * 1000)
        return tuple(sorted(made.items()))

    def subscriptions(self) -> tuple[Asked, ...]:
        """What is asked for instead of the profile's own."""
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
        """How it is verified, None for plain text; `depends` gets the files, also one that is not there."""
        settings = self.settings
        if settings.plaintext:
            for key in OF_TLS:
                if getattr(settings, key):
                    raise self.error(key, "is of no use with plaintext = true", "leave one of them out")
            return None
        files = {key: self._path(key, getattr(settings, key), depends) for key in ("ca", "certificate", "key")}
        if bool(settings.certificate) != bool(settings.key):
            raise self.error("certificate", "certificate and key go together", "name both files")
        digest = "".join(self._pem(key, path) for key, path in files.items() if path is not None)
        return Tls(
            files["ca"], files["certificate"], files["key"], settings.server_name, settings.insecure_skip_verify, digest
        )

    def _pem(self, key: str, path: Path) -> str:
        """The digest of a PEM file's content."""
        try:
            content = path.read_bytes()
        except OSError as err:
            raise self.error(key, f"{path} cannot be read: {err.strerror}", "check its rights") from err
        if b"-----BEGIN" not in content:
            raise self.error(key, f"{path} is no PEM file", "it holds lines like -----BEGIN CERTIFICATE-----")
        return hashlib.sha256(content).hexdigest()

    def _path(self, key: str, text: str, depends: list[Path]) -> Path | None:
        if not text:
            return None
        path = self.places[key].file.parent / text
        # Also one that is not there yet: its coming is a change.
        depends.append(path)
        try:
            there = path.is_file()
        except (OSError, ValueError):
            there = False
        if not there:
            raise self.error(key, f"{path}: no such file", "check the path; it counts from this file's folder")
        return path

    def metadata(self, environ: Mapping[str, str], depends: list[Path]) -> tuple[tuple[str, str], ...]:
        """The secrets that are sent with each RPC; `depends` as with `tls`."""
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
        path = self._path(f"{name}_file", file, depends)
        assert path is not None
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
