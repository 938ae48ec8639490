"""How far the host's clock is off: asked of chrony, else of ptp4l, each by its own protocol, else of the kernel.

In: the host. Out: `Offset`, or None where nobody keeps the clock. In a recorded tree the file `clock.json` answers:
{"source": "chrony", "offset_ns": -1200, "error_ns": 90000}. An answer has a deadline of DEADLINE_S.
"""

from __future__ import annotations

import ctypes
import math
import os
import socket
import struct
from contextlib import suppress
from typing import Any, NamedTuple

from probes.host_root import HostRoot
from stream.kinds import UNKNOWN

DEADLINE_S = 0.5
MAX_NS = 1 << 60

CHRONY_PORT = 323
_CHRONY_REQUEST = struct.Struct("!BBBBHHIII")
_CHRONY_REPLY = struct.Struct("!BBBBHHHHHHIII")
_CHRONY_TRACKING = struct.Struct("!I20sHHIIIIIIIIIIII")
_CHRONY_VERSION, _CHRONY_REQUEST_TYPE, _CHRONY_REPLY_TYPE = 6, 1, 2
_REQ_TRACKING, _RPY_TRACKING = 33, 5
_UNSYNCHRONISED = 3
"""The leap status of NTP (RFC 5905, figure 9) that says that nobody keeps the clock."""

PTP_SOCKETS = ("/var/run/ptp4lro", "/var/run/ptp4l", "/run/ptp4l")
_PTP_HEADER = struct.Struct("!BBHBBHQI8sHHBb")
_PTP_MANAGEMENT = struct.Struct("!8sHBBBx")
_PTP_TLV = struct.Struct("!HHH")
_MANAGEMENT_MESSAGE, _MANAGEMENT_TLV, _GET, _RESPONSE = 0xD, 0x0001, 0, 2
_CURRENT_DATA_SET = 0x2001


class Offset(NamedTuple):
    """The clock minus its reference, and the bound of its error, in ns (UNKNOWN where the source states none)."""

    source: str
    offset_ns: int
    error_ns: int


class ClockError(Exception):
    """A daemon gave an answer that makes no sense."""


def clock_offset(host: HostRoot) -> Offset | None:
    """Asks those who may know, the best first."""
    if not host.live:
        return _of_json(host.recorded("/clock.json"))
    for ask in (chrony, ptp4l, kernel):
        with suppress(OSError, ClockError):
            if (found := ask()) is not None:
                return found
    return None


def _of_json(told: Any) -> Offset | None:
    if not isinstance(told, dict):
        return None
    source, offset_ns, error_ns = told.get("source"), told.get("offset_ns"), told.get("error_ns", UNKNOWN)
    if not isinstance(source, str) or type(offset_ns) is not int or type(error_ns) is not int:
        return None
    if abs(offset_ns) > MAX_NS or not (error_ns == UNKNOWN or 0 <= error_ns <= MAX_NS):
        return None
    return Offset(source, offset_ns, error_ns)


def chrony(port: int = CHRONY_PORT) -> Offset | None:
    """What chronyd says of its tracking; None while it follows no source.

    Its command protocol, version 6, over UDP on the loopback. The bound is root dispersion and half the root delay.
    Raises OSError where no chronyd answers, ClockError for nonsense.
    """
    sequence = int.from_bytes(os.urandom(4), "big")
    request = _CHRONY_REQUEST.pack(
        _CHRONY_VERSION, _CHRONY_REQUEST_TYPE, 0, 0, _REQ_TRACKING, 0, sequence, 0, 0
    )  # fmt: skip
    # A request is as long as its reply, so that nobody can be flooded with replies.
    length = _CHRONY_REPLY.size + _CHRONY_TRACKING.size
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
        asked.settimeout(DEADLINE_S)
        asked.connect(("127.0.0.1", port))
        asked.send(request.ljust(length, b"\0"))
        return chrony_reply(asked.recv(2048), sequence)


def chrony_reply(data: bytes, sequence: int) -> Offset | None:
    """What a reply says."""
    if len(data) < _CHRONY_REPLY.size + _CHRONY_TRACKING.size:
        raise ClockError("chronyd's reply is too short")
    version, packet, _, _, command, reply, status, *_, replied, _, _ = _CHRONY_REPLY.unpack_from(data)
    expected = (_CHRONY_VERSION, _CHRONY_REPLY_TYPE, _REQ_TRACKING, _RPY_TRACKING, 0, sequence)
    if (version, packet, command, reply, status, replied) != expected:
        raise ClockError("chronyd's reply is none to this request")
    told = _CHRONY_TRACKING.unpack_from(data, _CHRONY_REPLY.size)
    leap, correction, delay, dispersion = told[3], told[7], told[13], told[14]
    if leap == _UNSYNCHRONISED:
        return None
    # It states by how much the clock is slow.
    offset_ns = -_ns(_chrony_float(correction))
    return Offset("chrony", offset_ns, abs(_ns(_chrony_float(dispersion) + _chrony_float(delay) / 2)))


def _chrony_float(word: int) -> float:
    """Its 32-bit numbers: 7 bits of exponent and 25 of coefficient, both in two's complement."""
    exponent, coefficient = word >> 25, word & 0x1FFFFFF
    exponent -= (exponent & 0x40) << 1
    coefficient -= (coefficient & 0x1000000) << 1
    return math.ldexp(coefficient, exponent - 25)


def _ns(seconds: float) -> int:
    return round(max(min(seconds * 1e9, MAX_NS), -MAX_NS))


def ptp4l() -> Offset | None:
    """What ptp4l says of the clock that it keeps, a NIC's or the host's; None while it follows nobody.

    A management message for CURRENT_DATA_SET (IEEE 1588-2008, 15.5.3.4.1) over its Unix socket. Raises as chrony does.
    """
    found = next((path for path in PTP_SOCKETS if os.access(path, os.F_OK)), None)
    if found is None:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
        asked.settimeout(DEADLINE_S)
        asked.bind("")  # a name of its own in the abstract namespace, to be answered at
        asked.connect(found)
        asked.send(ptp_request())
        return ptp_reply(asked.recv(2048))


def ptp_request() -> bytes:
    """The management message that asks for CURRENT_DATA_SET of any port."""
    tlv = _PTP_TLV.pack(_MANAGEMENT_TLV, 2, _CURRENT_DATA_SET)
    management = _PTP_MANAGEMENT.pack(b"\xff" * 8, 0xFFFF, 0, 0, _GET)
    length = _PTP_HEADER.size + len(management) + len(tlv)
    header = _PTP_HEADER.pack(
        _MANAGEMENT_MESSAGE, 2, length, 0, 0, 0, 0, 0, b"\0" * 8, os.getpid() & 0xFFFF, 0, 4, 0x7F
    )  # fmt: skip
    return header + management + tlv


def ptp_reply(data: bytes) -> Offset | None:
    """What a reply says: the offset from the master, in units of 2^-16 ns."""
    at = _PTP_HEADER.size + _PTP_MANAGEMENT.size
    if len(data) < at + _PTP_TLV.size + 18 or data[0] & 0xF != _MANAGEMENT_MESSAGE:
        raise ClockError("ptp4l's reply is too short")
    action = data[_PTP_HEADER.size + 12] & 0xF
    kind, _, management = _PTP_TLV.unpack_from(data, at)
    if (action, kind, management) != (_RESPONSE, _MANAGEMENT_TLV, _CURRENT_DATA_SET):
        raise ClockError("ptp4l's reply is none to this request")
    steps, offset, _delay = struct.unpack_from("!Hqq", data, at + _PTP_TLV.size)
    if steps == 0:
        return None
    offset_ns = (offset + (1 << 15)) >> 16
    return Offset("ptp4l", max(min(offset_ns, MAX_NS), -MAX_NS), UNKNOWN)


class _Timex(ctypes.Structure):
    """struct timex of linux/timex.h, up to what is read here."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("constant", ctypes.c_long),
        ("room", ctypes.c_char * 256),
    )  # fmt: skip


STA_UNSYNC, STA_NANO = 0x0040, 0x2000


def kernel() -> Offset | None:
    """What the kernel knows from whoever disciplines its clock, such as systemd-timesyncd; None if nobody does."""
    timex = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0 or timex.status & STA_UNSYNC:
        return None
    offset_ns = timex.offset if timex.status & STA_NANO else timex.offset * 1000
    # The kernel's offset is what is still to be added to the clock.
    return Offset("kernel", -offset_ns, timex.maxerror * 1000)
