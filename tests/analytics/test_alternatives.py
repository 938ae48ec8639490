"""Why a root is of no other class: every rule that does not fire says by which number."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.alternatives import WHY_NOT, alternatives
from analytics.classes import RULES, classify
from analytics.root_facts import RootFacts, Sibling
from stream import kinds

WHOLE = ((kinds.PCIE_WIDTH, 16, 16),)
HOST = RootFacts(
    kind="host", device="h0", port="", speed_mbps=100_000, faces_host="h0", pcie=WHOLE, stopped_ns=500_000,
    stopped_span_ns=1_000_000, sent_ratio=0.4, ingress_ports=0, sources=0, max_mbps=0, queued_windows=0, siblings=(),
    active_ns=1_000_000, stops=9, sent_share=0.4,
)  # fmt: skip
TO_HOST = dataclasses.replace(
    HOST, kind="egress", device="leaf0", port="d0", pcie=(), ingress_ports=1, queued_windows=4, max_mbps=70_000
)
UPLINK = dataclasses.replace(
    TO_HOST, port="u0", faces_host="", max_mbps=95_000, main_host="h7", main_host_share=0.5,
    siblings=(Sibling("leaf0:u0", 100_000, 8_000_000), Sibling("leaf0:u1", 100_000, 6_000_000)),
)  # fmt: skip
UNKNOWN = dataclasses.replace(UPLINK, kind="unknown", port="", siblings=())


def told(root: RootFacts) -> dict[str, str]:
    return {other.root_class: other.why_not for other in alternatives(root, classify(root)[0])}


def test_every_rule_can_say_why_it_did_not_fire() -> None:
    # A root is in a ring or not: against cyclic_dependency there is nothing to say.
    assert {rule.__name__ for _, rule in RULES} == WHY_NOT.keys() | {"cyclic_dependency"}


@pytest.mark.parametrize(
    ("root", "changes", "name", "said"),
    [
        (HOST, {}, "nic_pfc_storm", "its stops cover 50% of the time from the first to the last, in a storm 90%"),
        (HOST, {"stopped_ns": 150_000}, "nic_pfc_storm", "lasted 0.15 ms together, less than 0.20 ms"),
        (HOST, {"stopped_ns": 950_000}, "nic_pfc_storm", "sent 40% of its line rate meanwhile, in a storm 10% at most"),
        (HOST, {"pcie": ((kinds.PCIE_WIDTH, 8, 16),)}, "nic_pfc_storm", "its PCIe link is below its maximum"),
        (HOST, {"pcie": ((kinds.PCIE_WIDTH, 8, 16),)}, "slow_receiver_host", "its PCIe link is below its maximum"),
        (HOST, {}, "slow_receiver_pcie", "its PCIe link is whole: width 16 of 16 lanes"),
        (HOST, {"pcie": ()}, "slow_receiver_host", "its PCIe link is not reported"),
        (HOST, {"pcie": (), "stops": 1}, "slow_receiver_pcie", "its port once, a slow receiver 3 times or more"),
        (HOST, {"sent_share": None}, "slow_receiver_host", "nobody counts the bytes of its port"),
        (HOST, {"sent_share": 0.99}, "slow_receiver_host", "took 99.0% of its line rate, a slow receiver's between 5%"),
        (TO_HOST, {}, "incast", "1 port was stopped because of it, in an incast 2 or more"),
        (TO_HOST, {"ingress_ports": 3, "sources": 2}, "incast", "2 hosts send to it, in an incast 3 or more"),
        (TO_HOST, {"ingress_ports": 3}, "incast", "at most 70000 of 100000 Mb/s while queued, a full link 80% or more"),
        (TO_HOST, {"queued_windows": 0}, "oversubscribed_host_link", "in no window was it seen queued and not stopped"),
        (UPLINK, {}, "link_degraded", "it reached 95000 of 100000 Mb/s, a degraded link less than 80%"),
        (UPLINK, {"queued_windows": 2}, "link_degraded", "in 2 windows, and 3 are needed"),
        (UPLINK, {"speed_mbps": 0}, "link_degraded", "nobody knows its nominal rate"),
        (UPLINK, {}, "ecmp_collision", "64% of its line rate and the group at 56%, which is less than 1.5"),
        (UPLINK, {"siblings": UPLINK.siblings[:1]}, "ecmp_collision", "no siblings of which bytes are known"),
        (UPLINK, {"active_ns": 700_000}, "ecmp_collision", "average 80% of line rate: there was no room beside it"),
        (UPLINK, {}, "incast", "50% of its bytes go to h7, one hop before an incast more than 70%"),
        (UPLINK, {"main_host": ""}, "incast", "nobody knows to which hosts its bytes go"),
        (UPLINK, {}, "fabric_overload", "average 56% of line rate, full ones 70% or more"),
        (UPLINK, {"ring": ("a:p", "b:p"), "quiet_ns": 50_000, "quiet_limit_ns": 100_000}, "pfc_deadlock",
         "the ring of 2 queues was stopped at once for 0.05 ms, a deadlock for 0.10 ms or longer"),
        (UNKNOWN, {}, "misconfiguration", "it reports no depth of its queues"),
        (UNKNOWN, {"reports_depth": True, "depths_due": True}, "misconfiguration", "may still come"),
    ],
)  # fmt: skip
def test_a_class_that_a_root_has_not_says_by_which_number(
    root: RootFacts, changes: dict[str, object], name: str, said: str
) -> None:
    assert said in told(dataclasses.replace(root, **changes))[name]  # type: ignore[arg-type]  # of many types


def test_a_class_about_another_kind_of_root_says_nothing() -> None:
    assert told(HOST).keys() == {"nic_pfc_storm", "slow_receiver_pcie"}
    assert told(TO_HOST).keys() == {"incast", "oversubscribed_host_link"}
    assert told(UPLINK).keys() == {"link_degraded", "ecmp_collision", "incast", "fabric_overload"}
    assert told(UNKNOWN).keys() == {"misconfiguration"}


def test_a_later_rule_that_fires_too_says_that_it_came_too_late() -> None:
    incast = dataclasses.replace(TO_HOST, ingress_ports=2, max_mbps=90_000)
    assert classify(incast)[0] == "incast"
    assert told(incast)["oversubscribed_host_link"] == "its rule fires too: incast is tried first"


shares = st.floats(0, 1.2)
roots = st.builds(
    RootFacts,
    kind=st.sampled_from(["host", "egress", "unknown"]),
    device=st.just("leaf0"),
    port=st.just("u0"),
    speed_mbps=st.sampled_from([0, 100_000]),
    faces_host=st.sampled_from(["", "h0"]),
    pcie=st.sampled_from([(), WHOLE, ((kinds.PCIE_WIDTH, 8, 16),), ((kinds.PCIE_WIDTH, kinds.UNKNOWN, 16),)]),
    stopped_ns=st.integers(0, 2_000_000),
    stopped_span_ns=st.integers(0, 2_000_000),
    sent_ratio=st.none() | shares,
    ingress_ports=st.integers(0, 4),
    sources=st.integers(0, 4),
    max_mbps=st.integers(0, 120_000),
    queued_windows=st.integers(0, 5),
    siblings=st.lists(
        st.builds(Sibling, st.sampled_from(["leaf0:u0", "leaf0:u1", "leaf0:u2"]), st.sampled_from([0, 100_000]),
                  st.integers(0, 12_500_000)),
        max_size=3, unique_by=lambda sibling: sibling.name,
    ).map(tuple),
    active_ns=st.sampled_from([0, 1_000_000]),
    ring=st.sampled_from([(), ("a:p", "b:p")]),
    quiet_ns=st.integers(0, 200_000),
    quiet_limit_ns=st.just(100_000),
    stops=st.integers(0, 5),
    sent_share=st.none() | shares,
    main_host=st.sampled_from(["", "h7"]),
    main_host_share=shares,
    reports_depth=st.booleans(),
    depths_due=st.booleans(),
)  # fmt: skip


@given(roots)
def test_no_class_is_both_chosen_and_spoken_against(root: RootFacts) -> None:
    chosen, _ = classify(root)
    others = alternatives(root, chosen)
    assert chosen not in {other.root_class for other in others}
    assert len({other.root_class for other in others}) == len(others)
    assert all(other.why_not for other in others)


@given(roots)
def test_every_class_of_a_roots_kind_is_chosen_or_spoken_against(root: RootFacts) -> None:
    of_kind = {
        "host": {"nic_pfc_storm", "slow_receiver_pcie", "slow_receiver_host"},
        "unknown": {"misconfiguration"},
        "egress": {"incast", "oversubscribed_host_link"}
        if root.faces_host
        else {"link_degraded", "ecmp_collision", "incast", "fabric_overload"},
    }[root.kind]
    chosen, _ = classify(root)
    assert of_kind <= {chosen, *(other.root_class for other in alternatives(root, chosen))}
