"""No target, slow reader or flood of paths makes a collector grow without bound."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from collectors import profiles
from collectors.budget import MESSAGE_OVERHEAD_BYTES, Budget
from collectors.failures import Failure
from collectors.gate import Gate
from collectors.inbox import Inbox, Taken
from collectors.outlet import NoOutlet
from collectors.paths import PathTable
from collectors.pump import Found, Pump, Wanted
from collectors.sorting import MOST_NAMES, Sorting
from simulation.gnmi_targets.http2 import Stream
from simulation.gnmi_targets.messages import notification, sync
from simulation.gnmi_targets.raw_target import RawTarget
from stream.facts import MAX_ALIASES
from tests.collectors.notifications import Feed, plain
from tests.collectors.notifications import notification as profile_notification
from tests.collectors.running import collecting, target_at

BASE = "/interfaces/interface[name=Ethernet1]/state/counters"


def rss_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def flood(stream: Stream, _request: bytes) -> None:
    """As fast as the client reads."""
    stream.send(sync())
    message = notification(time.time_ns(), [(f"leaf-{at}", at) for at in range(200)], prefix=BASE)
    while stream.open:
        for _ in range(64):
            if stream.backlog:
                break
            stream.send(message)
        await asyncio.sleep(0)


@pytest.mark.slow
def test_a_collector_that_does_not_keep_up_stops_reading_and_does_not_grow() -> None:
    limit = 2 << 20

    async def run() -> None:
        async with RawTarget(flood) as fake:
            targets = [target_at(fake.address, f"leaf{at}") for at in range(4)]
            async with collecting(*targets, budget_bytes=limit) as running:
                pump = running.collector.pump
                turn = pump.turn

                def slow_turn(taken):  # type: ignore[no-untyped-def]  # stands in for a pump on a slow machine
                    time.sleep(0.2)
                    return turn(taken)

                pump.turn = slow_turn  # type: ignore[method-assign]
                await running.until(lambda: running.collector.budget.waits > 20)
                before = rss_bytes()
                await asyncio.sleep(5)
                assert rss_bytes() - before < 24 << 20
                # One message of each target may exceed what was left.
                assert running.collector.budget.most_bytes < limit + 4 * (64 << 10)
                # The targets notice: their windows are full.
                assert all(stream.stalls > 0 for stream in fake.subscribes)
                assert all(status.up for status in running.collector.statuses())
                assert running.collector.counters()["turns_failed"] == 0

    asyncio.run(run())


def test_paths_that_a_target_invents_fill_no_table() -> None:
    async def script(stream: Stream, _request: bytes) -> None:
        stream.send(sync())
        number = 0
        while stream.open:
            names = [(f"invented-{number + at}", 1) for at in range(500)]
            number += 500
            stream.send(notification(time.time_ns(), names, prefix=BASE))
            await asyncio.sleep(0)

    async def run() -> None:
        async with RawTarget(script) as fake, collecting(target_at(fake.address)) as running:
            await running.until(lambda: running.status().drops.get("path_table_full", 0) > 10_000, 60)
            # A few more were there before.
            assert len(running.collector.pump.paths) <= (1 << 16) + 16
            assert running.status().up

    asyncio.run(run())


def test_a_table_of_paths_that_has_refused_some_for_long_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profiles.load("openconfig")
    pump = Pump("lab", NoOutlet(), PathTable(limit=30))
    pump.want(0, Wanted("leaf1", "switch", ()))
    pump.profile(0, profile, 1000, dict.fromkeys(profile.topics(), 1000), 1000)

    def turn(*names: str) -> Found:
        monkeypatch.setattr(pump, "_flush_ns", 0)
        message = notification(time.time_ns(), [(name, 1) for name in names], prefix=BASE)
        return pump.turn(Taken([message], [0], [time.time_ns()], [(0, True)]))

    invented = [f"invented-{at}" for at in range(40)]
    assert not turn(*invented[:20]).refused.any()
    assert turn(*invented).refused[0] > 5
    # Not yet: another minute may do with what there is.
    assert turn(*invented).refused[0] > 5
    monkeypatch.setattr("collectors.pump.PATHS_RENEW_S", 0.0)
    turn(*invented)
    assert not turn("out-octets", "in-octets").refused.any()
    # A table that has room for all is left alone.
    generation = pump.paths.generation
    turn("out-octets", "in-octets")
    turn("out-octets", "in-octets")
    assert pump.paths.generation == generation == 1


def test_the_budget_is_shared_fairly() -> None:
    async def run() -> None:
        budget = Budget(1_000_000)
        while budget.may_read(0):
            budget.took(0, 10_000)
        assert budget.held_bytes >= 1_000_000 - 10_000
        budget.gave_back({0: budget.held_bytes})
        for target in range(4):
            budget.took(target, 1000)
        while budget.may_read(0):
            budget.took(0, 10_000)
        # One that sends much leaves room for those that send little.
        assert budget.held_bytes < 600_000
        assert all(budget.may_read(target) for target in range(1, 4))
        waiting = asyncio.create_task(budget.room(0))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.gave_back({0: 20 * (10_000 + MESSAGE_OVERHEAD_BYTES)})
        await asyncio.wait_for(waiting, 1)

    asyncio.run(run())


def test_each_rpc_of_a_target_that_waits_for_room_is_woken() -> None:
    async def run() -> None:
        budget = Budget(1 << 20)
        budget.took(1, 2 << 20)
        rpcs = [asyncio.create_task(budget.room(1)) for _ in range(3)]
        await asyncio.sleep(0)
        budget.gave_back({1: (2 << 20) + MESSAGE_OVERHEAD_BYTES})
        await asyncio.wait_for(asyncio.gather(*rpcs), 1)

    asyncio.run(run())


async def trickle(stream: Stream, _request: bytes) -> None:
    """Sends a small message every 10 ms."""
    stream.send(sync())
    while stream.open:
        stream.send(notification(time.time_ns(), [("out-octets", 1)], prefix=BASE))
        await asyncio.sleep(0.01)


def test_a_session_that_waits_for_room_is_not_taken_to_be_silent_and_its_end_ends_the_wait() -> None:
    async def run() -> None:
        async with RawTarget(trickle) as fake, collecting(target_at(fake.address, stall_s=0.5)) as running:
            session, budget = running.collector.session("leaf1"), running.collector.budget
            await running.until(lambda: running.status().synced)
            budget.took(99, 1 << 30)
            await running.until(lambda: session.blocked)
            await asyncio.sleep(1.6)
            assert session.blocked
            assert not session.status.failures
            running.collector.assign([])
            await running.until(lambda: not session.blocked)

    asyncio.run(run())


def test_a_session_that_waits_for_room_can_be_ended() -> None:
    async def run() -> None:
        async with RawTarget(trickle) as fake, collecting(target_at(fake.address)) as running:
            session, budget = running.collector.session("leaf1"), running.collector.budget
            await running.until(lambda: running.status().synced)
            budget.took(99, 1 << 30)
            await running.until(lambda: session.blocked)
            session.abort(Failure("garbage", "of the test's"))
            await running.until_failed("garbage")
            assert not session.blocked

    asyncio.run(run())


def test_while_one_target_waits_for_room_the_others_go_on_promising() -> None:
    came: list[Stream] = []

    async def script(stream: Stream, _request: bytes) -> None:
        came.append(stream)
        stream.send(sync())
        stream.send(notification(time.time_ns(), [("out-octets", 1)], prefix=BASE))
        while stream.open:
            await asyncio.sleep(0.05)
            if stream is came[0]:
                stream.send(notification(time.time_ns(), [("out-octets", 1)], prefix=BASE))

    async def run() -> None:
        # Of samples every 5 s silence is normal, and the clock promises.
        async with (
            RawTarget(script) as fake,
            collecting(target_at(fake.address, "loud", interval_ms=5000), budget_bytes=1 << 20) as running,
        ):
            collector = running.collector
            await running.until(lambda: running.status("loud").synced)
            collector.assign([
                target_at(fake.address, "loud", interval_ms=5000), target_at(fake.address, "calm", interval_ms=5000)
            ])  # fmt: skip
            await running.until(lambda: running.status("calm").updates > 0)
            loud, calm = (collector.session(name) for name in ("loud", "calm"))
            # It fills its own share, and the budget is not full.
            collector.budget.took(99, 1)
            collector.budget.took(loud.number, (1 << 20) * 3 // 4)
            await running.until(lambda: loud.blocked)
            assert not calm.blocked
            marks = [collector.pump.mark_ns(of.number) for of in (loud, calm)]
            await asyncio.sleep(1.0)
            rose = [collector.pump.mark_ns(of.number) - mark for of, mark in zip((loud, calm), marks, strict=True)]
            assert loud.blocked
            assert rose[0] < 500_000_000 < rose[1]

    asyncio.run(run())


def test_a_turn_says_of_which_targets_more_waits() -> None:
    inbox = Inbox()
    for target in (4, 5, 6, 5):
        inbox.put(target, bytes(10), target)
    taken = inbox.take(20, 1000, frozenset({9}))
    assert (taken.targets, taken.until_ns, taken.waiting) == ([4, 5], 1000, frozenset({5, 6, 9}))
    taken = inbox.take(100, 2000)
    assert (taken.targets, taken.until_ns, taken.waiting) == ([6, 5], 2000, frozenset())


def test_what_is_left_out_of_a_target_s_updates_is_counted_for_that_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.path_map.MAX_PORTS_A_DEVICE", 5)
    came: list[Stream] = []

    async def script(stream: Stream, _request: bytes) -> None:
        came.append(stream)
        stream.send(sync())
        many = 8 if stream is came[0] else 3
        for at in range(many):
            base = BASE.replace("Ethernet1", f"{id(stream)}-{at}")
            stream.send(notification(time.time_ns(), [("out-octets", "no number" if at == 2 else 1)], prefix=base))
        while stream.open:
            await asyncio.sleep(0.05)

    async def run() -> None:
        async with RawTarget(script) as fake, collecting(target_at(fake.address, "a", profile="openconfig")) as running:
            await running.until(lambda: running.status("a").updates == 8)
            collector = running.collector
            collector.assign([target_at(fake.address, name, profile="openconfig") for name in ("a", "b")])
            await running.until(lambda: running.status("b").updates == 3)
            assert running.status("a").drops == {"port_refused": 3, "value_refused": 1}
            assert running.status("b").drops == {"value_refused": 1}

    asyncio.run(run())


def test_what_waits_of_a_target_that_went_is_never_told_as_another_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    # A turn takes one message.
    monkeypatch.setattr("collectors.collector.TURN_BYTES", 1)
    names = [("out-octets", 1), ("in-octets", 1)]

    async def script(stream: Stream, _request: bytes) -> None:
        stream.send(sync())
        while stream.open:
            stream.send(notification(time.time_ns(), names, prefix=BASE.replace("Ethernet1", "New")))
            await asyncio.sleep(0.5)

    async def run() -> None:
        async with RawTarget(script) as fake, collecting(target_at(fake.address, "old")) as running:
            collector = running.collector
            await running.until(lambda: running.status("old").synced)
            for value in range(60):
                told = [("out-octets", value), ("in-octets", value)]
                old = notification(time.time_ns(), told, prefix=BASE.replace("Ethernet1", "Old"))
                collector.inbox.put(0, old, time.time_ns())
            collector.assign([])
            await running.until(lambda: not collector._orders)
            collector.assign([target_at(fake.address, "new")])
            assert collector.session("new").number == 1
            await running.until(lambda: not len(collector.inbox) and running.status("new").synced)
            await running.until(lambda: any("New" in ports for *_, ports, _ in running.out.parts))
            assert {target for target, _, _, ports, _ in running.out.parts if "New" in ports} == {1}
            assert collector.counters()["pump_messages_of_unwanted"] > 30
            # In the end the number is given out again.
            collector.assign([target_at(fake.address, "new"), target_at(fake.address, "third")])
            assert collector.session("third").number == 0

    asyncio.run(run())


def test_ports_that_one_device_invents_leave_the_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.path_map.MAX_PORTS_A_DEVICE", 50)
    profile = profiles.load("openconfig")
    feed = Feed(profile, profile)

    def told(names: Iterable[str], value: int, target: int) -> list[str]:
        leaves = [(f"/interfaces/interface[name={name}]/state/counters/out-octets", value) for name in names]
        return feed.send(profile_notification(value * 10**9, [plain(*leaf) for leaf in leaves]), target=target)

    made: list[str] = []
    invented, own = [f"x{at}" for at in range(200)], [f"Ethernet{at}" for at in range(40)]
    for value in (1, 2):
        told([*invented, *own], value, 0)
        made = told(own, value, 1)
    assert len(made) == 40
    assert len(told(invented[:60], 3, 0)) == 50
    assert feed.rows.counters["updates_of_refused_ports"] == 2 * 190 - 40 + 10
    # What one may not bring, another one may.
    assert not told(["x150"], 4, 1)
    assert told(["x150"], 5, 1)


@pytest.mark.parametrize("named", ["E{at}", "{value}-{at}"])
def test_a_table_of_paths_that_begins_anew_makes_nothing_grow(named: str) -> None:
    feed = Feed("openconfig")
    sizes = set()
    for value in range(4):
        names = [named.format(at=at, value=value) for at in range(20)]
        feed.read(*((f"/interfaces/interface[name={name}]/state/description", f"to {value}") for name in names))
        paths, facts = feed.rows._fleets[0].paths, feed.rows._targets[0].facts
        sizes.add((len(paths.slow), len(paths._slow_numbers), len(paths._slow_below._paths), len(facts._last)))
        feed.paths.renew()
    assert sizes == {(20, 20, 20, 20)}


def test_names_of_terms_and_classes_that_a_device_invents_are_bounded() -> None:
    sorting = Sorting()
    for at in range(3 * MOST_NAMES):
        sorting.term_dscp(f"t{at}", (1,))
        sorting.term_class(f"t{at}", f"c{at}")
        sorting.class_name_queue(f"c{at}", at % 256)
    # What it told before can still change.
    sorting.term_dscp("t3", (2,))
    assert sorting._dscps_of_term["t3"] == (2,)
    names = sorting._dscps_of_term, sorting._class_of_term, sorting._queue_of_class_name
    assert [len(of) for of in names] == [MOST_NAMES] * 3
    assert sorting.refused == 3 * 2 * MOST_NAMES


def test_facts_for_which_there_is_no_room_are_counted_for_their_device() -> None:
    feed = Feed("openconfig", "openconfig")
    path = "/lldp/interfaces/interface[name=eth1]/neighbors/neighbor[id={id}]/state/system-name"
    for target, neighbours in enumerate((100, 3)):
        told = [plain(path.format(id=number), f"spine{number}") for number in range(neighbours)]
        feed.send(profile_notification(10**9, told), target=target)
    # What is said again was counted.
    feed.send(profile_notification(2 * 10**9, [plain(path.format(id=99), "spine99")]), target=0)
    assert feed.rows.take_left_out() == {(0, "fact_refused"): 36}
    assert feed.rows.counters["facts_refused"] == 36


def test_a_port_keeps_so_many_addresses_and_the_last_ones() -> None:
    profile = profiles.load("openconfig")
    alias = next(fact for fact in profile.fact if fact.says == "port_alias")
    feed = Feed(msgspec.structs.replace(profile, fact=(msgspec.structs.replace(alias, says="port_ip"),)))
    for at in range(300):
        feed.read((alias.paths[0].replace("{port}", "E1"), f"10.0.{at >> 8}.{at & 255}"))
    port = feed.rows._targets[0].facts._ports["E1"]
    assert len(port.ips) == MAX_ALIASES
    assert "10.0.1.43" in port.ips


def test_two_thousand_targets_do_not_connect_at_once() -> None:
    async def run() -> None:
        gate, loop = Gate(at_once=8, per_s=2000), asyncio.get_running_loop()
        began: list[float] = []

        async def connect() -> None:
            async with gate():
                began.append(loop.time())
                await asyncio.sleep(0.001)

        await asyncio.gather(*(connect() for _ in range(2000)))
        assert gate.most <= 8
        assert began[-1] - began[0] >= 1999 / 2000 * 0.99

    asyncio.run(run())
