"""The page of the probes says what the table, the configuration and the metrics say."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from pausetrace.cli.main import build_parser
from pausetrace.config import load
from pausetrace.units import duration_words
from probes.agent_metrics import PROBE_COUNTERS, STATES
from probes.budget import Step
from probes.settings import DEFAULT_CPU_PERCENT
from probes.table import PROBES, PROGRAMS
from tests.docs.test_pages import cells

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/probes.md").read_text()


def test_the_page_lists_every_probe_as_the_table_has_it() -> None:
    shown = cells(PAGE.replace("`, `", " "), "| probe | is a | every | rows on | what it sees |")
    wanted = []
    for kind in PROBES:
        every = duration_words(kind.interval_ns) if kind.on else "not enabled"
        if kind.on and kind.threshold_ns:
            every += f" from {duration_words(kind.threshold_ns)}"
        what = "program" if kind.module == PROGRAMS else "poller"
        wanted.append([kind.name, what, every, " ".join(kind.topics), kind.sees.replace(",", "")])
    assert shown == wanted


def test_the_page_names_every_step_down() -> None:
    assert [row[0] for row in cells(PAGE, "| step | what goes on |")] == [step.word for step in Step]


def test_the_page_has_every_metric_of_a_probe() -> None:
    for name in PROBE_COUNTERS:
        assert f"| `pausetrace_probe_{name}_total` |" in PAGE
    assert f"it is in: {', '.join(STATES)} |" in PAGE


def test_the_configuration_of_the_page_is_one_and_shows_the_defaults(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    (file := tmp_path / "x.toml").write_text(text)
    config = load({}, {}, str(file)).config.probes
    default = load({}, {}, directory=tmp_path).config.probes
    assert config.each == default.each
    assert config.cpu_percent == default.cpu_percent == DEFAULT_CPU_PERCENT
    assert tomllib.loads(text)["probes"].keys() - {"runqueue", "packets"} == {
        name for name in default.__struct_fields__ if name != "each"
    }


def test_every_command_of_the_page_parses() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("pausetrace ")]
    assert len(lines) >= 7
    for line in lines:
        build_parser().parse_args(shlex.split(line, comments=True)[1:])
