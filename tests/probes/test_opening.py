"""Runners open their probes at the same time, each in its thread; and what is told where nothing can be opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from probes.opening import none_runs

OPEN = """
import sys, threading, time
from probes.opening import TableOpener
from probes.table import PROBES, PROGRAMS

class Slow:
    # aer needs a module of a package that ethtool is just importing; the others come as they may.
    def find_spec(self, name, path=None, target=None):
        time.sleep({"probes.pollers.aer": 0.3, "probes.drivers": 1.0}.get(name, 0.0))

def ask(name):
    begin.wait()
    try:
        opener.available(by_name[name], options(name))
    except BaseException as err:
        print(name, repr(err))

from pausetrace.probe_config import ProbesConfig, agent_settings
by_name = {kind.name: kind for kind in PROBES}
settings = agent_settings(ProbesConfig(), list(by_name))
options = lambda name: settings.options(by_name[name])
opener, begin = TableOpener(), threading.Barrier(len(PROBES))
sys.meta_path.insert(0, Slow())
threads = [threading.Thread(target=ask, args=(name,)) for name in by_name]
for thread in threads: thread.start()
for thread in threads: thread.join(30)
"""


def test_threads_that_need_modules_of_each_other_at_once_all_get_them_whole() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", OPEN], capture_output=True, text=True, timeout=60, check=False, cwd=root
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_where_nothing_runs_the_first_reasons_are_told_each_once() -> None:
    told = none_runs([("a", "no NIC"), ("b", "no bcc"), ("c", "no NIC"), ("d", "no GPU"), ("e", "no BTF"), ("f", "x")])
    assert str(told) == (
        "no probe can run here: probes a, c: no NIC; probe b: no bcc; probe d: no GPU; and 2 more; "
        "pausetrace probe --list tells all"
    )
