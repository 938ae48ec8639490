"""What is wrong with a target's data becomes no wrong row: it is mended and marked, or left out and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np
import pytest

from collectors.device_facts import DeviceFacts
from collectors.messages import gnmi_pb2
from collectors.path_map import Slow
from simulation.gnmi_targets.behaviour import Behaviour
from simulation.gnmi_targets.http2 import Stream
from simulation.gnmi_targets.messages import notification, sync
from simulation.gnmi_targets.raw_target import RawTarget
from simulation.gnmi_targets.server import FakeTarget
from stream.kinds import CLOCK_SUSPECT, ESTIMATED, GAP, RESET, UNKNOWN, WRAP
from stream.record import Events
from tests.collectors.lab_device import lab_leaves
from tests.collectors.notifications import Feed
from tests.collectors.running import Running, collecting, target_at

BASE = "/interfaces/interface[name=Ethernet1]/state/counters"
SECOND_NS = 1_000_000_000


def played(messages: Sequence[bytes], wanted: int) -> tuple[Events, Running]:
    """The rows of these messages."""

    async def run() -> tuple[Events, Running]:
        async def script(stream: Stream, _request: bytes) -> None:
            for message in messages:
                stream.send(message)
            stream.send(sync())
            await asyncio.sleep(60)

        async with RawTarget(script) as fake, collecting(target_at(fake.address)) as running:
            await running.until(lambda: running.status().synced)
            await running.until(lambda: len(running.out.events()) >= wanted)
            await asyncio.sleep(0.2)
            return running.out.events(), running

    return asyncio.run(run())


def reading(time_ns: int, octets: int) -> bytes:
    """One reading of one counter."""
    return notification(time_ns, [("out-octets", octets)], prefix=BASE)


def now_s(back: int) -> int:
    """So many whole seconds ago, in ns."""
    return (time.time_ns() // SECOND_NS - back) * SECOND_NS


@pytest.mark.parametrize(
    ("behaviour", "bits"),
    [
        (Behaviour(time_zero=True), ESTIMATED),
        (Behaviour(time_in_seconds=True), ESTIMATED),
        (Behaviour(clock_offset_ns=3600 * SECOND_NS), CLOCK_SUSPECT | ESTIMATED),
    ],
)
def test_a_wrong_clock_is_put_right_and_its_rows_say_so(behaviour: Behaviour, bits: int) -> None:
    async def run() -> Events:
        async with (
            FakeTarget(lab_leaves(1), behaviour) as fake,
            collecting(target_at(fake.address, interval_ms=200)) as running,
        ):
            await running.until(lambda: len(running.out.events()) >= 6)
            return running.out.events()

    events = asyncio.run(run())
    assert (events["quality"] & bits == bits).all()
    assert (np.abs(events["time_ns"] - events["seen_ns"]) < 2 * SECOND_NS).all()


def test_a_clock_that_is_behind_is_noticed_once_several_messages_agree() -> None:
    async def run() -> None:
        behaviour = Behaviour(clock_offset_ns=-3600 * SECOND_NS)
        async with (
            FakeTarget(lab_leaves(1), behaviour) as fake,
            collecting(target_at(fake.address, interval_ms=100)) as running,
        ):
            await running.until(lambda: bool((running.out.events()["quality"] & CLOCK_SUSPECT).any()))
            await running.until(lambda: running.status().skew_known)
            assert abs(running.status().skew_ns + 3600 * SECOND_NS) < SECOND_NS

    asyncio.run(run())


def test_duplicates_give_no_second_row() -> None:
    begin_ns = now_s(10)
    once = [reading(begin_ns + at * SECOND_NS, 100 * at) for at in range(5)]
    events, running = played([message for message in once for _ in range(2)], 4)
    assert events["value"].tolist() == [100, 100, 100, 100]
    assert running.collector.counters()["rows_duplicates"] == 5


def test_what_is_out_of_order_is_left_out_and_counted() -> None:
    begin_ns = now_s(10)
    order = [0, 2, 1, 4, 3, 5]
    events, running = played([reading(begin_ns + at * SECOND_NS, 100 * at) for at in order], 3)
    assert events["value"].tolist() == [200, 200, 100]
    assert events["span_ns"].tolist() == [2 * SECOND_NS, 2 * SECOND_NS, SECOND_NS]
    assert running.collector.counters()["rows_out_of_order"] == 2


def test_a_counter_that_began_anew_is_unknown_for_one_window() -> None:
    begin_ns = now_s(10)
    events, _ = played(
        [reading(begin_ns + at * SECOND_NS, octets) for at, octets in enumerate([10**9, 2 * 10**9, 5, 105])], 3
    )
    assert events["value"].tolist() == [10**9, UNKNOWN, 100]
    assert events["quality"].tolist()[1] & (RESET | GAP) == RESET | GAP


def test_a_counter_that_wraps_is_counted_through() -> None:
    begin_ns, top = now_s(10), 1 << 64
    readings = [top - 1000, top - 400, 200]
    events, _ = played([reading(begin_ns + at * SECOND_NS, octets) for at, octets in enumerate(readings)], 2)
    assert events["value"].tolist() == [600, 600]
    assert events["quality"].tolist()[1] & WRAP


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(prefix="none"),
        Behaviour(prefix="target", target="leaf1"),
        Behaviour(old_elements=True, prefix="none"),
        Behaviour(keys_reversed=True),
        Behaviour(extension=b"juniper header"),
        Behaviour(keepalives=True),
        Behaviour(gzip=True),
        Behaviour(sync="late"),
        Behaviour(sync="repeated"),
        Behaviour(sync="absent"),
        Behaviour(updates_a_message=1),
        Behaviour(duplicates=True),
    ],
    ids=lambda behaviour: next(
        f"{name}={getattr(behaviour, name)}"
        for name in behaviour.__slots__
        if getattr(behaviour, name) != getattr(Behaviour(), name)
    ),
)
@pytest.mark.parametrize("encoding", ["PROTO", "JSON", "JSON_IETF"])
def test_however_a_target_writes_the_rows_are_the_same(behaviour: Behaviour, encoding: str) -> None:
    async def run() -> None:
        async with FakeTarget(lab_leaves(2, per_s=1_000_000), behaviour) as fake:
            target = target_at(fake.address, interval_ms=150, encodings=(encoding,))
            async with collecting(target) as running:
                await running.until(lambda: len(running.out.events()) >= 8)
                assert running.status().synced == (behaviour.sync != "absent")
                assert running.status().failures == 0
                ports = {port for _, _, _, names, _ in running.out.parts for port in names}
                assert ports == {"Ethernet1", "Ethernet2"}
                events = running.out.events()
                rate = events["value"] * SECOND_NS / events["span_ns"]
                assert ((rate > 890_000) & (rate < 1_110_000)).all()

    asyncio.run(run())


def test_marks_never_go_back_and_stay_behind_the_last_message() -> None:
    async def run() -> None:
        async with FakeTarget(lab_leaves(2)) as fake, collecting(target_at(fake.address, interval_ms=100)) as running:
            await running.until(lambda: len(running.out.parts) > 10)
            marks = [mark for _, _, _, _, mark in running.out.parts]
            assert marks == sorted(marks)
            for _, _, events, _, mark in running.out.parts:
                assert mark <= int(events["time_ns"].max())

    asyncio.run(run())


def said(path: str, value: bytes | str) -> bytes:
    """One update: a text, or the bytes of a JSON value."""
    response = gnmi_pb2.SubscribeResponse.FromString(notification(time.time_ns(), [(path, "text")]))
    if isinstance(value, bytes):
        response.update.update[0].val.json_ietf_val = value
    else:
        response.update.update[0].val.string_val = value
    return bytes(response.SerializeToString())


DSCPS = "/qos/classifiers/classifier[name=c]/terms/term[id=1]/conditions/ipv4/state/dscp-set"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/qos/forwarding-groups/forwarding-group[name=x]/state/output-queue", "9" * 5000),
        ("/qos/forwarding-groups/forwarding-group[name=x]/state/output-queue", "300"),
        (DSCPS, b'["' + b"9" * 5000 + b'"]'),
        (DSCPS, b"[" * 20_000 + b"]" * 20_000),
    ],
)
def test_numbers_and_nesting_without_end_cost_nobody_a_row(path: str, value: bytes | str) -> None:
    feed = Feed("openconfig")
    feed.send(said(path, value))
    assert feed.read(("/interfaces/interface[name=E1]/state/counters/out-octets", 1)) == []
    assert feed.read(("/interfaces/interface[name=E1]/state/counters/out-octets", 2), after_s=1)


def test_a_message_on_which_the_reading_fails_is_lost_alone_and_counts_against_its_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = DeviceFacts.take

    def failing(self: DeviceFacts, number: int, entry: Slow, values: Sequence[str], time_ns: int) -> None:
        if values == ["a fault of ours"]:
            raise ZeroDivisionError
        take(self, number, entry, values, time_ns)

    monkeypatch.setattr(DeviceFacts, "take", failing)

    async def script(stream: Stream, _request: bytes) -> None:
        number = 0
        stream.send(sync())
        while stream.open:
            number += 1
            stream.send(reading(time.time_ns(), number * 1000))
            for _ in range(4):
                stream.send(said("/interfaces/interface[name=Ethernet1]/state/description", "a fault of ours"))
            await asyncio.sleep(0.02)

    async def run() -> None:
        async with (
            RawTarget(script) as odd,
            FakeTarget(lab_leaves()) as good,
            collecting(target_at(odd.address, "odd", profile="openconfig"), target_at(good.address, "good")) as running,
        ):
            await running.until(lambda: "garbage" in running.status("odd").failures_by_sort)
            told = running.status("odd")
            assert told.drops["malformed"] >= 50
            assert sum(messages for target, messages, _ in running.out.losses if target == 0) >= 50
            # Its other messages make rows, and so do the other target's.
            await running.until(lambda: {target for target, *_ in running.out.parts} == {0, 1})
            counters = running.collector.counters()
            assert counters["pump_messages_unreadable"] >= 50
            assert counters["turns_failed"] == 0
            assert not running.status("good").failures

    asyncio.run(run())


def test_json_that_does_not_end_is_counted_for_the_target_that_sent_it() -> None:
    feed = Feed("openconfig", "openconfig")
    counters = "/interfaces/interface[name=E1]/state/counters"
    feed.send(said(counters, b'{"in-octets": "12"}'), target=0)
    assert feed.rows.take_left_out() == {}
    feed.send(said(counters, b'{"in-octets": "12'), target=1)
    assert feed.rows.take_left_out() == {(1, "value_refused"): 1}
    assert feed.rows.counters["values_of_malformed_json"] == 1
