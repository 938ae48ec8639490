"""What a verdict may lack: how its sentences begin or end, and which part of the confidence each of them would raise.

In: a sentence of `missing_evidence`. Out: the part's name. Imports nothing, since who only reads cascades asks too.
"""

from __future__ import annotations

ONE_ENDED = "pauses as seen by"
LATE = "what nobody waited for of"
MASKED = "pauses that a PFC watchdog ignored at"
GAPS = "what was counted while counters began anew or were not read of"
LOST = "rows that were lost or ends that were guessed"
CUT_OFF = "ends that were guessed beside it, so that it may be a piece of another cascade"
SILENT = "queue depth, ECN marks or bytes of"
ENDS = "what is at the other end of"
NAMES = "which ports these names mean:"
PCIE = "PCIe state of"
PERIODS = "more or shorter polls: those that carry pause are"
DURATIONS = "of the stops as durations: pause frames alone say how often, not how long"
SILENT_DEVICE = "of the pause time as the stopped devices themselves count it"
UNTOLD = "pause counters of"

PARTS = ("time", "coverage", "evidence", "margin")
RAISES: dict[str, str] = {
    ONE_ENDED: "time",
    LATE: "time",
    MASKED: "time",
    GAPS: "time",
    LOST: "time",
    CUT_OFF: "time",
    SILENT: "coverage",
    ENDS: "coverage",
    NAMES: "coverage",
    PCIE: "evidence",
    PERIODS: "time",
    DURATIONS: "coverage",
    SILENT_DEVICE: "coverage",
    UNTOLD: "coverage",
}


def part_raised(sentence: str) -> str:
    """The part of the confidence that this evidence would raise, "" for a sentence of another version."""
    return next((part for words, part in RAISES.items() if sentence.startswith(words) or sentence.endswith(words)), "")
