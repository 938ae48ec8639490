"""What is promised of a topic is never ahead of what a probe may still bring."""

import random

from probes.promises import RING_DELAY_NS, Promises
from tests.probes.sample_probes import RING, STATES, SUMS

S = 1_000_000_000


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 1000 * S

    def __call__(self) -> int:
        return self.now_ns


def test_a_topic_that_nobody_reads_promises_now() -> None:
    clock = Clock()
    assert Promises(clock).mark_ns("host") == clock.now_ns


def test_a_window_is_in_the_way_from_its_read_until_it_is_passed_on() -> None:
    clock = Clock()
    promises = Promises(clock)
    promises.opens(SUMS)
    clock.now_ns += S
    assert promises.mark_ns("host") == clock.now_ns
    read_ns = promises.reads(SUMS)
    clock.now_ns += S
    assert promises.mark_ns("host") == read_ns
    assert promises.mark_ns("pcie") == clock.now_ns
    promises.passed_on(SUMS, read_ns)
    assert promises.mark_ns("host") == clock.now_ns


def test_instants_are_in_the_way_from_opening_on() -> None:
    clock = Clock()
    promises = Promises(clock)
    promises.opens(RING)
    opened_ns = clock.now_ns
    clock.now_ns += S
    assert promises.mark_ns("host") == opened_ns - RING_DELAY_NS
    read_ns = promises.reads(RING)
    clock.now_ns += S
    assert promises.mark_ns("host") == opened_ns - RING_DELAY_NS
    promises.passed_on(RING, read_ns)
    assert promises.mark_ns("host") == read_ns - RING_DELAY_NS
    promises.closes(RING)
    assert promises.mark_ns("host") == clock.now_ns


def test_what_was_read_before_the_probe_closed_is_still_in_the_way() -> None:
    clock = Clock()
    promises = Promises(clock)
    promises.opens(SUMS)
    first_ns = promises.reads(SUMS)
    clock.now_ns += S
    failed_ns = promises.reads(SUMS)
    promises.closes(SUMS, failed_ns)
    promises.opens(SUMS)
    clock.now_ns += S
    assert promises.mark_ns("host") == first_ns
    promises.passed_on(SUMS, first_ns)
    assert promises.mark_ns("host") == clock.now_ns


def test_nobody_waits_for_a_probe_that_is_stuck_until_it_reads_again() -> None:
    clock = Clock()
    promises = Promises(clock)
    promises.opens(RING)
    stuck_ns = promises.reads(RING)
    clock.now_ns += 9 * S
    promises.forget(RING.name)
    assert promises.mark_ns("host") == clock.now_ns
    promises.passed_on(RING, stuck_ns)
    assert promises.mark_ns("host") == clock.now_ns
    read_ns = promises.reads(RING)
    promises.passed_on(RING, read_ns)
    clock.now_ns += S
    assert promises.mark_ns("host") == read_ns - RING_DELAY_NS


def test_what_lies_between_was_never_promised_away() -> None:
    clock, seed = Clock(), random.Random(11)
    promises = Promises(clock)
    for kind in (SUMS, RING, STATES):
        promises.opens(kind)
    read_before = {kind.name: clock.now_ns for kind in (SUMS, RING, STATES)}
    waiting: list[tuple[object, int, int]] = []
    promised = {"host": 0, "pcie": 0}
    for _ in range(5000):
        clock.now_ns += seed.randrange(S)
        kind = seed.choice((SUMS, RING, STATES))
        action = seed.random()
        if action < 0.4:
            read_ns = promises.reads(kind)
            oldest_ns = read_before[kind.name] - RING_DELAY_NS if kind.instants else read_ns
            read_before[kind.name] = read_ns
            waiting.append((kind, read_ns, oldest_ns))
        elif action < 0.8 and waiting:
            done, read_ns, oldest_ns = waiting.pop(0)
            topic = done.topics[0]  # type: ignore[attr-defined]
            assert oldest_ns >= promised[topic]
            promises.passed_on(done, read_ns)  # type: ignore[arg-type]
        for topic in promised:
            promised[topic] = max(promised[topic], promises.mark_ns(topic))
