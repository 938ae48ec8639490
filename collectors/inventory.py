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
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from collectors import profiles
from collectors.inventory_file import Files, Place, Table, Watched, read_files
from collectors.profile_intervals import metrics
from collectors.target import AUTO, Target
from collectors.target_settings import MAX_INTERVAL_S, NO_CONTROLS, OF_TLS, Settings, Told
from collectors.transport import Endpoint
from stream.errors import ConfigError

MAX_TARGETS = 100_000
MB = 1 << 20


class Collect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[collect]: the process itself."""

    fabric: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f\x7f]+\Z")]
    source: Annotated[str, Meta(max_length=150, pattern=NO_CONTROLS)] = ""
    workers: Annotated[int, Meta(ge=0, le=256)] = 0
    budget_mb: Annotated[int, Meta(ge=1, le=1 << 20)] = 128
    profiles: str = ""
    include: list[str] = []


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


def load(path: Path, environ: Mapping[str, str] = os.environ, watched: Watched | None = None) -> Inventory:
    """Reads and checks all of it; raises ConfigError with file, line and key.

    `watched` gets what it depends on also if it is wrong: a change of any of that may mend it.
    """
    watched = watched if watched is not None else Watched()
    files = read_files(path, watched)
    if "fabric" not in files.collect.settings:
        raise ConfigError(f"{path}: no fabric is named", 'begin with [collect] and fabric = "NAME"')
    collect = _checked(files.collect, files.collect.settings, Collect)
    folder = _profiles(files.collect, path.parent / collect.profiles) if collect.profiles else None
    _check_shared(files)
    if folder is not None:
        watched.includes.append((folder, "*.toml"))
    targets = [_target(name, table, files, environ) for name, table in files.targets.items()]
    if len(targets) > MAX_TARGETS:
        raise ConfigError(f"{path}: more than {MAX_TARGETS:,} targets", "share them out among several collectors")
    by_device: dict[str, str] = {}
    for target in targets:
        if (other := by_device.setdefault(target.device, target.name)) != target.name:
            place = files.targets[target.name].place
            raise place.error("device", f"{target.device!r} is the device of {other} too", "a device is one target's")
    digests = {target.profile: _digest(target, folder, files) for target in targets}
    targets = [msgspec.structs.replace(target, profile_digest=digests[target.profile]) for target in targets]
    for target in targets:
        _check_intervals(target, folder, files)
    return Inventory(
        collect.fabric, tuple(targets), tuple(dict.fromkeys(watched.files)), collect.source, collect.workers,
        collect.budget_mb * MB, folder, tuple(watched.includes),
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


def _digest(target: Target, folder: Path | None, files: Files) -> str:
    """Of the user's own files that the target's profile, which is checked, is read from; "" if there are none."""
    if target.profile != AUTO:
        own = profiles.own_files(target.profile, folder)
    else:
        own = sorted(folder.glob("*.toml")) if folder is not None else []
    files.watched.files += own
    try:
        for name in [target.profile] if target.profile != AUTO else [path.stem for path in own]:
            profiles.load(name, folder)
        return hashlib.sha256(b"".join(path.read_bytes() for path in own)).hexdigest() if own else ""
    except ConfigError as err:
        raise _place_of("profile", target, files).error("profile", err.message, err.next_step) from err
    except OSError as err:
        raise _place_of("profile", target, files).error("profile", str(err), "check its rights") from err


def _check_intervals(target: Target, folder: Path | None, files: Files) -> None:
    """Each is of a metric of its profile ("auto": of any), and none is shorter than its switches take."""
    if not target.intervals:
        return
    named = profiles.names(folder) if target.profile == AUTO else (target.profile,)
    least_ms = metrics(profiles.load(name, folder) for name in named)
    place = _place_of("intervals", target, files)
    for metric, interval_ms in target.intervals:
        if metric not in least_ms:
            near = difflib.get_close_matches(metric, least_ms, 1)
            raise place.error("intervals", f"nothing of metric {metric!r} is sampled", _known(near, sorted(least_ms)))
        if target.profile != AUTO and interval_ms < least_ms[metric]:
            least = f"{least_ms[metric]} ms"
            raise place.error("intervals", f"{metric}: {target.profile} takes {least} at least", "make it longer")


def _place_of(key: str, target: Target, files: Files) -> Place:
    """Where a setting of a target stands, or the target itself where it stands nowhere."""
    own = files.targets[target.name]
    group = files.groups.get(own.settings.get("group", files.defaults.settings.get("group", "")))
    tables = [table for table in (own, group, files.defaults) if table is not None]
    return next((table.place for table in tables if key in table.settings), own.place)


def _target(name: str, table: Table, files: Files, environ: Mapping[str, str]) -> Target:
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
    told = Told(_checked(table, merged, Settings), places, table.place)
    address = told.address(name)
    return Target(
        name=name,
        device=told.settings.device or name,
        endpoint=Endpoint(
            address=address,
            tls=told.tls(files.watched.files),
            metadata=told.metadata(environ, files.watched.files),
            connect_deadline_s=told.seconds("connect_deadline", 0.1, 300),
            keepalive_s=told.seconds("keepalive", 10, 86_400),
            max_message_bytes=told.settings.max_message_mb * MB,
        ),
        profile=told.profile(),
        role=told.settings.role,
        aliases=tuple(told.settings.aliases),
        encodings=told.encodings(),
        interval_ms=int(told.seconds("interval", 0, MAX_INTERVAL_S) * 1000),
        intervals=told.intervals(),
        subscriptions=told.subscriptions(),
        origin=told.settings.origin,
        prefix_target=told.settings.prefix_target,
        updates_only=told.settings.updates_only,
        first_deadline_s=told.seconds("first_deadline", 1, 3600),
        stall_s=told.seconds("stall", 0, 86_400),
    )


_WAYS = (("username", "username_env"), ("password_env", "password_file"), ("token_env", "token_file"))
"""Settings that are one thing told in several ways."""


def _replaced(key: str, value: object) -> tuple[str, ...]:
    """What a setting takes the place of where a layer below has said it in another way."""
    if key == "plaintext" and value is True:
        return OF_TLS
    return next((ways for ways in _WAYS if key in ways), ())


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
