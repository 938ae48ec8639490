"""How well a fabric is seen, from the health topic: completeness, freshness and coverage of sources, and probes.

In: values of the health topic as they came. Out: `Status`: the newest of each that is not too old, several tellers of
one source put together.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pausetrace.reader import Reader
from stream.agent_health import AgentHealth
from stream.kafka_settings import KafkaSettings
from stream.source_health import (
    ENDED,
    MAX_NAMES,
    OK,
    SILENT,
    WORST_FIRST,
    FabricHealth,
    Health,
    SourceHealth,
    share_ppm,
)

STALE_NS = 60_000_000_000
"""Who told of its sources ten seconds apart and has not for a minute is gone."""
ENDED_NS = 3_600_000_000_000
"""For so long a source that said that it ends is shown as ended."""


class SourceStatus(msgspec.Struct, frozen=True):
    """One source: rows that came, those lost, how far it is behind the others, and how long ago that was told."""

    fabric: str
    source: str
    state: str
    streams: int
    rows: int
    lost_rows: int
    completeness_ppm: int
    behind_ns: int
    told_ago_ns: int
    devices_with_gaps: tuple[str, ...]
    silent: tuple[str, ...]


class HostStatus(msgspec.Struct, frozen=True):
    """One host's probes."""

    fabric: str
    device: str
    state: str
    told_ago_ns: int
    troubles: tuple[str, ...]
    """Probes that are neither running nor absent, with the reason."""


class Status(msgspec.Struct, frozen=True):
    """What the health topic says now. `gone`: tellers from which nothing has come for a minute."""

    fabrics: tuple[FabricHealth, ...]
    sources: tuple[SourceStatus, ...]
    hosts: tuple[HostStatus, ...]
    gone: tuple[str, ...]

    @property
    def troubled(self) -> bool:
        """Whether somebody should look."""
        states = [
            *(of.state for of in self.fabrics),
            *(of.state for of in self.sources),
            *(of.state for of in self.hosts),
        ]
        return bool(self.gone) or any(state not in (OK, ENDED) for state in states)


_told = msgspec.json.Decoder(Health)


def health_values(settings: KafkaSettings) -> list[bytes]:
    """All values of the health topic up to its present end."""
    values = []
    with Reader(settings, ["health"], "earliest") as reader:
        end = reader.end()
        while not reader.has_reached(end):
            values += [read.received.value for read in reader.read() if read.received.value is not None]
    return values


def status_of(values: Iterable[bytes], now_ns: int) -> Status:
    """The status at a time; values that are no health are passed over."""
    fabrics: dict[str, FabricHealth] = {}
    sources: dict[tuple[str, str, str], SourceHealth] = {}
    hosts: dict[tuple[str, str], AgentHealth] = {}
    for value in values:
        told = _decoded(value)
        if isinstance(told, FabricHealth):
            if told.fabric not in fabrics or told.time_ns >= fabrics[told.fabric].time_ns:
                fabrics[told.fabric] = told
        elif isinstance(told, SourceHealth):
            name = (told.fabric, told.source, told.teller)
            if name not in sources or told.time_ns >= sources[name].time_ns:
                sources[name] = told
        elif told is not None:
            host = (told.fabric, told.device)
            if host not in hosts or told.time_ns >= hosts[host].time_ns:
                hosts[host] = told
    # A source whose streams another reads, or that has ended, is told of no more, while its teller goes on.
    last_ns: dict[str, int] = {}
    newest: list[SourceHealth | FabricHealth] = [*sources.values(), *fabrics.values()]
    for each in newest:
        last_ns[each.teller] = max(last_ns.get(each.teller, 0), each.time_ns)
    fresh = {teller for teller, time_ns in last_ns.items() if now_ns - time_ns <= STALE_NS}
    together: dict[tuple[str, str], list[SourceHealth]] = {}
    for (fabric, source, teller), told in sorted(sources.items()):
        kept_ns = ENDED_NS if told.state == ENDED else STALE_NS // 2
        if teller in fresh and last_ns[teller] - told.time_ns <= kept_ns:
            together.setdefault((fabric, source), []).append(told)
    return Status(
        tuple(told for _, told in sorted(fabrics.items()) if told.teller in fresh),
        tuple(_source(parts, now_ns) for parts in together.values()),
        tuple(_host(told, now_ns) for _, told in sorted(hosts.items())),
        tuple(sorted(last_ns.keys() - fresh)),
    )


def _source(parts: list[SourceHealth], now_ns: int) -> SourceStatus:
    rows, lost = sum(part.rows for part in parts), sum(part.lost_rows for part in parts)
    return SourceStatus(
        parts[0].fabric,
        parts[0].source,
        min((part.state for part in parts), key=WORST_FIRST.index),
        sum(part.streams for part in parts),
        rows,
        lost,
        share_ppm(rows, rows + lost),
        max(part.behind_ns for part in parts),
        max(0, now_ns - min(part.time_ns for part in parts)),
        tuple(sorted({name for part in parts for name in part.devices_with_gaps})[:MAX_NAMES]),
        tuple(sorted({name for part in parts for name in part.silent})[:MAX_NAMES]),
    )


def _host(told: AgentHealth, now_ns: int) -> HostStatus:
    ago_ns = max(0, now_ns - told.time_ns)
    troubles = tuple(
        f"{probe.probe} {probe.state}{f': {probe.reason}' if probe.reason else ''}"
        for probe in told.probes
        if probe.state not in ("starting", "running", "unavailable", "stopped")
    )
    return HostStatus(told.fabric, told.device, SILENT if ago_ns > STALE_NS else told.state, ago_ns, troubles)


def _decoded(value: bytes) -> Health | None:
    try:
        told: Health = _told.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return told if not isinstance(told, SourceHealth) or told.state in WORST_FIRST else None
