"""Threads that hand messages to each other share a core, until others want it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from collectors.one_core import OneCore, Used, crowded
from tests.threads import in_a_thread

ALL = os.sched_getaffinity(0)
SCHEDSTAT = Path("/proc/self/schedstat")
SHARES = len(ALL) > 1 and SCHEDSTAT.exists() and SCHEDSTAT.read_text().split()[0] != "0"
"""Whether this machine has a core to choose, and a kernel that tells who waits."""


def test_a_thread_and_those_that_it_starts_share_a_core_and_no_others() -> None:
    started = threading.Event()
    before = threading.Thread(target=started.wait)
    before.start()

    def share() -> None:
        with OneCore() as core:
            after = threading.Thread(target=started.wait)
            after.start()
            shared = {core.core} if core.core is not None else ALL
            assert (core.core in ALL) == SHARES
            assert os.sched_getaffinity(0) == os.sched_getaffinity(after.native_id or 0) == shared
            assert os.sched_getaffinity(before.native_id or 0) == ALL
            core.look()
        assert os.sched_getaffinity(0) == os.sched_getaffinity(after.native_id or 0) == ALL

    try:
        in_a_thread(share)
    finally:
        started.set()
        before.join()


def test_they_leave_a_core_that_others_want() -> None:
    def share() -> None:
        with OneCore() as core:
            assert (core.core is not None) == SHARES
            if not SHARES:
                return
            code = f"import os; os.sched_setaffinity(0, {{{core.core}}})\nwhile True: pass"
            others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
            try:
                until_s = time.monotonic() + 30
                while core.core is not None and time.monotonic() < until_s:
                    core.look()
                    sum(range(100_000))
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            assert core.core is None
            assert os.sched_getaffinity(0) == ALL

    in_a_thread(share)


@pytest.mark.parametrize(
    ("spent", "is_crowded"),
    [
        (Used(ours_s=0.4, others_s=0.05, waited_s=0.15), False),
        # The thread that takes messages and gRPC's wait for each other alone: there is room.
        (Used(ours_s=0.8, others_s=0.05, waited_s=0.6), False),
        (Used(ours_s=0.95, others_s=0.0, waited_s=0.8), True),
        (Used(ours_s=0.3, others_s=0.6, waited_s=0.3), True),
        # Others run there only while ours have nothing to do.
        (Used(ours_s=0.3, others_s=0.6, waited_s=0.05), False),
    ],
)
def test_a_core_is_crowded_by_others_or_by_ours_alone(spent: Used, is_crowded: bool) -> None:
    assert bool(crowded(spent, 1.0)) is is_crowded


def test_threads_that_fill_their_core_leave_it_and_come_back_when_they_have_less_to_do() -> None:
    ending = threading.Event()

    def share() -> None:
        with OneCore(rest_s=0.0) as core:
            assert (core.core is not None) == SHARES
            if not SHARES:
                return
            other = threading.Thread(target=ending.wait)
            other.start()
            until_s = time.monotonic() + 30
            while os.sched_getaffinity(0) != ALL and time.monotonic() < until_s:
                core.look()
                sum(range(100_000))
            assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id or 0) == ALL
            while os.sched_getaffinity(0) == ALL and time.monotonic() < until_s:
                core.look()
                time.sleep(0.1)
            assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id or 0) == {core.core}
        assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id or 0) == ALL

    try:
        in_a_thread(share)
    finally:
        ending.set()
