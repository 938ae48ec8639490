"""Every rule of the classes fires where it should and, by one number less, does not."""

from __future__ import annotations

import dataclasses

import pytest

from analytics import classes
from analytics.classes import classify
from analytics.host_evidence import COMPUTE, ERRORS, Finding
from analytics.layers import OF_CLASS, layer_of
from analytics.root_facts import RootFacts, Sibling
from stream import kinds

WHOLE = ((kinds.PCIE_WIDTH, 16, 16),)
NARROW = ((kinds.PCIE_WIDTH, 8, 16),)

HOST = RootFacts(
    kind="host", device="h0", port="", speed_mbps=100_000, faces_host="h0", pcie=WHOLE, stopped_ns=0,
    stopped_span_ns=0, sent_ratio=0.0, ingress_ports=0, sources=0, max_mbps=0, queued_windows=0, siblings=(),
    active_ns=0,
)  # fmt: skip
STORM = dataclasses.replace(HOST, stopped_ns=900_000, stopped_span_ns=1_000_000, sent_ratio=0.1)
EGRESS = dataclasses.replace(HOST, kind="egress", device="leaf0", port="d0", pcie=(), sent_ratio=None)
INCAST = dataclasses.replace(EGRESS, ingress_ports=2, sources=3, queued_windows=1, max_mbps=80_000)
UPLINK = dataclasses.replace(EGRESS, port="u0", faces_host="")
DEGRADED = dataclasses.replace(UPLINK, queued_windows=3, max_mbps=79_999)


def collision(*sent_bytes: int, speed_mbps: int = 100_000) -> RootFacts:
    """An uplink and its siblings; 12,500,000 bytes in 1 ms are 100 Gb/s."""
    siblings = tuple(Sibling(f"leaf0:u{i}", speed_mbps, sent) for i, sent in enumerate(sent_bytes))
    return dataclasses.replace(UPLINK, siblings=siblings, active_ns=1_000_000)


COLLISION = collision(10_000_000, 2_000_000, 2_000_000)
FULL = dataclasses.replace(collision(9_000_000, 8_750_000, 8_500_000), main_host="h7", main_host_share=0.7)
RING = dataclasses.replace(UPLINK, ring=("leaf0:u0", "leaf1:u0", "spine0:d0"), quiet_ns=100_000, quiet_limit_ns=100_000)
PLATEAU = dataclasses.replace(HOST, pcie=(), stops=3, sent_share=0.05)
LINE_RATE = dataclasses.replace(EGRESS, queued_windows=1, max_mbps=80_000)
POLLED = dataclasses.replace(UPLINK, polled=True, held_ns=1_000_000, sent_held_bytes=9_999_999)
"""It sent 79,999 Mb/s at most while it held what others were stopped for."""
ROOM = dataclasses.replace(
    collision(1_000_000, 5_000_000, 4_900_000), polled=True, held_ns=1_000_000, sent_held_bytes=20_000_000
)
"""Polled: in the time that it was queued, it and its siblings had 59.7 % of line rate at most."""
FULL_POLLED = dataclasses.replace(POLLED, faces_host="h0", sent_held_bytes=10_000_000)
EMPTY = dataclasses.replace(UPLINK, kind="unknown", port="", reports_depth=True)
STALLED = (Finding(COMPUTE, 0, "run-queue latency of 8.2 ms on cpu3", "compute"),)
REPLAYED = (Finding(ERRORS, 0, "9 corrected PCIe errors", "pcie"),)


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("nic_pfc_storm", STORM),
        ("slow_receiver_pcie", dataclasses.replace(HOST, pcie=NARROW)),
        ("incast", INCAST),
        ("link_degraded", DEGRADED),
        ("ecmp_collision", COLLISION),
        ("pfc_deadlock", RING),
        ("pfc_deadlock", dataclasses.replace(COLLISION, ring=("a:p", "b:p"), quiet_ns=9, quiet_limit_ns=9)),
        ("cyclic_dependency", dataclasses.replace(RING, quiet_ns=99_999)),
        ("slow_receiver_pcie", PLATEAU),
        ("slow_receiver_pcie", dataclasses.replace(PLATEAU, sent_share=0.95)),
        ("slow_receiver_host", dataclasses.replace(PLATEAU, pcie=WHOLE)),
        ("oversubscribed_host_link", LINE_RATE),
        ("oversubscribed_host_link", dataclasses.replace(INCAST, sources=2)),
        ("fabric_overload", FULL),
        ("incast", dataclasses.replace(FULL, main_host_share=0.7001)),
        ("misconfiguration", EMPTY),
        ("slow_receiver_host", dataclasses.replace(HOST, pcie=(), inside=STALLED)),
        ("slow_receiver_host", dataclasses.replace(PLATEAU, inside=STALLED)),
        ("slow_receiver_pcie", dataclasses.replace(PLATEAU, inside=REPLAYED)),
        ("link_degraded", dataclasses.replace(UPLINK, link_errors=("3 CRC errors",))),
        ("link_degraded", dataclasses.replace(COLLISION, link_errors=("3 CRC errors",))),
        ("link_degraded", POLLED),
        ("link_degraded", dataclasses.replace(ROOM, sent_held_bytes=9_999_999)),
        ("ecmp_collision", ROOM),
        ("cyclic_dependency", dataclasses.replace(POLLED, ring=RING.ring, quiet_limit_ns=1)),
        ("cyclic_dependency", dataclasses.replace(ROOM, ring=RING.ring, quiet_limit_ns=1)),
        ("incast", dataclasses.replace(INCAST, polled=True, max_mbps=0)),
        ("oversubscribed_host_link", FULL_POLLED),
        ("ecmp_collision", dataclasses.replace(COLLISION, polled=True)),
    ],
)
def test_a_rule_fires_at_its_bounds(name: str, root: RootFacts) -> None:
    found, evidence = classify(root)
    assert found == name
    assert evidence
    assert all(evidence)


@pytest.mark.parametrize(
    ("root", "changes"),
    [
        (STORM, {"stopped_ns": 899_999}),
        (STORM, {"stopped_ns": 199_999, "stopped_span_ns": 199_999}),
        (STORM, {"sent_ratio": 0.1001}),
        (STORM, {"kind": "egress"}),
        (HOST, {"pcie": ((kinds.PCIE_WIDTH, 16, 16), (kinds.PCIE_SPEED, 32_000, 32_000))}),
        (HOST, {"pcie": ((kinds.PCIE_WIDTH, kinds.UNKNOWN, 16),)}),
        (HOST, {"pcie": ()}),
        (INCAST, {"ingress_ports": 1, "queued_windows": 0}),
        (INCAST, {"max_mbps": 79_999}),
        (INCAST, {"faces_host": ""}),
        (DEGRADED, {"queued_windows": 2}),
        (DEGRADED, {"max_mbps": 80_000}),
        (DEGRADED, {"speed_mbps": 0}),
        (DEGRADED, {"faces_host": "h0"}),
        (COLLISION, {"faces_host": "h0"}),
        (PLATEAU, {"sent_share": 0.0499}),
        (PLATEAU, {"sent_share": 0.9501}),
        (PLATEAU, {"sent_share": None}),
        (PLATEAU, {"stops": 2}),
        (PLATEAU, {"kind": "egress"}),
        (LINE_RATE, {"max_mbps": 79_999}),
        (LINE_RATE, {"queued_windows": 0}),
        (LINE_RATE, {"faces_host": ""}),
        (FULL, {"active_ns": 0}),
        (FULL, {"active_ns": 1_000_120}),
        (EMPTY, {"reports_depth": False}),
        (HOST, {"inside": REPLAYED}),
        (EGRESS, {"link_errors": ("3 CRC errors",), "faces_host": "h0"}),
        (COLLISION, {"active_ns": 0}),
        (COLLISION, {"siblings": COLLISION.siblings[:1], "active_ns": 2_000_000}),
        (COLLISION, {"siblings": COLLISION.siblings[1:]}),
        (POLLED, {"sent_held_bytes": 10_000_000}),
        (POLLED, {"held_ns": 99_999}),
        (INCAST, {"polled": True, "held_ns": 1_000_000, "sent_held_bytes": 9_999_999}),
        (FULL_POLLED, {"sent_held_bytes": 9_999_999}),
        (POLLED, {"faces_host": "h0"}),
        (ROOM, {"siblings": collision(1_000_000, 6_500_000, 6_000_000).siblings}),
        (ROOM, {"held_ns": 0}),
        (collision(9_999_000, 2_000_000, 2_000_000), {"polled": True}),
        # The highest rate of a poll says nothing: it need not have been queued all the time.
        (DEGRADED, {"polled": True}),
    ],
)
def test_a_rule_does_not_fire_beyond_its_bounds(root: RootFacts, changes: dict[str, object]) -> None:
    found, _ = classify(dataclasses.replace(root, **changes))  # type: ignore[arg-type]  # of many types
    assert found == classes.UNCLASSIFIED


@pytest.mark.parametrize(
    ("root", "fires"),
    [
        # 1.5 times the mean of 4 siblings, and just above it
        (collision(6_000_000, 4_000_000, 3_000_000, 3_000_000), False),
        (collision(6_000_100, 4_000_000, 3_000_000, 3_000_000), True),
        # a mean of .7 of the line rate, and just below it
        (collision(20_000_000, 6_000_000, 5_000_000, 4_000_000), False),
        (collision(20_000_000, 6_000_000, 5_000_000, 3_999_000), True),
        # the fullest one is another
        (collision(2_000_000, 10_000_000, 2_000_000), False),
        # without a speed nothing can be said of a sibling
        (collision(10_000_000, 2_000_000, 2_000_000, speed_mbps=0), False),
    ],
)
def test_a_collision_is_a_root_that_sends_more_than_its_share_while_its_siblings_have_room(
    root: RootFacts, fires: bool
) -> None:
    assert (classes.ecmp_collision(root) is not None) is fires


def test_a_host_that_stops_all_the_time_behind_a_narrow_link_is_slow_and_no_storm() -> None:
    found, evidence = classify(dataclasses.replace(STORM, pcie=NARROW))
    assert found == "slow_receiver_pcie"
    assert evidence == ("PCIe width of h0 is 8 of 16 lanes",)


def test_a_storm_says_when_the_pcie_link_is_not_reported() -> None:
    assert "its PCIe link is not reported" in classify(dataclasses.replace(STORM, pcie=()))[1]
    assert "its PCIe link is whole" in classify(STORM)[1]


def test_a_storm_needs_no_byte_counts() -> None:
    assert classify(dataclasses.replace(STORM, sent_ratio=None))[0] == "nic_pfc_storm"


def test_every_narrow_measure_is_told() -> None:
    narrow = ((kinds.PCIE_WIDTH, 0, 16), (kinds.PCIE_SPEED, 16_000, 32_000), (kinds.PCIE_RATE, 100_000, 100_000))
    _, evidence = classify(dataclasses.replace(HOST, pcie=narrow))
    assert evidence == ("PCIe width of h0 is 0 of 16 lanes", "PCIe speed of h0 is 16000 of 32000 MT/s")


def test_an_incast_is_seen_without_flows_and_without_bytes() -> None:
    assert classify(dataclasses.replace(INCAST, sources=0))[0] == "incast"
    assert classify(dataclasses.replace(INCAST, queued_windows=0, max_mbps=0))[0] == "incast"


def test_what_no_rule_fits_is_unclassified_with_a_reason() -> None:
    found, evidence = classify(UPLINK)
    assert found == "unclassified"
    assert evidence == ("no rule fits what is known of this root",)


@pytest.mark.parametrize(
    ("layer", "root"),
    [
        ("queue", COLLISION),
        ("queue", FULL),
        ("queue", RING),
        ("queue", LINE_RATE),
        ("queue", UPLINK),
        ("queue", EMPTY),
        ("link", DEGRADED),
        ("application", INCAST),
        ("queue", dataclasses.replace(INCAST, sources=0)),
        ("nic", STORM),
        ("nic", dataclasses.replace(STORM, inside=STALLED)),
        ("pcie", dataclasses.replace(HOST, pcie=NARROW, inside=STALLED)),
        ("pcie", PLATEAU),
        ("pcie", dataclasses.replace(HOST, inside=REPLAYED)),
        ("compute", dataclasses.replace(HOST, inside=STALLED)),
        ("storage", dataclasses.replace(HOST, inside=(STALLED[0]._replace(layer="storage"),))),
        ("link", dataclasses.replace(HOST, inside=(STALLED[0]._replace(layer="link"),))),
        ("host", dataclasses.replace(PLATEAU, pcie=WHOLE)),
        ("", HOST),
        ("", dataclasses.replace(EMPTY, reports_depth=False)),
    ],
)
def test_every_root_says_in_which_layer_to_look(layer: str, root: RootFacts) -> None:
    assert layer_of(classify(root)[0], root) == layer


def test_every_class_has_a_layer_but_that_which_is_told_by_what_was_found() -> None:
    assert {name for name, _ in classes.RULES} | {"hash_polarization"} == OF_CLASS.keys() | {"slow_receiver_host"}
