"""What a trace folder holds, as columns: the result of simulation/trace.py, and what rows and facts are made from.

A `port` column holds indices into `Ports`, times are ns from the start of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulation.trace_table import Ints
from stream.facts import Hop


@dataclass(frozen=True, slots=True, eq=False)
class Ports:
    """Every port that a link ends at. A port's index over the whole fabric is what other columns of `port` hold."""

    device: Ints
    names: tuple[str, ...]
    local: Ints
    """Index among the ports of its device."""
    speed_mbps: Ints
    peer: Ints
    """The port at the other end of the link."""
    delay_ns: Ints
    index: dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """links.csv: the two ports of each cable."""

    a_port: Ints
    b_port: Ints
    speed_mbps: Ints
    delay_ns: Ints


@dataclass(frozen=True, slots=True, eq=False)
class PauseEvents:
    """pfc.csv: when a port was told to stop (xoff) or to go on, as logged by the side that was told."""

    time_ns: Ints
    port: Ints
    priority: Ints
    xoff: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """port_counters.csv: sums of one bin; the bin ends at end_ns. What nobody tells, or what was withheld, is None."""

    end_ns: Ints
    span_ns: Ints
    port: Ints
    priority: Ints
    rx_paused_ns: Ints | None
    rx_pause_frames: Ints
    tx_pause_frames: Ints | None
    q_max_bytes: Ints | None
    tx_bytes: Ints | None
    rx_bytes: Ints | None
    tx_ce_packets: Ints | None
    rx_ce_packets: Ints | None


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """flows.csv and paths.csv; a path is empty where it is not known."""

    names: tuple[str, ...]
    src: Ints
    dst: Ints
    src_port: Ints
    dst_port: Ints
    qpn: Ints
    priority: Ints
    size_bytes: Ints
    start_ns: Ints
    paths: tuple[tuple[Hop, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class FlowBytes:
    """flow_port_bytes.csv: bytes of one flow (its row in flows.csv) that left by a port in one bin."""

    end_ns: Ints
    span_ns: Ints
    port: Ints
    flow: Ints
    tx_bytes: Ints


@dataclass(frozen=True, slots=True, eq=False)
class HostPcie:
    """host_pcie.csv: rate of the slot of a host's NIC, now and at most."""

    port: Ints
    now_mbps: Ints
    max_mbps: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """steps.csv: a rank's step from the barrier's release to its end; computed_ns: the end of its own compute."""

    host: Ints
    step: Ints
    start_ns: Ints
    computed_ns: Ints | None
    end_ns: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One trace folder. What the folder does not hold, or what was withheld, is None; times begin at 0."""

    name: str
    devices: tuple[str, ...]
    roles: tuple[str, ...]
    ports: Ports
    links: Links
    period_ns: int
    pauses: PauseEvents | None
    counters: Counters | None
    flows: Flows | None
    flow_bytes: FlowBytes | None
    pcie: HostPcie | None
    steps: Steps | None = None
    notes: tuple[str, ...] = ()
    """What the reader left out on its own, for people."""
