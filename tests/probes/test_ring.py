"""The consumer of rings: produced is consumed and lost and discarded, exactly, whatever the producers do."""

from __future__ import annotations

import os
import platform
import threading
from contextlib import closing

import numpy as np
import pytest

from probes import ring as ring_module
from probes.ring import CallbackConsumer
from stream.record import Events, joined
from tests.probes.bpf_lab import Producer

pytestmark = pytest.mark.ebpf
PRIME = 0x9E3779B97F4A7C15


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
    with closing(Producer(pages, discard_every)) as producer:
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


def test_a_ring_that_nobody_reads_keeps_what_it_holds_and_counts_the_rest() -> None:
    with closing(Producer(16, 0)) as producer:
        producer.run(1, 10_000)
        drained = producer.ring.drain()
        assert len(drained.events) == 16 * os.sysconf("SC_PAGE_SIZE") // 64 - 1  # the kernel keeps a byte free
        assert drained.lost == 10_000 - len(drained.events)
        assert drained.events["value"].tolist() == list(range(len(drained.events)))
        assert producer.ring.drain().lost == 0


@pytest.mark.parametrize("discard_every", [0, 40_000])
def test_a_backlog_of_many_parts_is_read_whole_and_bears_times_since_the_epoch(discard_every: int) -> None:
    with closing(Producer(1024, discard_every)) as producer:
        producer.run(1, 60_000)
        began_ns = ring_module.epoch_offset_ns()
        events = producer.ring.drain().events
        discarded = producer.total("produced_discarded")
        assert bool(discarded) == bool(discard_every)
        assert len(events) == 60_000 - discarded
        check(events, int(events["port"][0]))
        moved = events["time_ns"] - events["value"]
        assert (moved == moved[0]).all()
        assert abs(int(moved[0]) - began_ns) < 1_000_000_000
        assert len(producer.ring.drain().events) == 0


def test_the_callback_consumer_of_other_machines_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Producer(64, 7)) as mapped, closing(Producer(64, 7)) as called:
        fallback = CallbackConsumer(called.fd())
        for producer in (mapped, called):
            producer.run(1, 3_000)
        events = mapped.ring.drain().events
        offset = events["time_ns"][0] - events["value"][0]
        events["time_ns"] -= offset
        assert fallback.take(0).tobytes() == events.tobytes()
        assert len(fallback.take(0)) == 0
        fallback.close()
        assert ring_module.consumer() == "mmap"
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
        assert "libbpf" in ring_module.consumer()
