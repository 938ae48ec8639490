"""What hosts and links report of themselves decides the layer of a root, if it is of the right time and place."""

from __future__ import annotations

from random import Random

import pytest

from analytics import asked_names
from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.host_evidence import ERRORS, MAX_FINDINGS, TABLE, inside
from analytics.noted import MAX_A_SECOND, Reading
from stream.cascade import Cascade, Root
from stream.file_runner import run_steps
from stream.kinds import BY_NAME, LINK_ERRORS, UNKNOWN
from tests.analytics.random_runs import leaf_spine
from tests.analytics.restarting import Restarting
from tests.analytics.story import Story

US, MS = 1_000, 1_000_000
STOPPED_NS, LENGTH_NS = 100 * MS, 150 * US
D0 = ("leaf1", "d0", 3)
DOWN = ("spine0", "p1", 3)


def stopped_host() -> Story:
    """h10 stops its leaf, and that its spine; too shortly for a storm."""
    story = Story(leaf_spine(2, 1, 2))
    story.pause(D0, STOPPED_NS, STOPPED_NS + LENGTH_NS)
    story.pause(DOWN, STOPPED_NS + 50 * US, STOPPED_NS + LENGTH_NS)
    story.depth(D0, STOPPED_NS, STOPPED_NS + LENGTH_NS, 200_000)
    return story


def congested_link() -> Story:
    """The leaf stops the host that sends to a link of its own to the spine, which holds a queue."""
    story = Story(leaf_spine(2, 1, 2))
    story.pause(("h00", "eth0", 3), STOPPED_NS, STOPPED_NS + LENGTH_NS)
    story.depth(("leaf0", "u0", 3), STOPPED_NS, STOPPED_NS + LENGTH_NS, 200_000)
    story.sent(("leaf0", "u0", 3), STOPPED_NS, STOPPED_NS + LENGTH_NS, 99_000)
    return story


def add(story: Story, name: str, host: str, port: str, after_ns: int, **fields: int) -> None:
    """A row of a kind."""
    kind = BY_NAME[name]
    story.row(kind.topic, host, port, kind.code, after_ns, **fields)


def only_root(story: Story) -> Root:
    """The one root of the one cascade."""
    (root,) = story.only().roots
    return root


# fmt: off
SAID = [
    ("PCIE_ERRORS", "eth0", {"value": 12, "extra": 1}, "pcie", "12 corrected PCIe errors at eth0 in 0.100 ms"),
    ("PCIE_STALL", "eth0", {"value": 50 * US}, "pcie", "the NIC waited for its PCIe link for 50% of 0.100 ms"),
    ("RDMA_ERRORS", "eth0", {"value": 1, "extra": 7}, "nic", "1 duplicate request RDMA error at eth0 in 0.100 ms"),
    ("LINK_ERRORS", "eth0", {"value": 3, "extra": 1}, "link", "3 CRC link errors at eth0 in 0.100 ms"),
    ("RUNQUEUE_OUTLIER", "cpu3", {"value": 8_200_000, "extra": 42}, "compute",
     "run-queue latency of 8.2 ms on cpu3 (pid 42)"),
    ("SOFTIRQ_OUTLIER", "cpu3", {"value": 2 * MS}, "compute", "softirq raise-to-run latency of 2.0 ms on cpu3"),
    ("SOFTIRQ_RUN_OUTLIER", "cpu3", {"value": 2 * MS}, "compute", "softirq run time of 2.0 ms on cpu3"),
    ("HARDIRQ_OUTLIER", "cpu3", {"value": 2 * MS}, "compute", "hardirq handler time of 2.0 ms on cpu3"),
    ("NAPI_OUTLIER", "cpu3", {"value": 2 * MS}, "compute", "NAPI poll time of 2.0 ms on cpu3"),
    ("BLOCK_OUTLIER", "nvme0n1", {"value": 2 * MS}, "storage", "block I/O latency of 2.0 ms on nvme0n1"),
    ("CPU_THROTTLE", "cpu3", {"value": 4, "extra": 5 * MS}, "compute",
     "the CPU was throttled 4 times at cpu3, 5.0 ms in all"),
    ("MEMORY_ERRORS", "mc0", {"value": 2, "extra": 2}, "compute", "2 uncorrected memory errors in 0.100 ms"),
    ("PRESSURE", "-", {"value": 50 * US, "extra": 1}, "compute", "tasks stalled for cpu for 50% of 0.100 ms"),
    ("PRESSURE", "-", {"value": 50 * US, "extra": 2}, "compute", "tasks stalled for memory for 50% of 0.100 ms"),
    ("PRESSURE", "-", {"value": 50 * US, "extra": 3}, "storage", "tasks stalled for io for 50% of 0.100 ms"),
    ("GPU_ERRORS", "gpu1", {"value": 1, "extra": 79}, "compute", "1 XID 79 (fallen off the bus) GPU error in 0.100 ms"),
    ("GPU_THROTTLE", "gpu1", {"value": 100 * US, "extra": 4}, "compute",
     "a GPU's clocks were held down at gpu1 for 100% of 0.100 ms"),
]
# fmt: on
IDS = [f"{name}-{fields.get('extra', 0)}" for name, _, fields, _, _ in SAID]


def test_every_kind_of_evidence_is_tested_here() -> None:
    assert {(BY_NAME[name].code) for name, *_ in SAID} == {code for code, _ in TABLE}


@pytest.mark.parametrize(("name", "port", "fields", "layer", "sentence"), SAID, ids=IDS)
def test_what_a_host_reports_in_the_time_of_the_cascade_is_told(
    name: str, port: str, fields: dict[str, int], layer: str, sentence: str
) -> None:
    story = stopped_host()
    add(story, name, "h10", port, STOPPED_NS + 500 * US, span_ns=100 * US, **fields)
    root = only_root(story)
    assert (root.device, root.layer) == ("h10", layer)
    assert sentence in root.evidence
    assert root.root_class == ("unclassified" if layer == "pcie" else "slow_receiver_host")


@pytest.mark.parametrize(
    ("host", "after_ns"),
    [
        ("h10", STOPPED_NS - 11 * MS),
        ("h10", STOPPED_NS + LENGTH_NS + 11 * MS),
        ("h11", STOPPED_NS),
        ("h00", STOPPED_NS),
    ],
)
def test_what_a_host_reports_at_another_time_or_another_host_does_is_not(host: str, after_ns: int) -> None:
    story = stopped_host()
    for name, port, fields, _, _ in SAID:
        add(story, name, host, port, after_ns, span_ns=100 * US, **fields)
    root = only_root(story)
    assert (root.device, root.root_class, root.layer) == ("h10", "unclassified", "")
    assert root.evidence[0] == "no rule fits what is known of this root"
    assert root.evidence[1].startswith(
        "what h10 reports of itself" if host == "h10" else "nobody reports what goes on inside h10"
    )


@pytest.mark.parametrize(
    ("after_ns", "span_ns", "counts"),
    [
        (STOPPED_NS - 10 * MS, 0, True),
        (STOPPED_NS - 10 * MS - 1, 0, False),
        (STOPPED_NS + LENGTH_NS + 10 * MS, 0, True),
        (STOPPED_NS + LENGTH_NS + 10 * MS + 1, 0, False),
        (STOPPED_NS + LENGTH_NS + 10 * MS + 1, 1, True),
        # A window longer than the 0.1 ms that were announced begins as late as if it were not.
        (STOPPED_NS + LENGTH_NS + 10 * MS + 100 * US, 1_000 * MS, True),
        (STOPPED_NS + LENGTH_NS + 10 * MS + 100 * US + 1, 1_000 * MS, False),
    ],
)
def test_a_reading_counts_if_its_window_is_within_ten_ms_of_the_cascade(
    after_ns: int, span_ns: int, counts: bool
) -> None:
    story = stopped_host()
    add(story, "RDMA_ERRORS", "h10", "eth0", after_ns, value=5, extra=1, span_ns=span_ns)
    assert (only_root(story).layer == "nic") is counts


def test_errors_of_a_host_s_link_that_the_leaf_counts_are_found_too() -> None:
    story = stopped_host()
    add(story, "LINK_ERRORS", "leaf1", "d0", STOPPED_NS, value=3, extra=1)
    add(story, "LINK_ERRORS", "leaf1", "d1", STOPPED_NS, value=9, extra=1)
    root = only_root(story)
    assert root.layer == "link"
    assert [sentence for sentence in root.evidence if "CRC" in sentence] == ["3 CRC link errors at d0 in 0.000 ms"]


def test_what_a_host_reports_is_a_kind_of_evidence_of_its_own() -> None:
    story = stopped_host()
    assert story.only().confidence_ppm == 666_667
    add(story, "RUNQUEUE_OUTLIER", "h11", "cpu0", STOPPED_NS, value=1 * MS)
    assert story.only().confidence_ppm == 666_667
    add(story, "RUNQUEUE_OUTLIER", "h10", "cpu0", STOPPED_NS, value=1 * MS)
    assert story.only().confidence_ppm == 1_000_000
    assert story.only().missing_evidence == ("PCIe state of h10",)


def test_the_strongest_kind_decides_the_layer_and_all_are_told() -> None:
    story = stopped_host()
    add(story, "BLOCK_OUTLIER", "h10", "sda", STOPPED_NS - 9 * MS, value=1 * MS)
    add(story, "GPU_ERRORS", "h10", "gpu0", STOPPED_NS - 8 * MS, value=1, extra=1)
    add(story, "MEMORY_ERRORS", "h10", "mc0", STOPPED_NS - 7 * MS, value=1, extra=1)
    add(story, "NAPI_OUTLIER", "h10", "cpu0", STOPPED_NS - 6 * MS, value=1 * MS)
    root = only_root(story)
    assert root.layer == "compute"
    assert [sentence.split()[0] for sentence in root.evidence[1:]] == ["NAPI", "1", "1", "block"]
    add(story, "RDMA_ERRORS", "h10", "eth0", STOPPED_NS + 100 * US, value=1, extra=1)
    assert only_root(story).layer == "nic"
    add(story, "PCIE_ERRORS", "h10", "eth0", STOPPED_NS, value=1, extra=1)
    assert only_root(story).layer == "pcie"
    story.pcie("h10", 8, 16)
    root = only_root(story)
    assert (root.root_class, root.layer) == ("slow_receiver_pcie", "pcie")
    assert root.evidence[0] == "PCIe width of h10 is 8 of 16 lanes"


def test_of_equally_strong_findings_the_earliest_comes_first() -> None:
    story = stopped_host()
    # The outlier is told at its end: it began before the throttling.
    add(story, "CPU_THROTTLE", "h10", "cpu1", STOPPED_NS - 1 * MS, value=1, extra=UNKNOWN)
    add(story, "RUNQUEUE_OUTLIER", "h10", "cpu1", STOPPED_NS, value=2 * MS, extra=1)
    assert [sentence.split()[0] for sentence in only_root(story).evidence[1:]] == ["run-queue", "the"]


def test_several_readings_are_told_as_one() -> None:
    story = stopped_host()
    for cpu, latency_ns in ((1, 2 * MS), (2, 9 * MS), (3, 4 * MS)):
        add(story, "RUNQUEUE_OUTLIER", "h10", f"cpu{cpu}", STOPPED_NS + cpu * US, value=latency_ns, extra=cpu)
    for after_ns in (0, 1 * MS):
        add(story, "PCIE_ERRORS", "h10", "eth0", STOPPED_NS + after_ns, value=6, extra=1, span_ns=100 * US)
        add(story, "PCIE_ERRORS", "h10", "eth0", STOPPED_NS + after_ns, value=1, extra=3, span_ns=100 * US)
    assert only_root(story).evidence[1:] == (
        "12 corrected PCIe errors at eth0 in 1.1 ms",
        "2 fatal PCIe errors at eth0 in 1.1 ms",
        "run-queue latency of 9.0 ms on cpu2 (pid 2), the longest of 3",
    )


def test_time_lost_that_is_a_small_part_of_its_window_is_not_told() -> None:
    for value_ns, layer in ((4_999, ""), (5_000, "compute")):
        story = stopped_host()
        add(story, "PRESSURE", "h10", "-", STOPPED_NS, value=value_ns, extra=1, span_ns=100 * US)
        assert only_root(story).layer == layer


def test_fec_corrections_of_a_host_s_link_are_no_finding() -> None:
    story = stopped_host()
    add(story, "LINK_ERRORS", "h10", "eth0", STOPPED_NS, value=1_000, extra=2)
    assert only_root(story).layer == ""


def test_only_so_many_findings_are_told() -> None:
    code = BY_NAME["RDMA_ERRORS"].code
    readings = [Reading(10, code, error, 1, "eth0", "", 10, 0) for error in range(20)]
    found = inside(readings, 0, 100)
    assert len(found) == MAX_FINDINGS
    assert {finding.rank for finding in found} == {ERRORS}


def test_a_host_without_evidence_says_what_to_collect() -> None:
    story = stopped_host()
    assert only_root(story).evidence[-1] == (
        "nobody reports what goes on inside h10: collect pcie (PCIe width, speed and errors), kernel (kernel latency)"
        " and host (RDMA and memory errors, throttling and pressure)"
    )
    story.pcie("h10", 16, 16)
    assert only_root(story).evidence[-1] == (
        "what h10 reports of itself (pcie) does not explain it; collect kernel (kernel latency) and"
        " host (RDMA and memory errors, throttling and pressure) too"
    )
    add(story, "RUNQUEUE_OUTLIER", "h10", "cpu0", 1 * MS, value=1 * MS)
    add(story, "RDMA_ERRORS", "h10", "eth0", 1 * MS, value=1, extra=1)
    assert only_root(story).evidence[-1] == "what h10 reports of itself (pcie, kernel and host) does not explain it"


def test_a_pause_that_never_ends_is_explained_too() -> None:
    story = stopped_host()
    add(story, "RDMA_ERRORS", "h10", "eth0", STOPPED_NS, value=5, extra=1)
    for rows in story.rows.values():
        rows[:] = [row for row in rows if row[1]["kind"][0] != BY_NAME["PFC_XON"].code]
    assert "5 packet sequence NAK RDMA errors at eth0 in 0.000 ms" in only_root(story).evidence


# Links


@pytest.mark.parametrize("end", [("leaf0", "u0"), ("spine0", "p0")])
@pytest.mark.parametrize("code", [1, 3, 4, 5])
def test_errors_at_either_end_of_a_link_degrade_it(end: tuple[str, str], code: int) -> None:
    story = congested_link()
    assert only_root(story).root_class != "link_degraded"
    add(story, "LINK_ERRORS", *end, STOPPED_NS, value=2, extra=code, span_ns=100 * US)
    root = only_root(story)
    assert (root.device, root.port, root.root_class, root.layer) == ("leaf0", "u0", "link_degraded", "link")
    assert f"errors of the link at {':'.join(end)} in 0.100 ms" in root.evidence[0]


@pytest.mark.parametrize(
    ("end", "after_ns"),
    [
        (("leaf0", "u0"), STOPPED_NS - 11 * MS),
        (("leaf0", "u0"), STOPPED_NS + LENGTH_NS + 11 * MS),
        (("leaf0", "d1"), STOPPED_NS),
        (("spine0", "p1"), STOPPED_NS),
    ],
)
def test_errors_of_another_link_or_time_do_not(end: tuple[str, str], after_ns: int) -> None:
    story = congested_link()
    add(story, "LINK_ERRORS", *end, after_ns, value=2, extra=1, span_ns=100 * US)
    assert only_root(story).root_class != "link_degraded"


def test_a_link_may_err_as_often_as_ieee_allows() -> None:
    # 100 Gb/s for a second are 1e11 bits, of which ten times 1e-12 may be wrong: one in a second is allowed.
    story = congested_link()
    story.period_ns = 1_000 * MS
    add(story, "LINK_ERRORS", "leaf0", "u0", STOPPED_NS + LENGTH_NS, value=1, extra=1, span_ns=1_001 * MS)
    assert only_root(story).root_class != "link_degraded"
    story = congested_link()
    story.period_ns = 1_000 * MS
    add(story, "LINK_ERRORS", "leaf0", "u0", STOPPED_NS + LENGTH_NS, value=1, extra=1, span_ns=999 * MS)
    assert only_root(story).root_class == "link_degraded"


@pytest.mark.parametrize(
    ("before", "now", "counts"),
    [((), 1_000, False), ((100,), 999, False), ((100,), 1_000, True), ((0, 100), 1_000, True)],
)
def test_fec_corrections_count_where_they_grow_tenfold(before: tuple[int, ...], now: int, counts: bool) -> None:
    story = congested_link()
    for place, corrected in enumerate(before):
        add(story, "LINK_ERRORS", "leaf0", "u0", 20 * MS + place * 100 * US, value=corrected, extra=2, span_ns=100 * US)
    add(story, "LINK_ERRORS", "leaf0", "u0", STOPPED_NS, value=now, extra=2, span_ns=100 * US)
    root = only_root(story)
    assert (root.root_class == "link_degraded") is counts
    if counts:
        assert root.evidence == ("1000 FEC corrected errors of the link at leaf0:u0, 10 times as many as before",)


# Bounds, order and restarts


def test_parts_of_hosts_make_no_ports_of_the_fabric() -> None:
    ports = []
    for cpus in (1, 200):
        story = stopped_host()
        for cpu in range(cpus):
            add(story, "RUNQUEUE_OUTLIER", "h10", f"cpu{cpu}", STOPPED_NS, value=1 * MS)
        step = Correlate()
        items = story.items()
        run_steps(items[:-2], [Detect()], step)
        ports.append(len(step._fabrics["lab"].engine.topology.ports))
    assert ports[0] == ports[1]


def test_of_too_many_readings_the_first_of_each_second_are_kept_and_the_rest_counted() -> None:
    story = stopped_host()
    for place in range(MAX_A_SECOND + 5):
        add(story, "RUNQUEUE_OUTLIER", "h10", "cpu0", STOPPED_NS + place, value=1 * MS + place)
    add(story, "NAPI_OUTLIER", "h10", "cpu0", STOPPED_NS + 500, value=1 * MS)
    step = Correlate()
    (told,) = [item for item in run_steps(story.items(), [Detect()], step) if isinstance(item, Cascade)]
    assert any(sentence.endswith(f"the longest of {MAX_A_SECOND}") for sentence in told.roots[0].evidence)
    assert any(sentence.startswith("NAPI") for sentence in told.roots[0].evidence)
    assert step.counters["readings_not_kept"] == 5


def test_too_many_names_of_parts_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_names, "MAX_PARTS", 1)
    story = stopped_host()
    add(story, "RUNQUEUE_OUTLIER", "h10", "cpu0", STOPPED_NS, value=1 * MS)
    add(story, "NAPI_OUTLIER", "h10", "cpu1", STOPPED_NS, value=1 * MS)
    assert {sentence for sentence in only_root(story).evidence if sentence.endswith(("cpu0", "1.0 ms"))} == {
        "run-queue latency of 1.0 ms on cpu0", "NAPI poll time of 1.0 ms",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_evidence_is_the_same_in_any_order_and_over_restarts(seed: int) -> None:
    story = stopped_host()
    for name, port, fields, _, _ in SAID:
        for host in ("h10", "h11"):
            add(story, name, host, port, STOPPED_NS + 300 * US, span_ns=100 * US, **fields)
    for place in range(MAX_A_SECOND + 5):
        add(story, "HARDIRQ_OUTLIER", "h10", f"cpu{place}", STOPPED_NS + place, value=1 * MS + place)
    expected = story.only()
    random = Random(seed)
    values = story.values()
    random.shuffle(values)
    items = [*story.ups(), *story.facts(), *values, *story.downs()]
    step = Restarting(Correlate, random, 0.5)
    made = run_steps(items, [Detect()], step, 1)
    assert [item for item in made if isinstance(item, Cascade)] == [expected]
    assert step.restarts


def test_link_errors_have_a_kind() -> None:
    assert BY_NAME["LINK_ERRORS"].code == LINK_ERRORS
