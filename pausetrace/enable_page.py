"""The page docs/what-to-enable.md: what to switch on at switches and NICs, by vendor, and which verdicts that gives.

`python -m pausetrace.enable_page > docs/what-to-enable.md` writes it from the collectors' profiles and the probes'
tables of drivers; a test holds the page to them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from collectors import profiles
from collectors.profile import Profile, Row
from probes.drivers import DRIVERS
from probes.drivers.mapped import Mapped
from stream.kinds import BY_CODE, PORT_BYTES, SIDE_RX

_HEAD = """\
# What to switch on

Switches and NICs tell what they are told to tell. This page says, by vendor, what has to be on, what Pausetrace then
sees, and how far a verdict can go on it. It is made by `python -m pausetrace.enable_page` from the profiles
([profile-tables.md](profile-tables.md)) and the drivers' tables ([pollers.md](pollers.md)); a test holds it to them.

Everywhere: a gNMI server and a user that may read ([collectors.md](collectors.md)), LLDP, one clock (PTP or NTP) on
all devices, and an `interval` of `1s` or less. A switch whose counters come every ten seconds gives its verdict ten
times later: **at least three polls have to see pause before anything more than a suspect set is said**."""

_VERDICTS = """\
## What each piece is good for

| evidence | without it |
| --- | --- |
| how long queues were stopped | it is estimated from pause frames: the root is named, mostly as a suspect set, since nobody knows whether a stop took 3 us or 300 |
| how often (pause frames), by priority | no cascade: nobody was seen to stop anybody. Frames of all priorities together cannot tell a lossless queue from another |
| pause frames **sent** | polls of devices at different times are joined less well, and a switch that is silent cannot be made good by its neighbours |
| depth of egress queues (peak) | among the egress queues of a switch that stops others, it is less clear which one was full; ECN marks and bytes stand in |
| ECN marks | depths have no stand-in where a switch does not tell them, and advice on thresholds is not given |
| bytes by queue | how much each input fed the queue that was full is taken to be alike |
| PFC watchdog | storms and deadlocks are told by their pauses alone |
| neighbours | who is joined to whom has to come from a file ([topology.md](topology.md)); without both, nothing is found |
| probes on hosts | a host that stops its switch is named, but not why: `slow_receiver_pcie` and `slow_receiver_host` need `pcie`, `ethtool` and the kernel's probes |

`pausetrace collect check FILE TARGET` tries each path of a switch and says which metrics it gives; `pausetrace probe
--list` does so for a host."""  # noqa: E501 - lines of a table

SWITCHES = {
    "openconfig": "queue statistics of `openconfig-qos`; there is no model of PFC: without one of the vendor's own, "
    "only pause frames of IEEE 802.3x are seen",
    "sonic": "the `gnmi` (or `telemetry`) feature; `counterpoll port enable`, `counterpoll queue enable`, `counterpoll "
    "watermark enable`, ECN counters of queues (`WRED_ECN_QUEUE`), `pfcwd start`; queues are polled every 10 s and "
    "watermarks every 60 s by default: `counterpoll queue interval 1000`, `counterpoll watermark interval 1000`, and "
    "`intervals` in the inventory ([collectors.md](collectors.md#intervals-of-the-switch-itself)). Where the chip has "
    "no pause time: PFC historical statistics",
    "arista-eos": "`management api gnmi` with `provider eos-native` (for LANZ: `queue-monitor length`); an EOS of 2025 "
    "or later for pause time; the PFC watchdog",
    "cisco-nxos": "`feature grpc`, `feature lldp`; a queuing policy with the lossless class at every port, which is "
    "what counts; the PFC watchdog",
    "juniper-junos": "gRPC with `openconfig` and native sensors; nothing comes more often than every 2 s",
    "nokia-srlinux": "the gRPC server; statistics of PFC where the platform has them; `queue-depth-sampling` for "
    "depths",
    "nvidia-cumulus": "the gNMI server, which excludes OTLP export; release 5.16 for pause time",
}
"""By profile."""
NICS = {
    "mlx5_core": "PFC on the lossless priority (`mlnx_qos` or `dcb pfc`); nothing else",
    "bnxt_en": "PFC on the lossless priority (`dcb pfc`); firmware that counts pause time",
    "ice": "PFC on the lossless priority (`dcb pfc`); RDMA by irdma for ECN and CNPs",
}
"""By driver."""

_COLUMNS = ("stopped: how long", "how often", "depth", "ECN marks", "bytes", "watchdog", "neighbours")


def page() -> str:
    """The whole page."""
    switches = [_switch(name, _of_profile(profiles.load(name))) for name in profiles.names()]
    nics = [_nic(name, _of_driver(name)) for name in DRIVERS]
    head = ("profile or driver", "switch on", *_COLUMNS, "a cascade is told as")
    table = "\n".join([_joined(head), _joined(("---",) * len(head)), *switches, *nics])
    return "\n\n".join([_HEAD, "## By vendor", table, _VERDICTS]) + "\n"


def _switch(name: str, told: tuple[str, ...]) -> str:
    timed, frames = told[:2]
    if timed:
        so = "a verdict, from three polls with pause on"
    elif frames == "all priorities":
        so = "a suspect set, of all priorities together"
    else:
        so = "a suspect set: stops are counted, not timed"
    return _joined((f"`{name}`", SWITCHES[name], *(each or "-" for each in told), so))


def _nic(name: str, told: tuple[str, ...]) -> str:
    so = "its own stops, and for how long" if told[0] else "its own stops, how many"
    return _joined((f"NIC `{name}`", NICS[name], *(each or "-" for each in told), so))


def _of_profile(profile: Profile) -> tuple[str, ...]:
    """What the rows of a profile tell, in the order of the columns; "" is nothing."""
    paused, frames = _rows(profile, "PFC_PAUSED.paused_ns"), _rows(profile, "PFC_FRAMES.frames")
    return (
        "by priority" if any(row.side == "rx" and _by_queue(row) for row in paused) else "",
        "by priority" if any(map(_by_queue, frames)) else "all priorities" if frames else "",
        _depth(profile),
        "by queue" if any(map(_by_queue, _rows(profile, "ECN_MARKED.marked_packets"))) else "",
        "by queue" if any(map(_by_queue, _rows(profile, "PORT_BYTES.bytes"))) else "by port",
        "yes" if _rows(profile, "PFC_WATCHDOG.storm") else "",
        "LLDP" if any(fact.says == "peer_device" for fact in profile.fact) else "",
    )


def _rows(profile: Profile, measure: str) -> list[Row]:
    return [row for row in profile.row if measure in row.into]


def _by_queue(row: Row) -> bool:
    return any("{priority}" in path or "{queue" in path for path in row.paths)


def _depth(profile: Profile) -> str:
    peaks = [row for row in _rows(profile, "QUEUE_DEPTH.peak_bytes") if row.side == "tx" and _by_queue(row)]
    if peaks and all("virtual-output" in path for row in peaks for path in row.paths):
        return "peak of VOQs alone"
    if peaks:
        window_ms = min(row.window_ms for row in peaks)
        return f"peak of {window_ms // 1000} s" if window_ms else "peak"
    if any(record.into == "QUEUE_DEPTH.peak_bytes" for record in profile.record):
        return "congested queues alone"
    return "now and then" if _rows(profile, "QUEUE_DEPTH.mean_bytes") else ""


def _of_driver(name: str) -> tuple[str, ...]:
    driver = DRIVERS[name]

    def told(kind: str, measure: str, wanted: Callable[[Mapped], bool] = lambda _: True) -> bool:
        return any(map(wanted, _mapped(name, kind, measure)))

    own = driver.statistics
    return (
        "by priority" if told("PFC_PAUSED", "paused_ns", lambda each: "{p}" in each.name) else "",
        "by priority" if told("PFC_PAUSED", "xoff_frames") or told("PFC_FRAMES", "frames") else "",
        "",
        "of the NIC" if told("ECN_MARKED", "marked_packets", lambda each: each.side == SIDE_RX) else "",
        "by priority" if any("{p}" in each.name and each.kind == PORT_BYTES for each in own) else "by port",
        "",
        "",
    )


def _mapped(driver: str, kind: str, measure: str) -> Iterator[Mapped]:
    for each in (*DRIVERS[driver].statistics, *DRIVERS[driver].hw_counters):
        of = BY_CODE[each.kind]
        if of.name == kind and (of.value, of.extra)[each.measure].name == measure:
            yield each


def _joined(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(page())
