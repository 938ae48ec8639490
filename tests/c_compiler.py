"""The C compiler of tests that compare with C."""

from __future__ import annotations

import shutil

import pytest


def c_compiler() -> str:
    """Its path; skips the test where there is none."""
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler on the PATH: apt-get install gcc libc6-dev")
    return found
