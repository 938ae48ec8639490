"""What is compiled at the start, so that the first polls of an incident need not wait for the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILED_LATER = """
import sys
import numba
from analytics.warm_up import warm_up
warm_up()

def compiled():
    return {
        name + "." + key: len(value.signatures)
        for name, module in list(sys.modules.items()) if name.startswith("analytics")
        for key, value in vars(module).items() if isinstance(value, numba.core.dispatcher.Dispatcher)
    }

before = compiled()
assert before["analytics.kernel.run"] == before["analytics.sampled_blame._absorb"] == 1, before
from tests.analytics.test_sampled_determinism import finals, polled
from simulation.trace_items import trace_items
assert finals(trace_items(polled("two_roots-ls-s1", "period=incident/4,unaligned,poll_loss=.3")), 1_000_000)
print(sorted(name for name, count in compiled().items() if count != before.get(name, 0)))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled with NUMBA_DISABLE_JIT=1")
def test_polls_find_all_kernels_compiled() -> None:
    # In a process of its own: others have compiled them here.
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_LATER], cwd=ROOT, check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
