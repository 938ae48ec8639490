"""Replays a capture to topics of its own: in the original order, at the original pace or another, exactly once.

In: a finished capture and a target. Out: the same messages under another prefix, each with its origin in a header. A
replay that was killed goes on where it stopped; what is on Kafka is compared with what was sent at the end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from stream.capture_message import NO_TIMESTAMP_MS, NS_PER_MS, PRELUDE, Captured
from stream.capture_reader import CaptureFolder
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams, Context, captured_streams, read_context
from stream.errors import ConfigError
from stream.kafka_settings import KafkaSettings
from stream.offset_gaps import PartitionId
from stream.replay_check import Origin, check, replayed
from stream.replay_journal import Journal, Replay, load, save
from stream.replay_order import AFTER_ALL_MS, Due, in_order
from stream.replay_rewrite import SHIFTABLE, UnchangeableError, rewritten
from stream.replay_sender import ReplaySender
from stream.replay_target import Target, guard_names, guard_retention, prepare
from stream.topics import PACKED, RAW
from stream.watermarks import WatermarkQuery

SAVE_S = 1.0
SETTLE_S = 0.5
"""After a replay was killed, Kafka may still be taking in what that process had sent: its end must stand still."""
_QUERY_S = 10.0
_SLICE_S = 0.05

Shift = Literal["now"] | int
"""How far times move, in ns; "now" puts the first event at the present."""


class Options(NamedTuple):
    """What is replayed and how. `speed` 0 is as fast as Kafka takes it; topics () are the raw ones with their facts."""

    topics: tuple[str, ...] = ()
    wanted: RowFilter = RowFilter()
    shift: Shift = 0
    speed: float = 1.0
    by_key: bool = False
    any_prefix: bool = False


class Done(NamedTuple):
    """How far a replay has come."""

    messages: int
    of_messages: int
    bytes: int


class Replayed(NamedTuple):
    """What was replayed: messages by topic, bytes of values, and how long the capture lasted.

    `found` were on Kafka already when it went on; `untouched` have times that could not be shifted; `problems` are
    what of it Kafka does not have as it was sent.
    """

    messages: dict[str, int]
    bytes: int
    lasted_ms: int
    shift_ns: int
    found: int
    untouched: int
    problems: tuple[str, ...]


Progress = Callable[[Done], None]
Stop = Callable[[], bool]


class Plan(NamedTuple):
    """What a capture gives for a replay."""

    folder: CaptureFolder
    topics: tuple[str, ...]
    streams: CapturedStreams
    context: Context
    messages: int

    @staticmethod
    def of(folder: CaptureFolder, options: Options) -> Plan:
        """Looks through the capture; raises ConfigError for topics that it has not or that cannot be shifted."""
        captured = folder.manifest.plan.topics
        topics = options.topics or tuple(topic for topic in RAW if topic in captured)
        absent = [topic for topic in topics if topic not in captured]
        if absent or not topics:
            raise ConfigError(
                f"the capture has no topic {', '.join(absent) or 'of events'}", f"choose from: {', '.join(captured)}"
            )
        # Without the roster and the facts, nobody could make anything of the rows.
        topics = tuple(dict.fromkeys((*(topic for topic in PRELUDE if topic in captured), *topics)))
        fixed = [topic for topic in topics if topic not in SHIFTABLE]
        if options.shift and fixed:
            raise ConfigError(f"topic {fixed[0]} holds results, whose times cannot be shifted", "leave it out")
        packed = [topic for topic in topics if topic in PACKED]
        streams = captured_streams(folder, packed, options.wanted)
        context = read_context(folder, streams, packed, options.wanted)
        others = sum(part.messages for topic in topics if topic not in PACKED for part in folder.parts([topic]))
        return Plan(folder, topics, streams, context, streams.messages + others + len(context.cut))

    def due(self, options: Options) -> Iterator[Due]:
        """The messages in order."""
        return in_order(self.folder, self.topics, options.wanted, self.streams, self.context)

    def shift_ns(self, options: Options, now_ns: int) -> int:
        """How far times move."""
        if options.shift != "now":
            return options.shift
        first_ns = min((span.first_ns for span in self.streams.spans.values()), default=now_ns)
        # Whole milliseconds, so that Kafka's times move by just as much.
        return (now_ns - first_ns) // NS_PER_MS * NS_PER_MS

    def oldest_ms(self) -> dict[str, int]:
        """Kafka's time of each topic's first message, where it has one."""
        oldest: dict[str, int] = {}
        for (partition, _), span in self.streams.spans.items():
            if span.first_ms != NO_TIMESTAMP_MS:
                oldest[partition.topic] = min(oldest.get(partition.topic, span.first_ms), span.first_ms)
        if "control" in self.topics and self.context.told:
            oldest["control"] = self.context.told[0].timestamp_ms
        return oldest


def replay(
    path: Path,
    settings: KafkaSettings,
    options: Options,
    journal_file: Path,
    *,
    progress: Progress = lambda _: None,
    stop: Stop = lambda: False,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Replayed:
    """Replays to `settings`, whose prefix is the target's; stops early, to go on later, when `stop` says so."""
    plan = Plan.of(CaptureFolder(path), options)
    manifest = plan.folder.manifest
    view = guard_names(manifest, settings, any_prefix=options.any_prefix)
    target = prepare(manifest, settings, view, plan.topics, keep_partitions=not options.by_key)
    what = Replay(
        manifest.sha256, target.cluster_id, settings.prefix, plan.topics, options.by_key, repr(options.wanted),
        str(options.shift),
    )  # fmt: skip
    journal = load(journal_file, what)
    resumed = journal is not None
    if journal is None:
        shift_ns = plan.shift_ns(options, clock_ns())
        journal = Journal.begin(what, shift_ns, clock_ns(), _ends(settings, target))
    shift_ms = journal.shift_ns // NS_PER_MS
    guard_retention(settings, target, {t: ms + shift_ms for t, ms in plan.oldest_ms().items()}, clock_ns())
    save(journal, journal_file)
    found = _found_there(settings, target, journal) if resumed else set()
    run = _Run(plan, options, journal, journal_file, found, progress)
    sender = ReplaySender(settings, journal, by_key=options.by_key)
    try:
        complete = run.send_all(sender, stop)
    finally:
        sender.close()
        save(journal, journal_file)
    problems = check(settings, journal) if complete else ["stopped: run the same replay again to go on"]
    if complete and not problems:
        journal.finished = True
        save(journal, journal_file)
    return run.result(sender.bytes, len(found), problems)


def dry_run(
    path: Path, options: Options, *, progress: Progress = lambda _: None, clock_ns: Callable[[], int] = time.time_ns
) -> Replayed:
    """Everything but the sending: what would be replayed, counted; Kafka is not asked."""
    plan = Plan.of(CaptureFolder(path), options)
    shift_ns = plan.shift_ns(options, clock_ns())
    journal = Journal.begin(Replay("", "", "", plan.topics, options.by_key, "", ""), shift_ns, 0, {})
    run = _Run(plan, options, journal, None, set(), progress)
    return run.result(run.count_all(), 0, [])


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


class _Run:
    """One process' part of a replay."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        journal: Journal,
        journal_file: Path | None,
        found: set[tuple[str, int]],
        progress: Progress,
    ) -> None:
        self._plan = plan
        self._options = options
        self._journal = journal
        self._journal_file = journal_file
        self._found = found
        self._progress = progress
        self._messages: Counter[str] = Counter()
        self._untouched = 0
        self._first_ms: int | None = None
        self._last_ms = 0

    def result(self, sent_bytes: int, found: int, problems: Sequence[str]) -> Replayed:
        """What was done."""
        lasted_ms = max(self._last_ms - self._first_ms, 0) if self._first_ms is not None else 0
        return Replayed(
            dict(self._messages), sent_bytes, lasted_ms, self._journal.shift_ns, found, self._untouched,
            tuple(problems),
        )  # fmt: skip

    def count_all(self) -> int:
        """Makes every message and counts the bytes of their values."""
        total = 0
        for done, due in enumerate(self._plan.due(self._options)):
            message, _ = self._made(due)
            total += len(message.value or b"")
            if done % 1000 == 0:
                self._progress(Done(done, self._plan.messages, total))
        return total

    def send_all(self, sender: ReplaySender, stop: Stop) -> bool:
        """Sends every message that is not on Kafka yet; False if it was stopped."""
        begun_s: float | None = None
        paced_from_ms = 0
        saved_s = time.monotonic()
        roster_waits = False
        for due in self._plan.due(self._options):
            confirmed = self._journal.of(_place(due))
            if due.message.offset <= confirmed.offset:
                continue
            message, origin = self._made(due)
            if (origin.place, origin.offset) in self._found:
                sender.there_already(message, origin)
                continue
            if self._options.speed and self._first_ms is not None and due.at_ms != AFTER_ALL_MS:
                if begun_s is None:
                    begun_s, paced_from_ms = time.monotonic(), due.at_ms
                due_s = begun_s + (due.at_ms - paced_from_ms) / 1000 / self._options.speed
                while (wait_s := due_s - time.monotonic()) > 0 and not stop():
                    sender.poll(min(wait_s, _SLICE_S))
            if stop():
                return False
            if roster_waits and message.topic != "control":
                # Readers ask for the roster when they meet a stream that they do not know: it must be there by then.
                sender.flush()
            roster_waits = message.topic == "control"
            sender.send(message, origin)
            if time.monotonic() - saved_s >= SAVE_S and self._journal_file is not None:
                save(self._journal, self._journal_file)
                saved_s = time.monotonic()
                self._progress(Done(self._journal.count, self._plan.messages, sender.bytes))
        sender.flush()
        self._progress(Done(self._journal.count, self._plan.messages, sender.bytes))
        return True

    def _made(self, due: Due) -> tuple[Captured, Origin]:
        """The message to send, with what its header says."""
        was = due.message
        try:
            message = rewritten(was, self._journal.shift_ns, self._options.wanted)
        except UnchangeableError:
            self._untouched += 1
            message = was
        self._messages[was.topic] += 1
        if was.topic not in PRELUDE:
            # The time before the first row has passed already when a replay begins.
            self._first_ms = due.at_ms if self._first_ms is None else self._first_ms
            self._last_ms = max(self._last_ms, due.at_ms)
        origin = Origin(
            self._journal.run, was.topic, was.partition, was.offset, was.timestamp_ms, due.first_ns,
            self._journal.shift_ns,
        )  # fmt: skip
        return message, origin


def _place(due: Due) -> str:
    return f"{due.message.topic}/{due.message.partition}"
