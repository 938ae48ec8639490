"""A vendor profile: what one sort of switch is asked for, and what each leaf of its answers means.

The tables of its TOML file as frozen structs (docs/profiles.md has them for people; profile_file.py reads them). A
profile is data: a new vendor is a new file in profiles/ or in a user's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from collectors.pattern import Pattern
from stream.kinds import BY_NAME, LINK_ERROR_CODES, SIDES, Kind

LAYOUT = "docs/profiles.md describes profiles"

Semantics = Literal[
    "counter", "gauge", "peak_since_read", "peak_over_window", "setting", "state", "found", "restored", "stopped"
]
"""counter: counts up. gauge: now. peak_since_read: highest since somebody last read it, which clears it.
peak_over_window: highest of the last `window_ms`. setting: configured, joins the rows of its queue. The PFC watchdog's:
state (1 or true = storm), found and restored (counters of storms found and queues given back). stopped: whether the
queue is stopped now (1 or true); each change becomes a PFC_XOFF or PFC_XON: for leaves that tell every change."""
Unit = Literal["frames", "packets", "bytes", "cells", "ns", "us", "ms", "s", "quanta", "events", "flag"]
Side = Literal["none", "rx", "tx"]
Status = Literal["verified", "doc", "secondary", "unverified"]
"""How far the row's path is known to exist: read in public YANG or source, in the vendor's documentation, in others'
words, or in none of these."""
Mode = Literal["SAMPLE", "ON_CHANGE", "TARGET_DEFINED"]
Encoding = Literal["PROTO", "JSON_IETF", "JSON", "BYTES", "ASCII"]
Says = Literal[
    "device_name", "device_mac", "port_alias", "port_mac", "port_speed", "port_lag", "port_ip",
    "peer_device", "peer_chassis", "peer_port", "dscp_class", "class_queue", "class_group", "priority_queue",
    "term_dscp", "term_class", "class_name_queue",
]  # fmt: skip
"""What a leaf tells of the device, a port, the neighbour of a port, or the sorting of packets (device_facts.py)."""
SpeedUnit = Literal["Mb/s", "kb/s", "b/s", "Gb/s"]


Ms = Annotated[int, Meta(ge=0, le=86_400_000)]
OneOrMore = Annotated[int, Meta(ge=1, le=1 << 31)]
Words = Annotated[str, Meta(min_length=1, max_length=200)]
Path = Annotated[str, Meta(min_length=2, max_length=1000)]
Paths = Path | Annotated[tuple[Path, ...], Meta(min_length=1)]
ProfileName = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]


class Subscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One path to subscribe to. `interval_ms` 0 is the inventory's own; `min_interval_ms` is what the vendor takes.

    `topics` are those of its rows, where they come at an interval of their own: () is all of the profile's. One that is
    `by_default` is left out where the inventory says another interval of its metric: then others bring more.
    """

    path: Path
    mode: Mode = "SAMPLE"
    interval_ms: Ms = 0
    min_interval_ms: Ms = 0
    heartbeat_ms: Ms = 0
    suppress_redundant: bool = False
    origin: str = ""
    target: str = ""
    metric: str = ""
    alternatives: tuple[Path, ...] = ()
    topics: tuple[str, ...] = ()
    by_default: bool = False
    optional: bool = True


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one leaf means: the measures of records that it becomes (`into`), and how."""

    name: Words
    metric: Words
    path: Paths
    into: Annotated[tuple[str, ...], Meta(min_length=1)]
    unit: Unit
    semantics: Semantics
    status: Status
    side: Side = "none"
    bits: Annotated[int, Meta(ge=1, le=64)] = 64
    scale: tuple[OneOrMore, OneOrMore] = (1, 1)
    """Numerator and denominator of what one count of the leaf is in its unit; what is left over counts as a whole."""
    window_ms: Ms = 0
    window_of: str = ""
    """A metric whose interval is the window, where the inventory says that interval."""
    code: str = ""
    values: Mapping[str, int] = {}
    """Of a leaf that is a word: the number of each."""
    quality: Literal["", "EXACT", "ESTIMATED"] = ""
    """EXACT: the leaf tells every change (`stopped`). ESTIMATED: it stands for what the measure says."""
    alone: bool = False
    """A second measure makes no row without its first one, unless this is true."""
    port: str = ""
    """Where the path names no port: the port that the leaf speaks of."""
    note: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The patterns of the leaf."""
        return (self.path,) if isinstance(self.path, str) else self.path


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A leaf that tells of the device rather than of what happens in it."""

    path: Paths
    says: Says
    status: Status
    unit: SpeedUnit = "Mb/s"
    note: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The patterns of the leaf."""
        return (self.path,) if isinstance(self.path, str) else self.path


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Leaves of one container that make one event together, as a congestion record does: `path` is the container's.

    `port`, `priority` or `queue`, `value`, `extra` and `span` are names of leaves below it. The event's time is the
    notification's. Leaves keep their values from one record to the next only within one notification.
    """

    name: Words
    metric: Words
    path: Path
    into: str
    port: Words
    value: Words
    unit: Unit
    status: Status
    extra: str = ""
    priority: str = ""
    queue: str = ""
    span: str = ""
    span_unit: Literal["ns", "us", "ms", "s"] = "ns"
    side: Side = "none"
    scale: tuple[OneOrMore, OneOrMore] = (1, 1)
    note: str = ""


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By what a device's Capabilities show that it is of this sort; patterns as of file names, `*` and `?`."""

    models: tuple[str, ...] = ()
    organizations: tuple[str, ...] = ()
    rank: int = 0
    """Of several profiles that fit, the one of the highest rank is taken."""


class QueueNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of a queue by its name: by the whole name, else by the first regular expression, whose group it is."""

    numbers: Mapping[str, Annotated[int, Meta(ge=0, le=255)]] = {}
    patterns: tuple[str, ...] = ()


class Metric(NamedTuple):
    """What a profile can measure, for people."""

    name: str
    kinds: tuple[str, ...]
    paths: tuple[str, ...]
    unit: str
    semantics: str


class Measured(NamedTuple):
    """One of a row's targets: a kind, and whether it is its first (0) or second (1) measure."""

    kind: Kind
    half: int


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One profile. `origin` and `target` are what the prefix of its subscriptions says; "" = nothing."""

    name: ProfileName
    title: Words
    extends: str = ""
    """Name of a profile whose subscriptions, rows, facts and records this one has too, where it does not say them anew
    (rows and records by name, subscriptions and facts by path)."""
    without: tuple[str, ...] = ()
    """Rows of that profile by name (`*` is any text), and subscriptions by path, that this one leaves out."""
    origin: str = ""
    target: str = ""
    encodings: Annotated[tuple[Encoding, ...], Meta(min_length=1)] = ("PROTO", "JSON_IETF", "JSON")
    stamp_error_ms: Ms = 1000
    """A count may have been taken so long before the time that it is told with: the agent polls its chip."""
    max_speed_mbps: OneOrMore = 1_600_000
    """Of a port whose speed is not known: no counter goes faster."""
    modules: bool = True
    """Names of elements may have the prefix of a YANG module, which says nothing."""
    match: Match = Match()
    queue_names: QueueNames = QueueNames()
    subscribe: tuple[Subscription, ...] = ()
    row: tuple[Row, ...] = ()
    fact: tuple[Fact, ...] = ()
    record: tuple[Record, ...] = ()

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """What to ask for."""
        return self.subscribe

    @property
    def encoding(self) -> str:
        """The encoding that is asked for if the device has it."""
        return self.encodings[0]

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """What can be measured: rows gathered by the name of their metric."""
        rows: dict[str, list[Row | Record]] = {}
        told: list[Row | Record] = [*self.row, *self.record]
        for row in told:
            rows.setdefault(row.metric, []).append(row)
        return tuple(_metric(name, gathered) for name, gathered in rows.items())

    @cached_property
    def list_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys of the lists on the way to its leaves, by which entries of JSON arrays are told apart."""
        texts = [path for row in self.row for path in row.paths]
        texts += [path for fact in self.fact for path in fact.paths]
        texts += [record.path for record in self.record]
        return {name: keys for text in texts for name, keys in Pattern(text).list_keys().items()}

    def subscription_of(self, row: Row) -> Subscription | None:
        """The subscription that brings a row's leaf: of those whose names are all on the way to it the longest."""
        best: tuple[int, Subscription] | None = None
        for each in self.subscribe:
            for path in (each.path, *each.alternatives):
                asked = Pattern(path).names
                brings = any(_on_the_way(asked, Pattern(text).names) for text in row.paths)
                if brings and (best is None or len(asked) > best[0]):
                    best = len(asked), each
        return None if best is None else best[1]

    def topics(self) -> tuple[str, ...]:
        """The packed topics that its rows can go on."""
        kinds = [measured.kind for row in self.row for measured in measures(row.into)]
        kinds += [measured.kind for record in self.record for measured in measures((record.into,))]
        return tuple(dict.fromkeys(kind.topic for kind in kinds))


def measures(into: Sequence[str]) -> list[Measured]:
    """The measures that these words name (`PFC_FRAMES.frames`). Raises ValueError for what is none."""
    found = []
    for word in into:
        kind_name, _, measure = word.partition(".")
        kind = BY_NAME.get(kind_name)
        names = () if kind is None else tuple(filter(None, (kind.value.name, kind.extra.name)))
        if kind is None or kind.topic not in ("pfc", "ecn", "queue"):
            known = [each.name for each in BY_NAME.values() if each.topic in ("pfc", "ecn", "queue")]
            raise ValueError(f"{word!r} names no kind that a switch reports; those are {', '.join(known)}")
        if measure not in names:
            raise ValueError(f"{kind_name} has no measure {measure!r}; it has {', '.join(names)}")
        found.append(Measured(kind, int(measure != kind.value.name)))
    return found


def _on_the_way(asked: tuple[str, ...], told: tuple[str, ...]) -> bool:
    """Whether all these names are among those of a leaf, in this order."""
    left = iter(told)
    return all(name in left for name in asked)


def _metric(name: str, rows: list[Row | Record]) -> Metric:
    def said(words: Sequence[str]) -> str:
        return ", ".join(dict.fromkeys(words))

    kinds: list[str] = []
    paths: list[str] = []
    for row in rows:
        into = row.into if isinstance(row, Row) else (row.into,)
        kinds += [word.partition(".")[0] for word in into]
        paths += row.paths if isinstance(row, Row) else (row.path,)
    semantics = [row.semantics if isinstance(row, Row) else "event" for row in rows]
    return Metric(
        name,
        tuple(dict.fromkeys(kinds)),
        tuple(dict.fromkeys(paths)),
        said([row.unit for row in rows]),
        said(semantics),
    )


SIDE_CODES: Mapping[str, int] = {name: code for code, name in enumerate(SIDES)}
ERROR_CODES: Mapping[str, int] = {name: code for code, name in LINK_ERROR_CODES.items()}
