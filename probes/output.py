"""Where an agent's readings go: onto the topics of Kafka, as the streams of one source that keep every promise.

In: readings of probes, in the order of each probe. Out: the roster, rows, facts and losses by the publisher.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from probes.health import report
from probes.probe import Lost, Rows
from probes.promises import Promises
from probes.runner import ProbeStatus, Taken
from probes.schedule import Retry
from probes.table import ProbeKind
from stream.errors import BrokerError, PausetraceError, WireError
from stream.facts import TOPIC_OF_FACT
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings
from stream.outbox import DELIVERY_FAILED
from stream.outgoing import NO_PORT
from stream.publisher import Publisher
from stream.ranges import MAX_NAME_CHARS
from stream.record import joined
from stream.roster import StreamUp
from stream.sampled_log import SampledLog
from stream.topics import FACTS

_log = logging.getLogger(__name__)

SOURCE = "probes"
UP_DEADLINE_S = 5.0
"""The roster must take streams that come later by then; meanwhile the readings wait."""
DOWN_DEADLINE_S = 10.0
HEALTH_S = 10.0
CLOCK_BACK_NS = 1_000_000_000
"""A clock that is set back further makes all that follows older than what was promised: the streams begin anew."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Output(Protocol):
    """What an agent gives its readings to."""

    @property
    def counters(self) -> Mapping[str, int]:
        """What was counted so far."""

    def expect(self, kinds: Sequence[ProbeKind]) -> None:
        """These probes are to run from now on."""

    def take(self, taken: Sequence[Taken]) -> None:
        """Readings, in the order of each probe."""

    def turn(self) -> None:
        """Is called once a second or more often, and at once after `take`."""

    def tell(self, statuses: Sequence[ProbeStatus]) -> None:
        """Where the probes stand, every second."""

    def close(self, *, in_order: bool = True) -> None:
        """Nothing more comes; not in order after an error, when there is nobody to be told."""


class KafkaOutput:
    """The streams of this host. A broker that does not answer is an error at the start, and waited for ever after."""

    def __init__(
        self,
        settings: KafkaSettings,
        fabric: str,
        device: str,
        promises: Promises,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_s: Callable[[], float] = time.monotonic,
        deadline_s: float = CONNECT_DEADLINE_S,
    ) -> None:
        self._settings = settings
        self._fabric = fabric
        self._device = device
        self._promises = promises
        self._clock_ns = clock_ns
        self._monotonic_s = monotonic_s
        self._periods: dict[str, int] = {}
        """Topic -> longest window of the probes that are to run."""
        self._announced: dict[str, int] = {}
        self._newest_ns = 0
        self._unsent: dict[tuple[str, int], Lost] = {}
        """Rows that are gone and not reported yet, by topic and reason."""
        self._before: Counter[str] = Counter()
        """What earlier publishers counted."""
        self._own = Counter(refused_rows=0, sessions=0)
        self._announced_once = False
        self._announce_again_s = 0.0
        self._told: tuple[object, float] = (None, 0.0)
        self._retry = Retry()
        self._again_s = 0.0
        self._refusals = SampledLog(_log)
        self._publisher: Publisher | None = self._publish(deadline_s)

    @property
    def counters(self) -> Mapping[str, int]:
        """What the publishers counted, and rows that no reader would take."""
        now: Counter[str] = Counter(self._publisher.counters) if self._publisher else Counter()
        return {name: self._before[name] + now[name] for name in {**self._before, **now}} | self._own

    def expect(self, kinds: Sequence[ProbeKind]) -> None:
        """These probes are to run from now on; streams that promise too little or too much begin anew."""
        self._periods = {topic: 0 for kind in kinds for topic in kind.topics}
        for kind in kinds:
            for topic in kind.topics:
                if kind.sums and topic not in FACTS:
                    self._periods[topic] = max(self._periods[topic], kind.interval_ns)
        if any(self._periods.get(topic, -1) != period_ns for topic, period_ns in self._announced.items()):
            self._begin_anew("the configuration has changed")

    def take(self, taken: Sequence[Taken]) -> None:
        """Publishes them; what they need of the roster goes first."""
        self._follow_clock()
        topics = {topic for one in taken for topic in one.kind.topics}
        self._announce(topics)
        # Until all of it is appended, none of it must be promised away.
        before = {topic: self._promises.mark_ns(topic) for topic in topics}
        for one in taken:
            self._promises.passed_on(one.kind, one.read_ns)
        publisher = self._publisher
        if publisher is None or not self._announced.keys() >= topics:
            for one in taken:
                self._give_up(one)
            return
        parts: dict[str, list[tuple[str, Rows]]] = {}
        for one in taken:
            for rows in one.reading.rows:
                parts.setdefault(rows.topic, []).append((one.kind.name, rows))
            self._publish_facts(publisher, one, before)
            for lost in one.reading.lost:
                publisher.report_lost(lost.topic, self._device, lost.rows, lost.reason, lost.first_ns, lost.last_ns)
        for topic, of_topic in parts.items():
            self._publish_rows(publisher, topic, of_topic, before[topic])

    def turn(self) -> None:
        """Lets the publisher send what is old enough, or tries to have one again."""
        if self._publisher is None:
            if self._monotonic_s() < self._again_s:
                return
            try:
                self._publisher = self._publish(UP_DEADLINE_S)
            except PausetraceError as err:
                self._lose_publisher(err)
                return
        try:
            self._publisher.poll()  # what was lost is counted, and reported by the streams themselves
        except BrokerError as err:
            self._lose_publisher(err)
        else:
            self._retry.succeeded()

    def tell(self, statuses: Sequence[ProbeStatus]) -> None:
        """Publishes the health of the probes, when it changes and every ten seconds."""
        states = [(status.name, status.state) for status in statuses]
        now_s = self._monotonic_s()
        if self._publisher is not None and (states != self._told[0] or now_s - self._told[1] >= HEALTH_S):
            self._told = (states, now_s)
            self._publisher.health(report(self._fabric, self._device, statuses, self._clock_ns()))

    def close(self, *, in_order: bool = True) -> None:
        """Tells the roster that all streams have ended; raises BrokerError for what could not be delivered."""
        publisher, self._publisher = self._publisher, None
        if publisher is None:
            return
        try:
            if in_order and self._announced:
                self._report_unsent(publisher)
                publisher.down(self._clock_ns(), deadline_s=DOWN_DEADLINE_S)
        finally:
            self._before.update(publisher.counters)
            publisher.close()
            self._announced = {}

    def _publish(self, deadline_s: float) -> Publisher:
        boot = BOOT_ID.read_text("ascii").strip() if BOOT_ID.exists() else "boot"
        publisher = Publisher(
            self._settings,
            self._fabric,
            f"{SOURCE}@{self._device}",
            f"{boot}-{time.time_ns():x}",
            idle_mark_ns=lambda stream: self._promises.mark_ns(stream.topic),
            clock_ns=self._clock_ns,
            monotonic_s=self._monotonic_s,
            deadline_s=deadline_s,
            batch_age_s=0.0,  # an agent gathers what belongs together before it passes it on
        )
        self._own["sessions"] += 1
        self._announced = {}
        return publisher

    def _announce(self, topics: Iterable[str]) -> None:
        """Streams of these topics that the roster does not know yet come up; raises where none ever came up."""
        new = sorted(set(topics) - self._announced.keys())
        if not new or self._publisher is None or self._monotonic_s() < self._announce_again_s:
            return
        # What their probes have not passed on yet follows, nothing older.
        from_ns = min(self._promises.mark_ns(topic) for topic in new)
        ups = [
            StreamUp(topic) if topic in FACTS else StreamUp(topic, self._device, self._periods.get(topic, 0))
            for topic in new
        ]
        try:
            self._publisher.up(ups, from_ns, UP_DEADLINE_S)
        except PausetraceError as err:
            if not self._announced_once:
                raise
            self._announce_again_s = self._monotonic_s() + UP_DEADLINE_S
            _log.warning("streams of %s cannot begin yet: %s", ", ".join(new), err)
            return
        self._announced_once = True
        self._announced |= {topic: self._periods.get(topic, 0) for topic in new}
        self._report_unsent(self._publisher)

    def _publish_rows(
        self, publisher: Publisher, topic: str, parts: Sequence[tuple[str, Rows]], before_ns: int
    ) -> None:
        """All rows of a topic as one, which costs least; each part alone where they are not all rows of a topic."""
        try:
            whole = _joined(topic, [rows for _, rows in parts])
            mark_ns = self._promises.mark_ns(topic)
            publisher.append(topic, self._device, whole.events, whole.ports, mark_ns, whole.texts)
        except PausetraceError:
            for name, rows in parts:
                try:
                    whole = _joined(topic, [rows])
                    publisher.append(topic, self._device, whole.events, whole.ports, before_ns, whole.texts)
                except PausetraceError as err:
                    self._own["refused_rows"] += len(rows.events)
                    self._refusals.warning("rows of probe %s are left out: %s", name, err)

    def _publish_facts(self, publisher: Publisher, one: Taken, before: Mapping[str, int]) -> None:
        for fact in one.reading.facts:
            try:
                publisher.fact(fact, before.get(TOPIC_OF_FACT[type(fact)], 0))
            except PausetraceError as err:
                self._own["refused_rows"] += 1
                self._refusals.warning("a fact of probe %s is left out: %s", one.kind.name, err)

    def _give_up(self, one: Taken) -> None:
        """There is nobody who could hold the reading: its rows are lost, which is told when there is somebody again."""
        for lost in one.reading.lost:
            self._remember(lost)
        for rows in one.reading.rows:
            if len(rows.events):
                times = rows.events["time_ns"]
                first_ns, last_ns = int(times.min()), int(times.max())
                self._remember(Lost(rows.topic, len(rows.events), DELIVERY_FAILED, first_ns, last_ns))

    def _remember(self, lost: Lost) -> None:
        known = self._unsent.get((lost.topic, lost.reason))
        if known is not None:
            first_ns, last_ns = min(known.first_ns, lost.first_ns), max(known.last_ns, lost.last_ns)
            lost = Lost(lost.topic, known.rows + lost.rows, lost.reason, first_ns, last_ns)
        self._unsent[lost.topic, lost.reason] = lost

    def _report_unsent(self, publisher: Publisher) -> None:
        for key, lost in list(self._unsent.items()):
            if lost.topic in self._announced:
                publisher.report_lost(lost.topic, self._device, lost.rows, lost.reason, lost.first_ns, lost.last_ns)
                del self._unsent[key]

    def _follow_clock(self) -> None:
        now_ns = self._clock_ns()
        if now_ns < self._newest_ns - CLOCK_BACK_NS:
            self._newest_ns = now_ns
            self._begin_anew("the clock was set back")
        self._newest_ns = max(self._newest_ns, now_ns)

    def _begin_anew(self, why: str) -> None:
        """Ends all streams and begins with new ones, of another epoch."""
        _log.warning("%s: the streams end and begin anew", why)
        try:
            self.close()
            self._publisher = self._publish(UP_DEADLINE_S)
        except PausetraceError as err:
            self._lose_publisher(err)

    def _lose_publisher(self, err: PausetraceError) -> None:
        pause_s = self._retry.pause_s()
        self._again_s = self._monotonic_s() + pause_s
        _log.warning("nothing can be published: %s: tries again in %.0f s", err, pause_s)
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.close()
            self._before.update(publisher.counters)
        self._announced = {}


def _joined(topic: str, parts: Sequence[Rows]) -> Rows:
    """The rows of all parts; NO_PORT is the port of what is of the whole host. Raises WireError for what is no name."""
    events = joined([part.events for part in parts])
    index: dict[str, int] = {}
    texts: list[tuple[int, str]] = []
    first = 0
    for part in parts:
        own = [index.setdefault(name or NO_PORT, len(index)) for name in part.ports or ("",)]
        ports = events["port"][first : first + len(part.events)]
        if ports.max(initial=0) >= len(own):
            raise WireError("a row's port is none of the names")
        if own != list(range(len(own))):
            ports[:] = np.array(own, np.uint16)[ports]
        texts += [(first + row, text) for row, text in part.texts]
        first += len(part.events)
    for text in (*index, *(text for _, text in texts)):
        if len(text) > MAX_NAME_CHARS or not _encodes(text):
            raise WireError(f"{text[:80]!r} is no name")
    return Rows(topic, events, tuple(index), texts)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
