"""The embedded broker starts with its topics, tells its limits and dies with its parent."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stream.embedded import LIMITS, EmbeddedBroker, limits_text, main
from stream.errors import BrokerError
from stream.kafka_settings import connect, look
from stream.topics import TOPICS

ROOT = Path(__file__).resolve().parents[2]


def test_the_embedded_broker_has_every_topic_with_the_partitions_of_the_table() -> None:
    with EmbeddedBroker("lab") as broker:
        view = look(broker.settings)
        assert view.broker.embedded
        assert view.partitions == {f"lab.{topic.name}": topic.partitions for topic in TOPICS}


def test_other_partition_counts_leave_topics_of_one_partition_alone() -> None:
    with EmbeddedBroker(partitions=2) as broker:
        partitions = look(broker.settings).partitions
    assert partitions["fabric.pfc"] == 2
    assert partitions["fabric.control"] == 1


def test_nothing_answers_once_it_is_stopped(embedded_broker: EmbeddedBroker) -> None:
    connect(embedded_broker.settings)
    embedded_broker.stop()
    assert embedded_broker.pid == 0
    with pytest.raises(BrokerError):
        connect(embedded_broker.settings, deadline_s=0.3)


def test_it_ends_with_a_parent_that_is_killed() -> None:
    program = (
        "from stream.embedded import EmbeddedBroker\n"
        "import time\n"
        "broker = EmbeddedBroker()\n"
        "broker.start()\n"
        "print(broker.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        watch = os.pidfd_open(pid)
        parent.kill()
    try:
        # The descriptor becomes readable when the process has ended.
        assert _ends_within(watch, 10)
    finally:
        os.close(watch)


def _ends_within(pidfd: int, seconds: float) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


def test_ctrl_c_for_the_programs_in_front_of_it_does_not_reach_it(embedded_broker: EmbeddedBroker) -> None:
    assert os.getpgid(embedded_broker.pid) != os.getpgrp()


def test_started_by_hand_it_tells_its_limits_on_stderr_and_its_address_on_stdout() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "stream.embedded"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        assert process.stderr is not None
        limits = process.stderr.readline()
        process.send_signal(signal.SIGINT)
    assert address.startswith('{"bootstrap_servers": "127.0.0.1:')
    assert limits.strip() == limits_text()
    assert process.returncode == 0
    assert len(LIMITS) >= 5


def test_a_process_that_cannot_start_says_why() -> None:
    broker = EmbeddedBroker(partitions=-3)
    with pytest.raises(BrokerError, match=r"--partitions takes a number from 1.*docker compose"):
        broker.start()


def test_partitions_below_one_are_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--partitions", "0"])
