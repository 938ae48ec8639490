"""What a capture costs: bytes an event, and CPU and memory of capturing, proving and analysing a large fabric's events.

Each step runs in a process of its own at two sizes, so that memory shows whether it grows; the analysis runs with one
worker and with two, by turns, and must find the same. Messages come from a generator, or with `--kafka` from topics of
a broker, to which the generator's are published first. The last line is JSON: {"claim", "ratio", "bar", "holds", ...}.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# The rooms are imported by the steps alone, so that this process stays small: what a child takes is its own.

BAR = 1.6
BYTES_BAR = 12.0
DEFAULT_EVENTS, QUICK_EVENTS = 4_000_000, 1_000_000
WATCH_S = 0.1
MEMORY_EVERY = 10
"""Memory is read at one look in so many: the kernel walks all pages for it, on a core that two workers want."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Step(NamedTuple):
    """What a step told, CPU time and wall time without its start, and memory.

    `busiest_s` is the CPU time of the process that used most; `peak_bytes` what all processes took together.
    """

    told: dict[str, Any]
    cpu_s: float
    busiest_s: float
    wall_s: float
    peak_bytes: int


def run(step: str, folder: Path, **options: object) -> Step:
    """Runs a step as a process of its own, and watches the processes that it begins."""
    command = [sys.executable, __file__, "--step", json.dumps({"step": step, "folder": str(folder), **options})]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak_bytes = 0
    cpu_s: dict[int, float] = {}
    looks = 0
    while process.poll() is None:
        pids = _with_descendants(process.pid)
        if looks % MEMORY_EVERY == 0:
            peak_bytes = max(peak_bytes, sum(map(_own_bytes, pids)))
        looks += 1
        cpu_s.update((pid, _cpu_s(pid)) for pid in pids)
        time.sleep(WATCH_S)
    assert process.stdout is not None
    if process.returncode:
        raise SystemExit(f"{step} failed with exit status {process.returncode}")
    told = json.loads(process.stdout.read())
    own_s = told.pop("cpu_s")
    others = [spent for pid, spent in cpu_s.items() if pid != process.pid]
    return Step(told, own_s + sum(others), max([own_s, *others]), told.pop("wall_s"), peak_bytes)


def _with_descendants(pid: int) -> list[int]:
    children = _text(pid, f"task/{pid}/children").split()
    return [pid, *(below for child in children for below in _with_descendants(int(child)))]


def _own_bytes(pid: int) -> int:
    """Memory of a process; what it shares counts by its share."""
    lines = _text(pid, "smaps_rollup").splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def _cpu_s(pid: int) -> float:
    fields = _text(pid, "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS_PER_S if fields else 0.0


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def do(step: str, folder: str, **options: Any) -> None:
    """What the process of a step does; prints what it found as JSON."""
    work = {"capture": _capture, "verify": _verify, "analyze": _analyze}[step]
    told, begun_s, begun_cpu_s = work(Path(folder), **options)
    spent_s = time.process_time() - begun_cpu_s - told.pop("generator_s", 0.0)
    print(json.dumps({**told, "cpu_s": spent_s, "wall_s": time.perf_counter() - begun_s}))


Work = tuple[dict[str, Any], float, float]


def _capture(folder: Path, events: int, kafka: str) -> Work:
    from benchmarks.fabric_messages import FabricSource
    from stream.capture import capture
    from stream.capture_manifest import Range
    from stream.capture_source import KafkaSource
    from stream.kafka_settings import KafkaSettings
    from stream.topics import TOPICS

    topics = [topic.name for topic in TOPICS]
    generated = FabricSource(events)
    if not kafka:
        begun = time.perf_counter(), time.process_time()
        manifest = capture(generated, folder, topics, "fabric", Range())
        return {"events": manifest.events, "bytes": manifest.bytes, "generator_s": generated.spent_s}, *begun
    settings = KafkaSettings(kafka, f"bench-{uuid.uuid4().hex[:8]}")
    _publish(generated, settings, topics)
    begun = time.perf_counter(), time.process_time()
    with KafkaSource(settings) as source:
        manifest = capture(source, folder, topics, settings.prefix, Range())
    return {"events": manifest.events, "bytes": manifest.bytes}, *begun


def _publish(generated: Any, settings: Any, topics: list[str]) -> None:
    from confluent_kafka import Producer

    from stream.capture_message import Captured
    from stream.topic_admin import create_topics
    from stream.topics import full_name

    # The times of the messages are not those of today.
    create_topics(settings, for_ever=True)
    producer = Producer(
        {"bootstrap.servers": settings.bootstrap_servers, "compression.type": "lz4", "linger.ms": 50,
         "queue.buffering.max.kbytes": 128 << 10}
    )  # fmt: skip
    for told in generated.read(generated.plan(topics, None)):
        for message in told:
            if not isinstance(message, Captured):
                continue
            while True:
                try:
                    producer.produce(
                        full_name(settings.prefix, message.topic), message.value, message.key, message.partition,
                        timestamp=message.timestamp_ms,
                    )  # fmt: skip
                    break
                except BufferError:
                    producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit("Kafka did not take all messages within two minutes")


def _verify(folder: Path, rows: bool) -> Work:
    from stream.capture_verify import verify

    begun = time.perf_counter(), time.process_time()
    verdict = verify(folder, rows=rows)
    if not verdict.whole:
        raise SystemExit(f"not whole: {verdict.problems}")
    return {"events": verdict.events}, *begun


def _analyze(folder: Path, workers: int) -> Work:
    import msgspec

    from stream.allocator import keep_freed_memory

    keep_freed_memory()

    from pausetrace.capture_analysis import analyze_capture
    from stream.capture_reader import load_manifest
    from stream.capture_select import RowFilter

    begun = time.perf_counter(), time.process_time()
    found = analyze_capture(folder, RowFilter(), workers=workers)
    digest = hashlib.sha256(msgspec.json.encode(found.cascades)).hexdigest()
    told = {"events": load_manifest(folder).events, "cascades": len(found.cascades), "sha256": digest}
    return told, *begun


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--events", type=float, help=f"default: {DEFAULT_EVENTS:,}")
    parser.add_argument("--runs", type=int, default=2, help="of the analysis with each number of workers (default: 2)")
    parser.add_argument("--smaller", type=int, default=4, help="the other size is so many times smaller (default: 4)")
    parser.add_argument("--kafka", default="", metavar="BROKERS", help="publish to this broker and capture from it")
    parser.add_argument("--dir", help="where the captures lie meanwhile (default: the system's temporary folder)")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        do(**json.loads(args.step))
        return
    events = int(args.events or (QUICK_EVENTS if args.quick else DEFAULT_EVENTS))
    print(f"messages: {'published to and captured from ' + args.kafka if args.kafka else 'generated, no broker'}")
    print(f"{'step':<22} {'events':>12} {'CPU ns':>8} {'wall ns':>8} {'peak MiB':>9}")
    peaks: dict[str, list[int]] = {}

    def measured(name: str, step: str, folder: Path, **options: object) -> Step:
        took = run(step, folder, **options)
        per_event = " ".join(f"{s / took.told['events'] * 1e9:>8,.0f}" for s in (took.cpu_s, took.wall_s))
        print(f"{name:<22} {took.told['events']:>12,} {per_event} {took.peak_bytes >> 20:>9,}", flush=True)
        peaks.setdefault(name, []).append(took.peak_bytes >> 20)
        return took

    with tempfile.TemporaryDirectory(dir=args.dir) as scratch:
        captured = one = two = None
        ones: list[Step] = []
        twos: list[Step] = []
        for size in (events // args.smaller, events):
            folder = Path(scratch) / str(size)
            captured = measured("capture", "capture", folder, events=size, kafka=args.kafka)
            verified = measured("verify", "verify", folder, rows=False)
            proved = measured("verify --rows", "verify", folder, rows=True)
            ones, twos = [], []
            for _ in range(args.runs if size == events else 1):
                ones.append(measured("analyze", "analyze", folder, workers=1))
                twos.append(measured("analyze --workers 2", "analyze", folder, workers=2))
            one, two = (min(runs, key=lambda step: step.wall_s) for runs in (ones, twos))
            if one.told != two.told:
                raise SystemExit(f"one worker found {one.told}, two found {two.told}")
    assert captured is not None
    assert one is not None
    assert two is not None
    bytes_per_event = captured.told["bytes"] / captured.told["events"]
    ratio = one.wall_s / two.wall_s
    # What two cores of one's own would give: the busiest process sets the pace, or both cores are busy throughout.
    alone = min(step.cpu_s for step in ones) / min(max(step.busiest_s, step.cpu_s / 2) for step in twos)
    print(
        f"{bytes_per_event:.2f} bytes an event; two workers {ratio:.2f} times as fast as one, {alone:.2f} by CPU time"
    )
    result = {
        "claim": "analyze: wall time of one worker over that of two; bytes of a capture an event",
        "ratio": round(ratio, 2),
        "bar": BAR,
        "ratio_by_cpu_time": round(alone, 2),
        "bytes_per_event": round(bytes_per_event, 2),
        "bytes_bar": BYTES_BAR,
        "holds": ratio >= BAR and bytes_per_event <= BYTES_BAR,
        "events": captured.told["events"],
        "cascades": one.told["cascades"],
        "cpu_ns_per_event": {
            name: round(step.cpu_s / step.told["events"] * 1e9)
            for name, step in (("capture", captured), ("verify", verified), ("verify_rows", proved), ("analyze", one),
                               ("analyze_2", two))
        },
        "peak_mib_at_both_sizes": peaks,
        "from": args.kafka or "generator",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}",
        "versions": {"python": platform.python_version()} | {p: version(p) for p in ("numpy", "numba", "pyarrow")},
    }  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main()
