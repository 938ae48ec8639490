"""What all pollers share: they look for devices anew now and then, count what goes wrong, have no detail to give up.

In: a host. Out: readings, from what a poller's own `poll` says.
"""

from __future__ import annotations

from collections import Counter

from probes.host_root import HostRoot, KeptFiles
from probes.probe import Options, Reading

LOOK_AGAIN_NS = 10_000_000_000
"""Devices may come and go: a driver is reloaded, a card is swapped."""


class Poller:
    """A probe that polls. `counted` tells how often something could not be read or made no sense."""

    def __init__(self, options: Options) -> None:
        self.host = HostRoot(options.root)
        self.options = options
        self.files = KeptFiles(self.host)
        self.counted: Counter[str] = Counter()
        self._look_ns: int | None = None

    def read(self, now_ns: int) -> Reading:
        """What happened since the last call."""
        if self._look_ns is None or not self._look_ns <= now_ns < self._look_ns + LOOK_AGAIN_NS:
            self._look_ns = now_ns
            self.look()
        return self.poll(now_ns)

    def look(self) -> None:
        """Finds out which devices there are now."""

    def poll(self, now_ns: int) -> Reading:
        """Reads them."""
        raise NotImplementedError

    def reduce(self) -> bool:
        """Nothing can be given up: all are counters."""
        return False

    def restore(self) -> None:
        """Nothing was given up."""

    def close(self) -> None:
        """Closes files."""
        self.files.close()
