"""What readings become: deltas, joins, gaps, peaks, storms, stops, units and priorities, whatever the batching."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from collectors import profiles
from collectors.profile import Profile
from collectors.profile_intervals import Intervals, with_intervals
from stream.kinds import CLOCK_SUSPECT
from tests.collectors.notifications import (
    SECOND_NS,
    START_NS,
    SYNC,
    Feed,
    Value,
    elements_of,
    notification,
    plain,
    sonic,
)

ETH1 = "/interfaces/interface[name=eth1]"
QUEUE = "/qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state"
PFC = "/interfaces/interface[name=Ethernet1]/ethernet/pfc/priorities/priority[index=3]/state"
TX_QUEUE = (
    "/interfaces/interface[name=Ethernet1]/ethernet/pfc/watchdog/tx-queues/tx-queue[index=3][queue-type=UNICAST]/state"
)


def at(second: float, *leaves: tuple[str, Value]) -> bytes:
    return notification(START_NS + round(second * SECOND_NS), [plain(*leaf) for leaf in leaves])


# Joins


def test_two_leaves_of_one_time_are_one_row_in_one_message_or_in_two() -> None:
    feed = Feed("openconfig")
    octets, packets = f"{ETH1}/state/counters/in-octets", f"{ETH1}/state/counters/in-pkts"
    feed.send(at(0, (octets, 0), (packets, 0)))
    assert feed.send(at(1, (octets, 1000)), at(1, (packets, 10))) == ["PORT_BYTES eth1/- rx 1000 10 1s"]
    assert feed.send(at(2, (packets, 20))) == []
    assert feed.send(at(2, (octets, 3000))) == ["PORT_BYTES eth1/- rx 2000 10 1s"]


def test_a_half_that_waits_goes_out_alone_when_a_later_one_comes_or_at_a_flush() -> None:
    feed = Feed("openconfig")
    octets, packets = f"{ETH1}/state/counters/in-octets", f"{ETH1}/state/counters/in-pkts"
    feed.send(at(0, (octets, 0), (packets, 0)))
    assert feed.send(at(1, (octets, 1000))) == []
    assert feed.rows.held_ns(0) == START_NS + SECOND_NS
    assert feed.send(at(2, (octets, 3000))) == ["PORT_BYTES eth1/- rx 1000 null 1s"]
    assert feed.flush(START_NS + 2 * SECOND_NS) == []
    assert feed.flush(START_NS + 2 * SECOND_NS + 1) == ["PORT_BYTES eth1/- rx 2000 null 1s"]
    assert feed.rows.held_ns(0) == 2**63 - 1


def test_a_second_measure_makes_no_row_without_its_first() -> None:
    feed = Feed("openconfig")
    packets = f"{ETH1}/state/counters/in-pkts"
    assert feed.send(at(0, (packets, 0)), at(1, (packets, 9))) + feed.flush() == []


def test_the_mark_stays_behind_halves_that_wait() -> None:
    feed = Feed("openconfig")
    octets, packets = f"{ETH1}/state/counters/in-octets", f"{ETH1}/state/counters/in-pkts"
    discards = f"{ETH1}/state/counters/in-discards"
    feed.send(at(0, (octets, 0), (packets, 0), (discards, 0)))
    columns = feed.decoder.decode([at(1, (octets, 9)), at(2, (discards, 5))], [0, 0])
    made = feed.rows.take(
        columns, np.zeros(2, np.int32), columns.time_ns, np.zeros(2, np.uint8), np.asarray(columns.time_ns)
    )
    assert [(part.topic, part.mark_ns) for part in made.parts] == [("queue", START_NS + SECOND_NS)]


# Counters


def test_resets_wraps_and_gaps_are_told_apart() -> None:
    feed = Feed("openconfig")
    path = f"{ETH1}/state/counters/in-discards"
    readings = [(0, 100), (1, 160), (2, 10), (3, 30), (6, 90), (6, 90), (5, 40), (7, 100)]
    made = [feed.send(at(second, (path, count))) for second, count in readings]
    assert made == [
        [],
        ["QUEUE_DROPS eth1/- rx 60 null 1s"],
        ["QUEUE_DROPS eth1/- rx null null 1s RESET GAP"],
        ["QUEUE_DROPS eth1/- rx 20 null 1s"],
        ["QUEUE_DROPS eth1/- rx 60 null 3s GAP"],
        [],
        [],
        ["QUEUE_DROPS eth1/- rx 10 null 1s"],
    ]
    assert {name: feed.rows.counters[name] for name in ("resets", "gaps", "duplicates", "out_of_order")} == {
        "resets": 1, "gaps": 1, "duplicates": 1, "out_of_order": 1,
    }  # fmt: skip


def test_a_counter_of_32_bits_wraps() -> None:
    feed = Feed("arista-eos")
    made = [feed.send(at(second, (f"{TX_QUEUE}/stuck-count", count))) for second, count in ((0, 2**32 - 1), (1, 0))]
    assert made[1] == ["PFC_WATCHDOG Ethernet1/3 rx 1 null 1s WRAP ESTIMATED"]


def test_a_leaf_has_the_period_of_its_own_subscription() -> None:
    feed = Feed("sonic")
    queue = "/COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_BYTES"
    port = "/COUNTERS/Ethernet0/SAI_PORT_STAT_IF_IN_DISCARDS"
    feed.read((queue, 0))
    feed.read((port, 0))
    # Queues come every ten seconds, ports as often as the inventory says.
    assert feed.read((queue, 5), after_s=14) == ["PORT_BYTES Ethernet0/3 tx 5 null 14s ESTIMATED"]
    assert feed.read((queue, 9), after_s=30) == ["PORT_BYTES Ethernet0/3 tx 4 null 16s GAP ESTIMATED"]
    assert feed.read((port, 5), after_s=14) == ["QUEUE_DROPS Ethernet0/- rx 5 null 14s GAP"]


def test_what_comes_when_it_changes_has_no_gaps() -> None:
    feed = Feed("arista-eos")
    made = [feed.send(at(second, (f"{TX_QUEUE}/stuck-count", second))) for second in (0, 1000)]
    assert made[1] == ["PFC_WATCHDOG Ethernet1/3 rx 1 null 1000s ESTIMATED"]


def test_a_broken_session_marks_the_next_window_of_each_counter_once() -> None:
    feed = Feed("openconfig", period_ns=0)
    path = f"{ETH1}/state/counters/in-discards"
    feed.send(at(0, (path, 1)))
    feed.rows.gap(0)
    made = [feed.send(at(second, (path, 1 + second))) for second in (1, 2)]
    assert made == [["QUEUE_DROPS eth1/- rx 1 null 1s GAP"], ["QUEUE_DROPS eth1/- rx 1 null 1s"]]


def test_what_was_deleted_begins_anew() -> None:
    feed = Feed("openconfig")
    path = f"{ETH1}/state/counters/in-discards"
    feed.send(at(0, (path, 100)))
    feed.send(notification(START_NS + 1, [], deletes=[ETH1]))
    made = [feed.send(at(second, (path, 7 * second))) for second in (1, 2)]
    assert made == [[], ["QUEUE_DROPS eth1/- rx 7 null 1s"]]


def test_a_target_that_comes_again_begins_anew_and_its_series_are_used_again() -> None:
    feed = Feed("openconfig")
    path = f"{ETH1}/state/counters/in-discards"
    for round_number in range(5):
        begin = 10 * round_number
        assert feed.send(at(begin, (path, 100 * round_number))) == []
        assert feed.send(at(begin + 1, (path, 100 * round_number + 5))) == ["QUEUE_DROPS eth1/- rx 5 null 1s"]
        feed.rows.remove_target(0)
        assert feed.send(at(begin + 2, (path, 100 * round_number + 9))) == []
        feed.rows.add_target(0, "leaf0", feed.profile, SECOND_NS)
    assert feed.rows.counters["baselines"] == 5


# Peaks, units and speeds


def test_a_peak_has_no_window_before_its_first_reading() -> None:
    feed = Feed("openconfig")
    made = [feed.send(at(second, (f"{QUEUE}/max-queue-len", peak))) for second, peak in ((0, 9_000_000), (3, 700))]
    assert made == [[], ["QUEUE_DEPTH eth1/3 tx 700 null 3s GAP ESTIMATED"]]


@pytest.mark.parametrize(("intervals", "span"), [((), "60s"), ((("queue", 1000),), "60s"), ((("depth", 3000),), "3s")])
def test_a_peak_is_of_the_interval_that_the_operator_has_set(intervals: Intervals, span: str) -> None:
    feed = Feed(with_intervals(profiles.load("sonic"), intervals))
    peak = "/COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"
    assert feed.read((peak, 1), after_s=100) + feed.flush() == [f"QUEUE_DEPTH Ethernet0/3 tx 1 null {span} ESTIMATED"]


@pytest.mark.parametrize(
    ("speed", "paused_ns"), [("400000", "1280"), ("100000", "5120"), ("10000", "51200"), ("", "null")]
)
def test_pause_quanta_are_512_bit_times_of_the_port(speed: str, paused_ns: str) -> None:
    feed = Feed("sonic")
    if speed:
        feed.read(("/PORT_TABLE/Ethernet0/speed", speed))
    path = "/COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION"
    rows = [feed.read((path, quanta), after_s=quanta / 1000) for quanta in (0, 1000)]
    assert rows == [[], [f"PFC_PAUSED Ethernet0/3 rx {paused_ns} null 1s"]]
    assert feed.rows.counters["rows_of_unknown_speed"] == (not speed)


def test_more_pause_than_time_is_marked() -> None:
    feed = Feed("arista-eos")
    path = f"{PFC}/pfc-on-total-rx-time"
    made = [feed.send(at(second, (path, paused))) for second, paused in ((0, 0), (1, 1_500_000_000))]
    assert made[1] == ["PFC_PAUSED Ethernet1/3 rx 1500000000 null 1s ESTIMATED"]


def test_a_speed_that_becomes_known_bounds_counters_that_run() -> None:
    feed = Feed("openconfig")
    octets = f"{ETH1}/state/counters/in-octets"
    feed.send(at(0, (octets, 0)))
    feed.send(at(0.5, (f"{ETH1}/ethernet/state/port-speed", "SPEED_10GB")))
    # 10 Gb/s for a second, and one more that the stamp may be off, are 2.5 GB.
    assert feed.send(at(1, (octets, 2_400_000_000))) == ["PORT_BYTES eth1/- rx 2400000000 null 1s"]
    assert feed.send(at(2, (octets, 5_100_000_000))) == ["PORT_BYTES eth1/- rx null null 1s RESET GAP"]


# Priorities


def test_a_queue_is_a_priority_by_what_the_device_says_of_its_sorting() -> None:
    feed = Feed("sonic")
    sent = "/COUNTERS/Ethernet0/Queues/Ethernet0:{}/SAI_QUEUE_STAT_BYTES"
    assert feed.read((sent.format(6), 0)) == []
    assert feed.read((sent.format(6), 7), after_s=1) == ["PORT_BYTES Ethernet0/6 tx 7 null 1s ESTIMATED"]
    queues = (0, 1, 2, 6, 4, 5, 5, 7)
    told = [(f"/TC_TO_QUEUE_MAP/AZURE/{number}", queue) for number, queue in enumerate(queues)]
    told += [(f"/MAP_PFC_PRIORITY_TO_QUEUE/AZURE/{number}", queue) for number, queue in enumerate(queues)]
    feed.read(*told, after_s=1.5)
    assert feed.read((sent.format(6), 14), after_s=2) == ["PORT_BYTES Ethernet0/3 tx 7 null 1s"]
    # Queue 5 holds two priorities, queue 3 none.
    rows = [
        feed.read((sent.format(5), 7 * number), (sent.format(3), 7 * number), after_s=2 + number) for number in (1, 2)
    ]
    assert rows[1] == ["PORT_BYTES Ethernet0/5 tx 7 null 1s ESTIMATED"]
    assert feed.rows.counters["rows_of_queues_without_priority"] == 1


def test_a_queue_whose_name_has_no_number_is_counted() -> None:
    feed = Feed("openconfig")
    path = "/qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=best-effort]/state/transmit-octets"
    assert [feed.send(at(second, (path, second))) for second in (0, 1)] == [[], []]
    assert feed.rows.counters["queue_names_unknown"] == 1


# The PFC watchdog


def test_a_storm_found_and_over_in_one_window_ends() -> None:
    feed = Feed("arista-eos")
    stuck, recovered = f"{TX_QUEUE}/stuck-count", f"{TX_QUEUE}/recovery-count"
    feed.send(at(0, (stuck, 4), (recovered, 4)))
    assert feed.send(at(1, (stuck, 5), (recovered, 5))) == [
        "PFC_WATCHDOG Ethernet1/3 rx 1 null 1s ESTIMATED",
        "PFC_WATCHDOG Ethernet1/3 rx 0 null 1s ESTIMATED",
    ]
    assert feed.send(at(2, (stuck, 5), (recovered, 5))) == []
    assert feed.send(at(3, (stuck, 6), (recovered, 5))) == ["PFC_WATCHDOG Ethernet1/3 rx 1 null 1s ESTIMATED"]


def test_a_watchdogs_state_is_told_when_it_changes_and_drops_when_there_are_any() -> None:
    feed = Feed("sonic")
    status = "/COUNTERS/Ethernet0/Pfcwd/Ethernet0:3/PFC_WD_STATUS"
    drops = "/COUNTERS/Ethernet0/Pfcwd/Ethernet0:3/PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS"
    told = [("operational", 0), ("operational", 0), ("stormed", 7), ("stormed", 9), ("stormed", 9), ("weird", 9),
            ("operational", 9)]  # fmt: skip
    made = [feed.read((status, state), (drops, count), after_s=second) for second, (state, count) in enumerate(told)]
    assert made == [
        ["PFC_WATCHDOG Ethernet0/3 rx 0 null 0s ESTIMATED"],
        [],
        ["PFC_WATCHDOG Ethernet0/3 rx 1 7 1s ESTIMATED"],
        ["PFC_WATCHDOG Ethernet0/3 rx 1 2 1s ESTIMATED"],
        [],
        [],
        ["PFC_WATCHDOG Ethernet0/3 rx 0 null 0s ESTIMATED"],
    ]
    assert feed.rows.counters["values_refused"] == 1


# Stops


@pytest.fixture
def exact(tmp_path: Path) -> Profile:
    """A profile with a leaf that tells each stop of a queue."""
    (tmp_path / "exact.toml").write_text(
        """
name = "exact"
title = "Tells every stop"
[[subscribe]]
path = "/queues"
mode = "ON_CHANGE"
[[row]]
name = "stopped"
metric = "pfc"
path = "/queues/queue[port={port}][priority={priority}]/stopped"
into = ["PFC_XOFF.quanta"]
unit = "flag"
semantics = "stopped"
values = { "true" = 1, "false" = 0 }
side = "rx"
quality = "EXACT"
status = "verified"
"""
    )
    return profiles.load(str(tmp_path / "exact.toml"))


def test_each_change_of_a_stopped_queue_is_an_instant(exact: Profile) -> None:
    feed = Feed(exact)
    path = "/queues/queue[port=p1][priority=3]/stopped"
    told: list[Value] = [False, True, True, "false", 1, "neither", 2, 0]
    assert feed.send(*(at(second, (path, value)) for second, value in enumerate(told))) == [
        "PFC_XOFF p1/3 rx null 0 0s EXACT",
        "PFC_XON p1/3 rx 0 0 0s EXACT",
        "PFC_XOFF p1/3 rx null 0 0s EXACT",
        "PFC_XON p1/3 rx 0 0 0s EXACT",
    ]
    assert feed.rows.counters["values_refused"] == 2


def test_a_stop_that_ended_between_two_sessions_is_a_gap(exact: Profile) -> None:
    feed = Feed(exact)
    path = "/queues/queue[port=p1][priority=3]/stopped"
    assert feed.send(at(0, (path, True))) == ["PFC_XOFF p1/3 rx null 0 0s EXACT"]
    feed.rows.gap(0)
    assert feed.send(at(1, (path, False)), at(2, (path, True))) == [
        "PFC_XON p1/3 rx 0 0 0s EXACT GAP",
        "PFC_XOFF p1/3 rx null 0 0s EXACT",
    ]


# Events, times, many targets


def test_a_congestion_record_without_its_port_is_counted() -> None:
    feed = Feed("arista-eos")
    container = "/arista/lanz/congestion-record/state"
    assert feed.send(at(0, (f"{container}/queue-length", 9))) == []
    whole: list[tuple[str, Value]] = [(f"{container}/interface-id", "Ethernet1"), (f"{container}/queue-length", 9)]
    # A traffic class that is none, or none at all, stands for no priority.
    assert feed.send(at(1, *whole, (f"{container}/traffic-class", 77)), at(2, *whole)) == []
    assert feed.rows.counters["events_refused"] == 1
    assert feed.rows.counters["rows_of_queues_without_priority"] == 2


def test_what_the_session_says_of_a_time_stands_in_its_rows() -> None:
    feed = Feed("openconfig")
    path = f"{ETH1}/state/counters/in-discards"
    feed.send(at(0, (path, 0)))
    assert feed.send(at(1, (path, 3)), quality=CLOCK_SUSPECT) == ["QUEUE_DROPS eth1/- rx 3 null 1s CLOCK_SUSPECT"]


def test_times_beyond_all_bounds_crash_nothing() -> None:
    feed = Feed("openconfig")
    path = f"{ETH1}/state/counters/in-discards"
    update = (elements_of(path), 5, "PROTO")
    for time_ns in (0, -1, 2**63 - 1, -(2**63), 1_700_000_000, START_NS):
        feed.send(notification(time_ns, [update]))
        feed.flush()


def test_wildcard_answers_of_sonic_mean_the_same_leaves() -> None:
    feed = Feed("sonic")
    leaf = "SAI_PORT_STAT_PFC_7_RX_PKTS"
    spelled: list[tuple[str, Value]] = [
        ("/COUNTERS/Ethernet68", {leaf: "2"}),
        ("/COUNTERS/Ethernet*", {"Ethernet68": {leaf: "4"}, "Ethernet72": {leaf: "9"}}),
        (f"/COUNTERS/Ethernet*/{leaf}", {"Ethernet68": {leaf: "8"}}),
        (f"/COUNTERS_DB/localhost/COUNTERS/Ethernet68/{leaf}", "16"),
    ]
    made = [
        feed.send(notification(START_NS + number * SECOND_NS, [(elements_of(path), value, "JSON_IETF")]))
        for number, (path, value) in enumerate(spelled)
    ]
    assert made == [[], *([f"PFC_FRAMES Ethernet68/7 rx {count} null 1s"] for count in (2, 4, 8))]


def story(seed: int) -> list[tuple[int, bytes]]:
    """Messages of three targets: an OpenConfig one, SONiC and another OpenConfig one."""
    draw = random.Random(seed)
    counts = [0] * 3
    messages = []
    for step in range(40):
        target = draw.randrange(3)
        counts[target] += draw.randrange(1000)
        time_ns = START_NS + step * SECOND_NS // 8
        if target == 1:
            base = "/COUNTERS/Ethernet4"
            leaves: list[tuple[str, Value]] = [
                (f"{base}/SAI_PORT_STAT_PFC_{number}_RX_PKTS", counts[1] + number) for number in range(8)
            ]
            leaves += [(f"{base}/SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US", counts[1])]
            leaves += [(f"{base}/Pfcwd/Ethernet4:3/PFC_WD_STATUS", draw.choice(["operational", "stormed"]))]
            updates = [sonic(*leaf) for leaf in leaves]
        else:
            leaves = [(f"{ETH1}/state/counters/in-octets", counts[target] * 99)]
            leaves += [(f"{QUEUE}/max-queue-len", draw.randrange(9999)), (f"{QUEUE}/avg-queue-len", draw.randrange(99))]
            if draw.random() < 0.7:
                leaves += [(f"{ETH1}/state/counters/in-pkts", counts[target])]
            updates = [plain(*leaf) for leaf in leaves]
        messages.append((target, notification(time_ns, updates)))
    return messages


@pytest.mark.parametrize("seed", range(5))
def test_the_rows_are_the_same_whatever_the_batching_and_whoever_else_is_there(seed: int) -> None:
    told = story(seed)
    kinds = ("openconfig", "sonic", "openconfig")

    def rows(size: int) -> list[list[str]]:
        feed = Feed(*kinds)
        found: list[list[str]] = [[], [], []]
        for begin in range(0, len(told), size):
            part = told[begin : begin + size]
            columns = feed.decoder.decode([message for _, message in part], [target for target, _ in part])
            targets = np.array([target for target, _ in part], np.int32)
            made = feed.rows.take(
                columns, targets, columns.time_ns, np.zeros(len(part), np.uint8), np.asarray(columns.time_ns)
            )
            for each in (made, feed.rows.flush(0)):
                for piece in each.parts:
                    lines = [str(row) + piece.ports[row["port"]] for row in each.events[piece.first : piece.end]]
                    found[piece.target] += lines
        last = feed.rows.flush(1 << 62)
        for piece in last.parts:
            found[piece.target] += [str(row) + piece.ports[row["port"]] for row in last.events[piece.first : piece.end]]
        return [sorted(lines) for lines in found]

    whole = rows(len(told))
    assert sum(map(len, whole)) > 100
    assert rows(1) == whole
    assert rows(7) == whole
    for target in range(3):
        alone = Feed(*kinds)
        own = [message for of, message in told if of == target]
        assert len(alone.take(own, [target] * len(own)) + alone.flush()) == len(whole[target])


def test_a_target_is_ready_when_it_has_told_all() -> None:
    feed = Feed("openconfig")
    speed = f"{ETH1}/ethernet/state/port-speed"
    feed.send(at(0, (speed, "SPEED_100GB")))
    assert feed.facts == []
    feed.send(SYNC)
    assert len(feed.facts) == 1
