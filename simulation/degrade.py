"""Spoils a trace as the field spoils what is seen of it: clocks that differ, events that get lost, silent devices.

In: a `Trace`, what is to be spoilt and a seed. Out: the streams that its devices would have published then. Each kind
of disturbance draws from the seed and the names of trace and device alone, so that together they do what each does by
itself; `loss_each` to what `loss` has left.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from simulation.polling import Polling, polled
from simulation.trace_columns import Trace
from simulation.trace_rows import StreamRows, TraceStreams, trace_streams
from simulation.trace_table import Ints
from simulation.truth import RootKey
from simulation.variants import Restorer, renamed, scaled
from stream import kinds
from stream.cascade import Cascade
from stream.errors import TraceError
from stream.facts import Fact, Flow
from stream.record import Events, picked
from stream.roster import StreamDown

CUMULATIVE = (kinds.PFC_PAUSED, kinds.PFC_FRAMES, kinds.ECN_MARKED, kinds.PORT_BYTES)
"""What devices count from their start on; a watermark is none of it."""
RANDOM_SWITCH = "random"
"""For `missing`: any switch that is no true root."""
ROOT_SWITCH = "root"
"""For `missing`: the switch of the largest true root; of a host, the one that its first port is linked to."""

# What is drawn for; a number, once given, stays, or the same seed would mean other runs.
_NAMES, _LOSS, _LOSS_EACH, _MISSING, _SKEW, _POLLS, _RESETS = range(7)


class Degradation(msgspec.Struct, frozen=True):
    """What to do to a trace, all of it at once; `text` is how it was asked for."""

    text: str
    skew_ns: int = 0
    """Standard deviation of the devices' clocks."""
    loss: float = 0.0
    """Probability that a pause event is lost at both ends."""
    loss_each: float = 0.0
    """Probability that a row of a pause event is lost, at each end by itself."""
    resets: float = 0.0
    """Probability that all counters of a device begin anew in a window: what they counted there is unknown."""
    missing: str = ""
    """A device that publishes nothing: its name, `RANDOM_SWITCH` or `ROOT_SWITCH`."""
    drop: frozenset[str] = frozenset()
    """Files to read the trace without (simulation.trace.OPTIONAL_FILES)."""
    renamed: bool = False
    shifted_ns: int = 0
    scaled: float = 1.0
    polling: Polling | None = None
    """How devices are polled, None where they log their pauses."""

    @property
    def is_random(self) -> bool:
        """Whether another seed gives another trace."""
        polls = self.polling is not None and self.polling.is_random
        return bool(
            self.skew_ns
            or self.loss
            or self.loss_each
            or self.resets
            or self.renamed
            or self.missing == RANDOM_SWITCH
            or polls
        )


UNDISTURBED = Degradation("undisturbed")


@dataclass(frozen=True, slots=True, eq=False)
class Degraded:
    """The streams, the device that is silent ("" for none), and the way back to the trace's own names and times."""

    streams: TraceStreams
    start_ns: int
    silent: str
    restorer: Restorer

    def restored(self, cascade: Cascade) -> Cascade:
        """The cascade as the judge, who knows the trace as it was, has to see it."""
        return self.restorer.restored(cascade, self.start_ns)


def degrade(
    trace: Trace,
    roots: Mapping[RootKey, float],
    degradation: Degradation,
    seed: int,
    *,
    source: str,
    epoch: str,
    start_ns: int,
) -> Degraded | None:
    """The trace, spoilt; None where no device is as `missing` wants it. `roots` are the true ones.

    What the files in `degradation.drop` hold must not have been read. Raises TraceError for a missing device that the
    trace does not have.
    """

    def draw(what: int) -> np.random.Generator:
        return np.random.default_rng([seed, what, zlib.crc32(trace.name.encode())])

    silent = _silent_device(trace, roots, degradation.missing, draw(_MISSING)) if degradation.missing else -1
    if silent is None:
        return None
    variant = scaled(trace, degradation.scaled)
    if degradation.polling is not None:
        variant = polled(variant, degradation.polling, draw(_POLLS))
    restorer = Restorer(factor=degradation.scaled)
    if degradation.renamed:
        variant, names = renamed(variant, draw(_NAMES))
        restorer = dataclasses.replace(restorer, names=names)
    start_ns += degradation.shifted_ns
    streams = trace_streams(variant, trace.name, source, epoch, start_ns)
    if degradation.loss:
        lossy = _without_events(variant, degradation.loss, draw(_LOSS))
        # The sources go on to the same end, whatever was lost last.
        streams = _with_rows(streams, trace_streams(lossy, trace.name, source, epoch, start_ns).rows)
    if silent >= 0:
        name = variant.devices[silent]
        streams = _with_rows(streams, tuple(rows for rows in streams.rows if rows.device != name))
    if degradation.resets:
        streams = _reset(streams, degradation.resets, draw(_RESETS))
    if degradation.loss_each:
        own_names = dict(zip(variant.devices, trace.devices, strict=True))

        def draw_of(device: str) -> np.random.Generator:
            return np.random.default_rng(
                [seed, _LOSS_EACH, zlib.crc32(trace.name.encode()), zlib.crc32(own_names[device].encode())]
            )

        streams = _without_rows(streams, degradation.loss_each, draw_of)
    if degradation.skew_ns:
        offsets_ns = np.rint(draw(_SKEW).normal(0, degradation.skew_ns, len(trace.devices))).astype(np.int64)
        streams = _skewed(streams, dict(zip(variant.devices, offsets_ns.tolist(), strict=True)))
    return Degraded(streams, start_ns, "" if silent < 0 else trace.devices[silent], restorer)


def _silent_device(trace: Trace, roots: Mapping[RootKey, float], missing: str, draw: np.random.Generator) -> int | None:
    """Index of the device that publishes nothing."""
    if missing == RANDOM_SWITCH:
        guilty = {device for device, _ in roots}
        others = [
            index
            for index, (device, role) in enumerate(zip(trace.devices, trace.roles, strict=True))
            if role == "switch" and device not in guilty
        ]
        return int(draw.choice(others)) if others else None
    if missing == ROOT_SWITCH:
        if not roots:
            return None
        device, _ = max(roots, key=lambda key: (roots[key], key))
        root = trace.devices.index(device)
        if trace.roles[root] == "switch":
            return root
        ports = trace.ports
        switch = int(ports.device[ports.peer[np.flatnonzero(ports.device == root)[0]]])
        return switch if trace.roles[switch] == "switch" else None
    if missing not in trace.devices:
        raise TraceError(
            f"{trace.name} has no device {missing!r} to be missing",
            f"name one of its devices.csv, {RANDOM_SWITCH} or {ROOT_SWITCH}",
        )
    return trace.devices.index(missing)


def _without_events(trace: Trace, probability: float, draw: np.random.Generator) -> Trace:
    """The trace with pause events lost as they were sent: neither end tells of them."""
    if trace.pauses is None:
        return trace
    pauses = trace.pauses
    kept = draw.random(len(pauses.time_ns)) >= probability
    columns = {field.name: getattr(pauses, field.name)[kept] for field in dataclasses.fields(pauses)}
    return dataclasses.replace(trace, pauses=dataclasses.replace(pauses, **columns))


def _without_rows(
    streams: TraceStreams, probability: float, draw_of: Callable[[str], np.random.Generator]
) -> TraceStreams:
    """The streams with rows of pause events lost, each by itself; counters go on, and nobody tells of the loss."""

    def thinned(events: Events, device: str) -> Events:
        is_event = np.isin(events["kind"], (kinds.PFC_XOFF, kinds.PFC_XON))
        return picked(events, ~(is_event & (draw_of(device).random(len(events)) < probability)))

    return _with_rows(
        streams,
        tuple(
            dataclasses.replace(rows, events=thinned(rows.events, rows.device)) if rows.topic == "pfc" else rows
            for rows in streams.rows
        ),
    )


def _reset(streams: TraceStreams, probability: float, draw: np.random.Generator) -> TraceStreams:
    """The streams with windows in which a device's counters began anew: its rows are there, without a value."""
    windows = sorted({(rows.device, end) for rows in streams.rows for end in _window_ends(rows).tolist()})
    hit = draw.random(len(windows)) < probability
    begun_anew = {window for window, is_hit in zip(windows, hit.tolist(), strict=True) if is_hit}

    def unknown(rows: StreamRows) -> StreamRows:
        ends = {end for device, end in begun_anew if device == rows.device}
        events = rows.events.copy()
        lost = np.isin(events["kind"], CUMULATIVE) & np.isin(events["time_ns"], sorted(ends))
        events["value"][lost] = events["extra"][lost] = kinds.UNKNOWN
        events["quality"][lost] |= kinds.RESET
        return dataclasses.replace(rows, events=events)

    return _with_rows(streams, tuple(map(unknown, streams.rows)))


def _window_ends(rows: StreamRows) -> Ints:
    """Ends of the windows of which the stream's counters tell."""
    ends: Ints = np.unique(rows.events["time_ns"][np.isin(rows.events["kind"], CUMULATIVE)])
    return ends


def _with_rows(streams: TraceStreams, rows: tuple[StreamRows, ...]) -> TraceStreams:
    """The same source with these rows; streams of devices without any are unknown to the roster."""
    there = {(stream.topic, stream.device) for stream in rows}
    up = tuple(told for told in streams.up.streams if not told.device or (told.topic, told.device) in there)
    downs = tuple(StreamDown(stream.topic, stream.device, len(stream.events) - 1) for stream in rows)
    return dataclasses.replace(
        streams,
        rows=rows,
        up=msgspec.structs.replace(streams.up, streams=up),
        down=msgspec.structs.replace(streams.down, streams=downs),
    )


def _skewed(streams: TraceStreams, offset_ns: Mapping[str, int]) -> TraceStreams:
    """The streams with each device's rows, their end and the opening of its flows by its own clock.

    Devices and links were known before: they hold from the first time that any clock shows.
    """
    from_ns = streams.from_ns + min(0, *offset_ns.values())

    def known(fact: Fact) -> Fact:
        begun_ns = fact.valid_from_ns + offset_ns.get(fact.src_device, 0) if isinstance(fact, Flow) else from_ns
        stream = msgspec.structs.replace(fact.stream, mark_ns=from_ns)
        return msgspec.structs.replace(fact, valid_from_ns=begun_ns, stream=stream)

    def moved(rows: StreamRows) -> StreamRows:
        events = rows.events.copy()
        events["time_ns"] += offset_ns[rows.device]
        return dataclasses.replace(rows, events=events)

    ends = [
        msgspec.structs.replace(
            streams.down,
            at_ns=streams.end_ns + offset_ns[device],
            streams=tuple(told for told in streams.down.streams if told.device == device),
        )
        for device in sorted({rows.device for rows in streams.rows}, key=lambda name: (offset_ns[name], name))
    ]
    return dataclasses.replace(
        streams,
        up=msgspec.structs.replace(streams.up, from_ns=from_ns),
        facts=tuple(map(known, streams.facts)),
        rows=tuple(map(moved, streams.rows)),
        downs_before=tuple(ends[:-1]),
        down=ends[-1],
        from_ns=from_ns,
        end_ns=ends[-1].at_ns,
    )
