"""Decoded updates of all targets of a worker become rows of the record and facts.

In: columns of the decoder, the target of each message, and its time as the session judged it. Out: `Made`: rows by
target and topic, and the facts that changed. What a device sends never raises: what makes no sense is counted and left
out. Rows of all targets of one profile are read by array look-ups by path id; only facts, events and deletes, of which
there are few, are read one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from collectors import values, watchdog
from collectors.container_events import RecordRow, row_of
from collectors.device_facts import DeviceFacts, neighbour_of
from collectors.fleet import NO_SUCH, Fleet, Series
from collectors.joiner import Joined, Joiner
from collectors.path_map import NOT_SEEN, NOTHING, SLOW, STATE, STOPPED, PathMap, Paths
from collectors.profile import Profile
from collectors.readings import Readings, measure
from collectors.wire import DELETE, JSON, LEAFLIST, MALFORMED_JSON, SYNC, UPDATE, Columns
from stream.counters import Counters
from stream.facts import Device, Link, PriorityMaps
from stream.kinds import BY_CODE, BY_NAME, INT64_MAX, PFC_XOFF, UNKNOWN
from stream.record import MAX_TIME_NS, Events, empty_events, joined, picked

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

_TOPICS = tuple(dict.fromkeys(kind.topic for kind in BY_NAME.values() if kind.topic))
_TOPIC_OF = np.array([_TOPICS.index(BY_CODE[code].topic) if code in BY_CODE and BY_CODE[code].topic else 0
                      for code in range(256)])  # fmt: skip
_FLAGS = np.isin(np.arange(256), (STATE, STOPPED))
_UNREADY_FLUSHES = 2
"""A device that does not say that it has told all (sync_response) has its facts made after so many flushes."""


class Part(NamedTuple):
    """Rows of one target and topic: `events[first:end]`, whose port is an index into `ports`.

    `mark_ns`: the newest mark that may be promised with them, as rows that still wait for their other half allow it.
    """

    target: int
    topic: str
    first: int
    end: int
    ports: Sequence[str]
    mark_ns: int


class Made(NamedTuple):
    """What one call made: rows by target and topic in the order of arrival, and facts by target (stream UNSENT)."""

    events: Events
    parts: list[Part]
    facts: list[tuple[int, Device | Link]]


class _Target(NamedTuple):
    device: str
    fleet: int
    slot: int
    facts: DeviceFacts


class _Columns(NamedTuple):
    """Rows of one fleet before they are rows of the record; `dimension` says what `number` is one of."""

    slot: Ints
    kind: Ints
    port: Ints
    dimension: Ints
    number: Ints
    side: Ints
    value: Ints
    extra: Ints
    span_ns: Ints
    time_ns: Ints
    seen_ns: Ints
    quality: Ints


class RowMaker:
    """One worker's; not safe for several threads."""

    def __init__(self, paths: Paths, fabric: str) -> None:
        self._paths, self._fabric = paths, fabric
        self._counted: Counter[str] = Counter()
        self._series = Series(Counters())
        self._fleets: list[Fleet] = []
        self._fleet_of_profile: dict[int, tuple[Profile, int]] = {}
        self._targets: dict[int, _Target] = {}
        self._fleet_of: Int32s = np.zeros(0, np.int32)
        self._slot_of: Ints = np.zeros(0, np.int64)
        self._latest_ns: Ints = np.zeros(0, np.int64)
        self._joiner = Joiner(self._counted)
        self._held_ns: Ints = np.zeros(0, np.int64)
        """By target, the time of its oldest half that waits, as of the last call."""
        self._unready: dict[int, int] = {}
        """Targets that have not told all yet, and for how many flushes."""
        self._told: dict[int, None] = {}
        """Targets whose facts may have changed."""
        self._left_out: Counter[tuple[int, str]] = Counter()

    @property
    def counters(self) -> Counter[str]:
        """Everything counted so far: what was left out, and what counters met."""
        counted = self._counted + self._series.counters.counted
        for fleet in self._fleets:
            counted += fleet.paths.counted
        return counted

    def take_left_out(self) -> Counter[tuple[int, str]]:
        """By target and reason, the updates left out since the last call: each device is told of its own."""
        left_out, self._left_out = self._left_out, Counter()
        return left_out

    def topics(self, profile: Profile) -> tuple[str, ...]:
        """The packed topics that rows of the profile can go on."""
        return profile.topics()

    def add_target(
        self,
        target: int,
        device: str,
        profile: Profile,
        period_ns: int,
        role: str = "switch",
        aliases: Sequence[str] = (),
    ) -> None:
        """Takes on a target by its number, a small one; `period_ns` is how often its counters come, 0 = unknown."""
        if target in self._targets:
            self.remove_target(target)
        index = self._fleet_index(profile)
        fleet = self._fleets[index]
        slot = fleet.add(target, period_ns)

        def known_speed(port: str, speed_mbps: int) -> None:
            if (number := fleet.paths.port(port, device)) is not None:
                fleet.know_speed(slot, number, speed_mbps)

        def sorts(maps: PriorityMaps) -> None:
            fleet.sort_packets(slot, maps)

        facts = DeviceFacts(self._fabric, device, role, aliases, known_speed, sorts, fleet.paths.queue_number)
        self._targets[target] = _Target(device, index, slot, facts)
        if target >= len(self._fleet_of):
            more = max(target + 1 - len(self._fleet_of), len(self._fleet_of), 64)
            self._fleet_of = np.concatenate((self._fleet_of, np.full(more, -1, np.int32)))
            self._slot_of = np.concatenate((self._slot_of, np.zeros(more, np.int64)))
            self._latest_ns = np.concatenate((self._latest_ns, np.zeros(more, np.int64)))
        self._fleet_of[target], self._slot_of[target], self._latest_ns[target] = index, slot, 0
        self._unready[target] = 0

    def remove_target(self, target: int) -> None:
        """Gives up a target: its series, its halves that wait and its facts."""
        gone = self._targets.pop(target, None)
        if gone is not None:
            self._joiner.forget(gone.fleet, gone.slot)
            self._fleets[gone.fleet].remove(gone.slot)
            self._fleet_of[target] = -1
            self._held_ns = self._held()
            self._unready.pop(target, None)
            self._told.pop(target, None)

    def gap(self, target: int) -> None:
        """The session was broken: each counter's next window is marked GAP."""
        of = self._targets[target]
        self._fleets[of.fleet].session[of.slot] += 1

    def held_ns(self, target: int) -> int:
        """The time of the oldest half of a row that waits for its other half, INT64_MAX if none does."""
        return int(self._held_ns[target]) if target < len(self._held_ns) else INT64_MAX

    def take(self, columns: Columns, targets: Int32s, time_ns: Ints, quality: Bytes, seen_ns: Ints) -> Made:
        """The rows and facts of decoded messages; time, quality and seen_ns are those of each message."""
        time_ns = np.clip(np.asarray(time_ns, np.int64), 0, MAX_TIME_NS)
        seen_ns = np.clip(np.asarray(seen_ns, np.int64), 0, MAX_TIME_NS)
        of = np.asarray(targets, np.int64)
        known = (of >= 0) & (of < len(self._fleet_of))
        fleet_of = np.full(len(of), -1, np.int64)
        fleet_of[known] = self._fleet_of[of[known]]
        np.maximum.at(self._latest_ns, of[fleet_of >= 0], time_ns[fleet_of >= 0])
        message = np.asarray(columns.message, np.int64)
        fleet_of_row = fleet_of[message]
        update = columns.op == UPDATE
        parts: list[tuple[int, _Columns]] = []
        counted: list[tuple[int, Ints, Ints]] = []
        # What is read one by one comes first, of all fleets: where it raises, no counter has been read yet.
        for index in np.unique(fleet_of_row).tolist():
            if index < 0:
                continue
            fleet = self._fleets[index]
            mine = fleet_of_row == index
            deletes = np.flatnonzero(mine & (columns.op == DELETE))
            rows = np.flatnonzero(mine & update)
            if fleet.paths.outdated:
                self._begin_anew(index)
            codes = fleet.paths.codes(columns.path_id[rows], of[message[rows]], self._device)
            self._counted["updates_without_meaning"] += int((codes == NOTHING).sum())
            self._leave_out("updates_of_refused_ports", "port_refused", of[message[rows[codes == NOT_SEEN]]])
            # Whole JSON would have become leaves; where a profile asks for the path, its own reading refuses the value.
            cut_off = (columns.flags[rows] & MALFORMED_JSON != 0) & (codes == NOTHING)
            self._leave_out("values_of_malformed_json", "value_refused", of[message[rows[cut_off]]])
            slow = codes <= SLOW
            if len(deletes) or slow.any():
                parts += self._slowly(index, columns, deletes, rows[slow], codes[slow], of, time_ns, quality, seen_ns)
            fast = codes >= 0
            if fast.any():
                counted.append((index, rows[fast], codes[fast].astype(np.int64)))
        for index, rows, leaf in counted:
            parts += self._read(index, columns, rows, leaf, of, time_ns, quality, seen_ns)
        for target in of[(fleet_of >= 0) & (columns.status == SYNC)].tolist():
            if self._unready.pop(target, None) is not None:
                self._told[target] = None
        return self._made(parts, self._joiner.join())

    def flush(self, before_ns: int) -> Made:
        """Halves of before this time go out alone, and facts of devices that never say that they have told all."""
        for target, flushes in list(self._unready.items()):
            if not self._latest_ns[target]:
                continue
            self._unready[target] = flushes + 1
            if flushes + 1 >= _UNREADY_FLUSHES:
                del self._unready[target]
                self._told[target] = None
        return self._made([], self._joiner.flush(before_ns))

    def _leave_out(self, name: str, reason: str, targets: Ints) -> None:
        """Counts an update of each of these targets, for the process and for the target."""
        self._counted[name] += len(targets)
        if len(targets):
            for target, count in zip(*np.unique(targets, return_counts=True), strict=True):
                self._left_out[int(target), reason] += int(count)

    def _device(self, target: int) -> str:
        return self._targets[target].device

    def _fleet_index(self, profile: Profile) -> int:
        known = self._fleet_of_profile.get(id(profile))
        if known is None:
            known = self._fleet_of_profile[id(profile)] = profile, len(self._fleets)
            self._fleets.append(Fleet(PathMap(profile, self._paths), self._series))
        return known[1]

    def _begin_anew(self, index: int) -> None:
        """The numbers of paths are others now: only what a delete may still take away stays."""
        facts = [target.facts for target in self._targets.values() if target.fleet == index]
        neighbours = {neighbour for of in facts for neighbour in of.begin_anew()}
        self._fleets[index].paths.begin_anew(lambda entry: neighbour_of(entry) in neighbours)

    def _read(
        self, index: int, columns: Columns, rows: Ints, leaf: Ints,
        targets: Ints, time_ns: Ints, quality: Bytes, seen_ns: Ints,
    ) -> list[tuple[int, _Columns]]:  # fmt: skip
        fleet = self._fleets[index]
        number, good = values.readings(columns, rows)
        for row_number, words in fleet.paths.words.items():
            worded = np.flatnonzero(fleet.paths.leaves.row[leaf] == row_number)
            told, known = values.words(columns, rows[worded], words)
            number[worded[known]], good[worded[known]] = told[known].astype(np.uint64), True
        # Of a state, a word that the profile does not have says nothing; a number of more than a flag is none either.
        good &= ~_FLAGS[fleet.paths.leaves.semantics[leaf]] | (number <= np.uint64(1))
        message = np.asarray(columns.message, np.int64)[rows]
        self._leave_out("values_refused", "value_refused", targets[message[~good]])
        rows, leaf, number, message = rows[good], leaf[good], number[good], message[good]
        slot = self._slot_of[targets[message]]
        read = Readings(slot, leaf, number, time_ns[message], seen_ns[message], np.asarray(quality)[message])
        halves, news, edges = measure(fleet, read, self._counted)
        both = fleet.told[halves.slot, halves.group] == 0b11
        self._joiner.add(index, halves, both)
        made: list[tuple[int, _Columns]] = []
        if len(edges.slot):
            none = np.zeros(len(edges.slot), np.int64)
            quanta = np.where(edges.kind == PFC_XOFF, UNKNOWN, 0)
            placed = _placed(
                fleet, edges.slot, edges.group, quanta, none, none, edges.time_ns, edges.seen_ns, edges.quality
            )
            made.append((index, placed._replace(kind=edges.kind)))
        told_by_watchdog = watchdog.rows_of(fleet, news)
        if not told_by_watchdog:
            return made
        table = np.array([tuple(row) for row in told_by_watchdog], np.int64).T
        slots, groups, value, extra, span_ns, at_ns, seen, bits = table
        made.append((index, _placed(fleet, slots, groups, value, extra, span_ns, at_ns, seen, bits)))
        return made

    def _slowly(
        self, index: int, columns: Columns, deletes: Ints, rows: Ints, codes: Int32s,
        targets: Ints, time_ns: Ints, quality: Bytes, seen_ns: Ints,
    ) -> list[tuple[int, _Columns]]:  # fmt: skip
        """Deletes, facts and events, message by message; the deletes of a message apply before its updates."""
        fleet = self._fleets[index]
        events: dict[tuple[int, int, tuple[object, ...]], dict[str, str]] = {}
        work = [(int(columns.message[row]), 0, int(row), 0) for row in deletes]
        work += [
            (int(columns.message[row]), 1, int(row), SLOW - int(code)) for row, code in zip(rows, codes, strict=True)
        ]
        for message, of_update, row, number in sorted(work):
            target = int(targets[message])
            facts, at_ns = self._targets[target].facts, int(time_ns[message])
            if not of_update:
                leaves, entries = fleet.paths.below(int(columns.path_id[row]))
                fleet.forget(self._targets[target].slot, leaves)
                facts.forget([(entry, fleet.paths.slow[entry]) for entry in entries], at_ns)
                self._counted["deletes"] += 1
            else:
                entry = fleet.paths.slow[number]
                if entry.record is not None:
                    key = message, fleet.paths.profile.record.index(entry.record), entry.container
                    events.setdefault(key, {})[entry.field] = values.text(columns, row)
                    continue
                several = columns.sort[row] in (LEAFLIST, JSON)
                told = [str(each) for each in values.several(columns, row)] if several else [values.text(columns, row)]
                refused = facts.refused
                facts.take(number, entry, told, at_ns)
                if facts.refused > refused:
                    self._leave_out("facts_refused", "fact_refused", targets[message : message + 1])
            if facts.changed:
                self._told[target] = None
        made: list[tuple[int, RecordRow]] = []
        for (message, record, _), told_fields in events.items():
            row_made = row_of(
                fleet.paths, fleet.paths.profile.record[record], told_fields, self._device(int(targets[message]))
            )
            if row_made is None:
                self._leave_out("events_refused", "event_refused", targets[message : message + 1])
            else:
                made.append((message, row_made))
        if not made:
            return []
        of_message = np.array([message for message, _ in made], np.int64)
        kind, port, dimension, number_of, side, value, extra, span_ns = np.array(
            [tuple(row) for _, row in made], np.int64
        ).T
        at = time_ns[of_message]
        event_columns = _Columns(
            self._slot_of[targets[of_message]], kind, port, dimension, number_of, side, value, extra,
            np.minimum(span_ns, at), at, seen_ns[of_message], np.asarray(quality)[of_message].astype(np.int64),
        )  # fmt: skip
        return [(index, event_columns)]

    def _made(self, parts: list[tuple[int, _Columns]], told: Joined) -> Made:
        self._held_ns = self._held()
        for index in np.unique(told.fleet).tolist():
            of = told.fleet == index
            _, slot, group, value, extra, span_ns, time_ns, seen_ns, quality = (column[of] for column in told)
            fleet = self._fleets[index]
            setting = fleet.setting[slot, group]
            code = fleet.paths.groups.code[group]
            extra = np.where(extra != UNKNOWN, extra, np.where(setting != UNKNOWN, setting, code))
            parts.append((index, _placed(fleet, slot, group, value, extra, span_ns, time_ns, seen_ns, quality)))
        made = [self._events(self._fleets[index], columns) for index, columns in parts]
        events = joined([rows for rows, _ in made])
        targets = np.concatenate([of for _, of in made]) if made else np.zeros(0, np.int64)
        topic = _TOPIC_OF[events["kind"]] if len(events) else np.zeros(0, np.int64)
        order = np.lexsort((topic, targets))
        events, targets, topic = picked(events, order), targets[order], topic[order]
        return Made(events, self._parts(events, targets, topic), self._facts())

    def _events(self, fleet: Fleet, columns: _Columns) -> tuple[Events, Ints]:
        priority = fleet.priority[columns.slot, columns.dimension, columns.number]
        kept = priority != NO_SUCH
        self._counted["rows_of_queues_without_priority"] += int((~kept).sum())
        estimated = fleet.estimated[columns.slot, columns.dimension, columns.number][kept]
        columns = _Columns(*(column[kept] for column in columns))
        events = empty_events(len(columns.slot))
        for name in ("time_ns", "seen_ns", "span_ns", "value", "extra", "port", "kind", "side"):
            events[name] = getattr(columns, name)
        events["priority"] = priority[kept]
        events["quality"] = columns.quality.astype(np.uint8) | estimated
        return events, fleet.target[columns.slot].astype(np.int64)

    def _parts(self, events: Events, targets: Ints, topic: Ints) -> list[Part]:
        if not len(events):
            return []
        firsts = np.flatnonzero(np.concatenate(([True], (targets[1:] != targets[:-1]) | (topic[1:] != topic[:-1]))))
        ends = np.concatenate((firsts[1:], [len(events)]))
        latest = np.maximum.reduceat(events["time_ns"], firsts)
        marks = np.minimum(latest, self._held_ns[targets[firsts]])
        columns = (targets[firsts], topic[firsts], firsts, ends, self._fleet_of[targets[firsts]], marks)
        return [
            Part(target, _TOPICS[of], first, end, self._fleets[fleet].paths.ports, mark_ns)
            for target, of, first, end, fleet, mark_ns in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _held(self) -> Ints:
        held = np.full(len(self._fleet_of), INT64_MAX)
        fleets, slots, time_ns = self._joiner.oldest()
        for index in np.unique(fleets).tolist():
            of = fleets == index
            np.minimum.at(held, self._fleets[index].target[slots[of]], time_ns[of])
        return held

    def _facts(self) -> list[tuple[int, Device | Link]]:
        ready = [target for target in self._told if target not in self._unready]
        made: list[tuple[int, Device | Link]] = []
        for target in ready:
            del self._told[target]
            latest_ns = int(self._latest_ns[target])
            made += [(target, fact) for fact in self._targets[target].facts.make(latest_ns)]
        return made


def _placed(
    fleet: Fleet, slot: Ints, group: Ints, value: Ints, extra: Ints,
    span_ns: Ints, time_ns: Ints, seen_ns: Ints, quality: npt.NDArray[np.integer],
) -> _Columns:  # fmt: skip
    groups = fleet.paths.groups
    return _Columns(
        slot, groups.kind[group].astype(np.int64), groups.port[group].astype(np.int64),
        groups.dimension[group].astype(np.int64), groups.number[group].astype(np.int64),
        groups.side[group].astype(np.int64),
        value, extra, span_ns, time_ns, seen_ns, quality.astype(np.int64),
    )  # fmt: skip
