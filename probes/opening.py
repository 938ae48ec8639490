"""Opens probes by the table: pollers one by one, all eBPF programs that are wanted at first in one compilation.

In: a row of the table and its options. Out: an attached `Probe`, or the reason why there is none.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from probes.probe import Options, Probe, Unavailable
from probes.table import PROGRAMS, ProbeKind, module_of
from stream.errors import PausetraceError

if TYPE_CHECKING:
    from probes.programs import Settings

OPEN_DEADLINE_S = 30.0
MOST_TOLD = 3
"""Reasons why nothing runs that an error tells."""


class UnavailableError(PausetraceError):
    """A probe cannot run on this host."""


def none_runs(reasons: Sequence[tuple[str, str]]) -> PausetraceError:
    """The error where none of these probes, each with its reason, can run: those of one reason are told together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons:
        by_reason.setdefault(reason, []).append(name)
    told = [f"probe{'s' * (len(of) > 1)} {', '.join(of)}: {reason}" for reason, of in by_reason.items()]
    if len(told) <= MOST_TOLD:
        return PausetraceError(f"no probe can run here: {'; '.join(told)}")
    left = sum(len(of) for of in list(by_reason.values())[MOST_TOLD:])
    return PausetraceError(
        f"no probe can run here: {'; '.join(told[:MOST_TOLD])}; and {left} more", "pausetrace probe --list tells all"
    )


class Opener(Protocol):
    """What opens probes for an agent."""

    def available(self, kind: ProbeKind, options: Options) -> Unavailable | None:
        """Why the probe cannot run here; a look that costs next to nothing."""

    def open(self, kind: ProbeKind, options: Options) -> Probe:
        """The probe, attached; raises PausetraceError, UnavailableError where it cannot run here."""


class TableOpener:
    """The probes of the table. Safe for threads; `first` are the options of all programs about to be opened."""

    def __init__(self, first: Sequence[Options] = ()) -> None:
        self._lock = threading.Lock()
        self._first = tuple(first)
        self._opened: dict[str, Probe | Unavailable] = {}

    def available(self, kind: ProbeKind, options: Options) -> Unavailable | None:
        """Why the probe cannot run here."""
        module = module_of(kind)
        if kind.module == PROGRAMS:
            from probes import programs

            return programs.available(kind.name, _settings([options]), options.root)
        return module.available(options)

    def open(self, kind: ProbeKind, options: Options) -> Probe:
        """The probe, attached."""
        module = module_of(kind)
        is_program = kind.module == PROGRAMS
        found = self._program(options) if is_program else module.available(options) or module.make(options)
        if isinstance(found, Unavailable):
            raise UnavailableError(found.reason, found.fix)
        return found

    def close(self) -> None:
        """Closes what was opened and never asked for."""
        with self._lock:
            for probe in self._opened.values():
                if not isinstance(probe, Unavailable):
                    probe.close()
            self._opened.clear()

    def _program(self, options: Options) -> Probe | Unavailable:
        from probes import programs

        with self._lock:
            first, self._first = self._first, ()
            if first:
                self._opened = _open_programs(first)
            if options.name in self._opened:
                return self._opened.pop(options.name)
            # It was closed, or came later.
            if reason := programs.available(options.name, _settings([options]), options.root):
                return reason
            return _open_programs([options])[options.name]


def _open_programs(wanted: Sequence[Options]) -> dict[str, Probe | Unavailable]:
    from probes import programs

    found: dict[str, Probe | Unavailable] = {}
    runnable = []
    for options in wanted:
        if reason := programs.available(options.name, _settings([options]), options.root):
            found[options.name] = reason
        else:
            runnable.append(options)
    by_window: dict[int, list[Options]] = {}
    for options in runnable:
        by_window.setdefault(options.interval_ns, []).append(options)
    for same in by_window.values():
        found |= programs.open_probes([options.name for options in same], _settings(same), OPEN_DEADLINE_S)
    return found


def _settings(wanted: Sequence[Options]) -> Settings:
    from probes import programs

    any_of = wanted[0]
    thresholds: Mapping[str, int] = {o.name: o.threshold_ns for o in wanted if o.threshold_ns}
    return programs.Settings(
        any_of.fabric, any_of.device, any_of.interfaces, window_ns=any_of.interval_ns, threshold_ns=thresholds,
        per_cpu=any_of.per_cpu, attach_mode=next((o.attach for o in wanted if o.attach), "auto"),
    )  # fmt: skip
