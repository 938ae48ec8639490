"""Attaches loaded programs, each in the way that leaves nothing behind, and finds what a crash left all the same.

In: file descriptors of programs. Out: file descriptors of links, which detach when they are closed, also by a crash; a
clsact filter has none: it bears a handle of ours, which its agent claims for as long as it lives, so that the next one
to start knows what a dead one left, and removes that alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import NamedTuple

from probes import bpf_call
from probes.bpf_call import bpf
from probes.netlink import NetlinkError, RouteSocket, attribute, attributes
from stream.errors import PausetraceError
from stream.kinds import SIDE_RX, SIDE_TX, SIDES

ATTACH_MODES = ("auto", "tcx", "clsact", "xdp-generic")
"""How packets are looked at. auto: tcx (Linux 6.6), else clsact. Generic XDP sees GSO packets as one, and only those
that come in, so that it serves for pause frames alone."""

_TCX = {SIDE_RX: 46, SIDE_TX: 47}
_XDP, _XDP_GENERIC = 37, 1 << 1
_BEFORE_ALL = 1 << 3  # BPF_F_BEFORE without another program to stand before
_NEW_QDISC, _DELETE_QDISC = 36, 37
_NEW_FILTER, _DELETE_FILTER, _GET_FILTER = 44, 45, 46
_ACK, _EXCLUSIVE, _CREATE = 0x4, 0x200, 0x400
_KIND, _OPTIONS = 1, 2
_BPF_FD, _BPF_NAME, _BPF_FLAGS, _DIRECT_ACTION = 6, 7, 8, 1
_CLSACT_PARENT = 0xFFFFFFF1
_CLSACT_SIDES = {SIDE_RX: 0xFFFFFFF2, SIDE_TX: 0xFFFFFFF3}
_ETH_P_ALL = 0x0003
HANDLE, HANDLES = 0x50545200, 256
"""The first of our clsact filters' handles ("PTR" and a number). A filter is ours if it has such a handle, our
preference and our name."""
PREFERENCE = 1
_NAME = b"pausetrace"
_OURS = range(HANDLE, HANDLE + HANDLES)
_WHERE = PREFERENCE << 16 | socket.htons(_ETH_P_ALL)


class Attached:
    """One program at one place; `where` says so for people."""

    def __init__(self, where: str, link_fd: int = -1, clsact: _Clsact | None = None) -> None:
        self.where = where
        self._link_fd, self._clsact = link_fd, clsact

    def holds(self) -> bool:
        """Whether the program is still there: it goes with its interface, and others can take a filter away."""
        if self._clsact is not None:
            return self._clsact.holds()
        return self._link_fd >= 0 and bpf_call.link_target(self._link_fd) != 0

    def close(self) -> None:
        """Detaches; may be called twice."""
        if self._link_fd >= 0:
            os.close(self._link_fd)
            self._link_fd = -1
        if self._clsact is not None:
            try:
                self._clsact.remove()
            finally:
                self._clsact.give_up()
                self._clsact = None


def attach_tracepoint(program_fd: int, tracepoint: str) -> Attached:
    """Attaches to a raw tracepoint. Raises OSError."""
    name = ctypes.create_string_buffer(tracepoint.encode())
    attributes = bytearray(struct.pack("=QII", ctypes.addressof(name), program_fd, 0))
    return Attached(f"tracepoint {tracepoint}", bpf(bpf_call.RAW_TRACEPOINT_OPEN, attributes))


def attach_packets(ingress_fd: int, egress_fd: int, xdp_fd: int, interface: str, mode: str) -> list[Attached]:
    """Attaches to both sides of an interface, or with generic XDP to what comes in. Raises OSError."""
    if mode not in ATTACH_MODES:
        raise PausetraceError(f"{mode} is no way to attach", f"choose one of {', '.join(ATTACH_MODES)}")
    index = socket.if_nametoindex(interface)
    sides = {SIDE_RX: ingress_fd, SIDE_TX: egress_fd}
    if mode == "xdp-generic":
        return [Attached(f"xdp-generic {interface}", _link(xdp_fd, index, _XDP, _XDP_GENERIC))]
    done: list[Attached] = []
    try:
        if mode != "clsact":
            try:
                for side, fd in sides.items():
                    done.append(Attached(f"tcx {interface} {SIDES[side]}", _link(fd, index, _TCX[side], _BEFORE_ALL)))
                return done
            except OSError as error:
                # Linux before 6.6 knows no such link and calls it invalid.
                if mode == "tcx" or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
        for side, fd in sides.items():
            clsact = _Clsact(index, side)
            clsact.put(fd)
            done.append(Attached(f"clsact {interface} {SIDES[side]}", clsact=clsact))
    except BaseException:
        for each in done:
            each.close()
        raise
    return done


def _link(program_fd: int, index: int, attach_type: int, flags: int) -> int:
    # prog_fd, target_ifindex, attach_type, flags; then relative_fd and expected_revision, which 0 leaves out.
    return bpf(bpf_call.LINK_CREATE, bytearray(struct.pack("=IIIIQQ", program_fd, index, attach_type, flags, 0, 0)))


class Leftover(NamedTuple):
    """A clsact filter of ours whose agent does not live any more."""

    interface: str
    side: int
    handle: int

    def __str__(self) -> str:
        return f"clsact filter {_NAME.decode()} on {self.interface} {SIDES[self.side]} (handle {self.handle:#x})"


def leftovers(*, remove: bool = False) -> list[Leftover]:
    """The clsact filters that dead agents left on interfaces of this network namespace; removes them if asked to."""
    found = []
    for index, name in socket.if_nameindex():
        for side in _CLSACT_SIDES:
            clsact = _Clsact(index, side)
            for handle in clsact.handles():
                if not clsact.claim(handle):
                    continue
                try:
                    if remove:
                        clsact.remove()
                    found.append(Leftover(name, side, handle))
                finally:
                    clsact.give_up()
    return found


class _Clsact:
    """A filter of ours at one side of an interface's clsact qdisc (net/sched/cls_bpf.c).

    A handle is claimed by an abstract socket (unix(7)): it belongs to the network namespace, as the filter does, and
    goes with the process that holds it.
    """

    def __init__(self, index: int, side: int) -> None:
        self._index, self._side, self._parent = index, side, _CLSACT_SIDES[side]
        self._handle = 0
        self._claim: socket.socket | None = None

    def claim(self, handle: int) -> bool:
        """Takes the handle, unless a process that lives has it."""
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0pausetrace clsact {self._index} {self._side} {handle:#x}")
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        self._handle, self._claim = handle, claim
        return True

    def give_up(self) -> None:
        """Leaves the handle to others."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def put(self, program_fd: int) -> None:
        """Puts the program there, beside those of agents that live; makes the qdisc where there is none."""
        for handle in _OURS:
            if not self.claim(handle):
                continue
            try:
                self._put(program_fd)
            except BaseException as error:
                self.give_up()
                # A filter of somebody else's that has the handle stays.
                if not isinstance(error, NetlinkError) or error.errno != errno.EEXIST:
                    raise
            else:
                return
        raise OSError(errno.EBUSY, f"{HANDLES} agents are there already")

    def _put(self, program_fd: int) -> None:
        qdisc = self._message(0xFFFF0000, _CLSACT_PARENT, 0) + attribute(_KIND, b"clsact\0")
        options = attribute(_BPF_FD, struct.pack("=I", program_fd)) + attribute(_BPF_NAME, _NAME + b"\0")
        options += attribute(_BPF_FLAGS, struct.pack("=I", _DIRECT_ACTION))
        described = self._filter() + attribute(_KIND, b"bpf\0") + attribute(_OPTIONS, options)
        route = RouteSocket()
        try:
            try:
                route.ask(_NEW_QDISC, qdisc, flags=_ACK | _CREATE | _EXCLUSIVE)
            except NetlinkError as error:
                if error.errno != errno.EEXIST:
                    raise
            route.ask(_NEW_FILTER, described, flags=_ACK | _CREATE | _EXCLUSIVE)
        finally:
            route.close()

    def remove(self) -> None:
        """Removes the filter; what has gone already is gone. The qdisc stays: others may have come to use it."""
        route = RouteSocket()
        try:
            try:
                route.ask(_DELETE_FILTER, self._filter() + attribute(_KIND, b"bpf\0"), flags=_ACK)
            except NetlinkError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EINVAL):
                    raise
        finally:
            route.close()

    def holds(self) -> bool:
        """Whether the filter is there."""
        return self._handle in self.handles()

    def handles(self) -> list[int]:
        """Handles of our filters at this side."""
        route = RouteSocket()
        try:
            answers = route.ask(_GET_FILTER, self._message(0, self._parent, 0), dump=True)
        except NetlinkError:
            return []  # it has no clsact
        finally:
            route.close()
        found = []
        for body in answers:
            handle, parent, information = struct.unpack_from("=III", body, 8)
            told = attributes(body[20:])
            options = attributes(told[_OPTIONS][0]) if _OPTIONS in told else {}
            where = (parent, information, told.get(_KIND), options.get(_BPF_NAME))
            if where == (self._parent, _WHERE, [b"bpf\0"], [_NAME + b"\0"]) and handle in _OURS:
                found.append(handle)
        return found

    def _filter(self) -> bytes:
        return self._message(self._handle, self._parent, _WHERE)

    def _message(self, handle: int, parent: int, information: int) -> bytes:
        """Struct tcmsg."""
        return struct.pack("=BxxxiIII", socket.AF_UNSPEC, self._index, handle, parent, information)
