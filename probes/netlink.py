"""Route netlink in as few lines as it takes: DCB settings and counters of an interface, and the host's addresses.

In: a request. Out: attributes, as the kernel nests them. It is spoken over the standard library's socket: pyroute2 has
no DCB messages, and would cost an agent 24 MB.
"""

from __future__ import annotations

import os
import socket
import struct

NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NESTED_OR_ORDERED = 0xC000
"""Bits of an attribute's type that are not the type."""
DEADLINE_S = 2.0
MAX_MESSAGES = 100_000

Attributes = dict[int, list[bytes]]
"""By type, the payloads in the order in which they came."""


class NetlinkError(OSError):
    """The kernel said no, with its errno."""


class RouteSocket:
    """A netlink socket of the family route; every answer has a deadline."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(DEADLINE_S)
        self._socket.bind((0, 0))
        self._seq = 0

    def ask(self, message_type: int, body: bytes, *, dump: bool = False, flags: int = 0) -> list[bytes]:
        """The bodies of the messages that answer a request; of one without an answer, `flags` must ask for an ACK.

        Raises NetlinkError, or TimeoutError after DEADLINE_S.
        """
        self._seq += 1
        flags |= NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
        self._socket.send(struct.pack("=IHHII", 16 + len(body), message_type, flags, self._seq, 0) + body)
        found: list[bytes] = []
        while len(found) < MAX_MESSAGES:
            data = self._socket.recv(1 << 18)
            at = 0
            while at + 16 <= len(data):
                length, kind, _, seq, _ = struct.unpack_from("=IHHII", data, at)
                if not 16 <= length <= len(data) - at:
                    break
                body = data[at + 16 : at + length]
                at += -(-length // 4) * 4
                if seq != self._seq:
                    continue  # the answer to a request that timed out
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    if code:
                        raise NetlinkError(code, os.strerror(code))
                    return found
                if kind == NLMSG_DONE:
                    return found
                found.append(body)
                if not dump:
                    return found
        raise NetlinkError(0, "an answer without an end")

    def close(self) -> None:
        """Closes it; may be called twice."""
        self._socket.close()


def attribute(kind: int, payload: bytes) -> bytes:
    """An attribute as it stands in a message."""
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def attributes(data: bytes) -> Attributes:
    """The attributes that some bytes hold; what does not fit its stated length ends them."""
    found: Attributes = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if not 4 <= length <= len(data) - at:
            break
        found.setdefault(kind & ~NESTED_OR_ORDERED, []).append(data[at + 4 : at + length])
        at += -(-length // 4) * 4
    return found
