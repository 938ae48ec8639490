"""The consumer of rings: produced is consumed and lost and discarded, exactly, whatever the producers do."""

from __future__ import annotations

import os
import platform
import threading
from typing import Any

import numpy as np
import pytest

from probes import ring as ring_module
from probes.maps import Map
from probes.ring import CallbackConsumer, Ring
from stream.record import Events, joined
from tests.probes.bpf_lab import compiled, run_program

pytestmark = pytest.mark.ebpf
COUNT = np.dtype("<u8")
PACKET = bytes(64)
PRIME = 0x9E3779B97F4A7C15


class Producer:
    """A ring and a program that fills it."""

    def __init__(self, pages: int, discard_every: int) -> None:
        self._module: Any = compiled("produce", RING_PAGES=pages, DISCARD_EVERY=discard_every)
        self._function = self._module.load_func(b"produce", self._module.XDP)
        self.ring = Ring(os.dup(self._module[b"produced"].map_fd), self.count("produced_lost"))

    def fd(self) -> int:
        return os.dup(self._module[b"produced"].map_fd)

    def count(self, name: str) -> Map:
        return Map(os.dup(self._module[name.encode()].map_fd), COUNT)

    def total(self, name: str) -> int:
        return int(self.count(name).at(0).sum())

    def run(self, rounds: int, repeat: int, cpu: int | None = None) -> None:
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        for _ in range(rounds):
            run_program(self._function.fd, packet=PACKET, repeat=repeat)


def check(events: Events, cpu: int) -> None:
    """Rows of one CPU are whole and in the order in which they were made."""
    mine = events[events["port"] == cpu]
    number = mine["value"].astype(np.uint64)
    assert (np.diff(mine["value"]) > 0).all()
    assert (mine["flow"] == number * np.uint64(PRIME) + np.uint64(cpu)).all()
    assert (mine["seen_ns"] == ~mine["value"]).all()
    assert (mine["span_ns"] == cpu).all()
    assert (mine["device"] == (number & np.uint64(0xFFFF))).all()
    assert (mine["priority"] == (number & np.uint64(7))).all()


@pytest.mark.parametrize(("pages", "discard_every"), [(1, 7), (4, 7), (64, 0), (1024, 7)])
def test_two_producers_overflow_and_discards_lose_no_row_without_counting_it(pages: int, discard_every: int) -> None:
    producer = Producer(pages, discard_every)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    producers = [threading.Thread(target=producer.run, args=(100, 5_000, cpu)) for cpu in cpus]
    for thread in producers:
        thread.start()
    parts: list[Events] = []
    lost = 0
    while any(thread.is_alive() for thread in producers):
        drained = producer.ring.drain()
        parts.append(drained.events)
        lost += drained.lost
    drained = producer.ring.drain()
    events, lost = joined([*parts, drained.events]), lost + drained.lost
    assert producer.total("produced_tried") == 1_000_000
    assert len(events) + lost + producer.total("produced_discarded") == 1_000_000
    assert bool(producer.total("produced_discarded")) == bool(discard_every)
    assert len(events) > 0
    for cpu in cpus:
        check(events, cpu)
    producer.ring.close()
    producer.ring.close()


def test_a_ring_that_nobody_reads_keeps_what_it_holds_and_counts_the_rest() -> None:
    producer = Producer(16, 0)
    producer.run(1, 10_000)
    drained = producer.ring.drain()
    assert len(drained.events) == 16 * os.sysconf("SC_PAGE_SIZE") // 64 - 1  # the kernel keeps a byte free
    assert drained.lost == 10_000 - len(drained.events)
    assert drained.events["value"].tolist() == list(range(len(drained.events)))
    assert producer.ring.drain().lost == 0


def test_the_callback_consumer_of_other_machines_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped, called = Producer(64, 7), Producer(64, 7)
    fallback = CallbackConsumer(called.fd())
    for producer in (mapped, called):
        producer.run(1, 3_000)
    events = mapped.ring.drain().events
    offset = events["time_ns"][0] - events["value"][0]
    events["time_ns"] -= offset
    assert fallback.take().tobytes() == events.tobytes()
    assert len(fallback.take()) == 0
    fallback.close()
    assert ring_module.consumer() == "mmap"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "libbpf" in ring_module.consumer()
