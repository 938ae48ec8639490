"""Publishes how well sources tell, from a worker's own thread: every ten seconds and when one falls silent or ends.

In: what the worker reads, and its step. Out: JSON on the health topic, never at the cost of the work. Where there is no
such topic, or it cannot be reached, nothing is told, and that is counted: the worker's own outputs do not wait for it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

import msgspec

from stream.batch import StreamKey
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, Item
from stream.outbox import Outbox
from stream.source_health import Covering, FabricHealth, SourceHealth, SourceTallies, fabric_health
from stream.topics import full_name

FIRST_S, INTERVAL_S, LOOK_S = 1.0, 10.0, 1.0
"""What is told for the first time after, how often it is, and how often it is looked whether a source is gone."""
DEADLINE_S = 2.0


class HealthTeller:
    """One worker's; `teller` names it among others that do the same work."""

    def __init__(
        self,
        settings: KafkaSettings,
        teller: str,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_s: Callable[[], float] = time.monotonic,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.counters = {"health_values": 0, "health_not_told": 0}
        self._settings = settings
        self._teller = teller
        self._clock_ns, self._monotonic_s = clock_ns, monotonic_s
        self._deadline_s = deadline_s
        self._tallies = SourceTallies(teller)
        self._outbox: Outbox | None = None
        self._next_s = self._look_s = monotonic_s() + FIRST_S
        self._gone: frozenset[tuple[str, str, str]] = frozenset()

    def took(self, items: Iterable[Item]) -> None:
        """The worker has read these."""
        self._tallies.took(items, self._monotonic_s())

    def forget(self, gone: Callable[[StreamKey], bool]) -> None:
        """Another worker reads these streams now."""
        self._tallies.forget(gone)

    def poll(self, step: object) -> None:
        """Tells what there is to tell, if it is time."""
        now_s = self._monotonic_s()
        if self._outbox is not None:
            with contextlib.suppress(BrokerError):  # what is lost is said again by the next values
                self._outbox.poll()
            self._outbox.take_failure()
        if now_s < self._look_s:
            return
        self._look_s = now_s + LOOK_S
        gone = self._tallies.gone(now_s)
        if now_s < self._next_s and gone == self._gone:
            return
        self._next_s, self._gone = now_s + INTERVAL_S, gone
        now_ns = self._clock_ns()
        told: list[SourceHealth | FabricHealth] = list(self._tallies.told(now_ns, now_s))
        if isinstance(step, Covering):
            told += [fabric_health(name, of, self._teller, now_ns) for name, of in sorted(step.coverage().items())]
        if told:
            self._send(told)

    def close(self) -> None:
        """Closes the connection, when what was told has been delivered or a moment has passed."""
        if self._outbox is not None:
            with contextlib.suppress(BrokerError):
                self._outbox.flush(DEADLINE_S)
            self._outbox.close()

    def _send(self, told: list[SourceHealth | FabricHealth]) -> None:
        try:
            if self._outbox is None:
                self._outbox = Outbox(self._settings, deadline_s=self._deadline_s)
            if full_name(self._settings.prefix, "health") not in self._outbox.view.partitions:
                self.counters["health_not_told"] += len(told)
                return
            for each in told:
                name = each.fabric if not hasattr(each, "source") else f"{each.fabric}/{each.source}"
                self._outbox.send(Encoded("health", f"{name}@{self._teller}".encode(), msgspec.json.encode(each)))
                self.counters["health_values"] += 1
        except BrokerError:
            self.counters["health_not_told"] += len(told)
