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
from stream.group_members import assigned, stays_member, unread
from stream.kafka_settings import KafkaSettings, admin_client
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


def test_what_members_have_is_what_the_admin_api_says(real_settings: KafkaSettings) -> None:
    with reading(real_settings, "a") as one, reading(real_settings, "b") as other:
        end_s = time.monotonic() + DEADLINE_S
        while not (one.assigned and other.assigned):
            assert time.monotonic() < end_s
            time.sleep(0.1)
        admin, group = admin_client(real_settings), f"{real_settings.prefix}.detect"
        told = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
        (found,) = admin.list_groups(group, timeout=DEADLINE_S)
        every = {(f"{real_settings.prefix}.{topic}", number) for topic in TOPICS for number in range(4)}
        assert {member.id: assigned(member.assignment) for member in found.members} == {
            member.member_id: {(place.topic, place.partition) for place in member.assignment.topic_partitions}
            for member in told.members
        }
        missing = (f"{real_settings.prefix}.pfc", 99)
        assert unread(real_settings, group, {*every, missing}, DEADLINE_S) == {missing}
        assert stays_member(real_settings, group, "a", 0.0)
        assert not stays_member(real_settings, group, "c", 0.0)
    assert not unread(real_settings, f"{real_settings.prefix}.nobody", every, DEADLINE_S)
