"""The numbers and examples in the pages are those of the code."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pausetrace.cli.main import build_parser
from stream.record import EVENT
from stream.topics import PACKED, TOPICS
from stream.wire import HEADER

DOCS = Path(__file__).resolve().parents[2] / "docs"
TOPICS_PAGE = (DOCS / "topics.md").read_text()
DECODING_PAGE = (DOCS / "decoding.md").read_text()


def cells(page: str, head: str) -> list[list[str]]:
    """The rows of the table with this head."""
    lines = page.partition(f"{head}\n")[2].splitlines()[1:]
    rows = lines[: next(i for i, line in enumerate([*lines, ""]) if not line.startswith("|"))]
    return [[cell.strip().strip("`").replace(",", "") for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.slow
def test_the_bytes_of_a_row_are_those_that_the_benchmark_measures() -> None:
    script = DOCS.parent / "benchmarks/topic_bytes.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=DOCS.parent)
    measured = json.loads(done.stdout.splitlines()[-1])["bytes"]
    shown = cells(TOPICS_PAGE, "| topic | rows a value | in the value | stored alone | stored together |")
    assert [(row[0], int(row[1])) for row in shown] == [(m["topic"], round(m["rows_a_value"])) for m in measured]
    for row, each in zip(shown, measured, strict=True):
        # Compression of many together depends a little on how they fell into batches.
        assert float(row[2]) == pytest.approx(each["value_bytes"], rel=0.05, abs=1)
        assert float(row[3]) == pytest.approx(each["alone_bytes"], rel=0.1, abs=2)
        assert float(row[4]) == pytest.approx(each["joined_bytes"], rel=0.3, abs=3)


def test_the_arithmetic_of_the_large_fabric_adds_up() -> None:
    rows = cells(TOPICS_PAGE, "| topic | switch ports × rows | NICs or hosts × rows | rows a second |")
    total = 0
    for *factors, shown in rows[:-1]:
        products = [math.prod(map(float, cell.split("×"))) for cell in factors[1:] if cell]
        assert sum(products) == int(shown)
        total += int(shown)
    assert int(rows[-1][-1]) == total


def test_the_partitions_follow_from_the_rows() -> None:
    rows = cells(
        TOPICS_PAGE,
        "| GPUs | rows a second | processes | partitions a packed topic | MB a second and partition of `queue` |",
    )
    whole = int(rows[-1][1])
    queue = int(re.findall(r"\| `queue` \| 500,224 × 3 .*\| ([\d,]+) \|", TOPICS_PAGE)[0].replace(",", ""))
    for gpus, rows_a_second, processes, partitions, megabytes in rows:
        share = int(gpus) / 100_000
        assert int(rows_a_second) == math.floor(whole * share)
        assert int(processes) == math.ceil(int(rows_a_second) / 100_000)
        assert int(partitions) == max(4, 2 * int(processes))
        assert float(megabytes) == round(queue * share * 24 / int(partitions) / 1e6, 2)
    assert "8 packed topics, 768 partitions" in TOPICS_PAGE
    assert len(PACKED) * 96 == 768


def test_the_sizes_of_disks_follow_from_24_bytes_a_row() -> None:
    units = {"MB": 1e6, "GB": 1e9, "TB": 1e12}

    def number(cell: str) -> float:
        value, unit = cell.split()
        return float(value) * units[unit]

    for rows, a_second, a_day, disks in cells(
        TOPICS_PAGE, "| rows a second | bytes a second | a day | three replicas, a third free |"
    ):
        assert number(a_second) == 24 * int(rows)
        assert number(a_day) == pytest.approx(86_400 * 24 * int(rows), rel=0.05)
        assert number(disks) == pytest.approx(4 * 86_400 * 24 * int(rows), rel=0.05)


def test_the_layout_in_the_decoding_page_is_that_of_the_record() -> None:
    shown = [(row[0], row[1], row[2]) for row in cells(DECODING_PAGE, "| offset | type | field | how to read it |")]
    assert EVENT.fields is not None
    assert shown == [(str(field[1]), str(field[0]), name) for name, field in EVENT.fields.items()]
    assert HEADER.size == 16
    for topic in TOPICS:
        assert f"`{topic.name}`" in DECODING_PAGE


def test_the_page_shows_the_python_example_as_it_is() -> None:
    assert f"```python\n{(DOCS / 'examples/decode.py').read_text()}```" in DECODING_PAGE


@pytest.mark.parametrize("page", ["topics.md", "security.md", "operating.md"])
def test_every_command_in_the_pages_parses(page: str) -> None:
    parser = build_parser()
    commands = re.findall(r"`pausetrace ([^`]+)`", (DOCS / page).read_text())
    assert commands
    for command in commands:
        words = command.replace("ROLE", "viewer").replace("detect|correlate", "detect").split()
        if words[0] in ("capture", "replay"):
            continue
        parser.parse_args(words)
