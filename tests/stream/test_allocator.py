"""Memory that was freed is used again without asking the kernel for it."""

import subprocess
import sys

import pytest

# 14 MB allocated and freed like the values of a turn.
COUNT_FAULTS = """
import resource
{prepare}
def turn():
    return [bytes(28_000) for _ in range(500)]
turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PREPARE = "from stream.allocator import keep_freed_memory; keep_freed_memory()"


def faults(prepare: str) -> int:
    code = COUNT_FAULTS.format(prepare=prepare)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has mallopt")
def test_turn_after_turn_uses_the_same_memory() -> None:
    assert faults(PREPARE) < 1_000 < 20_000 < faults("")


@pytest.mark.parametrize("imports", ["import pyarrow", ""])
def test_arrow_takes_its_memory_from_the_c_library(imports: str) -> None:
    code = f"{imports}\n{PREPARE}\nimport pyarrow\nprint(pyarrow.default_memory_pool().backend_name)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "system"
