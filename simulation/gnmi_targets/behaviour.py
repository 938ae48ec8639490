"""How a fake target behaves: what it takes and refuses, how it writes its answers, and what it does wrong.

In: nothing. Out: a frozen description; the same one and the same seed give the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulation.gnmi_targets.messages import capabilities


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status that a target answers a Subscribe with; `path` "" refuses all, else a subscription with that path."""

    status: str
    text: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Everything is as it should be unless it is said here. Times are ns.

    `sync`: present, absent, late (after the next samples) or repeated. `prefix`: how much of the paths goes there:
    none, common (what all updates share) or target (an empty path with the target's name).
    """

    answer: bytes = capabilities(models=(("pausetrace-lab", "Pausetrace", "1.0.0"),))
    capabilities_status: str = ""
    username: str = ""
    password: str = ""
    refusals: tuple[Refusal, ...] = ()
    least_interval_ns: int = 0
    on_change: bool = True
    once: bool = True
    streams: int = 1000
    """RPCs at the same time; one more is RESOURCE_EXHAUSTED."""
    sync: str = "present"
    prefix: str = "common"
    target: str = ""
    origin: str = ""
    old_elements: bool = False
    keys_reversed: bool = False
    extension: bytes = b""
    keepalives: bool = False
    """Empty answers between the others (NX-OS)."""
    gzip: bool = False
    updates_a_message: int = 1000
    # what is wrong with its data
    clock_offset_ns: int = 0
    clock_drift_ppm: int = 0
    time_zero: bool = False
    time_in_seconds: bool = False
    duplicates: bool = False
    """Each message twice."""
    out_of_order: bool = False
    """Each second pair of samples in the wrong order."""
    end_after: int = 0
    """Messages after which the RPC ends with `end_status`; 0: never."""
    end_status: str = "OK"
