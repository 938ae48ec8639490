"""A static member that was killed between two rebalances sees that partitions have no reader, and mends it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stream.errors import UnreachableError
from stream.kafka_settings import KafkaSettings
from stream.offset_gaps import PartitionId
from stream.subscriber import Subscriber

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = ("pfc", "queue")
DEADLINE_S = 60.0
DIES_AS_IT_GIVES_UP = """
import os, sys
from stream.kafka_settings import KafkaSettings
from stream.subscriber import Subscriber
servers, prefix, *topics = sys.argv[1:]
reader = Subscriber(KafkaSettings(servers, prefix), topics, group="detect", instance="a",
                    on_assigned=lambda got: got and print("reads", flush=True), on_revoked=lambda _lost: os._exit(9))
while True:
    reader.consume()
"""


@contextmanager
def reading(settings: KafkaSettings, instance: str) -> Iterator[Subscriber]:
    """A member that reads in a thread of its own."""
    stop = threading.Event()
    with Subscriber(settings, TOPICS, group="detect", instance=instance) as reader:

        def read() -> None:
            while not stop.is_set():
                reader.consume()

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield reader
        finally:
            stop.set()
            thread.join(DEADLINE_S)


def consume_until(reader: Subscriber, end_s: float) -> None:
    """Reads up to a monotonic time."""
    while time.monotonic() < end_s:
        reader.consume()


def test_what_a_killed_member_was_giving_up_gets_a_reader(real_settings: KafkaSettings) -> None:
    every = {PartitionId(topic, number) for topic in TOPICS for number in range(4)}
    command = [
        sys.executable,
        "-c",
        DIES_AS_IT_GIVES_UP,
        real_settings.bootstrap_servers,
        real_settings.prefix,
        *TOPICS,
    ]
    end_s = time.monotonic() + DEADLINE_S
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "reads\n"
        with reading(real_settings, "b") as other:
            assert first.wait(DEADLINE_S) == 9
            with Subscriber(real_settings, TOPICS, group="detect", instance="a") as again:
                with pytest.raises(UnreachableError, match="4 partitions have had no reader"):
                    consume_until(again, end_s)
                assert again.assigned | other.assigned != every
            with Subscriber(real_settings, TOPICS, group="detect", instance="a") as anew:
                while not (anew.assigned and anew.assigned | other.assigned == every):
                    assert time.monotonic() < end_s
                    anew.consume()
                assert not anew.assigned & other.assigned
                consume_until(anew, time.monotonic() + 8)  # longer than it takes to find some unread
