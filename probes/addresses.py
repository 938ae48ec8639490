"""The IP addresses of a host by interface.

In: the host. Out: addresses as text, link-local ones left out. By netlink; in a recorded tree the file `addresses.json`
answers: {"ens1f0np0": ["10.0.0.1", "2001:db8::1"]}.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address

from probes.host_root import HostRoot
from probes.netlink import RouteSocket, attributes

RTM_GETADDR = 22
IFA_ADDRESS, IFA_LOCAL = 1, 2
LENGTHS = {int(socket.AF_INET): 4, int(socket.AF_INET6): 16}
MAX_ADDRESSES = 200
"""Of an interface; a host with containers may have thousands, which name no port."""


def addresses(host: HostRoot) -> dict[str, tuple[str, ...]]:
    """The addresses of all interfaces; nothing where the kernel does not say."""
    if not host.live:
        told = host.recorded("/addresses.json")
        found = told if isinstance(told, dict) else {}
        listed = {name: each for name, each in found.items() if isinstance(each, list)}
        return {name: _kept([text for text in each if isinstance(text, str)]) for name, each in listed.items()}
    try:
        asked = RouteSocket()
    except OSError:
        return {}
    try:
        answers = asked.ask(RTM_GETADDR, struct.pack("=BBBBI", socket.AF_UNSPEC, 0, 0, 0, 0), dump=True)
    except OSError:
        return {}
    finally:
        asked.close()
    by_index: dict[int, list[str]] = {}
    for body in answers:
        if len(body) < 8:
            continue
        family, index = body[0], struct.unpack_from("=I", body, 4)[0]
        told_of = attributes(body[8:])
        # On a point-to-point link IFA_ADDRESS is the peer's.
        for raw in (told_of.get(IFA_LOCAL) or told_of.get(IFA_ADDRESS) or [])[:1]:
            if len(raw) == LENGTHS.get(family):
                by_index.setdefault(index, []).append(socket.inet_ntop(family, raw))
    names: dict[str, tuple[str, ...]] = {}
    for index, each in by_index.items():
        try:
            names[socket.if_indextoname(index)] = _kept(each)
        except OSError:
            continue  # gone since
    return names


def _kept(texts: list[str]) -> tuple[str, ...]:
    kept = []
    for text in texts:
        try:
            address = ip_address(text)
        except ValueError:
            continue
        if not (address.is_link_local or address.is_loopback or address.is_unspecified):
            kept.append(str(address))
    return tuple(sorted(kept)[:MAX_ADDRESSES])
