"""A call that never returns does not hold up its caller."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stream.bounded_call import call_within

ROOT = Path(__file__).resolve().parents[2]


def test_a_call_that_never_returns_is_given_up() -> None:
    forever = threading.Event()
    with pytest.raises(TimeoutError, match=r"did not end within 0\.05 s"):
        call_within(0.05, forever.wait)
    forever.set()


def test_what_a_call_raises_is_raised() -> None:
    def fail() -> None:
        raise ZeroDivisionError("of its own")

    with pytest.raises(ZeroDivisionError, match="of its own"):
        call_within(10, fail)


def test_a_call_that_was_given_up_does_not_keep_the_process() -> None:
    program = (
        "import threading\n"
        "from stream.bounded_call import call_within\n"
        "try:\n    call_within(0.05, threading.Event().wait)\nexcept TimeoutError:\n    print('given up')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "given up\n")
