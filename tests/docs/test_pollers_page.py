"""The tables in docs/pollers.md are those of the code."""

from __future__ import annotations

from pathlib import Path

from probes.drivers import DRIVERS
from probes.drivers.mapped import Mapped
from probes.table import PROBES, PROGRAMS
from stream.kinds import BY_CODE, CODES, SIDES

PAGE = (Path(__file__).resolve().parents[2] / "docs/pollers.md").read_text()


def counters_table() -> list[str]:
    """One row a measure of a kind, side and code, with its counters by driver; `N` stands for the priority."""
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for driver, tables in DRIVERS.items():
        for mapped in (*tables.statistics, *tables.hw_counters):
            found.setdefault(_row(mapped), {}).setdefault(driver, []).append(_name(mapped))
    lines = [f"| what | side | {' | '.join(DRIVERS)} |", f"| --- | --- |{' --- |' * len(DRIVERS)}"]
    for (what, side, code), by_driver in sorted(found.items()):
        names = (", ".join(f"`{name}`" for name in by_driver.get(driver, ())) for driver in DRIVERS)
        lines.append(f"| `{what}`{f' {code}' if code else ''} | {side} | {' | '.join(names)} |")
    return lines


def _row(mapped: Mapped) -> tuple[str, str, str]:
    kind = BY_CODE[mapped.kind]
    measure = (kind.value, kind.extra)[mapped.measure]
    code = CODES[kind.name][mapped.code] if mapped.code is not None else ""
    return f"{kind.name}.{measure.name}", SIDES[mapped.side], code


def _name(mapped: Mapped) -> str:
    return mapped.name.replace("{p}", "N")


def pollers_table() -> list[str]:
    """One row a poller."""
    rows = (
        f"| `{kind.name}` | {kind.sees} | {', '.join(f'`fabric.{topic}`' for topic in kind.topics)} |"
        for kind in PROBES
        if kind.module != PROGRAMS
    )
    return ["| poller | sees | topics |", "| --- | --- | --- |", *rows]


def test_the_page_has_every_counter_of_every_driver() -> None:
    assert "\n".join(counters_table()) in PAGE


def test_the_page_has_every_poller() -> None:
    assert "\n".join(pollers_table()) in PAGE
