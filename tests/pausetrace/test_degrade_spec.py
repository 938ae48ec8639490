"""What --degrade takes, and what it says of everything else."""

from pathlib import Path

import pytest

from pausetrace.degrade_spec import parse_degradation
from simulation.degrade import Degradation
from simulation.polling import Polling
from stream.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("skew=1ms", {"skew_ns": 1_000_000}),
        ("skew=.5us", {"skew_ns": 500}),
        ("loss=.1", {"loss": 0.1}),
        ("loss_each=0.3,skew=1ms", {"loss_each": 0.3, "skew_ns": 1_000_000}),
        ("missing=leaf0", {"missing": "leaf0"}),
        ("missing=random", {"missing": "random"}),
        ("drop=host_pcie.csv", {"drop": frozenset({"host_pcie"})}),
        ("drop=flow_port_bytes.csv.gz,drop=paths", {"drop": frozenset({"flow_port_bytes", "paths"})}),
        ("renamed,shifted=3600s,scaled=2", {"renamed": True, "shifted_ns": 3600 * 10**9, "scaled": 2.0}),
        ("shifted=-1.5h", {"shifted_ns": -5400 * 10**9}),
        ("period=1ms", {"polling": Polling(1_000_000)}),
        ("period=run,pad=20,frames_only", {"polling": Polling(by="run", pad=20, frames_only=True)}),
        (
            "period=incident/4,unaligned,poll_loss=.1,rx_only",
            {"polling": Polling(by="incident", parts=4, unaligned=True, loss=0.1, rx_only=True)},
        ),
        (" loss = .1 , missing = root ", {"loss": 0.1, "missing": "root"}),
    ],
)
def test_each_part_says_one_thing(text: str, how: dict[str, object]) -> None:
    assert parse_degradation(text) == Degradation(text, **how)  # type: ignore[arg-type]  # one dict of several fields


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "",
            "'' is none of skew, loss, loss_each, resets, missing, renamed, shifted, scaled, period, unaligned, "
            "poll_loss, frames_only, rx_only, pad, drop; write it like",
        ),
        ("loss=.1,", "'' is none of"),
        ("noise=1", "'noise=1' is none of"),
        ("skew", "skew takes a value"),
        ("renamed=1", "renamed takes no value"),
        ("skew=1", "'1' is no duration; write a number with ns, us"),
        ("skew=1e3ms", "'1e3ms' is no duration"),
        ("skew=0ms", "a deviation of 0ms is none"),
        ("skew=-1ms", "a deviation of -1ms is none"),
        ("skew=999999999h", "is no duration"),
        ("loss=0", "'0' is no probability; give more than 0 and at most 1"),
        ("loss=1.01", "is no probability"),
        ("loss_each=nan", "is no probability"),
        ("loss=ten", "is no probability"),
        ("loss=.1,loss=.2", "loss is there twice"),
        ("scaled=0", "'0' is no factor; give a number from 0.001 to 1000"),
        ("scaled=inf", "is no factor"),
        ("missing=", "missing names no device; give a device's name, random or root"),
        ("period=0ms", "a period of 0ms is none; give period=run, incident/4 or more than 0"),
        ("period=incident/0", "'incident/0' is no duration"),
        ("unaligned,poll_loss=.1", "unaligned, poll_loss without a period of polls; add period=run, incident/4 or a"),
        ("period=run,pad=1", "'1' is no whole number from 2 to 1000; write it like pad=20"),
        ("period=1ms,unaligned=1", "unaligned takes no value"),
        ("drop=links.csv", "'links.csv' is no file to drop; choose from: pfc.csv, port_counters.csv"),
        ("drop=truth.json", "'truth.json' is no file to drop"),
        ("drop=", "'' is no file to drop"),
    ],
)
def test_what_it_does_not_take_is_an_error_that_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_degradation(text)
    assert str(raised.value).startswith(f"--degrade {text}: ")
    assert said in str(raised.value)


def test_the_page_explains_every_part() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    rows = page.partition("| part | what happens to the trace |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    shown = [row.split("`")[1] for row in rows]
    taken = [parse_degradation(text.replace("=FILE", "=paths.csv")) for text in shown]
    explained = {
        name for how in taken for name in how.__struct_fields__ if getattr(how, name) != getattr(Degradation(""), name)
    }
    assert explained == set(Degradation.__struct_fields__)
