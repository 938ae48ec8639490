"""How far the host's clock is off its reference, by chrony, ptp4l or the kernel.

In: probes/clock_offset.py. Out: a row CLOCK_OFFSET whose text is who says so.
"""

from __future__ import annotations

from probes.clock_offset import clock_offset
from probes.host_root import HostRoot
from probes.poller import Poller
from probes.probe import Options, Probe, Reading, Rows, Unavailable
from stream.kinds import BY_NAME
from stream.record import empty_events

WHOLE_HOST = "-"


def available(options: Options) -> Unavailable | None:
    """Whether somebody keeps the clock."""
    if clock_offset(HostRoot(options.root)) is not None:
        return None
    return Unavailable(
        "nobody keeps the clock: chrony and ptp4l do not answer, and the kernel's clock is not synchronised",
        "run chrony or ptp4l: hosts whose clocks differ cannot be joined in time",
    )


def make(options: Options) -> Probe:
    """The poller."""
    return ClockOffset(options)


class ClockOffset(Poller):
    """Asks for the offset."""

    def poll(self, now_ns: int) -> Reading:
        """Asks."""
        found = clock_offset(self.host)
        if found is None:
            self.counted["unsynchronised"] += 1
            return Reading()
        events = empty_events(1)
        events["time_ns"] = events["seen_ns"] = now_ns
        events["kind"] = BY_NAME["CLOCK_OFFSET"].code
        events["value"], events["extra"] = found.offset_ns, found.error_ns
        return Reading(rows=[Rows("host", events, (WHOLE_HOST,), [(0, found.source)])])
