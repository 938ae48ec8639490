"""Proves a finished capture whole: every file is there, unchanged, and together they hold every offset once.

In: a folder. Out: a `Verdict` that names each file and each range of offsets that is wrong; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stream.capture_manifest import JOURNAL, MANIFEST, Manifest, Part
from stream.capture_reader import CaptureFolder, count_undecodable, load_part, prove
from stream.capture_schema import EVENTS, MESSAGES
from stream.capture_store import PARTIAL
from stream.errors import CaptureError

Progress = Callable[[int, int], None]
"""Told the bytes proved so far and the bytes of all files."""


class Verdict(NamedTuple):
    """What was found; without problems the capture is as it was written. `gaps` Kafka no longer had even then.

    `undecodable` messages have values that do not decode, and are kept as they are.
    """

    problems: tuple[str, ...]
    gaps: tuple[str, ...]
    files: int
    bytes: int
    messages: int
    events: int
    undecodable: int

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(path: Path, *, rows: bool = False, progress: Progress = lambda _done, _all: None) -> Verdict:
    """Looks at everything; with `rows`, also that each event belongs to its message.

    Raises CaptureError where there is no readable manifest, and so nothing to hold the files against.
    """
    folder = CaptureFolder(path)
    manifest = folder.manifest
    damaged: set[str] = set()
    problems = list(_strangers(path, manifest))
    done = 0
    for part in manifest.parts:
        for entry in part.files:
            try:
                prove(path / entry.path, entry)
            except CaptureError as err:
                damaged.add(entry.path)
                problems.append(err.message)
            done += entry.bytes
            progress(done, manifest.bytes)
    problems += _holes_between_parts(manifest)
    undecodable = 0
    for part in manifest.parts:
        if damaged.isdisjoint(file.path for file in part.files):
            wrong = list(_wrong_in(folder, part, rows))
            problems += wrong
            undecodable += 0 if wrong else count_undecodable(folder, part.files)
    gaps = tuple(
        f"{part.topic}[{part.partition}]@{gap.first}: {gap.missing} messages {gap.reason}"
        for part in manifest.parts
        for gap in part.gaps
    )
    files = sum(len(part.files) for part in manifest.parts)
    return Verdict(tuple(problems), gaps, files, manifest.bytes, manifest.messages, manifest.events, undecodable)


def _strangers(path: Path, manifest: Manifest) -> Iterator[str]:
    known = {path / file.path for part in manifest.parts for file in part.files}
    # What a process killed after its last step leaves behind does no harm.
    known |= {path / MANIFEST, path / JOURNAL}
    for found in sorted(path.rglob("*")):
        if found.is_file() and found not in known and found.parent.name != PARTIAL:
            yield f"{found} does not belong to the capture"


def _holes_between_parts(manifest: Manifest) -> Iterator[str]:
    for plan in manifest.plan.partitions:
        reached = plan.first
        for part in manifest.parts_of(plan.topic):
            if part.partition != plan.partition:
                continue
            if part.first > reached:
                yield f"{plan.topic}[{plan.partition}]: offsets {reached} to {part.first - 1} are in no part"
            elif part.first < reached:
                yield f"{plan.topic}[{plan.partition}]: offsets {part.first} to {reached - 1} are in several parts"
            reached = max(reached, part.end)
        if reached < plan.end:
            yield f"{plan.topic}[{plan.partition}]: offsets {reached} to {plan.end - 1} are in no part"


def _wrong_in(folder: CaptureFolder, part: Part, rows: bool) -> Iterator[str]:
    """What is wrong in a part whose files are as they were written."""
    place = f"{part.topic}[{part.partition}], offsets {part.first} to {part.end - 1}"
    try:
        counted = {EVENTS: 0, MESSAGES: 0}
        offsets: list[Any] = [np.zeros(0, np.int64)]
        promised = 0
        for entry in part.files:
            file = folder.open(entry)
            counted[entry.table] += file.metadata.num_rows
            if file.metadata.num_rows != entry.rows:
                yield f"{folder.path / entry.path} has {file.metadata.num_rows} rows, not {entry.rows}"
            if entry.table == MESSAGES:
                for table in folder.tables(entry, ("offset", "rows")):
                    offsets.append(table.column("offset").to_numpy())
                    promised += sum(table.column("rows").drop_null().to_pylist())
        found = np.sort(np.concatenate(offsets))
        yield from _wrong_offsets(part, found, place)
        if counted[EVENTS] != part.events or promised != part.events:
            yield f"{place}: {counted[EVENTS]} events of {part.events}, of which the messages name {promised}"
        elif rows:
            load_part(folder, part)
    except CaptureError as err:
        yield err.message


def _wrong_offsets(part: Part, found: Any, place: str) -> Iterator[str]:
    if len(found) != part.messages or len(np.unique(found)) != len(found):
        yield f"{place}: {len(np.unique(found))} messages of {part.messages}"
    elif len(found) and not (part.first <= found[0] and found[-1] < part.end):
        yield f"{place}: a message at offset {found[0] if found[0] < part.first else found[-1]}"
    elif part.end - part.first - len(found) != part.missing:
        absent = part.end - part.first - len(found)
        yield f"{place}: {absent} offsets hold no message, of which {part.missing} are accounted for"
    for gap in part.gaps:
        if ((found >= gap.first) & (found < gap.end)).any():
            yield f"{place}: a message stands in the gap from {gap.first} to {gap.end - 1}"
