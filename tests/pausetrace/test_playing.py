"""The whole path of polled counters: switches by gNMI, hosts by their pollers, Kafka, detect and correlate to the root.

A trace is played by one process, in the words of a vendor; `pausetrace collect` and `pausetrace probe` poll it, each as
in the field. What they may know is what the vendor's switches tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from pausetrace.child import Child
from pausetrace.playing import Play, Playing, kafka_of_child, playing
from pausetrace.reader import Reader
from simulation.truth import read_truth
from stream.cascade import Cascade
from stream.embedded import EmbeddedBroker
from stream.kafka_settings import KafkaSettings
from stream.topic_admin import create_topics

TRACES = Path(__file__).parents[1] / "data/ns3"
MS = 1_000_000
DEADLINE_S = 120.0
"""Kernels may have to be compiled."""
PERIODS = 8
"""The trace is repeated for so many: a verdict needs three that carry pause."""

Wanted = Callable[[Cascade], bool]


def largest_root(cascade: Cascade) -> tuple[str, str]:
    """Device and class of the root that most is blamed on."""
    root = max(cascade.roots, key=lambda root: root.share_ppm, default=None)
    return ("", "") if root is None else (root.device, root.root_class)


def wait_for(
    settings: KafkaSettings, wanted: Mapping[str, Wanted], children: list[Child | Playing]
) -> dict[str, Cascade]:
    """By fabric, the first revision that is as wanted; fails at the deadline with what came last."""
    found: dict[str, Cascade] = {}
    last: dict[str, Cascade] = {}
    end_s = time.monotonic() + DEADLINE_S
    with Reader(settings, ["cascade"], "earliest") as reader:
        while found.keys() != wanted.keys():
            assert time.monotonic() < end_s, {
                fabric: cascade for fabric, cascade in last.items() if fabric not in found
            }
            for child in children:
                child.check()
            for read in reader.read(wait_s=0.2):
                cascade = read.item
                assert isinstance(cascade, Cascade)
                last[cascade.fabric] = cascade
                if cascade.fabric not in found and wanted[cascade.fabric](cascade):
                    found[cascade.fabric] = cascade
    return found


def play_all(settings: KafkaSettings, plays: Mapping[str, Play], wanted: Mapping[str, Wanted]) -> dict[str, Cascade]:
    """Plays all at a time, each a fabric of its own."""
    with ExitStack() as stack:
        kafka = stack.enter_context(kafka_of_child(settings))
        children: list[Child | Playing] = [stack.enter_context(kafka.child([step])) for step in ("detect", "correlate")]
        children += [stack.enter_context(playing(play, kafka)) for play in plays.values()]
        return wait_for(settings, wanted, children)


def play(vendor: str, period_ns: int, trace: str = "slow_receiver_multi-ls-s1") -> Play:
    return Play(TRACES / trace, vendor, period_ns, PERIODS * period_ns, vendor, repeat=True)


def test_polls_of_switches_and_hosts_name_the_host_and_its_slow_link() -> None:
    (planted,) = {(root.device, root.root_class) for root in read_truth(TRACES / "slow_receiver_multi-ls-s1").planted}
    with EmbeddedBroker() as broker:
        found = play_all(
            broker.settings, {"eos": play("eos", 400 * MS)},
            {"eos": lambda cascade: largest_root(cascade) == planted and not cascade.suspect_set},
        )  # fmt: skip
    cascade = found["eos"]
    assert cascade.mode == "sampled"
    # What the host's own files say stands in the verdict, beside what the switches counted.
    assert any("PCIe width of h13 is 4 of 16 lanes" in text for root in cascade.roots for text in root.evidence)


@pytest.mark.kafka
@pytest.mark.slow
def test_vendors_tell_one_root_each_in_its_words(real_kafka: str) -> None:
    trace = "slow_receiver_multi-ls-s1"
    (planted,) = {(root.device, root.root_class) for root in read_truth(TRACES / trace).planted}
    settings = KafkaSettings(real_kafka)
    create_topics(settings)

    def named(cascade: Cascade) -> bool:
        return largest_root(cascade) == planted

    # NX-OS tells frames alone: how long queues were stopped is estimated, and a suspect set is what that is good for.
    wanted: dict[str, Wanted] = {
        "sonic": lambda cascade: named(cascade) and not cascade.suspect_set,
        "cumulus": lambda cascade: named(cascade) and not cascade.suspect_set,
        "nxos": named,
    }
    found = play_all(settings, {vendor: play(vendor, 1_000 * MS) for vendor in wanted}, wanted)
    assert {cascade.mode for cascade in found.values()} == {"sampled"}
    assert any("how often, not how long" in text for text in found["nxos"].missing_evidence)
