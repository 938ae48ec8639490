"""Data Center Bridging of an interface (IEEE 802.1Qaz, 802.1Qbb): PFC counters, priority maps, from any driver.

In: an interface's name. Out: `Dcb`, or None where the driver has no DCB. By DCBNL (linux/dcbnl.h); in a recorded tree
the file `dcb/NAME.json` answers: {"pfc": {"pfc_en": 8, "requests": [...], "indications": [...]},
"ets": {"prio_tc": [...]}, "app": [[selector, priority, protocol], ...]}.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from probes.host_root import HostRoot
from probes.netlink import RouteSocket, attribute, attributes
from stream.facts import DSCPS, PRIORITIES, PriorityMaps

RTM_GETDCB = 78
DCB_CMD_IEEE_GET = 21
DCB_ATTR_IFNAME, DCB_ATTR_IEEE = 1, 13
DCB_ATTR_IEEE_ETS, DCB_ATTR_IEEE_PFC, DCB_ATTR_IEEE_APP_TABLE = 1, 2, 3
DCB_ATTR_IEEE_APP = 1
ETHERTYPE_SELECTOR, DSCP_SELECTOR = 1, 5
PFC_FORMAT = "=BBBBH2x8Q8Q"
"""struct ieee_pfc: pfc_cap, pfc_en, mbc, padding, delay, requests, indications."""
PRIO_TC_OFFSET = 3 + 3 * PRIORITIES
"""Of prio_tc in struct ieee_ets: behind willing, ets_cap, cbs, tc_tx_bw, tc_rx_bw and tc_tsa."""


class Pfc(NamedTuple):
    """PFC of a port: the priorities that it is on for, and pause frames sent (`requests`) and received by priority."""

    enabled: int
    requests: tuple[int, ...]
    indications: tuple[int, ...]


class App(NamedTuple):
    """One entry of the application priority table."""

    selector: int
    priority: int
    protocol: int


class Dcb(NamedTuple):
    """What an interface says of DCB; a part that the driver does not tell is None."""

    pfc: Pfc | None
    priority_to_traffic_class: tuple[int, ...] | None
    apps: tuple[App, ...]

    @property
    def dscp_to_priority(self) -> tuple[int, ...] | None:
        """The map of all DSCPs; None where no entry speaks of a DSCP.

        A DSCP without an entry has the table's default priority, which stands under Ethertype 0, else 0.
        """
        by_dscp = {app.protocol: app.priority for app in self.apps if app.selector == DSCP_SELECTOR}
        if not by_dscp:
            return None
        default = next(
            (app.priority for app in self.apps if (app.selector, app.protocol) == (ETHERTYPE_SELECTOR, 0)), 0
        )
        return tuple(by_dscp.get(dscp, default) for dscp in range(DSCPS))


def priority_maps(told: Sequence[Dcb]) -> tuple[PriorityMaps | None, int]:
    """The maps that all NICs of a host which have one agree on, and how many maps they do not agree on."""
    dscp = {each.dscp_to_priority for each in told} - {None}
    classes = {each.priority_to_traffic_class for each in told} - {None}
    maps = PriorityMaps(
        dscp_to_priority=dscp.pop() if len(dscp) == 1 else None,
        priority_to_traffic_class=classes.pop() if len(classes) == 1 else None,
    )
    return (None if maps == PriorityMaps() else maps), (len(dscp) > 1) + (len(classes) > 1)


class DcbReader:
    """Asks for DCB, by name of interface; keeps one socket."""

    def __init__(self, host: HostRoot) -> None:
        self._host = host
        self._socket: RouteSocket | None = None

    def read(self, interface: str) -> Dcb | None:
        """What the interface says; None where its driver has no DCB, or there is no such interface."""
        if not self._host.live:
            return _of_json(self._host.recorded(f"/dcb/{interface}.json"))
        name = attribute(DCB_ATTR_IFNAME, interface.encode() + b"\0")
        try:
            if self._socket is None:
                self._socket = RouteSocket()
            # struct dcbmsg: family, command, padding.
            answer = self._socket.ask(RTM_GETDCB, struct.pack("=BBH", 0, DCB_CMD_IEEE_GET, 0) + name)
        except OSError:
            self.close()
            return None
        return of_message(answer[0]) if answer else None

    def close(self) -> None:
        """Closes the socket; may be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def of_message(body: bytes) -> Dcb | None:
    """What an answer to DCB_CMD_IEEE_GET says; None if it says nothing of IEEE DCB."""
    nested = attributes(body[4:]).get(DCB_ATTR_IEEE)
    if not nested:
        return None
    told = attributes(nested[0])
    pfc = None
    for payload in told.get(DCB_ATTR_IEEE_PFC, ()):
        if len(payload) >= struct.calcsize(PFC_FORMAT):
            numbers = struct.unpack_from(PFC_FORMAT, payload)
            pfc = Pfc(numbers[1], numbers[5:13], numbers[13:21])
    prio_tc = None
    for payload in told.get(DCB_ATTR_IEEE_ETS, ()):
        prio_tc = _map(payload[PRIO_TC_OFFSET : PRIO_TC_OFFSET + PRIORITIES])
    apps: list[tuple[int, ...]] = []
    for table in told.get(DCB_ATTR_IEEE_APP_TABLE, ()):
        entries = attributes(table).get(DCB_ATTR_IEEE_APP, ())
        apps += [struct.unpack_from("=BBH", entry) for entry in entries if len(entry) >= 4]
    return Dcb(pfc, prio_tc, _apps(apps))


def _of_json(told: Any) -> Dcb | None:
    if not isinstance(told, dict):
        return None
    pfc, ets, apps = told.get("pfc"), told.get("ets"), told.get("app")
    counters = None
    if isinstance(pfc, dict):
        requests, indications = _counts(pfc.get("requests")), _counts(pfc.get("indications"))
        if requests and indications and type(pfc.get("pfc_en")) is int:
            counters = Pfc(pfc["pfc_en"] & 0xFF, requests, indications)
    prio_tc = _map(ets.get("prio_tc")) if isinstance(ets, dict) else None
    return Dcb(counters, prio_tc, _apps(apps if isinstance(apps, list) else ()))


def _counts(told: Any) -> tuple[int, ...] | None:
    if not isinstance(told, list) or len(told) != PRIORITIES:
        return None
    return tuple(told) if all(type(count) is int and 0 <= count < 1 << 64 for count in told) else None


def _map(told: Any) -> tuple[int, ...] | None:
    if not isinstance(told, list | bytes) or len(told) != PRIORITIES:
        return None
    return tuple(told) if all(type(to) is int and 0 <= to < PRIORITIES for to in told) else None


def _apps(told: Sequence[Any]) -> tuple[App, ...]:
    """The entries that make sense."""
    found = []
    for entry in told:
        if isinstance(entry, list | tuple) and len(entry) == 3 and all(type(number) is int for number in entry):
            app = App(*entry)
            most = DSCPS if app.selector == DSCP_SELECTOR else 1 << 16
            if 0 <= app.priority < PRIORITIES and 0 <= app.protocol < most:
                found.append(app)
    return tuple(found)
