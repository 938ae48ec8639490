"""Texts that must stay as they are: tests/pausetrace/golden holds them, PAUSETRACE_GOLDEN=write renews them."""

import os
import re
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def assert_golden(name: str, text: str) -> None:
    """The text is that of the golden file, blanks at the ends of lines aside."""
    path = FOLDER / name
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("PAUSETRACE_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: run the test with PAUSETRACE_GOLDEN=write and look at what it wrote"
    # argparse of Python 3.13 pads a column more than that of 3.11.
    assert _squeezed(text) == _squeezed(path.read_text()), (
        f"differs from {path}: if it should, renew it with PAUSETRACE_GOLDEN=write"
    )


def _squeezed(text: str) -> str:
    return re.sub("(?<=[^ ]) {2,}", "  ", text)
