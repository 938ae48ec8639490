"""Ranks of a stand-in process group, each a thread with a clock of its own that only computing and waiting move."""

from __future__ import annotations

import threading
from collections.abc import Callable

BEGIN_NS = 1_800_000_000_000_000_000


class Ranks:
    """What the ranks share: where they wait for each other."""

    def __init__(self, count: int) -> None:
        self.now_ns = [BEGIN_NS] * count
        self._together = threading.Barrier(count, action=self._release, timeout=30)
        self.groups = [Group(self, rank) for rank in range(count)]

    def wait(self) -> None:
        """All go on at the time of the last one."""
        self._together.wait()

    def _release(self) -> None:
        self.now_ns[:] = [max(self.now_ns)] * len(self.now_ns)

    def run(self, train: Callable[[Group], None]) -> None:
        """Every rank's training, each in a thread; raises what one of them raised."""
        failed: list[BaseException] = []

        def of_rank(group: Group) -> None:
            try:
                train(group)
            except BaseException as err:  # noqa: BLE001 - raised again below
                failed.append(err)
                self._together.abort()

        threads = [threading.Thread(target=of_rank, args=(group,)) for group in self.groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]


class Group:
    """The process group as one rank sees it, and that rank's clock."""

    def __init__(self, ranks: Ranks, rank: int) -> None:
        self._ranks = ranks
        self._rank = rank

    def rank(self) -> int:
        """This process."""
        return self._rank

    def barrier(self) -> None:
        """Waits for all."""
        self._ranks.wait()

    def now_ns(self) -> int:
        """The time of this rank."""
        return self._ranks.now_ns[self._rank]

    def work(self, ms: float) -> None:
        """Lets time pass for this rank."""
        self._ranks.now_ns[self._rank] += int(ms * 1_000_000)
