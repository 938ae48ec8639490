"""The sections [probes] and [probes.NAME] of the configuration, and what an agent's settings follow from them.

In: values as the file, the environment and flags have them. Out: `AgentSettings`, or what is allowed instead.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from pausetrace.units import duration_words, parse_duration
from probes.table import BY_NAME, PROBES
from stream.errors import ConfigError
from stream.masking import Scalar

if TYPE_CHECKING:
    from probes.settings import AgentSettings

MIN_INTERVAL_NS, MAX_INTERVAL_NS = 10**7, 60 * 10**9
MIN_THRESHOLD_NS, MAX_THRESHOLD_NS = 1000, 3600 * 10**9

Duration = Annotated[str, msgspec.Meta(description='a duration such as "500ms" or "2s"')]
_Name = Annotated[
    str, msgspec.Meta(max_length=200, pattern=r"^[^/|]*$", description="a name without / and |, at most 200 characters")
]  # fmt: skip
_Fabric = Annotated[
    str, msgspec.Meta(min_length=1, max_length=200, pattern="^[^/|]+$", description="a name without / and |")
]  # fmt: skip
_Percent = Annotated[float, msgspec.Meta(gt=0, le=100, description="a number above 0, at most 100")]


class ProbeConfig(msgspec.Struct, frozen=True):
    """One probe: whether it runs, its window, and from where on a latency is told as an event of its own.

    The threshold, and how packets are looked at, are "" where the probe has none: then there is no such setting.
    """

    enable: bool = True
    interval: Duration = "1s"
    threshold: Duration = ""
    attach: str = ""


def _defaults() -> dict[str, ProbeConfig]:
    return {
        kind.name: ProbeConfig(
            kind.on,
            duration_words(kind.interval_ns),
            duration_words(kind.threshold_ns) if kind.threshold_ns else "",
            kind.attach,
        )
        for kind in PROBES
    }


class ProbesConfig(msgspec.Struct, frozen=True):
    """The probe agent of a host. `device` "" is the host's name; `interfaces` are names or patterns with commas.

    `cpu_percent` is what each probe may take of one core. `host_root` is where the host's /sys and /proc are.
    `rails` says which rail of the fabric an interface belongs to.
    """

    fabric: _Fabric = "fabric"
    device: _Name = ""
    interfaces: str = ""
    cpu_percent: _Percent = 2.0
    per_cpu: bool = False
    host_root: str = "/"
    rails: dict[str, Scalar] = {}
    each: dict[str, ProbeConfig] = msgspec.field(default_factory=_defaults)


def complaint(key: str, value: Scalar) -> str:
    """What is wrong with a value of [probes] or [probes.NAME] that is of the right type; "" if nothing is."""
    name = key.rpartition(".")[2]
    if name == "attach":
        from probes.attach import ATTACH_MODES

        return "" if value in ATTACH_MODES else f"is none of {', '.join(ATTACH_MODES)}"
    if name not in ("interval", "threshold"):
        return ""
    least_ns, most_ns = (
        (MIN_INTERVAL_NS, MAX_INTERVAL_NS) if name == "interval" else (MIN_THRESHOLD_NS, MAX_THRESHOLD_NS)
    )
    try:
        duration_ns = parse_duration(str(value))
    except ValueError as err:
        return str(err)
    if not least_ns <= duration_ns <= most_ns:
        return f"is not from {duration_words(least_ns)} to {duration_words(most_ns)}"
    return ""


def agent_settings(config: ProbesConfig, names: Collection[str] = ()) -> AgentSettings:
    """The settings of the agent; names of probes choose those alone. Raises ConfigError for a name that is none."""
    from probes.settings import AgentSettings, ProbeSettings

    chosen = _chosen(names)
    probes = {
        name: ProbeSettings(
            parse_duration(own.interval), parse_duration(own.threshold) if own.threshold else 0, own.attach
        )
        for name, own in config.each.items()
        if (name in chosen if names else own.enable)
    }
    if not probes:
        raise ConfigError("no probe is enabled", "name one, or set enable = true in its [probes.NAME]")
    device = config.device or socket.gethostname()
    interfaces = tuple(word for part in config.interfaces.split(",") if (word := part.strip()))
    return AgentSettings(
        config.fabric, device, probes, Path(config.host_root), interfaces,
        {name: str(rail) for name, rail in config.rails.items()}, config.per_cpu, config.cpu_percent / 100,
    )  # fmt: skip


def _chosen(names: Collection[str]) -> set[str]:
    chosen: set[str] = set()
    for name in names:
        found = [known for known in BY_NAME if fnmatch(known, name)]
        if not found:
            import difflib

            near = difflib.get_close_matches(name, BY_NAME, 1)
            hint = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(BY_NAME)}"
            raise ConfigError(f"no probe {name!r}", hint)
        chosen.update(found)
    return chosen
