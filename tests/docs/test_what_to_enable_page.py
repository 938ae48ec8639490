"""The page of what to switch on is that of the profiles and drivers, each with what its people have to do."""

from __future__ import annotations

from pathlib import Path

from collectors import profiles
from pausetrace.enable_page import NICS, SWITCHES, page
from probes.drivers import DRIVERS
from simulation.gnmi_targets.spellings import SPELLINGS

PAGE = Path(__file__).resolve().parents[2] / "docs/what-to-enable.md"


def row_of(name: str) -> list[str]:
    """The cells of a profile or driver."""
    (line,) = (line for line in page().splitlines() if line.startswith((f"| `{name}` ", f"| NIC `{name}` ")))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_page_is_that_of_profiles_and_drivers() -> None:
    again = "write it anew: python -m pausetrace.enable_page > docs/what-to-enable.md"
    assert PAGE.read_text() == page(), again


def test_each_profile_and_driver_says_what_to_switch_on() -> None:
    assert SWITCHES.keys() == set(profiles.names())
    assert NICS.keys() == DRIVERS.keys()


def test_whose_frames_alone_are_known_gives_no_verdict() -> None:
    # By hand, from the profiles' tables and docs/pollers.md.
    timed = {"arista-eos", "nvidia-cumulus", "sonic"}
    for name in profiles.names():
        how_long, as_told = row_of(name)[2], row_of(name)[-1]
        assert how_long == ("by priority" if name in timed else "-")
        assert as_told.startswith("a verdict") == (name in timed)
    assert [row_of(name)[2] for name in ("mlx5_core", "bnxt_en", "ice")] == ["by priority", "by priority", "-"]


def test_vendors_that_are_played_have_profiles() -> None:
    assert {spelling.profile for spelling in SPELLINGS.values()} <= set(profiles.names())
