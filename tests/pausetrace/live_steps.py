"""detect and correlate at work on a broker, in threads of the test, for as long as a block."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream.cascade import FINAL, Cascade
from stream.exactly_once import Runner
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, encode
from stream.topics import FACTS, RAW
from stream.worker import Worker

DEADLINE_S = 60.0


class LiveSteps:
    """`with LiveSteps(settings) as steps: ...; steps.finals(5)`.

    At least once, which works on either broker, or exactly once on a real Kafka.
    """

    def __init__(self, settings: KafkaSettings, *, exactly_once: bool = False) -> None:
        self._made: list[Item] = []
        self._stops: list[threading.Event] = []
        self._closes: list[Callable[[], None]] = []
        self._threads: list[threading.Thread] = []
        self._counters: list[Callable[[], dict[str, int]]] = []
        if exactly_once:
            detect = Runner(settings, say=lambda _: None)
            correlate = Runner(settings, say=lambda _: None, on_outputs=self._made.extend)
            self._add(detect, lambda: detect.detect(Detect))
            self._add(correlate, lambda: correlate.correlate(Correlate))
            return
        workers = (
            Worker(settings, Detect(), name="detect", topics=RAW, group="detect", say=lambda _: None),
            Worker(settings, Correlate(), name="correlate", topics=("episode", *FACTS), say=lambda _: None,
                   on_outputs=self._made.extend),
        )  # fmt: skip
        for worker in workers:
            self._add(worker, worker.run)
            self._closes.append(worker.close)

    @property
    def late_rows(self) -> int:
        """Rows that came too late to count."""
        return sum(counters().get("step_late_rows", 0) for counters in self._counters)

    def finals(self, count: int) -> list[bytes]:
        """The final cascades as soon as there are so many, and whatever came a moment later."""
        end_s = time.monotonic() + DEADLINE_S
        while len(self._finals()) < count and time.monotonic() < end_s:
            time.sleep(0.05)
        # A moment more, so that a cascade too many would be seen.
        time.sleep(0.5)
        return self._finals()

    def _add(self, worker: Worker | Runner, run: Callable[[], None]) -> None:
        self._stops.append(worker.stop)
        self._counters.append(lambda: worker.counters)
        self._threads.append(threading.Thread(target=run))

    def _finals(self) -> list[bytes]:
        made = list(self._made)
        return sorted(encode(item).value for item in made if isinstance(item, Cascade) and item.revision == FINAL)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stop in self._stops:
            stop.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for close in self._closes:
            close()
