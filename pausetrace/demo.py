"""The demo: a broker, detect and correlate as processes, and a trace that is published slowly enough to be watched.

In: where Kafka is (None = an embedded broker), a trace and how long to take. Out: the final cascades; `Show` is told
of everything on the way.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Protocol

import msgspec

from pausetrace.child import Child, own_command, own_environment
from pausetrace.importer import import_trace
from pausetrace.playing import Play, Playing, kafka_of_child, playing
from pausetrace.reader import Reader
from pausetrace.units import duration_words
from simulation.trace import read_trace
from simulation.trace_columns import Trace
from stream.cascade import FINAL, Cascade
from stream.embedded import EmbeddedBroker
from stream.errors import EXIT_MISSING_DEPENDENCY, BrokerError, MissingDependencyError, PausetraceError
from stream.kafka_settings import KafkaSettings
from stream.topic_admin import create_topics

DEMO_TRACE = Path(__file__).with_name("demo_trace")
DEMO_PREFIX = "pausetrace-demo"
"""On a Kafka of the user's: one set of topics however often the demo runs; a run is a fabric of its own there."""

READY_DEADLINE_S = 30.0
WARM_UP_DEADLINE_S = 120.0
FINAL_DEADLINE_S = 25.0
SAMPLED_PERIODS = 5
"""Polls that see the incident: below three there is no verdict."""
SETTLED_PERIODS = 4
QUIET_S = 0.5
"""When nothing has come for so long after the last final cascade, it was the last."""


@dataclass(slots=True)
class Picture:
    """What is known so far: the newest revision of each cascade, and how much of the trace is out."""

    share: float = 0.0
    cascades: dict[str, Cascade] = field(default_factory=dict)
    revisions: int = 0

    def take(self, cascade: Cascade) -> None:
        """Takes a revision in; one that came twice, or is older than the final one, changes nothing."""
        self.revisions += 1
        if cascade.merged_into is not None:
            self.cascades.pop(cascade.id, None)
            return
        known = self.cascades.get(cascade.id)
        if known is None or known.revision != FINAL:
            self.cascades[cascade.id] = cascade

    @property
    def finals(self) -> list[Cascade]:
        """The final cascades."""
        return [cascade for cascade in self.cascades.values() if cascade.revision == FINAL]

    @property
    def apart(self) -> list[Cascade]:
        """The largest, and those at other times: what began beside it may since be known to be part of it."""
        most = max(self.cascades.values(), key=lambda cascade: cascade.pause_ns)
        return [
            cascade
            for cascade in self.cascades.values()
            if cascade is most or cascade.start_ns > most.end_ns or cascade.end_ns < most.start_ns
        ]


class Source(Protocol):
    """Whose cascades are watched."""

    @property
    def share(self) -> float:
        """How much of it is published."""
        ...

    @property
    def done(self) -> bool:
        """Whether all of it is; raises what went wrong with it."""
        ...


class Show(Protocol):
    """Who watches the demo."""

    def stage(self, sentence: str) -> None:
        """Something has begun."""
        ...

    def picture(self, picture: Picture) -> None:
        """Is called several times a second, with everything known so far."""
        ...


class _Stopped(Exception):  # noqa: N818 - no error: the demo ends before the import does
    pass


class _Import:
    """The import in a thread of its own; leaving the block ends it."""

    def __init__(self, trace: Trace, settings: KafkaSettings, fabric: str, seconds: float) -> None:
        self.share = 0.0
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(trace, settings, fabric, seconds), name="import")

    @property
    def done(self) -> bool:
        """Whether everything is published; raises what the import raised."""
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    def __enter__(self) -> _Import:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self, trace: Trace, settings: KafkaSettings, fabric: str, seconds: float) -> None:
        try:
            import_trace(trace, settings, fabric, time.time_ns(), seconds, self._progress)
        except _Stopped:
            return
        except Exception as err:  # noqa: BLE001 - raised again where the demo waits for it
            self.error = err

    def _progress(self, share: float) -> None:
        if self._stop.is_set():
            raise _Stopped
        self.share = share


class _Polled:
    """The incident of a played fabric that is polled."""

    def __init__(self, polled: Playing) -> None:
        self._polled = polled
        self._begin_ns, self._end_ns = polled.incident_ns()

    @property
    def share(self) -> float:
        """How much of it has happened."""
        return min(max((time.time_ns() - self._begin_ns) / (self._end_ns - self._begin_ns), 0.0), 1.0)

    @property
    def done(self) -> bool:
        """Whether it is over; raises ChildError if a process of the fabric is."""
        self._polled.check()
        return time.time_ns() >= self._end_ns


def run_sampled_demo(
    bootstrap: KafkaSettings | None, path: Path, period_ns: int, vendor: str, show: Show
) -> list[Cascade]:
    """Runs the demo with counters that are polled; raises PausetraceError if no cascade comes by the deadline.

    A cascade of polls is final long after it is over, in case it goes on: what is known a few periods after is the end.
    """
    trace = read_trace(path)
    _warm_up(path, show, "--polled", duration_words(3 * trace.period_ns))
    with _kafka(bootstrap, show) as settings:
        show.stage("starting detect and correlate, each a process of its own")
        with _workers(settings) as children, kafka_of_child(settings) as kafka:
            fabric = f"demo-{token_hex(3)}"
            show.stage(
                f"playing {_what(trace)} of {vendor}, polled every {duration_words(period_ns)}, as fabric {fabric}"
            )
            play = Play(path, vendor, period_ns, SAMPLED_PERIODS * period_ns, fabric, repeat=True)
            with Reader(settings, ["cascade"], "latest") as reader, playing(play, kafka) as polled:
                after_s = SETTLED_PERIODS * period_ns * 1e-9
                return _watch(reader, fabric, _Polled(polled), children, show, after_s)


def run_demo(bootstrap: KafkaSettings | None, path: Path, seconds: float, show: Show) -> list[Cascade]:
    """Runs the demo; raises PausetraceError if no final cascade comes by the deadline."""
    trace = read_trace(path)
    _warm_up(path, show)
    with _kafka(bootstrap, show) as settings:
        show.stage("starting detect and correlate, each a process of its own")
        with _workers(settings) as children:
            fabric = f"demo-{token_hex(3)}"
            show.stage(f"publishing {_what(trace)} over {seconds:g} s as fabric {fabric}")
            with Reader(settings, ["cascade"], "latest") as reader, _Import(trace, settings, fabric, seconds) as source:
                return _watch(reader, fabric, source, children, show)


@contextlib.contextmanager
def _workers(settings: KafkaSettings) -> Iterator[list[Child]]:
    """Runs detect and correlate for as long as the block, ready to read."""
    with (
        kafka_of_child(settings) as kafka,
        kafka.child(["detect"]) as detect,
        kafka.child(["correlate"]) as correlate,
    ):
        children = [detect, correlate]
        for child in children:
            # At least or exactly: what a worker says when it begins to read.
            child.wait_until_said(" once: ", READY_DEADLINE_S)
        yield children


def _watch(
    reader: Reader, fabric: str, source: Source, children: list[Child], show: Show, settled_s: float | None = None
) -> list[Cascade]:
    """The final cascades, or what is known so long after the source's end."""
    picture = Picture()
    published_s: float | None = None
    last_s = time.monotonic()
    while True:
        for read in reader.read(wait_s=0.2):
            if isinstance(read.item, Cascade) and read.item.fabric == fabric:
                picture.take(read.item)
                last_s = time.monotonic()
        for child in children:
            child.check()
        picture.share = source.share
        show.picture(picture)
        now_s = time.monotonic()
        if not source.done:
            continue
        published_s = published_s or now_s
        finals = picture.finals
        if finals and len(finals) == len(picture.cascades) and now_s - last_s >= QUIET_S:
            return finals
        if settled_s is not None and now_s - published_s >= settled_s and picture.cascades:
            return picture.apart
        if now_s - published_s >= FINAL_DEADLINE_S:
            if finals:
                return finals
            raise BrokerError(
                f"no final cascade came within {FINAL_DEADLINE_S:g} s of the trace's end",
                "run the demo again; the machine may be too busy",
            )


@contextlib.contextmanager
def _kafka(bootstrap: KafkaSettings | None, show: Show) -> Iterator[KafkaSettings]:
    """An embedded broker for as long as the block, or the user's Kafka with the topics made."""
    if bootstrap is None:
        show.stage("starting the embedded broker")
        with EmbeddedBroker() as broker:
            yield broker.settings
        return
    show.stage(f"making topics {bootstrap.prefix}.* on {bootstrap.bootstrap_servers}")
    create_topics(bootstrap)
    yield bootstrap


def _warm_up(path: Path, show: Show, *flags: str) -> None:
    """Has the kernels compiled, if they are not, so that the live picture need not wait for them."""
    show.stage("warming up (the first time, kernels are compiled)")
    command = own_command(["analyze", str(path), "-o", "json", *flags])
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WARM_UP_DEADLINE_S, check=False,
            env=own_environment(), text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PausetraceError(f"kernels were not compiled within {WARM_UP_DEADLINE_S:g} s", "run it again") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1].removeprefix("pausetrace: error: ")
        if done.returncode == EXIT_MISSING_DEPENDENCY:
            raise MissingDependencyError(last)
        raise PausetraceError(f"the trace cannot be analyzed: {last}")


def _what(trace: Trace) -> str:
    hosts = sum(role == "host" for role in trace.roles)
    return f"a trace of {hosts} hosts and {len(trace.roles) - hosts} switches"


def with_demo_prefix(settings: KafkaSettings) -> KafkaSettings:
    """The user's Kafka with topics of the demo's own, unless the user has chosen a prefix."""
    return msgspec.structs.replace(settings, prefix=DEMO_PREFIX)
