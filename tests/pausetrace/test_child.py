"""Verbs as child processes: ready, watched, and gone in the end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pausetrace.child import Child, ChildError
from stream.embedded import EmbeddedBroker

DEADLINE_S = 30.0


def has_ended(pid: int) -> bool:
    """Whether a process is gone (or a zombie whose parent is) by the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_child_gets_ready_and_ends_with_its_block(embedded_broker: EmbeddedBroker) -> None:
    with Child(["detect", "--bootstrap-servers", embedded_broker.bootstrap_servers]) as child:
        child.wait_until_said("reads from the earliest offset", DEADLINE_S)
        child.check()
    assert has_ended(child.pid)


def test_a_child_that_ends_by_itself_is_told_with_its_last_words() -> None:
    child = Child(["detect", "-X", "no.such.setting=1"])
    with child, pytest.raises(ChildError, match="detect ended with exit status 2: librdkafka does not take"):
        child.wait_until_said("reads from the earliest offset", DEADLINE_S)


def test_a_child_does_not_outlive_a_parent_that_is_killed(embedded_broker: EmbeddedBroker) -> None:
    code = f"""
import sys, time
from pausetrace.child import Child
child = Child(["detect", "--bootstrap-servers", {embedded_broker.bootstrap_servers!r}])
child.wait_until_said("reads from the earliest offset", {DEADLINE_S})
print(child.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert has_ended(pid)


def test_a_child_sees_no_settings_but_those_that_it_is_given(
    embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSETRACE_KAFKA_PREFIX", "elsewhere")
    monkeypatch.setenv("PAUSETRACE_CONFIG", os.devnull + "/none")
    with Child(["detect", "--bootstrap-servers", embedded_broker.bootstrap_servers]) as child:
        child.wait_until_said("reads from the earliest offset", DEADLINE_S)
