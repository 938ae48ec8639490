"""The page of vendor tables is that of the built-in profiles, and the example of a profile of one's own is one."""

from __future__ import annotations

import re
from pathlib import Path

from collectors import profiles
from collectors.profile_page import page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_vendor_tables_are_those_of_the_profiles() -> None:
    again = "write it anew: python -m collectors.profile_page > docs/profile-tables.md"
    assert (DOCS / "profile-tables.md").read_text() == page(), again


def test_the_example_of_a_profile_of_ones_own_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (DOCS / "profiles.md").read_text(), re.DOTALL)
    (tmp_path / "our-switch.toml").write_text(text)
    own = profiles.load("our-switch", tmp_path)
    assert own.row[0].bits == 48
    assert not any(row.name.startswith("virtual output") for row in own.row)


def test_each_built_in_profile_is_named() -> None:
    told = (DOCS / "profiles.md").read_text()
    assert [name for name in profiles.names() if f"`{name}`" not in told] == []
