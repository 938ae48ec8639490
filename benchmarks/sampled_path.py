"""How soon polled counters name a root, over the whole path: gNMI, pollers, Kafka, detect and correlate.

Each trace is repeated for eight periods, in a vendor's words, by processes of its own, one trace at a time, and polled
by `pausetrace collect` and `pausetrace probe`. A deadlock is slowed down instead: repeated, it would move again. Told
are the seconds from the first stop until a cascade is read whose largest root is the trace's, and until that is a
verdict. The bars: two periods and 1 s, in every trace with a root to be found; four periods and 1 s, where switches
tell for how long queues were stopped; traces in which nothing is to be found raise no warning.

It runs on the embedded broker, or with --bootstrap-servers on a Kafka of its own. The last line is JSON:
{"claim", "bar", "holds", ...}. `--traces`, `--vendors` and `--period` choose less.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from pausetrace.child import Child
from pausetrace.playing import KafkaOfChild, Play, kafka_of_child, playing
from pausetrace.reader import Reader
from pausetrace.units import parse_duration
from simulation.truth import Truth, read_truth
from stream.cascade import Cascade
from stream.embedded import EmbeddedBroker
from stream.kafka_settings import KafkaSettings
from stream.topic_admin import create_topics

TRACES = Path(__file__).parents[1] / "tests/data/ns3"
TIMED = ("sonic", "eos", "cumulus")
"""Vendors whose switches tell how long queues were stopped."""
VENDORS = (*TIMED, "nxos", "openconfig")
"""The last two give suspect sets."""
PERIODS = 8
AFTER_PERIODS = 4
WARNING_PPM = 500_000


class Found(NamedTuple):
    """Seconds from the first stop; None is never. `alarms`: warnings or worse that were told."""

    trace: str
    vendor: str
    has_root: bool
    named_s: float | None
    verdict_s: float | None
    alarms: int


def measure(path: Path, vendor: str, period_ns: int, settings: KafkaSettings, kafka: KafkaOfChild) -> Found:
    """Plays one trace."""
    truth = read_truth(path)
    roots = {(device, port) for device, port in truth.roots if truth.roots[device, port] == max(truth.roots.values())}
    fabric = f"{path.name}-{vendor}-{uuid.uuid4().hex[:6]}"
    stuck = any(root.trace_class == "deadlock" for root in truth.planted)
    play = Play(path, vendor, period_ns, PERIODS * period_ns, fabric, repeat=not stuck)
    named_s: float | None = None
    verdict_s: float | None = None
    alarms = 0
    with Reader(settings, ["cascade"], "latest") as reader, playing(play, kafka) as running:
        first_ns, last_ns = running.incident_ns()
        while time.time_ns() < last_ns + AFTER_PERIODS * period_ns:
            running.check()
            for read in reader.read(wait_s=0.05):
                cascade = read.item
                if not isinstance(cascade, Cascade) or cascade.fabric != fabric:
                    continue
                passed_s = (time.time_ns() - first_ns) * 1e-9
                alarms += cascade.severity in ("warning", "critical") and cascade.confidence_ppm >= WARNING_PPM
                if not _names(cascade, roots, truth, play):
                    continue
                named_s = named_s or passed_s
                if not cascade.suspect_set:
                    verdict_s = verdict_s or passed_s
    return Found(path.name, vendor, bool(roots), named_s, verdict_s, alarms)


def _names(cascade: Cascade, roots: set[tuple[str, str]], truth: Truth, play: Play) -> bool:
    """Whether its largest root is one of the trace's; ports are compared by the number at their end."""
    root = max(cascade.roots, key=lambda root: root.share_ppm, default=None)
    if root is None:
        return False
    if root.kind == "host":
        return any(device == root.device for device, _ in roots)
    return (root.device, _port_of_trace(root.port or "", play.vendor)) in roots


def _port_of_trace(port: str, vendor: str) -> str:
    """The traces call the ports of a switch p1, p2 and so on, in the order in which vendors number theirs."""
    digits = port.partition("/")[0] if vendor == "eos" else port.rpartition("/")[2]
    number = int("".join(filter(str.isdigit, digits)) or 0)
    return f"p{number // 4 + 1}" if vendor.startswith("sonic") else f"p{number}"


def main() -> int:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT")
    parser.add_argument("--period", default="1s")
    parser.add_argument("--vendors", default=",".join(VENDORS))
    parser.add_argument("--traces", default=",".join(sorted(path.name for path in TRACES.iterdir() if path.is_dir())))
    args = parser.parse_args()
    period_ns = parse_duration(args.period)
    found = []
    with ExitStack() as stack:
        if args.bootstrap_servers:
            settings = KafkaSettings(args.bootstrap_servers, prefix=f"sampled-path-{uuid.uuid4().hex[:6]}")
            create_topics(settings)
        else:
            settings = stack.enter_context(EmbeddedBroker()).settings
        kafka = stack.enter_context(kafka_of_child(settings))
        steps: list[Child] = [stack.enter_context(kafka.child([step])) for step in ("detect", "correlate")]
        traces, vendors = args.traces.split(","), args.vendors.split(",")
        # Not counted: detect and correlate have only begun, and load what they need for their first rows.
        measure(TRACES / traces[0], vendors[0], period_ns, settings, kafka)
        for name in traces:
            for vendor in vendors:
                found.append(measure(TRACES / name, vendor, period_ns, settings, kafka))
                for step in steps:
                    step.check()
                print(_line(found[-1]), flush=True)
    named_bar_s, verdict_bar_s = 2e-9 * period_ns + 1, 4e-9 * period_ns + 1
    with_root = [each for each in found if each.has_root]
    timed = [each for each in with_root if each.vendor in TIMED]
    named = sum(each.named_s is not None and each.named_s <= named_bar_s for each in with_root)
    verdicts = sum(each.verdict_s is not None and each.verdict_s <= verdict_bar_s for each in timed)
    quiet = [each for each in found if not each.has_root]
    alarms = sum(each.alarms for each in quiet)
    told = {
        "claim": "polled counters name the root within two periods and 1 s, with a verdict within four and 1 s",
        "traces_and_vendors": len(with_root), "named_in_time": named,
        "that_tell_time": len(timed), "verdicts_in_time": verdicts,
        "alarms_where_nothing_is": alarms, "bar": [named_bar_s, verdict_bar_s],
        "holds": named == len(with_root) and verdicts == len(timed) and not alarms, "load_average": os.getloadavg()[0],
    }  # fmt: skip
    for vendor in dict.fromkeys(each.vendor for each in with_root):
        print(_summary(vendor, [each for each in with_root if each.vendor == vendor], named_bar_s, verdict_bar_s))
    print(json.dumps(told))
    return 0


def _summary(vendor: str, found: list[Found], named_bar_s: float, verdict_bar_s: float) -> str:
    parts = []
    for what, bar_s, times in (
        ("named", named_bar_s, [each.named_s for each in found]),
        ("verdict", verdict_bar_s, [each.verdict_s for each in found]),
    ):
        came = sorted(seconds for seconds in times if seconds is not None)
        in_time = sum(seconds <= bar_s for seconds in came)
        after = f", after {came[len(came) // 2]:.2f} s (median), {came[-1]:.2f} s at most" if came else ""
        parts.append(f"{what} in time {in_time} of {len(found)}{after}")
    return f"{vendor:11} {'; '.join(parts)}"


def _line(found: Found) -> str:
    times = [f"{seconds:6.2f}" if seconds is not None else "     -" for seconds in (found.named_s, found.verdict_s)]
    kind = "" if found.has_root else f"  nothing to be found, {found.alarms} alarms"
    return f"{found.trace:26} {found.vendor:11} named {times[0]} s  verdict {times[1]} s{kind}"


if __name__ == "__main__":
    sys.exit(main())
