"""The table of kinds: everything that an event can say, with names, units, ranges and topic, in one place.

The dtype's meaning, the C header, the docs page, `observe` and every other view of a record derive from `KINDS`.
Codes are never reused or renumbered: captures hold them for years.
"""

from __future__ import annotations

from dataclasses import dataclass

INT64_MAX = (1 << 63) - 1
UNKNOWN = -(1 << 63)
"""Value of a measure that the source could not know; null for people."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One of the two measures of a kind; `UNKNOWN` is allowed beside low..high. A name of "" means not used (0)."""

    name: str
    unit: str
    low: int = 0
    high: int = INT64_MAX


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table; `topic` is the topic's name without its prefix ("" = any packed topic)."""

    code: int
    name: str
    topic: str
    value: Measure
    extra: Measure
    meaning: str


NOT_USED = Measure("", "", 0, 0)


def _ns(name: str) -> Measure:
    return Measure(name, "ns")


def _code(name: str) -> Measure:
    return Measure(name, "code", 0, 65535)


def _count(name: str, unit: str) -> Measure:
    return Measure(name, unit)


def _latency_kinds(first_code: int, source: str, what: str) -> tuple[Kind, Kind]:
    return (
        Kind(first_code, f"{source}_BUCKET", "kernel", _ns("upper_ns"), _count("count", "events"),
             f"Count of {what} up to this bound and above the bucket before it, in one window."),
        Kind(first_code + 1, f"{source}_OUTLIER", "kernel", _ns("latency_ns"), _count("pid", "pid"),
             f"One case of {what} above the probe's threshold; the command's name is in the texts."),
    )  # fmt: skip


# fmt: off
KINDS: tuple[Kind, ...] = (
    Kind(1, "PFC_XOFF", "pfc", Measure("quanta", "pause quanta", 0, 65535), NOT_USED,
         "A pause frame that stops the priority (IEEE 802.1Qbb), an instant; one quantum is 512 bit times."),
    Kind(2, "PFC_XON", "pfc", NOT_USED, NOT_USED,
         "A pause frame with quanta 0 that lets the priority send again, an instant."),
    Kind(3, "PFC_PAUSED", "pfc", _ns("paused_ns"), _count("xoff_frames", "frames"),
         "Time that the priority was stopped in the window, and the pause frames counted in it."),
    Kind(4, "PFC_FRAMES", "pfc", _count("frames", "frames"), _count("transitions", "transitions"),
         "Pause frames and XON-to-XOFF transitions in the window, from a source that knows no duration."),
    Kind(5, "PFC_WATCHDOG", "pfc", Measure("storm", "flag", 0, 1), _count("dropped_packets", "packets"),
         "The PFC watchdog found a storm on the queue (1) or gave it back (0)."),
    Kind(16, "ECN_MARKED", "ecn", _count("marked_packets", "packets"), _count("total_packets", "packets"),
         "Packets marked Congestion Experienced (RFC 3168) in the window, of all that left or came."),
    Kind(17, "CNP", "ecn", _count("cnp_packets", "packets"), NOT_USED,
         "RoCEv2 congestion notification packets in the window; the flow is the one that they slow."),
    Kind(24, "QUEUE_DEPTH", "queue", _count("peak_bytes", "bytes"), _count("mean_bytes", "bytes"),
         "High-water mark and mean of the queue in the window."),
    Kind(25, "QUEUE_DROPS", "queue", _count("dropped_packets", "packets"), _count("dropped_bytes", "bytes"),
         "Packets dropped at the queue in the window."),
    Kind(26, "HEADROOM", "queue", _count("peak_bytes", "bytes"), _count("size_bytes", "bytes"),
         "High-water mark and size of the priority group's headroom in the window."),
    Kind(27, "PORT_BYTES", "queue", _count("bytes", "bytes"), _count("packets", "packets"),
         "Bytes and packets that passed the port in the window, of one priority or of all (255)."),
    Kind(28, "LINK_ERRORS", "queue", _count("errors", "errors"), _code("error_code"),
         "Errors of the link in the window; the code says which (LINK_ERROR_CODES)."),
    Kind(32, "FLOW_BYTES", "flowbytes", _count("bytes", "bytes"), _count("packets", "packets"),
         "Bytes and packets of one flow that left by the port in the window."),
    Kind(40, "PCIE_WIDTH", "pcie", Measure("lanes", "lanes", 0, 64), Measure("max_lanes", "lanes", 0, 64),
         "Width of the narrowest PCIe link between the device and its root port, now and at most."),
    Kind(41, "PCIE_SPEED", "pcie", _count("speed_mts", "MT/s"), _count("max_speed_mts", "MT/s"),
         "Speed of the slowest PCIe link between the device and its root port, now and at most."),
    Kind(42, "PCIE_RATE", "pcie", _count("rate_mbps", "Mb/s"), _count("max_rate_mbps", "Mb/s"),
         "Rate of the PCIe link now and at most, where a source knows only the rate."),
    Kind(43, "PCIE_ERRORS", "pcie", _count("errors", "errors"), _code("error_code"),
         "PCIe errors (AER) in the window; the code says how severe (PCIE_ERROR_CODES)."),
    Kind(44, "PCIE_STALL", "pcie", _ns("stalled_ns"), _count("stalls", "stalls"),
         "Time in the window that the NIC waited for the PCIe link."),
    *_latency_kinds(64, "RUNQUEUE", "run-queue latency"),
    *_latency_kinds(66, "SOFTIRQ", "softirq raise-to-run latency"),
    *_latency_kinds(68, "HARDIRQ", "hardirq handler time"),
    *_latency_kinds(70, "NAPI", "NAPI poll time"),
    *_latency_kinds(72, "BLOCK", "block I/O latency"),
    *_latency_kinds(74, "SOFTIRQ_RUN", "softirq run time"),
    Kind(76, "NAPI_BUDGET", "kernel", _count("exhausted_polls", "polls"), _count("polls", "polls"),
         "NAPI polls in the window that used their whole budget up, of all: the NIC had more than the CPU took."),
    Kind(96, "RDMA_ERRORS", "host", _count("errors", "errors"), _code("error_code"),
         "Errors that the RDMA device counted in the window; the code says which."),
    Kind(97, "MEMORY_ERRORS", "host", _count("errors", "errors"), _code("error_code"),
         "Memory errors (EDAC) in the window; the code says corrected or not (MEMORY_ERROR_CODES)."),
    Kind(98, "CPU_THROTTLE", "host", _count("throttles", "events"), _ns("throttled_ns"),
         "Times that the CPU was throttled in the window, and for how long where known."),
    Kind(99, "PRESSURE", "host", _ns("stalled_ns"), _code("resource_code"),
         "Time in the window that tasks stalled for a resource (PSI); the code says which (PRESSURE_CODES)."),
    Kind(100, "CLOCK_OFFSET", "host", Measure("offset_ns", "ns", -INT64_MAX), _ns("error_ns"),
         "Offset of the host's clock from its reference, and its stated error bound."),
    Kind(101, "TCP_RETRANSMIT", "host", _count("segments", "segments"), NOT_USED,
         "TCP segments of the flow that were sent again in the window."),
    Kind(102, "GPU_ERRORS", "host", _count("errors", "errors"), _code("error_code"),
         "GPU errors (XID, ECC) in the window; the code says which."),
    Kind(103, "GPU_THROTTLE", "host", _ns("throttled_ns"), _code("reason_code"),
         "Time in the window that a GPU's clocks were held down; the code says why."),
    Kind(104, "STEP_TIME", "host", _ns("step_ns"), _count("step", "step"),
         "Length of one training step of the job (flow) as seen by the rank (port)."),
    Kind(105, "COMPUTE_TIME", "host", _ns("compute_ns"), _count("step", "step"),
         "Time of the step from the barrier's release to the end of the rank's own compute."),
    Kind(128, "PAUSE_OPEN", "episode", NOT_USED, _count("order", "ordinal"),
         "A queue was stopped (XOFF), an instant; order counts the pauses of this queue and side from 1."),
    Kind(129, "PAUSE_INTERVAL", "episode", _ns("paused_ns"), _count("order", "ordinal"),
         "A queue was stopped for span_ns and may send again from time_ns on (XON)."),
    Kind(192, "SOURCE_LOST", "", _count("lost_events", "events"), _code("reason_code"),
         "Events that the source lost before they became records; the code says why (LOSS_REASONS)."),
)
# fmt: on

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}
BY_CODE: dict[int, Kind] = {kind.code: kind for kind in KINDS}

PFC_XOFF = BY_NAME["PFC_XOFF"].code
PFC_XON = BY_NAME["PFC_XON"].code
PFC_PAUSED = BY_NAME["PFC_PAUSED"].code
PFC_FRAMES = BY_NAME["PFC_FRAMES"].code
ECN_MARKED = BY_NAME["ECN_MARKED"].code
QUEUE_DEPTH = BY_NAME["QUEUE_DEPTH"].code
PORT_BYTES = BY_NAME["PORT_BYTES"].code
FLOW_BYTES = BY_NAME["FLOW_BYTES"].code
PCIE_WIDTH = BY_NAME["PCIE_WIDTH"].code
PCIE_SPEED = BY_NAME["PCIE_SPEED"].code
PCIE_RATE = BY_NAME["PCIE_RATE"].code
PAUSE_OPEN = BY_NAME["PAUSE_OPEN"].code
PAUSE_INTERVAL = BY_NAME["PAUSE_INTERVAL"].code
SOURCE_LOST = BY_NAME["SOURCE_LOST"].code
LINK_ERRORS = BY_NAME["LINK_ERRORS"].code
STEP_TIME = BY_NAME["STEP_TIME"].code
COMPUTE_TIME = BY_NAME["COMPUTE_TIME"].code

LOSS_REASONS: dict[int, str] = {
    1: "publisher queue full",
    2: "Kafka delivery failed",
    3: "ring buffer full",
    4: "sequence gap at a consumer",
    5: "source not read",
    6: "gNMI message not decoded",
    7: "gNMI stream broken",
}
SOURCE_NOT_READ = 5
"""A source that failed or was held back: how many rows it would have had is a guess, one a window at least."""
LINK_ERROR_CODES: dict[int, str] = {1: "CRC", 2: "FEC corrected", 3: "FEC uncorrected", 4: "symbol", 5: "link down"}
PCIE_ERROR_CODES: dict[int, str] = {1: "corrected", 2: "nonfatal", 3: "fatal"}
"""The severities of Advanced Error Reporting (AER)."""
MEMORY_ERROR_CODES: dict[int, str] = {1: "corrected", 2: "uncorrected"}
PRESSURE_CODES: dict[int, str] = {1: "cpu", 2: "memory", 3: "io", 4: "irq"}
"""The files of /proc/pressure."""
RDMA_ERROR_CODES: dict[int, str] = {
    1: "packet sequence NAK", 2: "RNR NAK", 3: "out of sequence", 4: "ACK timeout", 5: "implied NAK",
    6: "out of buffer", 7: "duplicate request", 8: "retransmission", 9: "slow restart", 10: "ICRC",
    11: "requester", 12: "responder", 13: "discard", 14: "retries exceeded",
}  # fmt: skip
"""1 to 10 as mlx5 names them: packet_seq_err, rnr_nak_retry_err, and so on (probes/drivers)."""
GPU_ERROR_CODES: dict[int, str] = {
    13: "XID 13 (graphics engine exception)", 31: "XID 31 (memory page fault)", 48: "XID 48 (double-bit ECC)",
    63: "XID 63 (row remapped)", 64: "XID 64 (row remapping failed)", 74: "XID 74 (NVLink)",
    79: "XID 79 (fallen off the bus)", 94: "XID 94 (contained ECC)", 95: "XID 95 (uncontained ECC)",
    119: "XID 119 (GSP timeout)", 1001: "ECC corrected", 1002: "ECC uncorrected",
}  # fmt: skip
"""Below 1000 a code is the number of the XID; here are those that mean broken hardware or a job that failed."""
GPU_THROTTLE_CODES: dict[int, str] = {
    1: "power cap", 2: "thermal, software", 3: "thermal, hardware", 4: "power brake", 5: "sync boost",
    6: "hardware slowdown",
}  # fmt: skip
CODES: dict[str, dict[int, str]] = {
    "SOURCE_LOST": LOSS_REASONS, "LINK_ERRORS": LINK_ERROR_CODES, "PCIE_ERRORS": PCIE_ERROR_CODES,
    "RDMA_ERRORS": RDMA_ERROR_CODES, "MEMORY_ERRORS": MEMORY_ERROR_CODES, "PRESSURE": PRESSURE_CODES,
    "GPU_ERRORS": GPU_ERROR_CODES, "GPU_THROTTLE": GPU_THROTTLE_CODES,
}  # fmt: skip
"""By kind, what the codes of its second measure mean, where they have names."""

SIDES: tuple[str, ...] = ("none", "rx", "tx")
SIDE_NONE, SIDE_RX, SIDE_TX = 0, 1, 2
"""rx: a pause frame received (we were told to stop) or ingress; tx: sent (we told the peer to stop) or egress."""

NO_PRIORITY = 255

QUALITY_BITS: tuple[str, ...] = ("EXACT", "RESET", "WRAP", "GAP", "ESTIMATED", "LATE", "CLOCK_SUSPECT")
EXACT, RESET, WRAP, GAP, ESTIMATED, LATE, CLOCK_SUSPECT = (1 << bit for bit in range(7))
