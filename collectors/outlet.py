"""The way out of a collector: where rows and facts go, and what the roster is told of targets that come and go.

In: rows that were made, by target and topic, and marks. Out: streams on Kafka that keep their promises.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from collectors.rows import Made
from stream.batch import StreamKey
from stream.errors import BrokerError, PausetraceError
from stream.facts import Fact
from stream.publisher import Publisher
from stream.record import Events, picked
from stream.roster import StreamUp
from stream.sampled_log import SampledLog

_log = logging.getLogger(__name__)

UP_DEADLINE_S = 2.0
RETRY_S = 5.0
FRESH_NS = 30_000_000_000
FACTS_BEHIND_NS = 2_000_000_000
"""Facts are promised so far behind our clock where no target tells more."""

Mark = Callable[[int], int]
"""By target, what its streams may promise now."""


class Announced(NamedTuple):
    """A target's streams: its device, its topics, and of each the window that its counters sum over."""

    device: str
    topics: tuple[str, ...]
    periods_ns: tuple[int, ...]


class Outlet(Protocol):
    """All calls are made by one thread."""

    def up(self, target: int, streams: Announced) -> None:
        """Data of this target begins to come."""
        ...

    def down(self, target: int, reason: str) -> None:
        """No data of this target comes until it is up again."""
        ...

    def put(self, made: Made, mark: Mark) -> None:
        """Rows and facts."""
        ...

    def lost(self, target: int, messages: int, reason: int, first_ns: int, last_ns: int) -> None:
        """So many messages of the target's were lost between these times (a code of LOSS_REASONS)."""
        ...

    def poll(self, mark: Mark) -> None:
        """Called a few times a second: what waits goes out, and streams without rows promise what they may."""
        ...

    def close(self) -> None:
        """Tells of everything that it has ended."""
        ...

    @property
    def counters(self) -> Counter[str]:
        """Everything counted so far."""
        ...


class KafkaOutlet:
    """Publishes as one source. A target's streams go up and down together, and those of several targets at once."""

    def __init__(self, publisher: Callable[[Callable[[StreamKey], int]], Publisher], facts: Sequence[str]) -> None:
        self._mark: Mark = lambda _target: 0
        self._publisher = publisher(self._idle_mark_ns)
        self._announced: dict[int, Announced] = {}
        """Targets whose streams are up."""
        self._rising: dict[int, Announced] = {}
        self._falling: dict[int, str] = {}
        self._again_s = 0.0
        self._fact_topics = tuple(facts)
        self._facts_up = False
        self._facts_mark_ns = 0
        self._by_device: dict[str, int] = {}
        self._fresh_ns: dict[int, int] = {}
        """Targets that came up a short while ago, and since when."""
        self._counted: Counter[str] = Counter()
        self._log = SampledLog(_log)

    @property
    def counters(self) -> Counter[str]:
        """The publisher's and our own."""
        return Counter(self._publisher.counters) + self._counted

    def up(self, target: int, streams: Announced) -> None:
        """Notes it: the roster is told of all that came up since the last turn at once."""
        if self._falling.pop(target, None) is not None and self._announced.get(target) == streams:
            return
        if target not in self._announced or self._announced[target] != streams:
            self._rising[target] = streams

    def down(self, target: int, reason: str) -> None:
        """Notes it."""
        self._rising.pop(target, None)
        if target in self._announced:
            self._falling[target] = reason

    def put(self, made: Made, mark: Mark) -> None:
        """Appends rows to their streams; those of targets that the roster could not be told of yet are counted."""
        self._mark = mark
        self._settle()
        for part in made.parts:
            told = self._announced.get(part.target)
            if told is None or part.topic not in told.topics:
                self._counted["rows_not_announced"] += part.end - part.first
                continue
            events = made.events[part.first : part.end]
            if (from_ns := self._fresh_ns.get(part.target)) is not None:
                events = self._since(part.target, events, from_ns)
            mark_ns = min(mark(part.target), part.mark_ns)
            self._publisher.append(part.topic, told.device, events, part.ports, mark_ns)
        for _, fact in made.facts:
            self._tell(fact)

    def lost(self, target: int, messages: int, reason: int, first_ns: int, last_ns: int) -> None:
        """Says so on all the target's streams: nobody knows on which of them the rows would have gone."""
        told = self._announced.get(target)
        if told is None or target in self._falling:
            return
        for topic in told.topics:
            self._publisher.report_lost(topic, told.device, messages, reason, first_ns, last_ns)

    def poll(self, mark: Mark) -> None:
        """Serves the publisher."""
        self._mark = mark
        self._settle()
        if (lost := self._publisher.poll()) is not None:
            self._log.warning("%s", lost)

    def close(self) -> None:
        """Ends the source; raises BrokerError if something could not be delivered."""
        try:
            self._publisher.down(time.time_ns(), "graceful")
        finally:
            self._publisher.close()

    def _since(self, target: int, events: Events, from_ns: int) -> Events:
        """The rows of a target's streams from their beginning on; after a while, nothing older comes any more."""
        if time.time_ns() - from_ns > FRESH_NS:
            del self._fresh_ns[target]
        kept = events["time_ns"] >= from_ns
        self._counted["rows_before_up"] += int(len(events) - kept.sum())
        return picked(events, kept)

    def _settle(self) -> None:
        """Tells the roster who has come and gone. While Kafka does not answer, this is put off."""
        if not (self._rising or self._falling or not self._facts_up) or time.monotonic() < self._again_s:
            return
        try:
            self._begin_facts()
            # A target that comes with other streams than before ends its old ones first.
            changed = {target: "changed" for target in self._rising if target in self._announced}
            self._end(self._falling | changed)
            self._begin(self._rising)
        except BrokerError as err:
            self._again_s = time.monotonic() + RETRY_S
            self._log.warning("the roster could not be told of targets: %s", err)

    def _begin_facts(self) -> None:
        if not self._facts_up and self._fact_topics:
            from_ns = time.time_ns() - FACTS_BEHIND_NS
            self._publisher.up([StreamUp(topic) for topic in self._fact_topics], from_ns, UP_DEADLINE_S)
            self._facts_mark_ns = from_ns
        self._facts_up = True

    def _begin(self, rising: dict[int, Announced]) -> None:
        if not rising:
            return
        streams = [
            StreamUp(topic, told.device, period_ns)
            for told in rising.values()
            for topic, period_ns in zip(told.topics, told.periods_ns, strict=True)
        ]
        # From now on: what is older may have been settled by those who read the other targets.
        from_ns = time.time_ns()
        self._publisher.up(streams, from_ns, UP_DEADLINE_S)
        self._fresh_ns |= dict.fromkeys(rising, from_ns)
        for target, told in rising.items():
            self._announced[target] = told
            self._by_device[told.device] = target
        rising.clear()

    def _end(self, falling: dict[int, str]) -> None:
        for reason in sorted(set(falling.values())):
            targets = [target for target, why in falling.items() if why == reason]
            at_ns = max(self._mark(target) for target in targets)
            streams = [(topic, self._announced[t].device) for t in targets for topic in self._announced[t].topics]
            self._publisher.end(streams, at_ns, reason, UP_DEADLINE_S)
            for target in targets:
                del self._announced[target]
                self._fresh_ns.pop(target, None)
                self._falling.pop(target, None)

    def _tell(self, fact: Fact) -> None:
        """Publishes a fact; one from before what was promised holds from there on."""
        if not self._facts_up:
            self._counted["facts_not_announced"] += 1
            return
        valid_ns = max(fact.valid_from_ns, self._facts_mark_ns)
        try:
            self._publisher.fact(msgspec.structs.replace(fact, valid_from_ns=valid_ns), self._facts_mark_ns)
        except PausetraceError as err:
            self._counted["facts_refused"] += 1
            self._log.warning("a fact is left out: %s", err)

    def _idle_mark_ns(self, stream: StreamKey) -> int:
        if stream.device:
            target = self._by_device.get(stream.device)
            return 0 if target is None else self._mark(target)
        marks: Iterable[int] = (self._mark(target) for target in self._announced)
        self._facts_mark_ns = max(self._facts_mark_ns, min(marks, default=time.time_ns() - FACTS_BEHIND_NS))
        return self._facts_mark_ns


class NoOutlet:
    """Counts, and lets go: `--dry-run`, and measurements of what a collector itself costs."""

    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()

    @property
    def counters(self) -> Counter[str]:
        """What would have been published."""
        return self._counted

    def up(self, target: int, streams: Announced) -> None:
        """Counts."""
        self._counted["targets_up"] += 1

    def down(self, target: int, reason: str) -> None:
        """Counts."""
        self._counted["targets_down"] += 1

    def put(self, made: Made, mark: Mark) -> None:
        """Counts."""
        self._counted["rows"] += len(made.events)
        self._counted["facts"] += len(made.facts)

    def lost(self, target: int, messages: int, reason: int, first_ns: int, last_ns: int) -> None:
        """Counts."""
        self._counted["messages_lost"] += messages

    def poll(self, mark: Mark) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""
