"""What docs/capture.md says of commands, options and files is what the code does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from pausetrace.cli.main import build_parser
from stream.capture import BUFFER_BYTES
from stream.capture_part import PART_EVENTS, PART_HOURS, PART_MESSAGES
from stream.capture_schema import COLUMNS, ROW_GROUP_ROWS, ZSTD_LEVEL

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/capture.md").read_text()


def type_text(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return "string"
    if pa.types.is_list(kind):
        return f"list of {'strings' if pa.types.is_string(kind.value_type) else 'name, value'}"
    return str(kind)


@pytest.mark.parametrize("table", COLUMNS)
def test_the_columns_are_those_of_the_schema(table: str) -> None:
    rows = [f"| `{c.name}` | {type_text(c.type)} | {c.meaning} |" for c in COLUMNS[table]]
    assert "\n".join(["| column | type | meaning |", "|---|---|---|", *rows, ""]) in PAGE


def test_every_command_parses() -> None:
    parser = build_parser()
    lines = [line for line in PAGE.partition("```sh\n")[2].partition("```")[0].splitlines() if line]
    assert len(lines) == 7
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if words[0] == "capture" and words[1] not in ("verify", "import"):
            words.insert(1, "run")
        parser.parse_args(words)


def test_the_numbers_are_those_of_the_code() -> None:
    for number in (PART_EVENTS, PART_MESSAGES, ROW_GROUP_ROWS):
        assert f"{number:,}" in PAGE
    assert f"more than {PART_HOURS}\nhours" in PAGE
    assert f"zstd, level {ZSTD_LEVEL};" in PAGE
    assert f"{BUFFER_BYTES >> 20} MiB of messages" in PAGE


def test_every_option_that_the_page_names_is_one() -> None:
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    shown = "".join(path.read_text() for path in (ROOT / "tests/pausetrace/golden").glob("help-[ac]*.txt"))
    assert told - set(re.findall(r"--[a-z-]+", shown)) == set()
