"""The packet programs against scapy: every count exact by priority and by flow, in each way to attach."""

from __future__ import annotations

import itertools
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from probes.dcb import App, Dcb, DcbReader
from probes.packets import OTHER_NAK, RNR_NAK, SEQUENCE_NAK, PacketsProbe, speed_mbps
from probes.probe import Reading, Unavailable
from probes.programs import Settings, open_probes
from stream import kinds
from stream.facts import Flow
from stream.flow_id import flow_id, flow_text
from stream.record import Events, joined
from tests.probes import frames
from tests.probes.network_lab import add_cable, in_namespace, ip, send, traffic_control
from tests.probes.sample_probes import wait_until

pytestmark = pytest.mark.ebpf
NEAR, FAR = "near0", "far0"
SEED, FRAMES, FLOOD = 20_260_801, 20_000, 300_000
WINDOW_NS = 1_000_000_000
MODES = ("tcx", "clsact", "xdp-generic")


@pytest.fixture(scope="module")
def sent() -> list[bytes]:
    return frames.random_frames(SEED, FRAMES)


@pytest.fixture(scope="module")
def seen(sent: list[bytes]) -> frames.Seen:
    return frames.read(sent)


def opened(mode: str, **changes: Any) -> PacketsProbe:
    settings = Settings("lab", "host1", (NEAR, FAR), attach_mode=mode, window_ns=WINDOW_NS)._replace(**changes)
    probe = open_probes(["packets"], settings)["packets"]
    assert not isinstance(probe, Unavailable), probe
    assert isinstance(probe, PacketsProbe)
    return probe


def drained(reading: Reading, topic: str) -> Events:
    return joined([rows.events for rows in reading.rows if rows.topic == topic])


def passed(reading: Reading) -> Events:
    """Pauses that passed on the wire, without those that a timer ended."""
    pauses = drained(reading, "pfc")
    return pauses[pauses["quality"] == kinds.EXACT]


def ports_of(reading: Reading, topic: str) -> Sequence[str]:
    return next(rows.ports for rows in reading.rows if rows.topic == topic)


def flows_of(probe: PacketsProbe, side: int) -> dict[frames.FlowKey, Counter[str]]:
    keys, values = probe.flow_counters()
    found: dict[frames.FlowKey, Counter[str]] = {}
    for key, value in zip(keys, values, strict=True):
        if key["side"] == side:
            counters = Counter({name: int(value[name]) for name in (value.dtype.names or ())[2:-1] if value[name]})
            found[frames.FlowKey(int(value["id"]), int(key["dscp"]), int(key["pcp"]))] = counters
    return found


def name_of(key: Any) -> str:
    return socket.if_indextoname(int(key["ifindex"]))


def in_lab(function: Callable[[], None]) -> None:
    def run() -> None:
        add_cable(NEAR, FAR)
        function()

    in_namespace(run)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_count_is_exact(mode: str, sent: list[bytes], seen: frames.Seen) -> None:
    def run() -> None:
        probe = opened(mode)
        probe.read(time.time_ns())
        before_ns = time.time_ns()
        send(FAR, sent)
        reading = probe.read(time.time_ns())
        after_ns = time.time_ns()
        pauses = passed(reading)
        sides = (kinds.SIDE_RX,) if mode == "xdp-generic" else (kinds.SIDE_RX, kinds.SIDE_TX)
        assert not reading.lost
        names = ports_of(reading, "pfc")
        for side, name in zip(sides, (NEAR, FAR), strict=False):
            of_side = pauses[pauses["side"] == side]
            found = Counter(zip(*(of_side[field].tolist() for field in ("kind", "priority", "value")), strict=True))
            assert found == seen.pauses
            assert {names[port] for port in of_side["port"]} == {name}
        assert len(pauses) == seen.pauses.total() * len(sides)
        assert (np.diff(pauses["time_ns"]) >= 0).all()
        assert before_ns - 1_000_000 <= pauses["time_ns"][0] <= pauses["time_ns"][-1] <= after_ns + 1_000_000
        keys, ports = probe.port_counters()
        for key, port in zip(keys, ports, strict=True):
            if (name_of(key), key["side"]) not in tuple(zip((NEAR, FAR), sides, strict=False)):
                assert not port["pfc_frames"] + port["pause_frames"]
                continue
            assert (port["pfc_frames"], port["pause_frames"]) == (seen.pfc_frames, seen.pause_frames)
            for priority in range(9):
                of_priority = kinds.NO_PRIORITY if priority == frames.WHOLE_PORT else priority
                rows = [(k, q, n) for (k, p, q), n in seen.pauses.items() if p == of_priority]
                assert port["xoff"][priority] == sum(n for k, _, n in rows if k == kinds.PFC_XOFF)
                assert port["xon"][priority] == sum(n for k, _, n in rows if k == kinds.PFC_XON)
                assert port["quanta"][priority] == sum(q * n for _, q, n in rows)
        for side in (kinds.SIDE_RX, kinds.SIDE_TX):
            assert flows_of(probe, side) == ({} if mode == "xdp-generic" else seen.flows)
        probe.close()

    in_lab(run)


@pytest.mark.parametrize("mode", MODES)
def test_of_a_flood_every_frame_is_told_or_counted_as_lost(mode: str) -> None:
    def run() -> None:
        probe = opened(mode, ring_bytes=1 << 16)
        probe.read(time.time_ns())
        frame = bytes(frames.pfc({3: 65535}))
        told = lost = 0
        for _ in range(FLOOD // 10_000):
            send(FAR, itertools.repeat(frame, 10_000))
            reading = probe.read(time.time_ns())
            told += len(passed(reading))
            lost += sum(each.rows for each in reading.lost)
        assert told + lost == FLOOD * (1 if mode == "xdp-generic" else 2)
        assert lost > 0
        assert told > 0
        _, ports = probe.port_counters()
        assert ports["xoff"][:, 3].sum() == told + lost
        probe.close()

    in_lab(run)


@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_a_cnp_bears_the_flow_that_it_slows_once_an_answer_has_told_both_queue_pairs(mode: str) -> None:
    def run() -> None:
        probe = opened(mode)
        probe.read(time.time_ns())
        there = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
        back = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01") / IP(src="10.0.0.2", dst="10.0.0.1")
        data = there / UDP(sport=50_000, dport=4791) / BTH(opcode=frames.LAST, dqpn=0x222, psn=77, ackreq=1) / Raw(b"x")
        answer = back / UDP(sport=60_000, dport=4791) / BTH(opcode=frames.ACKNOWLEDGE, dqpn=0x111, psn=77) / AETH()
        cnp = back / UDP(sport=1, dport=4791) / BTH(opcode=frames.CNP, dqpn=0x111) / CNPPadding()
        other = back / UDP(sport=1, dport=4791) / BTH(opcode=frames.CNP, dqpn=0x999) / CNPPadding()
        send(FAR, map(bytes, (data, answer, cnp, cnp, other)))
        reading = probe.read(time.time_ns() + WINDOW_NS)
        rows = drained(reading, "ecn")
        rows = rows[(rows["kind"] == kinds.BY_NAME["CNP"].code) & (rows["side"] == kinds.SIDE_RX)]
        slowed = flow_id("10.0.0.1", "10.0.0.2", 17, 50_000, 4791, 0x222)
        assert sorted(zip(rows["flow"].tolist(), rows["value"].tolist(), strict=True)) == sorted([(slowed, 2), (0, 1)])
        assert {ports_of(reading, "ecn")[port] for port in rows["port"]} == {NEAR}
        facts = {fact.flow: fact for fact in reading.facts if isinstance(fact, Flow)}
        fact = facts[flow_text(slowed)]
        ends = (fact.src_ip, fact.dst_ip, fact.protocol, fact.src_port, fact.dst_port, fact.qpn)
        assert ends == ("10.0.0.1", "10.0.0.2", 17, 50_000, 4791, 0x222)
        assert len(facts) == 4
        assert not probe.read(time.time_ns() + 3 * WINDOW_NS).facts
        probe.close()

    in_lab(run)


def test_windows_add_up_to_what_was_counted_and_a_flow_without_room_is_counted_as_none(
    sent: list[bytes], seen: frames.Seen
) -> None:
    def run() -> None:
        probe = opened("tcx", max_flows=20)
        now_ns = time.time_ns()
        probe.read(now_ns)
        marked, total, left = 0, 0, Counter[str]()
        for part in range(4):
            send(FAR, sent[part::4])
            now_ns += WINDOW_NS
            reading = probe.read(now_ns)
            rows = drained(reading, "ecn")
            rows = rows[(rows["kind"] == kinds.ECN_MARKED) & (rows["side"] == kinds.SIDE_RX)]
            assert set(rows["time_ns"]) == {now_ns}
            assert set(rows["span_ns"]) == {WINDOW_NS}
            marked += int(rows["value"].sum())
            total += int((rows["flow"] == 0).sum())
            rows = drained(reading, "flowbytes")
            left += Counter(bytes=int(rows["value"].sum()), packets=int(rows["extra"].sum()))
        assert marked == sum(counters["ce"] for counters in seen.flows.values())
        assert total == 4
        for name in ("bytes", "packets"):
            assert left[name] == sum(counters[name] for counters in seen.flows.values())
        probe.close()

    in_lab(run)


def test_nothing_of_flows_without_room_is_lost_on_either_side(sent: list[bytes], seen: frames.Seen) -> None:
    codes = {"sequence_naks": SEQUENCE_NAK, "rnr_naks": RNR_NAK, "other_naks": OTHER_NAK}

    def run() -> None:
        probe = opened("tcx", max_flows=2)
        now_ns = time.time_ns()
        probe.read(now_ns)
        send(FAR, sent)
        reading = probe.read(now_ns + WINDOW_NS)
        total = Counter[str]()
        for counters in seen.flows.values():
            total += counters
        for side in (kinds.SIDE_RX, kinds.SIDE_TX):
            ecn, host = drained(reading, "ecn"), drained(reading, "host")
            ecn, host = ecn[ecn["side"] == side], host[host["side"] == side]
            marks = ecn[ecn["kind"] == kinds.ECN_MARKED]
            assert marks["value"].sum() == total["ce"]
            assert 0 in marks["flow"]
            assert ecn["value"][ecn["kind"] == kinds.BY_NAME["CNP"].code].sum() == total["cnps"]
            for name, code in codes.items():
                of_code = host[host["extra"] == code]
                assert of_code["value"].sum() == total[name] > 0
            assert set(host["flow"][host["priority"] == kinds.NO_PRIORITY]) == {0}
        assert len([fact for fact in reading.facts if isinstance(fact, Flow)]) <= 2
        # Marked packets or none: the share of marks needs both.
        send(FAR, map(bytes, able_frames(40)))
        marks = drained(probe.read(now_ns + 2 * WINDOW_NS), "ecn")
        told = marks[(marks["flow"] == 0) & (marks["side"] == kinds.SIDE_RX)]
        assert [(int(row["value"]), int(row["extra"])) for row in told] == [(0, 40)]
        probe.close()

    in_lab(run)


def able_frames(count: int) -> list[Any]:
    """ECT(0) packets of so many flows, none of them marked."""
    there = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return [
        there / IP(src="10.9.0.1", dst="10.9.0.2", tos=2) / UDP(sport=port, dport=9) / Raw(b"x")
        for port in range(2000, 2000 + count)
    ]


def test_reduced_it_counts_pause_frames_and_tells_no_single_one() -> None:
    def run() -> None:
        probe = opened("tcx")
        now_ns = time.time_ns()
        probe.read(now_ns)
        assert probe.reduce()
        send(FAR, [bytes(frames.pfc({3: 9, 4: 0}))] * 10)
        reading = probe.read(now_ns + WINDOW_NS)
        rows = drained(reading, "pfc")
        assert set(rows["kind"]) == {kinds.PFC_FRAMES}
        found = sorted(zip(*(rows[field].tolist() for field in ("side", "priority", "value", "extra")), strict=True))
        unknown = kinds.UNKNOWN
        assert found == [(1, 3, 10, unknown), (1, 4, 10, unknown), (2, 3, 10, unknown), (2, 4, 10, unknown)]
        probe.restore()
        send(FAR, [bytes(frames.pfc({3: 9, 4: 0}))])
        rows = passed(probe.read(now_ns + 2 * WINDOW_NS))
        assert sorted(rows["kind"].tolist()) == [kinds.PFC_XOFF] * 2 + [kinds.PFC_XON] * 2
        probe.close()

    in_lab(run)


def test_each_frame_is_told_once_however_the_step_changes_within_a_window() -> None:
    def run() -> None:
        probe = opened("tcx")
        now_ns = time.time_ns()
        probe.read(now_ns)
        pause = [bytes(frames.pfc({3: 65_535}))]
        single = counted = 0

        def read(ns: int) -> None:
            nonlocal single, counted
            reading = probe.read(ns)
            assert not reading.lost
            rows = drained(reading, "pfc")
            rows = rows[rows["side"] == kinds.SIDE_RX]
            single += int((rows["kind"] == kinds.PFC_XOFF).sum())
            counted += int(rows["value"][rows["kind"] == kinds.PFC_FRAMES].sum())

        for window in range(1, 4):
            send(FAR, pause * 100)
            probe.reduce()
            send(FAR, pause * 30)
            read(now_ns + window * WINDOW_NS - WINDOW_NS // 2)
            send(FAR, pause * 7)
            probe.restore()
            send(FAR, pause * 200)
            read(now_ns + window * WINDOW_NS)
            assert (single, counted) == (300 * window, 37 * window)
        probe.close()

    in_lab(run)


@pytest.mark.parametrize("mode", MODES)
def test_an_interface_that_comes_back_is_looked_at_again_and_the_time_between_is_told(mode: str) -> None:
    pause = [bytes(frames.pfc({3: 65_535, 4: 0}))]

    def run() -> None:
        probe = opened(mode, interfaces=("near*",))
        now_ns = time.time_ns()

        def read() -> Reading:
            nonlocal now_ns
            now_ns += WINDOW_NS
            return probe.read(now_ns)

        def told(reading: Reading) -> Counter[str]:
            pauses = passed(reading)
            names = ports_of(reading, "pfc") if len(pauses) else []
            return Counter(names[port] for port in pauses["port"][pauses["side"] == kinds.SIDE_RX].tolist())

        def lost(reading: Reading) -> list[tuple[str, int, int, int, int]]:
            return sorted((each.topic, each.rows, each.reason, each.first_ns, each.last_ns) for each in reading.lost)

        def unseen(interfaces: int) -> list[tuple[str, int, int, int, int]]:
            span = (now_ns - WINDOW_NS, now_ns)
            topics = ("ecn", "flowbytes", "host", "pfc")
            return [(topic, interfaces, kinds.SOURCE_NOT_READ, *span) for topic in topics]

        read()
        for turn in range(1, 4):
            send(FAR, pause * 10)
            ip("link", "delete", NEAR)  # the ring and the counters still have what came of it
            reading = read()
            assert (told(reading), lost(reading)) == (Counter({NEAR: 20}), [])
            add_cable(NEAR, FAR)
            add_cable(f"near{turn}", f"far{turn}")
            assert lost(read()) == unseen(2)
            send(FAR, pause * 3)
            send(f"far{turn}", pause * 2)
            reading = read()
            assert (told(reading), lost(reading)) == (Counter({NEAR: 6, f"near{turn}": 4}), [])
        assert (probe.counted["interfaces_gone"], probe.counted["interfaces_come"]) == (3, 6)
        ip("link", "set", NEAR, "down")
        ip("link", "set", NEAR, "name", "near9")
        ip("link", "set", "near9", "up")
        wait_until(lambda: Path(f"/sys/class/net/{FAR}/operstate").read_text() == "up\n")
        assert not lost(read())
        send(FAR, pause)
        assert told(read()) == Counter({"near9": 2})
        keys, _ = probe.port_counters()
        assert len(keys) == 2 * 4
        probe.close()

    in_lab(run)


def test_a_filter_that_somebody_took_away_is_put_back() -> None:
    def run() -> None:
        probe = opened("clsact", interfaces=(NEAR,))
        now_ns = time.time_ns()
        probe.read(now_ns)
        traffic_control("qdisc", "delete", "dev", NEAR, "clsact")
        reading = probe.read(now_ns + WINDOW_NS)
        assert [each.reason for each in reading.lost] == [kinds.SOURCE_NOT_READ] * 4
        send(FAR, [bytes(frames.pfc({3: 9}))] * 5)
        assert len(passed(probe.read(now_ns + 2 * WINDOW_NS))) == 5
        probe.close()

    in_lab(run)


def test_priorities_are_those_that_the_hosts_dcb_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    apps = [App(5, 5, 26)]
    # No driver of a virtual interface has DCB.
    monkeypatch.setattr(DcbReader, "read", lambda _self, name: Dcb(None, None, tuple(apps)) if name == NEAR else None)

    def run() -> None:
        probe = opened("tcx")
        now_ns = time.time_ns()
        probe.read(now_ns)
        there = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(
            src="10.9.0.1", dst="10.9.0.2", tos=26 << 2
        )

        def told() -> set[tuple[int, int]]:
            send(FAR, [bytes(there / UDP(sport=9, dport=9) / Raw(b"x"))])
            rows = drained(probe.read(now_ns), "flowbytes")
            return set(zip(rows["priority"].tolist(), rows["quality"].tolist(), strict=True))

        now_ns += WINDOW_NS
        assert told() == {(5, 0)}
        apps[0] = App(5, 6, 26)
        now_ns += 11 * WINDOW_NS
        told()
        now_ns += WINDOW_NS
        assert told() == {(6, 0)}
        apps.clear()
        now_ns += 11 * WINDOW_NS
        told()
        now_ns += WINDOW_NS
        assert told() == {(3, kinds.ESTIMATED)}
        probe.close()

    in_lab(run)


def test_a_pause_of_one_quantum_stops() -> None:
    def run() -> None:
        probe = opened("tcx")
        probe.read(time.time_ns())
        send(FAR, [bytes(frames.pfc({3: 1, 4: 0}))])
        pauses = passed(probe.read(time.time_ns()))
        received = pauses[pauses["side"] == kinds.SIDE_RX]
        told = sorted(zip(*(received[field].tolist() for field in ("priority", "kind", "value")), strict=True))
        assert told == [(3, kinds.PFC_XOFF, 1), (4, kinds.PFC_XON, 0)]
        _, ports = probe.port_counters()
        assert (ports["xoff"][:, 3].sum(), ports["xon"][:, 3].sum()) == (2, 0)
        probe.close()

    in_lab(run)


def test_a_pause_that_nobody_ends_ends_with_its_quanta() -> None:
    def run() -> None:
        probe = opened("tcx")
        probe.read(time.time_ns())
        send(FAR, [bytes(frames.pfc({3: 65_535}))])
        time.sleep(0.02)
        rows = drained(probe.read(time.time_ns()), "pfc")
        assert speed_mbps(NEAR) == 10_000
        for side in (kinds.SIDE_RX, kinds.SIDE_TX):
            stop, go = rows[rows["side"] == side]
            assert (stop["kind"], stop["quality"]) == (kinds.PFC_XOFF, kinds.EXACT)
            assert (go["kind"], go["quality"], go["priority"]) == (kinds.PFC_XON, kinds.ESTIMATED, 3)
            assert go["time_ns"] - stop["time_ns"] == 65_535 * 512_000 // 10_000
            assert go["port"] == stop["port"]
        probe.close()

    in_lab(run)
