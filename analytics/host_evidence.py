"""What a host or a link reported of itself around a cascade: findings in sentences, and the layer that they point at.

In: what was noted of a device, and the times of a cascade. Out: `Finding`s, the one that decides the layer first.

A reading counts if its window touches the time of the cascade, widened by MARGIN_NS at both ends; of a cascade that
lasts longer than NOTED_NS, the end of it. Which layer wins: errors come before what may be mere load, and what is
nearer to the NIC comes first, so errors (PCIe, NIC, link), then CPU and kernel, memory, GPU, storage; of equals, what
began first. A PCIe link that is narrower or slower than it could be comes before all of them (analytics/classes.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analytics import layout
from analytics.bounds import WARNING_SHARE
from analytics.noted import NOTED_NS, Reading
from stream import kinds
from stream.kinds import BY_NAME, UNKNOWN

MARGIN_NS = layout.GAP_NS
"""What is this close belongs to one cascade, as pauses do. It also covers the clocks of hosts: NTP keeps them within
milliseconds of each other."""
MAX_FINDINGS = 8
"""Sentences of one root at most; the weakest are left out."""

ALLOWED_BIT_ERRORS = 1e-12
"""Errors per bit that IEEE 802.3 allows a link (behind its error correction, where it has one)."""
TOO_MANY = 10
"""A link errs beyond chance from this many times the allowed errors on; FEC corrections grow from there on."""
CORRECTED = 2
"""Code of "FEC corrected": normal on links of 50 Gb/s a lane and more, so that only growth tells anything."""

ERRORS, COMPUTE, MEMORY, GPU, STORAGE = range(5)
COUNT, LONGEST, SHARE, TIMES = range(4)
"""How readings are told: as their sum, as the longest of them, as time of their window, as a sum and its length."""


class Finding(NamedTuple):
    """One thing that was found; the least one decides the layer."""

    rank: int
    begin_ns: int
    sentence: str
    layer: str


class _Told(NamedTuple):
    """How a kind counts and is told; `codes` names what the second measure may say."""

    rank: int
    layer: str
    form: int
    what: str
    codes: dict[int, str] | None = None


_RESOURCE = {"cpu": (COMPUTE, "compute"), "memory": (MEMORY, "compute"), "io": (STORAGE, "storage"),
             "irq": (COMPUTE, "compute")}  # fmt: skip
# fmt: off
TABLE: dict[tuple[int, int | None], _Told] = {
    (BY_NAME["PCIE_ERRORS"].code, None): _Told(ERRORS, "pcie", COUNT, "PCIe errors", kinds.PCIE_ERROR_CODES),
    (BY_NAME["PCIE_STALL"].code, None): _Told(ERRORS, "pcie", SHARE, "the NIC waited for its PCIe link"),
    (BY_NAME["RDMA_ERRORS"].code, None): _Told(ERRORS, "nic", COUNT, "RDMA errors", kinds.RDMA_ERROR_CODES),
    (kinds.LINK_ERRORS, None): _Told(ERRORS, "link", COUNT, "link errors", kinds.LINK_ERROR_CODES),
    (BY_NAME["RUNQUEUE_OUTLIER"].code, None): _Told(COMPUTE, "compute", LONGEST, "run-queue latency"),
    (BY_NAME["SOFTIRQ_OUTLIER"].code, None): _Told(COMPUTE, "compute", LONGEST, "softirq raise-to-run latency"),
    (BY_NAME["SOFTIRQ_RUN_OUTLIER"].code, None): _Told(COMPUTE, "compute", LONGEST, "softirq run time"),
    (BY_NAME["HARDIRQ_OUTLIER"].code, None): _Told(COMPUTE, "compute", LONGEST, "hardirq handler time"),
    (BY_NAME["NAPI_OUTLIER"].code, None): _Told(COMPUTE, "compute", LONGEST, "NAPI poll time"),
    (BY_NAME["CPU_THROTTLE"].code, None): _Told(COMPUTE, "compute", TIMES, "the CPU was throttled"),
    **{(BY_NAME["PRESSURE"].code, code): _Told(*_RESOURCE[name], SHARE, f"tasks stalled for {name}")
       for code, name in kinds.PRESSURE_CODES.items()},
    (BY_NAME["PRESSURE"].code, None): _Told(COMPUTE, "compute", SHARE, "tasks stalled for a resource"),
    (BY_NAME["MEMORY_ERRORS"].code, None): _Told(MEMORY, "compute", COUNT, "memory errors", kinds.MEMORY_ERROR_CODES),
    (BY_NAME["GPU_ERRORS"].code, None): _Told(GPU, "compute", COUNT, "GPU errors", kinds.GPU_ERROR_CODES),
    (BY_NAME["GPU_THROTTLE"].code, None): _Told(GPU, "compute", SHARE, "a GPU's clocks were held down"),
    (BY_NAME["BLOCK_OUTLIER"].code, None): _Told(STORAGE, "storage", LONGEST, "block I/O latency"),
}
# fmt: on
"""Every kind that is evidence of what holds up a host; with a code, where the layer depends on it."""


def in_time(readings: Iterable[Reading], start_ns: int, end_ns: int) -> list[Reading]:
    """The readings that touch a cascade of these times."""
    from_ns = max(start_ns - MARGIN_NS, end_ns - NOTED_NS)
    return [r for r in readings if r.time_ns >= from_ns and r.begin_ns <= end_ns + MARGIN_NS]


def inside(readings: Iterable[Reading], start_ns: int, end_ns: int) -> tuple[Finding, ...]:
    """What a host reported of itself around a cascade, what decides its layer first."""
    found: dict[tuple[tuple[int, int | None], int, str], list[Reading]] = {}
    for reading in in_time(readings, start_ns, end_ns):
        row: tuple[int, int | None] = (reading.kind, reading.extra)
        row = row if row in TABLE else (reading.kind, None)
        told = TABLE.get(row)
        if told is None or (reading.kind == kinds.LINK_ERRORS and reading.extra == CORRECTED):
            continue
        code = reading.extra if told.codes is not None else 0
        # Shares of several CPUs or GPUs do not add up, so each stands for itself.
        part = reading.part if told.form == SHARE else ""
        found.setdefault((row, code, part), []).append(reading)
    findings = []
    for (row, code, _), of_kind in found.items():
        told = TABLE[row]
        sentence = _sentence(told, code, of_kind)
        if sentence:
            findings.append(Finding(told.rank, min(_began_ns(told, r) for r in of_kind), sentence, told.layer))
    return tuple(sorted(findings)[:MAX_FINDINGS])


def link_errors(
    ends: Sequence[tuple[str, Iterable[Reading]]], speed_mbps: int, start_ns: int, end_ns: int
) -> tuple[str, ...]:
    """What the ends of a link ("leaf0:u0" and its readings) counted around a cascade, if more than a whole link may.

    CRC, symbol and uncorrected FEC errors count from ten times the errors on that IEEE 802.3 allows in their windows;
    the loss of the link always does. FEC corrections count where their rate is ten times that of the same port before:
    a link that nobody watched before shows no growth.
    """
    sentences = []
    for name, readings in ends:
        of_link = [reading for reading in readings if reading.kind == kinds.LINK_ERRORS]
        by_code: dict[int, list[Reading]] = {}
        for reading in in_time(of_link, start_ns, end_ns):
            by_code.setdefault(reading.extra, []).append(reading)
        for code, counted in sorted(by_code.items()):
            total, span_ns = sum(r.value for r in counted), sum(r.span_ns for r in counted)
            why = ""
            if code == CORRECTED:
                times = _growth(of_link, counted, start_ns, end_ns)
                why = f", {times:.0f} times as many as before" if times >= TOO_MANY else ""
            elif total >= TOO_MANY * ALLOWED_BIT_ERRORS * speed_mbps * span_ns / 1_000:
                why = f" in {_length(counted)}"
            if why:
                sentences.append(
                    f"{total} {_code_name(kinds.LINK_ERROR_CODES, code)} errors of the link at {name}{why}"
                )
    return tuple(sentences)


def _growth(of_link: Sequence[Reading], now: Sequence[Reading], start_ns: int, end_ns: int) -> float:
    """By what factor FEC corrections come faster than before the cascade; 0 where that is not known."""
    before = [r for r in of_link if r.extra == CORRECTED and end_ns - NOTED_NS <= r.time_ns < start_ns - MARGIN_NS]
    corrected, span_ns = sum(r.value for r in before), sum(r.span_ns for r in before)
    now_ns = sum(r.span_ns for r in now)
    if not corrected or not span_ns or not now_ns:
        return 0.0
    return sum(r.value for r in now) * span_ns / (corrected * now_ns)


def _sentence(told: _Told, code: int, readings: list[Reading]) -> str:
    """The sentence for readings of one sort; "" where they are too little to tell of."""
    if told.form == COUNT:
        total = sum(reading.value for reading in readings)
        where = _where([reading.port for reading in readings])
        name = _code_name(told.codes, code)
        what = told.what if total > 1 else told.what.removesuffix("s")
        return f"{total} {name} {what}{where} in {_length(readings)}"
    if told.form == LONGEST:
        longest = max(readings, key=lambda reading: (reading.value, -reading.time_ns, reading.part))
        where = f" on {longest.part}" if longest.part else ""
        who = f" (pid {longest.extra})" if longest.extra > 0 else ""
        among = f", the longest of {len(readings)}" if len(readings) > 1 else ""
        return f"{told.what} of {_ms(longest.value)}{where}{who}{among}"
    if told.form == TIMES:
        times = sum(reading.value for reading in readings)
        lost_ns = sum(reading.extra for reading in readings if reading.extra != UNKNOWN)
        length = f", {_ms(lost_ns)} in all" if lost_ns else ""
        return f"{told.what} {times} times{_where([reading.part for reading in readings])}{length}"
    lost_ns, span_ns = sum(reading.value for reading in readings), sum(reading.span_ns for reading in readings)
    if lost_ns < WARNING_SHARE * span_ns:  # it explains no cascade of that severity
        return ""
    share = f" for {min(lost_ns / span_ns, 1.0):.0%} of {_ms(span_ns)}" if span_ns else f" for {_ms(lost_ns)}"
    return f"{told.what}{_where([readings[0].part])}{share}"


def _began_ns(told: _Told, reading: Reading) -> int:
    """When it began: an outlier is told at its end."""
    return reading.time_ns - reading.value if told.form == LONGEST else reading.begin_ns


def _code_name(codes: dict[int, str] | None, code: int) -> str:
    return (codes or {}).get(code) or ("unspecified" if code == UNKNOWN else f"code {code}")


def _where(names: Iterable[str]) -> str:
    known = sorted({name for name in names if name})
    return f" at {', '.join(known[:3])}" + (f" and {len(known) - 3} more" if len(known) > 3 else "") if known else ""


def _length(readings: Sequence[Reading]) -> str:
    return _ms(max(r.time_ns for r in readings) - min(r.begin_ns for r in readings))


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.{1 if ns >= 1_000_000 else 3}f} ms"
