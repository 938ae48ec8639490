"""Replays a capture to topics of its own: in the original order, at the original pace or another, exactly once.

In: a finished capture and a target. Out: the same messages under another prefix, each with its origin in a header. A
replay that was killed goes on where it stopped; what is on Kafka is compared with what was sent at the end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from stream.capture_message import NS_PER_MS, PRELUDE, Captured
from stream.capture_reader import CaptureFolder
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings
from stream.offset_gaps import PartitionId
from stream.replay_check import Origin, check, replayed
from stream.replay_journal import Journal, Replay, load, locked, save
from stream.replay_order import Due
from stream.replay_pace import Pace
from stream.replay_plan import Options, Plan
from stream.replay_rewrite import UnchangeableError, rewritten, rows_left, stamped
from stream.replay_runs import Found, guard_others, look_for_runs
from stream.replay_sender import ReplaySender
from stream.replay_target import Target, guard_prefix, guard_source, guard_times, prepare
from stream.topics import PACKED
from stream.watermarks import WatermarkQuery

SAVE_S = 1.0
SETTLE_S = 0.5
"""After a replay was killed, Kafka may still be taking in what that process had sent: its end must stand still."""
_QUERY_S = 10.0
_SLICE_S = 0.05
READ_S = 1.0
"""What readers get to read that a stream is suspended, of which no row reminds them: two waiting fetches."""


class Done(NamedTuple):
    """How far a replay has come."""

    messages: int
    of_messages: int
    bytes: int


class Replayed(NamedTuple):
    """What was replayed: messages by topic, bytes of values, and how long the capture lasted.

    `found` were on Kafka already; `untouched` have values that do not decode and so could not be shifted; `notes` say
    what the capture lacks; `problems` are what of the replay Kafka does not have as it was sent.
    """

    messages: dict[str, int]
    bytes: int
    lasted_ms: int
    shift_ns: int
    found: int
    untouched: int
    notes: tuple[str, ...]
    problems: tuple[str, ...]


class Sink(Protocol):
    """What takes the messages: a `ReplaySender`."""

    bytes: int

    def send(self, message: Captured, origin: Origin) -> None:
        """Sends."""
        ...

    def there_already(self, message: Captured, origin: Origin) -> None:
        """Books what is on Kafka."""
        ...

    def poll(self, wait_s: float) -> None:
        """Serves confirmations for so long."""
        ...

    def flush(self) -> None:
        """Waits until everything is confirmed."""
        ...


Progress = Callable[[Done], None]
Stop = Callable[[], bool]


def replay(
    path: Path,
    settings: KafkaSettings,
    options: Options,
    journal_file: Path,
    *,
    progress: Progress = lambda _: None,
    stop: Stop = lambda: False,
    clock_ns: Callable[[], int] = time.time_ns,
    clock_s: Callable[[], float] = time.monotonic,
) -> Replayed:
    """Replays to `settings`, whose prefix is the target's; stops early, to go on later, when `stop` says so.

    What was replayed before is not sent again, but looked at; for nothing, no topic is made. Raises
    ConfigError or BrokerError where a guard refuses, CaptureError for a damaged capture or journal.
    """
    plan = Plan.of(CaptureFolder(path), options)
    manifest = plan.folder.manifest
    guard_prefix(manifest, settings.prefix, any_prefix=options.any_prefix)
    view = guard_source(manifest, settings, into_source=options.into_source)
    if plan.messages == 0:
        return Replayed({}, 0, 0, 0, 0, 0, tuple(plan.notes()), ())
    now_ns = clock_ns()
    shift_ns = plan.shift_ns(options.shift, now_ns)
    what = Replay(
        manifest.sha256, view.broker.cluster_id, settings.prefix, plan.topics, options.by_key, options.wanted.text,
        str(options.shift),
    )  # fmt: skip
    with locked(journal_file):
        journal = None if options.again else load(journal_file, what)
        if journal is not None and journal.finished:
            return _nothing_new(plan, journal, check(settings, journal))
        there = look_for_runs(settings, view, what) if journal is None else Found()
        recovered = there.run > 0 and not options.again
        if recovered:
            shift_ns = there.shift_ns
        elif journal is None and not (options.beside_others or options.into_source):
            guard_others(settings, there)
        shift_ms = (shift_ns if journal is None else journal.shift_ns) // NS_PER_MS
        oldest_ms = {topic: ms + shift_ms for topic, ms in plan.oldest_ms.items()}
        guard_times(settings, view, oldest_ms, plan.newest_ms + shift_ms, options.speed, now_ns)
        target = prepare(manifest, settings, view, plan.topics, keep_partitions=not options.by_key)
        if recovered:
            journal = Journal.begin(what, there.run, shift_ns, now_ns, dict.fromkeys(_ends(settings, target), 0))
        resumed = journal is not None
        if journal is None:
            journal = Journal.begin(what, there.run + 1, shift_ns, now_ns, _ends(settings, target))
        run = Run(plan, journal, Pace(options.speed, clock_s), progress)
        found = _found_there(settings, target, journal) if resumed else set()
        if recovered and not options.by_key:
            run.require_no_holes(found)
        save(journal, journal_file)
        sender = ReplaySender(settings, journal, by_key=options.by_key)
        try:
            complete = run.send_all(sender, found, lambda: save(journal, journal_file), stop)
        finally:
            sender.close()
            save(journal, journal_file)
        problems = check(settings, journal) if complete else ["stopped: run the same replay again to go on"]
        if complete and not problems:
            journal.finished = True
            save(journal, journal_file)
    return run.result(sender.bytes, len(found), problems)


def dry_run(
    path: Path,
    prefix: str,
    options: Options,
    *,
    progress: Progress = lambda _: None,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Replayed:
    """Everything but the sending: what would be replayed to this prefix, counted; Kafka is not asked."""
    plan = Plan.of(CaptureFolder(path), options)
    guard_prefix(plan.folder.manifest, prefix, any_prefix=options.any_prefix)
    shift_ns = plan.shift_ns(options.shift, clock_ns())
    journal = Journal.begin(Replay("", "", prefix, plan.topics, options.by_key, "", ""), 1, shift_ns, 0, {})
    run = Run(plan, journal, Pace(0.0), progress)
    return run.result(run.count_all(), 0, [])


def _nothing_new(plan: Plan, journal: Journal, problems: list[str]) -> Replayed:
    """The result where an earlier replay has sent everything."""
    if problems:
        problems.append("it was whole when it was sent: --again sends all of it once more")
    return Replayed({}, 0, 0, journal.shift_ns, journal.count, 0, tuple(plan.notes()), tuple(problems))


def _ends(settings: KafkaSettings, target: Target) -> dict[str, int]:
    """Where each partition of the target ends now."""
    partitions = [PartitionId(topic, number) for topic, count in target.partitions.items() for number in range(count)]
    marks = WatermarkQuery(settings).ask(partitions, _QUERY_S)
    return {f"{partition.topic}/{partition.partition}": high for partition, (_, high) in marks.items()}


def _found_there(settings: KafkaSettings, target: Target, journal: Journal) -> set[tuple[str, int]]:
    """Messages that are on Kafka and not in the journal: sent, but not booked when the process died."""
    before: dict[str, int] = {}
    while (ends := _ends(settings, target)) != before:
        before = ends
        time.sleep(SETTLE_S)
    return {
        (origin.place, origin.offset)
        for _, _, origin in replayed(settings, journal, journal.reached)
        if origin.offset > journal.of(origin.place).offset
    }


class Run:
    """One process' part of a replay."""

    def __init__(self, plan: Plan, journal: Journal, pace: Pace, progress: Progress) -> None:
        self._plan = plan
        self._journal = journal
        self._pace = pace
        self._progress = progress
        self._messages: Counter[str] = Counter()
        self._untouched = 0
        self._rows = 0
        self._first_ms: int | None = None
        self._last_ms = 0

    def result(self, sent_bytes: int, found: int, problems: list[str]) -> Replayed:
        """What was done."""
        lasted_ms = max(self._last_ms - self._first_ms, 0) if self._first_ms is not None else 0
        notes = self._plan.notes()
        if not (self._rows or self._plan.wanted.everything):
            notes.append("no row of the capture matches what was chosen")
        return Replayed(
            dict(self._messages), sent_bytes, lasted_ms, self._journal.shift_ns, found, self._untouched,
            tuple(notes), tuple(problems),
        )  # fmt: skip

    def require_no_holes(self, found: set[tuple[str, int]]) -> None:
        """Raises BrokerError where Kafka has lost what stood before something that it has: no place is left for it."""
        last = dict(sorted(found))
        lost = sum(
            due.message.offset < last.get(_place(due), -1) and (_place(due), due.message.offset) not in found
            for due in self._plan.due()
        )
        if lost:
            raise BrokerError(
                f"this replay was sent before, and Kafka no longer has {lost:,} of its messages",
                "give another prefix, or --again to send all of it once more",
            )

    def count_all(self) -> int:
        """Makes every message and counts the bytes of their values."""
        total = 0
        for done, due in enumerate(self._plan.due()):
            message, _ = self._made(due)
            total += len(message.value or b"")
            if done % 1000 == 0:
                self._progress(Done(done, self._plan.messages, total))
        return total

    def send_all(self, sender: Sink, found: set[tuple[str, int]], save: Callable[[], None], stop: Stop) -> bool:
        """Sends every message that is neither confirmed nor found on Kafka; False if it was stopped."""
        saved_s = time.monotonic()
        roster_waits = gap_waits = False

        def serve(wait_s: float) -> None:
            nonlocal saved_s
            sender.poll(min(wait_s, _SLICE_S))
            if time.monotonic() - saved_s >= SAVE_S:
                save()
                saved_s = time.monotonic()
                self._progress(Done(self._journal.count, self._plan.messages, sender.bytes))

        for due in self._plan.due():
            if due.message.offset <= self._journal.of(_place(due)).offset:
                continue
            message, origin = self._made(due)
            if (origin.place, origin.offset) in found:
                sender.there_already(message, origin)
                continue
            # The time before the first row has passed already when a replay begins.
            while self._first_ms is not None and (wait_s := self._pace.wait_s(due.at_ms)) > 0 and not stop():
                serve(wait_s)
            if stop():
                return False
            if roster_waits and message.topic != "control":
                # Readers ask for the roster when they meet a stream that they do not know: it must be there by then.
                sender.flush()
                end_s = time.monotonic() + READ_S * gap_waits
                while (wait_s := end_s - time.monotonic()) > 0:
                    serve(wait_s)
                gap_waits = False
            roster_waits = message.topic == "control"
            gap_waits = gap_waits or due.is_gap
            sender.send(message, origin)
            serve(0)
        sender.flush()
        self._progress(Done(self._journal.count, self._plan.messages, sender.bytes))
        return True

    def _made(self, due: Due) -> tuple[Captured, Origin]:
        """The message to send, with what its header says."""
        was = due.message
        shift_ns = self._journal.shift_ns
        try:
            message = rewritten(was, shift_ns, self._plan.wanted)
        except UnchangeableError:
            self._untouched += 1
            message = stamped(was, shift_ns)
        self._messages[was.topic] += 1
        if was.topic in PACKED and not self._plan.wanted.everything:
            self._rows += rows_left(message.value or b"")
        if was.topic not in PRELUDE:
            self._first_ms = due.at_ms if self._first_ms is None else self._first_ms
            self._last_ms = max(self._last_ms, due.at_ms)
        origin = Origin(
            self._journal.run, was.topic, was.partition, was.offset, was.timestamp_ms, due.first_ns, shift_ns
        )  # fmt: skip
        return message, origin


def _place(due: Due) -> str:
    return f"{due.message.topic}/{due.message.partition}"
