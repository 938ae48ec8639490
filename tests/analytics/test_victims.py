"""Who was held up: against a slow twin that follows every flow byte by byte, and by short stories."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import msgspec
import numpy as np
import pytest

from analytics import layout, ledger, verdict, victims
from analytics.flows import Known
from analytics.layout import GAP_NS
from analytics.topology import PRIORITIES, Topology
from analytics.victims import PRESENT_BYTES, FlowRows, SentByFlows, exposures
from tests.analytics.engine_by_names import topology_of
from tests.analytics.random_runs import leaf_spine
from tests.analytics.story import BEGIN_NS
from tests.analytics.test_verdict import MS, UP, US, stopped_host, wide_engine

Window = tuple[int, int, int, int, int]
"""Flow, queue, beginning, end and bytes."""


def topology(random: Random) -> Topology:
    return topology_of(leaf_spine(random.randint(1, 3), random.randint(1, 2), random.randint(1, 2)))


class Facts(dict[int, Known]):
    """What is known of flows, as a table."""

    def known(self, number: int) -> Known | None:
        return self.get(number)

    def sent_by(self, host: int) -> set[int]:
        return {number for number, known in self.items() if known.src_device == host}


def sent(windows: list[Window]) -> FlowRows:
    columns = list(zip(*windows, strict=True)) if windows else [()] * 5
    flow, *rest = columns
    return FlowRows(np.array(flow, np.uint64), *(np.array(column, np.int64) for column in rest))


def sum_until(windows: list[Window], flow: int, queue: int, time_ns: int) -> float:
    """What a flow had sent by a queue, the bytes of a window spread evenly."""
    total = 0.0
    for f, q, begin, end, count in windows:
        if (f, q) == (flow, queue) and time_ns > begin:
            total += count * min(1.0, (time_ns - begin) / (end - begin))
    return total


def plain(
    windows: list[Window], stops: dict[tuple[int, int], int], known: dict[int, Known], network: Topology
) -> dict[int, set[int]]:
    """By flow, every instant of a whole number of us in which it was held up."""
    held: dict[int, set[int]] = {}
    for flow in {window[0] for window in windows} | known.keys():
        for (queue, begin), end in stops.items():
            port = queue // PRIORITIES
            device = network.port_device[port]
            if network.is_host[device]:
                told = known.get(flow)
                here = any((f, q) == (flow, queue) for f, q, *_ in windows)
                if (told is not None and told.src_device != device) or (told is None and not here):
                    continue
                whole = sum(count for f, q, _, _, count in windows if (f, q) == (flow, queue))
                size = whole if told is None or told.size_bytes < 0 else told.size_bytes
                left = size - sum_until(windows, flow, queue, begin)
                present = left > PRESENT_BYTES and (told is None or end > told.from_ns)
            else:
                come = 0.0
                for f, q in {(f, q) for f, q, *_ in windows if f == flow}:
                    peer = network.port_peer[q // PRIORITIES]
                    if q != queue and peer >= 0 and network.port_device[peer] == device and q % 8 == queue % 8:
                        delay = int(network.port_delay_ns[q // PRIORITIES])
                        come += sum_until(windows, f, q, end - delay)
                passed = any((f, q) == (flow, queue) for f, q, *_ in windows)
                present = passed and come - sum_until(windows, flow, queue, begin) > PRESENT_BYTES
            if present:
                held.setdefault(flow, set()).update(range(begin // 1000, end // 1000))
    return {flow: instants for flow, instants in held.items() if instants}


@pytest.mark.parametrize("seed", range(30))
def test_exposures_are_those_of_the_twin(seed: int) -> None:
    random = Random(seed)
    network = topology(random)
    queues = [port * PRIORITIES + 3 for port in range(len(network.ports)) if network.port_peer[port] >= 0]
    windows = [
        (flow, queue, start * 100_000, (start + 1) * 100_000, random.choice((0, 500, 1_500, 40_000)))
        for flow in range(1, 6) for queue in queues for start in range(8)
        if random.random() < 0.3
    ]  # fmt: skip
    stops: dict[tuple[int, int], int] = {}
    for queue in queues:
        at_us = random.randrange(300)
        while random.random() < 0.7:
            length_us = random.choice((0, 1, 30, 150))
            stops[queue, at_us * 1000] = (at_us + length_us) * 1000
            at_us += length_us + random.randrange(1, 200)
    hosts = np.flatnonzero(network.is_host).tolist()
    known = {
        flow: Known(random.choice(hosts), random.choice((0, 400_000)), random.choice((-1, 0, 3_000, 90_000)))
        for flow in range(1, 8) if random.random() < 0.6
    }  # fmt: skip
    if not stops:
        stops[queues[0], 0] = 5_000
    seen = SentByFlows()
    shuffled = random.sample(windows, len(windows))
    seen.add(sent(shuffled[: len(shuffled) // 2]))
    seen.add(sent(shuffled[len(shuffled) // 2 :]))
    found = exposures(seen, stops, 0, 10**9, Facts(known), network)
    as_instants = {
        flow: {us for time in times for us in range(time.begin_ns // 1000, time.end_ns // 1000)}
        for flow, times in found.items()
    }
    assert {flow: us for flow, us in as_instants.items() if us} == plain(windows, stops, known, network)
    for times in found.values():
        assert all(one.end_ns <= other.begin_ns for one, other in pairwise(times))


def test_bytes_that_left_a_host_are_remembered_when_windows_go() -> None:
    network = topology(Random(1))
    host_queue = next(p for p in range(len(network.ports)) if network.is_host[network.port_device[p]]) * PRIORITIES
    switch_queue = (
        next(p for p in range(len(network.ports)) if not network.is_host[network.port_device[p]]) * PRIORITIES
    )
    seen = SentByFlows()
    seen.add(sent([(7, host_queue, 0, 100, 40), (7, switch_queue, 0, 100, 40), (7, host_queue, 100, 200, 2)]))
    seen.forget(150, 1_000, network)
    assert (seen.all_rows().end_ns.tolist(), seen.sent_before) == ([200], {7: 40})
    again = SentByFlows()
    again.load(seen.state())
    assert again.sent_before == seen.sent_before
    assert all(np.array_equal(one, other) for one, other in zip(again.all_rows(), seen.all_rows(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_windows_go_when_their_time_is_over_in_whatever_pieces_they_came(seed: int) -> None:
    random, network = Random(seed), topology(Random(1))
    queues = [port * PRIORITIES for port in range(len(network.ports))]
    seen, kept, before = SentByFlows(), list[tuple[int, ...]](), Counter[int]()
    assert [len(column) for column in seen.all_rows()] == [0] * 5
    for turn in range(12):
        rows = np.zeros((random.randrange(8), layout.ROW_COLUMNS), np.int64)
        flows = np.array([random.randrange(3) for _ in rows], np.uint64)
        for row, flow in zip(rows, flows.tolist(), strict=True):
            row[layout.ROW_TYPE] = random.choice([layout.FLOW, layout.BYTES])
            row[layout.ROW_QUEUE], row[layout.ROW_AMOUNT] = random.choice(queues), random.randrange(1, 1 << 40)
            row[layout.ROW_START], row[layout.ROW_END] = turn * 10, turn * 10 + random.randrange(1, 40)
            if row[layout.ROW_TYPE] == layout.FLOW:
                kept.append((flow, *row[layout.ROW_QUEUE : layout.ROW_AMOUNT + 1].tolist()))
        seen.take(rows, flows)
        twin, before_ns = seen.copy(), turn * 10 - random.randrange(30)
        assert seen.forget(before_ns, 1_000, network) == 0
        for flow, queue, _, end_ns, amount in kept:
            if end_ns < before_ns and network.is_host[network.port_device[queue // PRIORITIES]]:
                before[flow] += amount
        assert seen.sent_before == before
        assert sorted(zip(*(column.tolist() for column in twin.all_rows()), strict=True)) == sorted(kept)
        kept = [row for row in kept if row[3] >= before_ns]
        if turn % 3 == 0:
            assert sorted(zip(*(column.tolist() for column in seen.all_rows()), strict=True)) == sorted(kept)
    assert before


def test_no_more_windows_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victims, "MAX_ROWS", 3)
    network = topology(Random(1))
    seen = SentByFlows()
    seen.add(sent([(7, 0, start, start + 10, 1) for start in (40, 0, 30, 10, 20, 50)]))
    # The last one is not settled yet and so does not count.
    assert seen.forget(0, 60, network) == 2
    assert sorted(seen.all_rows().end_ns.tolist()) == [30, 40, 50, 60]


# Stories: the stopped host's stops reach leaf0 after 200 us and h00 after 250 us, and all end after 1,100 us

LEAF_STOPPED_NS, HOST_STOPPED_NS = 900 * US, 850 * US


def test_a_flow_beside_the_cause_is_a_victim_and_the_cause_is_not() -> None:
    story = stopped_host()
    story.flow(1, "h00", "h10", size_bytes=10**9)
    story.flow(2, "h00", "h11", size_bytes=10**9)
    story.flow(3, "h01", "h11", size_bytes=10**9)
    cascade = story.only()
    assert [flow.name for flow in cascade.roots[0].contributors] == ["h00 to h10"]
    (victim,) = cascade.victims
    assert (victim.name, victim.pause_ns) == ("h00 to h11", HOST_STOPPED_NS)
    assert [(part.device, part.pause_ns) for part in victim.roots] == [("h10", HOST_STOPPED_NS)]


def test_a_flow_is_held_up_in_a_switch_while_its_bytes_are_there_and_no_longer() -> None:
    story = stopped_host()
    story.flow(2, "h01", "h11", size_bytes=100_000)
    # 50 kB come to leaf0 before it is stopped, and leave after it.
    story.flow_sent(("h01", "eth0", 3), 0, 100 * US, 2, 50_000)
    story.flow_sent(UP, 1300 * US, 1400 * US, 2, 50_000)
    (victim,) = story.only().victims
    assert (victim.name, victim.pause_ns) == ("h01 to h11", LEAF_STOPPED_NS)
    story = stopped_host()
    story.flow(2, "h01", "h11", size_bytes=100_000)
    story.flow_sent(("h01", "eth0", 3), 0, 100 * US, 2, 50_000)
    story.flow_sent(UP, 0, 100 * US, 2, 50_000)
    assert story.only().victims == ()


def test_a_flow_that_begins_later_was_not_held_up() -> None:
    story = stopped_host()
    story.flow(2, "h00", "h11", size_bytes=10**9)
    story.flows = [msgspec.structs.replace(flow, valid_from_ns=BEGIN_NS + 2 * MS) for flow in story.flows]
    assert story.only().victims == ()


def test_time_is_split_over_roots_as_the_stops_are() -> None:
    story = stopped_host()
    story.flow(2, "h00", "h11", size_bytes=10**9)
    story.depth(("leaf1", "d1", 3), 0, 1200 * US, 100_000)
    (victim,) = story.only().victims
    parts = {(part.device, part.port): part.pause_ns for part in victim.roots}
    # Blame goes by the square of the queues' heights: 4 to 1.
    assert parts[("h10", "")] == pytest.approx(0.8 * HOST_STOPPED_NS, rel=0.01)
    assert parts[("leaf1", "d1")] == pytest.approx(0.2 * HOST_STOPPED_NS, rel=0.01)
    assert victim.pause_ns == sum(parts.values())


def test_a_contributor_beyond_those_that_are_listed_is_no_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "MAX_LISTED", 1)
    story = stopped_host()
    for number, size_bytes in ((1, 10**9), (2, 10**8)):
        story.flow(number, "h00", "h10", size_bytes=size_bytes)
    cascade = story.only()
    assert [flow.bytes for flow in cascade.roots[0].contributors] == [10**9]
    assert cascade.victims == ()


def test_stops_that_are_not_followed_are_counted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_STOPS", 3)
    story = stopped_host()
    story.flow(2, "h00", "h11", size_bytes=10**9)
    assert story.only().losses == {"stops_not_followed": 1}


def test_windows_of_flows_that_find_no_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victims, "MAX_ROWS", 3)
    engine = wide_engine(2)
    engine.sent.add(sent([(7, 0, start, start + 10, 1) for start in range(1_000, 1_050, 10)]))
    engine.advance(2_000, GAP_NS, lambda _: None)
    assert engine.counters["flow_windows_dropped"] == 2


def test_absurd_bytes_overflow_no_sum() -> None:
    seen = SentByFlows()
    seen.add(sent([(7, 0, 0, 10, 2**63 - 1), (7, 0, 10, 20, 2**63 - 1)]))
    assert 0 < int(seen.all_rows().sent.sum()) < 2**63
