"""What a probe is: something that is read at its interval and says what it saw since; probes/table.py names them all.

In: the host, or a recorded tree of one. Out: `Reading`s, which the agent publishes or prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from stream.facts import Fact
from stream.record import Events


class Rows(NamedTuple):
    """Rows of one topic of this host: `events["port"]` indexes `ports`; `texts` are (row, text), such as a comm."""

    topic: str
    events: Events
    ports: Sequence[str]
    texts: Sequence[tuple[int, str]] = ()


class Lost(NamedTuple):
    """Rows that were lost before they became a `Reading`, with a code of LOSS_REASONS and when."""

    topic: str
    rows: int
    reason: int
    first_ns: int
    last_ns: int


class Reading(NamedTuple):
    """What one probe saw in one interval. Facts have the stream UNSENT.

    `kernel_ns`: CPU time that its BPF programs took in the kernel meanwhile, as far as it knows: it counts as the
    probe's own.
    """

    rows: Sequence[Rows] = ()
    lost: Sequence[Lost] = ()
    facts: Sequence[Fact] = ()
    kernel_ns: int = 0


class Options(NamedTuple):
    """How a probe is to be made.

    `name` is its name in the table, `device` what rows and facts call this host, `root` the tree with /sys and /proc
    (not `/` where a tree of another host is read). `threshold_ns` is from where on a latency is an outlier.
    `interfaces` are patterns of names of interfaces to watch; none given means every one with a device behind it.
    `rails` names the rail of the fabric that an interface belongs to. `attach` is how packets are looked at, one of
    ATTACH_MODES, "" of other probes.
    """

    name: str
    device: str
    fabric: str
    interval_ns: int
    threshold_ns: int = 0
    root: Path = Path("/")
    interfaces: tuple[str, ...] = ()
    per_cpu: bool = False
    rails: Mapping[str, str] = MappingProxyType({})
    attach: str = ""


class Unavailable(NamedTuple):
    """Why a probe cannot run on this host, and what would let it."""

    reason: str
    fix: str = ""


class Probe(Protocol):
    """One source of observations. A probe is made by its row in the table, on a host where it is available."""

    def read(self, now_ns: int) -> Reading:
        """What happened up to now (our clock, ns since the Unix epoch) since the last call; the first is a baseline.

        A window ends at now_ns, so that its row bears that time; an instant lies between the last call and now.
        """

    def reduce(self) -> bool:
        """Gives up detail (single events) and keeps counters, to cost less; False if there is nothing to give up."""

    def restore(self) -> None:
        """Takes up again what `reduce` gave up."""

    def close(self) -> None:
        """Detaches everything and gives everything back; may be called twice."""


@runtime_checkable
class CountingProbe(Protocol):
    """A probe that counts what it met and left out or corrected, such as counters that went back, by a word for it."""

    counted: Mapping[str, int]
