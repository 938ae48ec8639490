"""Probes for tests of the agent: each does what its test has it do, and says what was done to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from probes.agent import Agent, AgentStatus
from probes.budget import Budget
from probes.opening import UnavailableError
from probes.output import Output
from probes.probe import Options, Reading, Rows, Unavailable
from probes.promises import Promises
from probes.runner import ProbeStatus, Taken
from probes.settings import AgentSettings, ProbeSettings
from probes.table import ProbeKind
from stream.kinds import BY_NAME
from stream.record import empty_events

DEADLINE_S = 20.0
OFTEN_NS = 20_000_000

SUMS = ProbeKind("sums", "", ("host",), "counters", interval_ns=OFTEN_NS)
STATES = ProbeKind("states", "", ("pcie",), "states", interval_ns=OFTEN_NS, sums=False)
RING = ProbeKind("ring", "", ("host",), "instants", interval_ns=OFTEN_NS, threshold_ns=1000, instants=True)
TABLE = (SUMS, STATES, RING)


def settings_of(*kinds: ProbeKind, cpu_share: float = 1.0, device: str = "h1", root: Path = Path("/")) -> AgentSettings:
    """Settings that run these probes as the table has them."""
    probes = {kind.name: ProbeSettings(kind.interval_ns, kind.threshold_ns) for kind in kinds}
    return AgentSettings("lab", device, probes, root, cpu_share=cpu_share)


def row(topic: str, time_ns: int, span_ns: int = 0, value: int = 1, kind: str = "") -> Rows:
    """One row of the host."""
    events = empty_events(1)
    events["kind"] = BY_NAME[kind or {"host": "CPU_THROTTLE", "pcie": "PCIE_SPEED"}[topic]].code
    events["time_ns"], events["span_ns"], events["value"] = time_ns, span_ns, value
    return Rows(topic, events, ("eth0",))


class SampleProbe:
    """Tells one row a read, whose value counts the reads."""

    def __init__(self, kind: ProbeKind) -> None:
        self.kind = kind
        self.reads = 0
        self.closed = 0
        self.log: list[str] = []
        self.times_ns: list[int] = []
        self.detail = True
        self.counted: dict[str, int] = {}
        self.during_read: Callable[[], None] = lambda: None

    def read(self, now_ns: int) -> Reading:
        """A row at now, or, of a ring, at the time of the read before."""
        self.during_read()
        self.reads += 1
        before_ns = self.times_ns[-1] if self.times_ns else None
        self.times_ns.append(now_ns)
        if before_ns is None:
            return Reading()
        if self.kind.instants:
            return Reading([row(self.kind.topics[0], before_ns + 1, value=self.reads)])
        span_ns = now_ns - before_ns if self.kind.sums else 0
        return Reading([row(self.kind.topics[0], now_ns, span_ns, self.reads)])

    def reduce(self) -> bool:
        """Gives up what `during_read` costs."""
        self.log.append("reduce")
        return self.detail

    def restore(self) -> None:
        """Takes it up again."""
        self.log.append("restore")

    def close(self) -> None:
        """Counts."""
        self.closed += 1


class SampleOpener:
    """Opens sample probes; `prepare` may spoil each, and `fail` makes opening fail."""

    def __init__(
        self,
        prepare: Callable[[SampleProbe], None] = lambda _probe: None,
        fail: Callable[[ProbeKind], Exception | None] = lambda _kind: None,
    ) -> None:
        self._prepare = prepare
        self._fail = fail
        self.opened: list[SampleProbe] = []
        self.options: list[Options] = []

    def available(self, kind: ProbeKind, _options: Options) -> Unavailable | None:
        """As opening would say."""
        err = self._fail(kind)
        return Unavailable(err.message, err.next_step) if isinstance(err, UnavailableError) else None

    def open(self, kind: ProbeKind, options: Options) -> SampleProbe:
        """A new probe."""
        if err := self._fail(kind):
            raise err
        probe = SampleProbe(kind)
        self._prepare(probe)
        self.opened.append(probe)
        self.options.append(options)
        return probe

    def of(self, kind: ProbeKind) -> list[SampleProbe]:
        """The probes of a kind, in the order of opening."""
        return [probe for probe in self.opened if probe.kind.name == kind.name]


class Gathered:
    """An output that keeps everything."""

    def __init__(self, promises: Promises) -> None:
        self.counters: dict[str, int] = {}
        self.expected: list[tuple[str, ...]] = []
        self.taken: list[Taken] = []
        self.told: list[Sequence[ProbeStatus]] = []
        self.closed: bool | None = None
        self._promises = promises

    def expect(self, kinds: Sequence[ProbeKind]) -> None:
        """Remembers their names."""
        self.expected.append(tuple(kind.name for kind in kinds))

    def take(self, taken: Sequence[Taken]) -> None:
        """Remembers them."""
        for one in taken:
            self._promises.passed_on(one.kind, one.read_ns)
        self.taken += taken

    def turn(self) -> None:
        """Nothing is to be done."""

    def tell(self, statuses: Sequence[ProbeStatus]) -> None:
        """Remembers them."""
        self.told.append(statuses)

    def close(self, *, in_order: bool = True) -> None:
        """Remembers it."""
        self.closed = in_order


class Running:
    """`with Running(settings, output, promises, opener) as running:` has an agent at work in a thread."""

    def __init__(
        self,
        settings: AgentSettings,
        output: Output,
        promises: Promises,
        opener: SampleOpener,
        *,
        reload: Callable[[], AgentSettings] | None = None,
        over_s: float = 5.0,
        calm_s: float = 60.0,
        stuck_s: float = 5.0,
    ) -> None:
        self.statuses: list[AgentStatus] = []
        self.agent = Agent(
            settings, output, promises, table=TABLE, opener=opener, reload=reload, on_status=self.statuses.append,
            stuck_s=stuck_s, make_budget=partial(Budget, over_s=over_s, calm_s=calm_s),
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.agent.run, args=(self._stop,))

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def status(self, name: str) -> ProbeStatus:
        """Of one probe, now."""
        return next(status for status in self.agent.status.probes if status.name == name)


def wait_until(enough: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Waits for a condition; fails at the deadline."""
    end_s = time.monotonic() + deadline_s
    while not enough():
        assert time.monotonic() < end_s, "it did not come about in time"
        time.sleep(0.01)
