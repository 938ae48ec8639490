"""What a driver's table says of one counter, and how that becomes the series of an interface.

In: a table and the names that a driver shows. Out: `Series` with the place of each name among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from probes.counted_rows import EXTRA, VALUE, Place, Series
from stream.kinds import BY_CODE, ESTIMATED, NO_PRIORITY, SIDE_NONE

PRIORITIES = range(8)

FRAMES_PER_S = 2_400_000_000
"""Of 64 bytes and 20 of gap at 1.6 Tb/s."""
BYTES_PER_S = 200_000_000_000
"""At 1.6 Tb/s."""
ERRORS_PER_S = 30_000_000
"""More lost or repeated packets than that no port makes and lives; it keeps 32 bits unambiguous for two minutes."""
US_PER_S, NS_PER_S = 1_000_000, 1_000_000_000

MOST_PER_S = {
    "frames": FRAMES_PER_S, "packets": FRAMES_PER_S, "bytes": BYTES_PER_S, "us": US_PER_S, "ms": 1_000,
    "errors": ERRORS_PER_S, "transitions": FRAMES_PER_S,
}  # fmt: skip
"""By the unit of a counter, how many of it there can be in a second."""
WORTH = {"us": 1_000, "ms": 1_000_000}
"""What one of it is worth in the unit of the kind's measure, where that is not 1."""


class Mapped(NamedTuple):
    """One row of a driver's table: what a counter of this name counts. `{p}` in the name stands for the priority.

    `code` is the second measure of a kind that has a code there. `percent`: no counter, but the share of the last
    second in percent, which its time is estimated by.
    """

    name: str
    kind: int
    unit: str
    side: int = SIDE_NONE
    measure: int = VALUE
    bits: int = 64
    code: int | None = None
    percent: bool = False


class Driver(NamedTuple):
    """The tables of a driver, of its statistics and of its RDMA device's hw_counters, and how stale each may be."""

    statistics: tuple[Mapped, ...]
    hw_counters: tuple[Mapped, ...]
    statistics_stale_ns: int = 0
    source: str = ""


class Found(NamedTuple):
    """Counters of a table among the names of an interface: where each stands there, and its series."""

    places: tuple[int, ...]
    series: tuple[Series, ...]


def expanded(table: Iterable[Mapped]) -> dict[str, list[tuple[Mapped, int]]]:
    """The table by name, with a row for each priority."""
    rows: dict[str, list[tuple[Mapped, int]]] = {}
    for mapped in table:
        if "{p}" in mapped.name:
            for priority in PRIORITIES:
                rows.setdefault(mapped.name.replace("{p}", str(priority)), []).append((mapped, priority))
        else:
            rows.setdefault(mapped.name, []).append((mapped, NO_PRIORITY))
    return rows


def find(table: Iterable[Mapped], names: Sequence[str], port: str, stale_ns: int, *, percent: bool = False) -> Found:
    """The counters of a table that an interface has; with `percent`, its shares instead."""
    rows = expanded(mapped for mapped in table if mapped.percent == percent)
    index, series = [], []
    for at, name in enumerate(names):
        for mapped, priority in rows.get(name, ()):
            index.append(at)
            series.append(series_of(mapped, priority, port, stale_ns))
    return Found(tuple(index), tuple(series))


def series_of(mapped: Mapped, priority: int, port: str, stale_ns: int) -> Series:
    """The series of one counter of a port."""
    quality = ESTIMATED if mapped.percent else 0
    place = Place(port, mapped.kind, priority, mapped.side, mapped.code, quality=quality)
    most_per_s = MOST_PER_S.get(mapped.unit, NS_PER_S)
    if mapped.bits == 64:
        # Corrected bits of a poor link may be many, and 64 bits are unambiguous whatever they count.
        most_per_s = max(most_per_s, FRAMES_PER_S if mapped.unit == "errors" else 0)
    return Series(place, mapped.measure, WORTH.get(mapped.unit, 1), mapped.bits, most_per_s, stale_ns, mapped.name)


def checked(table: tuple[Mapped, ...]) -> tuple[Mapped, ...]:
    """The table itself. Raises ValueError where a row does not fit its kind: a mistake in the table."""
    for mapped in table:
        kind = BY_CODE[mapped.kind]
        measure = kind.extra if mapped.measure == EXTRA else kind.value
        unit = {"us": "ns", "ms": "ns", "percent": "ns"}.get(mapped.unit, mapped.unit)
        if measure.unit != unit or (kind.extra.unit == "code") != (mapped.code is not None):
            raise ValueError(f"{mapped.name} does not fit {kind.name}")
    return table
