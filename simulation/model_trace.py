"""Writes a run of the fluid model as a trace folder (docs/trace-format.md), with its truth.

In: a plan, its run, what was planted, and rows that dirty counters add. Out: a folder that `read_trace` and the judge
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from simulation.lossless import BIN_STEPS, SPEED_MBPS, STEP_NS, Plan, Port, Run

BIN_NS = BIN_STEPS * STEP_NS


class CounterRow(NamedTuple):
    """Pause counters of one port in one bin, as a device may tell them whatever really happened."""

    bin: int
    port: Port
    rx_pause_frames: int = 0
    tx_pause_frames: int = 0
    rx_paused_ns: int = 0


class Planted(NamedTuple):
    """A fault that the run was made to have."""

    root_class: str
    device: str = ""
    port: str = ""


def write_model_trace(
    folder: Path, plan: Plan, run: Run, scenario: str, planted: Sequence[Planted] = (), dirt: Sequence[CounterRow] = ()
) -> Path:
    """Writes the folder and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    devices = sorted({device for device, _ in plan.peers})
    _write(folder, "devices", ("device", "kind"),
           ((device, "host" if device in plan.hosts else "switch") for device in devices))  # fmt: skip
    cables = [(one, other) for one, other in sorted(plan.peers.items()) if one < other]
    _write(folder, "links", ("a", "a_port", "b", "b_port", "speed_mbps", "delay_ns"),
           ((*one, *other, SPEED_MBPS, STEP_NS) for one, other in cables))  # fmt: skip
    _write(folder, "pfc", ("time_ns", "device", "port", "event"),
           ((pause.step * STEP_NS, *pause.port, "xoff_rx" if pause.stops else "xon_rx")
            for pause in run.pauses))  # fmt: skip
    _write(folder, "port_counters",
           ("bin_start_ns", "device", "port", "tx_bytes", "rx_bytes", "q_max_bytes", "rx_pause_frames",
            "tx_pause_frames", "rx_paused_ns"), _counters(plan, run, dirt))  # fmt: skip
    _write(folder, "flows", ("flow", "src", "dst", "sport", "dport", "size_bytes", "start_ns"),
           ((number, flow.path[0][0], plan.peers[flow.path[-1]][0], 10_000 + number, 4791,
             sum(burst.size_bytes for burst in flow.bursts), min(burst.at_step for burst in flow.bursts) * STEP_NS)
            for number, flow in enumerate(plan.flows)))  # fmt: skip
    _write(folder, "paths", ("flow", "hop", "device", "in_port", "out_port"), _hops(plan))
    _write(folder, "flow_port_bytes", ("bin_start_ns", "device", "port", "flow", "tx_bytes"),
           ((here * BIN_NS, *port, flow, sent) for (flow, port), bins in run.flow_bytes.items()
            for here, sent in enumerate(bins.tolist()) if sent))  # fmt: skip
    truth = {
        "scenario": scenario,
        "expected_roots": [{"cls": root.root_class, "device": root.device, "port": root.port} for root in planted],
        "packet_level_roots": [],
    }
    (folder / "truth.json").write_bytes(msgspec.json.encode(truth))
    return folder


def _counters(plan: Plan, run: Run, dirt: Sequence[CounterRow]) -> Iterable[tuple[object, ...]]:
    added: dict[tuple[int, Port], CounterRow] = {(row.bin, row.port): row for row in dirt}
    place = {port: number for number, port in enumerate(run.ports)}
    for here in range(len(run.sent_bytes)):
        for port, number in place.items():
            peer = place[plan.peers[port]]
            # Nobody reads the queue in a host's NIC.
            depth = "" if port[0] in plan.hosts else int(run.peak_bytes[here, number])
            more = added.get((here, port), CounterRow(here, port))
            row = (
                int(run.sent_bytes[here, number]), int(run.sent_bytes[here, peer]), depth,
                int(run.stops[here, number]) + more.rx_pause_frames, int(run.stops[here, peer]) + more.tx_pause_frames,
                int(run.stopped_steps[here, number]) * STEP_NS + more.rx_paused_ns,
            )  # fmt: skip
            if any(row):
                yield (here * BIN_NS, *port, *row)


def _hops(plan: Plan) -> Iterable[tuple[object, ...]]:
    for number, flow in enumerate(plan.flows):
        came_by = ""
        for hop, (device, port) in enumerate(flow.path):
            yield number, hop, device, came_by, port
            came_by = plan.peers[device, port][1]
        yield number, len(flow.path), plan.peers[flow.path[-1]][0], came_by, ""


def _write(folder: Path, name: str, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
