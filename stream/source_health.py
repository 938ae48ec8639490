"""How well sources tell: completeness and freshness of each source, and coverage of the fabric, for people.

In: what a worker reads, and what correlate knows of the fabric. Out: `SourceHealth` and `FabricHealth`, JSON on the
health topic. Rows are counted since the worker took a stream over: nothing of this is state that a restart keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np

from stream import kinds
from stream.agent_health import AgentHealth
from stream.batch import MARK_END, Batch, StreamKey
from stream.messages import Item
from stream.ranges import Count
from stream.roster import SourceDown

PPM = 1_000_000
SILENT_S = 10.0
"""An idle stream sends a value every second: one that has sent none for so long has gone, or Kafka has."""
QUIET_S = 5.0
"""While others are heard it is not Kafka: a stream that has missed so many of its values has gone."""
BEHIND_NS = 10_000_000_000
"""As far behind the fabric's newest mark a source holds up all others, until nobody waits for it."""
MAX_NAMES = 20
OK, BEHIND, LOSING, SILENT, ENDED = "ok", "behind", "losing", "silent", "ended"
WORST_FIRST = (SILENT, LOSING, BEHIND, OK, ENDED)


class SourceHealth(msgspec.Struct, frozen=True, tag_field="what", tag="source"):
    """One source, as far as the teller reads it.

    `completeness_ppm`: of the rows that it had, those that came. `behind_ns`: how far its slowest stream's mark is
    behind the newest of the fabric. `devices_with_gaps`: of which a counter began anew or was not read since the last
    time. `silent`: devices whose streams have sent nothing for ten seconds, or for five while others did.
    """

    fabric: str
    source: str
    teller: str
    time_ns: Count
    state: str
    streams: Count
    rows: Count
    lost_rows: Count
    completeness_ppm: Count
    mark_ns: int
    behind_ns: Count
    devices_with_gaps: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


class FabricHealth(msgspec.Struct, frozen=True, tag_field="what", tag="fabric"):
    """What is seen of a fabric: its switches, those that tell something now, and what has been told of any.

    `told`: by kind of evidence (depth, bytes, ecn), how many switches have told it since the fabric's facts are
    known. `silent`: switches of which no stream is up, `silent_count` in all.
    """

    fabric: str
    teller: str
    time_ns: Count
    state: str
    switches: Count
    reporting: Count
    coverage_ppm: Count
    told: dict[str, int]
    streams_up: Count
    streams_suspended: Count
    silent_count: Count
    silent: tuple[str, ...] = ()


Health = SourceHealth | FabricHealth | AgentHealth
"""Every value of the health topic."""


class Coverage(NamedTuple):
    """What a step knows of a fabric: switches, those with a stream that is up, evidence by kind, and its streams."""

    switches: frozenset[str]
    reporting: frozenset[str]
    told: Mapping[str, int]
    streams_up: int
    streams_suspended: int


@runtime_checkable
class Covering(Protocol):
    """A step that knows the fabric."""

    def coverage(self) -> Mapping[str, Coverage]:
        """Of each fabric."""
        ...


@dataclass(slots=True)
class _Seen:
    """One stream."""

    mark_ns: int
    heard_s: float
    next_seq: int | None = None
    rows: int = 0
    gaps: bool = False
    """Since the last time that it was told of."""
    lost_at_source: int = 0
    lost_before: int = 0
    """What the source had lost before it was first read here."""
    lost_on_the_way: int = 0

    @property
    def lost(self) -> int:
        return self.lost_at_source - self.lost_before + self.lost_on_the_way


class SourceTallies:
    """The streams of rows that a worker reads."""

    def __init__(self, teller: str) -> None:
        self._teller = teller
        self._seen: dict[StreamKey, _Seen] = {}
        self._lost_before: Counter[tuple[str, str]] = Counter()
        self._ended: dict[tuple[str, str], SourceHealth] = {}
        """Sources that said that they end and have not been told of since, as they were then."""
        self._over: dict[tuple[str, str], tuple[int, int]] = {}
        """Rows that came and were lost, of streams that have ended of sources that have not."""

    def took(self, items: Iterable[Item], now_s: float) -> None:
        """These were read."""
        for item in items:
            # What detect makes of a source's rows says less of it than the rows themselves.
            if isinstance(item, Batch) and item.stream.topic != "episode":
                self._took_rows(item, now_s)
            elif isinstance(item, SourceDown):
                for stream in item.stream_keys():
                    self._end(stream)

    def _took_rows(self, batch: Batch, now_s: float) -> None:
        seen = self._seen.get(batch.stream)
        if batch.mark_ns == MARK_END:
            self._end(batch.stream)
            return
        if seen is None:
            self._ended.pop((batch.stream.fabric, batch.stream.source), None)
            seen = self._seen[batch.stream] = _Seen(batch.mark_ns, now_s, lost_before=batch.lost)
        rows = len(batch.events)
        if seen.next_seq is not None and batch.seq > seen.next_seq:
            seen.lost_on_the_way += batch.seq - seen.next_seq
        if seen.next_seq is None or batch.next_seq > seen.next_seq:
            seen.rows += rows if seen.next_seq is None else min(rows, batch.next_seq - seen.next_seq)
        seen.next_seq = max(seen.next_seq or 0, batch.next_seq)
        seen.lost_at_source = max(seen.lost_at_source, batch.lost)
        seen.mark_ns, seen.heard_s = max(seen.mark_ns, batch.mark_ns), now_s
        seen.gaps = seen.gaps or bool(rows and np.any(batch.events["quality"] & kinds.GAP))

    def _end(self, stream: StreamKey) -> None:
        """A stream says that nothing follows; with the last of its streams a source has ended."""
        seen = self._seen.pop(stream, None)
        if seen is None:
            return
        name = stream.fabric, stream.source
        rows, lost = self._over.get(name, (0, 0))
        rows, lost = rows + seen.rows, lost + seen.lost
        self._over[name] = rows, lost
        if not any((other.fabric, other.source) == name for other in self._seen):
            del self._over[name]
            complete_ppm = share_ppm(rows, rows + lost)
            self._ended[name] = SourceHealth(
                *name, self._teller, 0, ENDED, 0, rows, lost, complete_ppm, seen.mark_ns, 0
            )

    def gone(self, now_s: float) -> frozenset[tuple[str, str, str]]:
        """Fabric, source and device of the streams that are silent, and the sources that have ended since told."""
        silent = self._silent(now_s)
        ended = {(*name, "") for name in self._ended}
        return frozenset({(stream.fabric, stream.source, stream.device) for stream in silent} | ended)

    def _silent(self, now_s: float) -> list[StreamKey]:
        newest_s = max((seen.heard_s for seen in self._seen.values()), default=now_s)
        before_s = max(now_s - SILENT_S, newest_s - QUIET_S)
        return [stream for stream, seen in self._seen.items() if seen.heard_s < before_s]

    def forget(self, gone: Callable[[StreamKey], bool]) -> None:
        """Another worker reads these streams now."""
        for stream in [stream for stream in self._seen if gone(stream)]:
            del self._seen[stream]

    def told(self, now_ns: int, now_s: float) -> list[SourceHealth]:
        """Every source that is read, by name, and those that have ended since they were last told of.

        Begins the time anew in which losses and gaps are new.
        """
        silent_streams = set(self._silent(now_s))
        newest: dict[str, int] = {}
        sources: dict[tuple[str, str], list[tuple[StreamKey, _Seen]]] = {}
        for stream, seen in self._seen.items():
            newest[stream.fabric] = max(newest.get(stream.fabric, 0), seen.mark_ns)
            sources.setdefault((stream.fabric, stream.source), []).append((stream, seen))
        found = []
        for (fabric, source), of in sorted(sources.items()):
            rows, lost = sum(seen.rows for _, seen in of), sum(seen.lost for _, seen in of)
            mark_ns = min(seen.mark_ns for _, seen in of)
            behind_ns = newest[fabric] - mark_ns
            silent = {stream.device for stream, _ in of if stream in silent_streams}
            state = OK
            if silent:
                state = SILENT
            elif lost > self._lost_before[fabric, source]:
                state = LOSING
            elif behind_ns > BEHIND_NS:
                state = BEHIND
            gaps = sorted({stream.device for stream, seen in of if seen.gaps})
            found.append(
                SourceHealth(
                    fabric, source, self._teller, now_ns, state, len(of), rows, lost, share_ppm(rows, rows + lost),
                    mark_ns, behind_ns, tuple(gaps[:MAX_NAMES]), tuple(sorted(silent)[:MAX_NAMES]),
                )
            )  # fmt: skip
            self._lost_before[fabric, source] = lost
            for _, seen in of:
                seen.gaps = False
        self._lost_before = Counter({name: self._lost_before[name] for name in sources})
        found += [msgspec.structs.replace(told, time_ns=now_ns) for _, told in sorted(self._ended.items())]
        self._ended = {}
        return found


def fabric_health(fabric: str, of: Coverage, teller: str, now_ns: int) -> FabricHealth:
    """What is seen of a fabric."""
    silent = sorted(of.switches - of.reporting)
    reporting = len(of.switches) - len(silent)
    return FabricHealth(
        fabric, teller, now_ns, SILENT if silent else BEHIND if of.streams_suspended else OK, len(of.switches),
        reporting, share_ppm(reporting, len(of.switches)), dict(of.told), of.streams_up, of.streams_suspended,
        len(silent), tuple(silent[:MAX_NAMES]),
    )  # fmt: skip


def share_ppm(part: int, whole: int) -> int:
    """A part of nothing is all of it."""
    return PPM * part // whole if whole else PPM
