"""Recorded hosts as tests use them: a copy that can be moved on in time, and what its pollers said in plain rows."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from probes.probe import Options, Probe, Reading, Unavailable
from stream.kinds import BY_CODE, NO_PRIORITY, SIDES, UNKNOWN

HOSTS = Path(__file__).parents[1] / "data" / "hosts"
NOW_NS = 1_800_000_000_000_000_000
SECOND_NS = 1_000_000_000


class Row(NamedTuple):
    """One row in plain words; `extra` and `value` are None where unknown."""

    port: str
    kind: str
    value: int | None
    extra: int | None = 0
    priority: int | None = None
    side: str = "none"
    quality: int = 0
    span_ns: int = SECOND_NS
    text: str = ""


class Recorded:
    """A recorded host in a folder of its own, at t0 until `advance`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.root = folder / name
        self._later = HOSTS / name / "t1"
        shutil.copytree(HOSTS / name / "t0", self.root, symlinks=True)

    def advance(self) -> None:
        """Moves on to t1: files change in place, as those of sysfs do."""
        for path in self._later.rglob("*"):
            if path.is_file():
                (self.root / path.relative_to(self._later)).write_bytes(path.read_bytes())

    def write(self, path: str, text: str | bytes) -> None:
        """Overwrites or makes one file."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def options(self, name: str, **fields: Any) -> Options:
        """Options of a poller."""
        return Options(name, "h1", "lab", SECOND_NS, root=self.root, **fields)

    def available(self, name: str, **fields: Any) -> Unavailable | None:
        """Whether the poller can run here."""
        found = importlib.import_module(f"probes.pollers.{name}").available(self.options(name, **fields))
        assert found is None or isinstance(found, Unavailable)
        return found

    def make(self, name: str, **fields: Any) -> Probe:
        """The poller."""
        made: Probe = importlib.import_module(f"probes.pollers.{name}").make(self.options(name, **fields))
        return made

    def second(self, name: str, **fields: Any) -> list[Row]:
        """What a poller says of the second from t0 to t1."""
        probe = self.make(name, **fields)
        first = probe.read(NOW_NS)
        assert not [row for row in rows(first) if BY_CODE[_CODES[row.kind]].topic in ("pfc", "queue", "ecn")]
        self.advance()
        found = rows(probe.read(NOW_NS + SECOND_NS))
        probe.close()
        probe.close()
        return found


_CODES: Mapping[str, int] = {kind.name: code for code, kind in BY_CODE.items()}


def rows(reading: Reading) -> list[Row]:
    """The rows of a reading, in their order."""
    return list(_rows(reading))


def _rows(reading: Reading) -> Iterator[Row]:
    for topic, events, ports, texts in reading.rows:
        by_row = dict(texts)
        for at, event in enumerate(events):
            kind = BY_CODE[int(event["kind"])]
            assert kind.topic == topic
            assert event["time_ns"] == event["seen_ns"] > 0
            yield Row(
                ports[int(event["port"])], kind.name, _known(event["value"]), _known(event["extra"]),
                None if event["priority"] == NO_PRIORITY else int(event["priority"]), SIDES[int(event["side"])],
                int(event["quality"]), int(event["span_ns"]), by_row.get(at, ""),
            )  # fmt: skip


def _known(number: Any) -> int | None:
    return None if number == UNKNOWN else int(number)


def active(found: list[Row]) -> list[Row]:
    """The rows that tell of something."""
    return [row for row in found if row.value != 0 or (row.extra and row.kind == "PFC_PAUSED")]
