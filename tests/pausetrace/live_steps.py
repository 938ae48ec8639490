"""detect and correlate at work on a broker, in threads of the test, for as long as a block."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream.cascade import FINAL, Cascade
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, encode
from stream.topics import FACTS, RAW
from stream.worker import Worker

DEADLINE_S = 60.0


class LiveSteps:
    """`with LiveSteps(settings) as steps: ...; steps.finals(5)`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._made: list[Item] = []
        detect = Worker(settings, Detect(), name="detect", topics=RAW, group="detect", say=lambda _: None)
        self.correlate = Worker(
            settings, Correlate(), name="correlate", topics=("episode", *FACTS), say=lambda _: None,
            on_outputs=self._made.extend,
        )  # fmt: skip
        self._workers = (detect, self.correlate)
        self._threads = [
            threading.Thread(target=worker.run, kwargs={"deadline_s": DEADLINE_S}) for worker in self._workers
        ]

    def finals(self, count: int) -> list[bytes]:
        """The final cascades as soon as there are so many, and whatever came a moment later."""
        end_s = time.monotonic() + DEADLINE_S
        while len(self._finals()) < count and time.monotonic() < end_s:
            time.sleep(0.05)
        # A moment more, so that a cascade too many would be seen.
        time.sleep(0.5)
        return self._finals()

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
        for worker in self._workers:
            worker.stop.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for worker in self._workers:
            worker.close()
