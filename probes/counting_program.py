"""What programs share that only count: their maps are read once a window, and they have no detail to give up.

In: what is attached, and the maps. Out: readings, from what a program's own `window` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from probes.attach import Attached
from probes.maps import Map
from probes.probe import Reading


class CountingProgram:
    """It owns its maps, and what is attached. The first read begins the first window."""

    def __init__(
        self, maps: Sequence[Map], attached: Sequence[Attached], *, window_ns: int, released: Callable[[], None]
    ) -> None:
        self._maps, self._attached = list(maps), list(attached)
        self._window_ns, self._released = window_ns, released
        self._window_from_ns = 0
        self._closed = False

    def read(self, now_ns: int) -> Reading:
        """What was counted, at the first read after 3/4 of a window."""
        from_ns = self._window_from_ns or now_ns
        is_over = now_ns - from_ns >= self._window_ns * 3 // 4
        self._window_from_ns = now_ns if is_over else from_ns
        return self.window(now_ns, now_ns - from_ns) if is_over else Reading()

    def window(self, now_ns: int, span_ns: int) -> Reading:
        """What was counted in the time up to now."""
        raise NotImplementedError

    def reduce(self) -> bool:
        """There is nothing to give up."""
        return False

    def restore(self) -> None:
        """Nothing was given up."""

    def close(self) -> None:
        """Detaches; may be called twice."""
        for each in self._attached:
            each.close()
        if not self._closed:
            self._closed = True
            for each_map in self._maps:
                each_map.close()
            self._released()
