"""When two spellings are one name: the normal forms ("keys") of device and port names.

In: names as inventories, LLDP, kernels and switches write them. Out: keys that are equal where the names mean the same.
"""

from __future__ import annotations

import re

_LOWER = {ord(upper): upper.lower() for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}

_MAC_OF_OCTETS = re.compile(r"[0-9a-f]{1,2}([:-])[0-9a-f]{1,2}(?:\1[0-9a-f]{1,2}){4}(?:\1[0-9a-f]{1,2}){0,2}")
_MAC_OF_WORDS = re.compile(r"[0-9a-f]{4}(?:\.[0-9a-f]{4}){2,3}")
_MAC_PLAIN = re.compile(r"[0-9a-f]{12}|[0-9a-f]{16}")
_SHORTEST_MAC, _LONGEST_MAC = len("0:0:0:0:0:0"), len("00:00:00:00:00:00:00:00")
_MAC_DIGITS = (12, 16)
"""EUI-48 and EUI-64."""

_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])")

# A name, a slash and a number are an RDMA device and its port only where the name is one: `Eth1/1` is a switch's port.
# These are the drivers' own names and those that rdma-core gives by place (rocep65s0f0, ibp65s0).
_RDMA = re.compile(
    r"((?:mlx\d+_|bnxt_re|bng_re|irdma|i40iw|qedr|hns_|hfi\d_|qib|efa_|erdma_|mana_|ionic_|cxgb4_|ocrdma|usnic_|"
    r"vmw_pvrdma|rxe|siw|roce[poPsx]|ib[posx]|iw[posx])\w*)(?:/(\d{1,3}))?"
)


def fold(name: str) -> str:
    """The name with A-Z as a-z, and no other letter changed: what Unicode calls lower case varies with its version."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def mac_digits(name: str) -> str:
    """The hexadecimal digits of a MAC address however it is written, "" for any other name."""
    if not _SHORTEST_MAC <= len(name) <= _LONGEST_MAC:
        return ""
    text = fold(name)
    if _MAC_OF_OCTETS.fullmatch(text):
        digits = "".join(octet.zfill(2) for octet in re.split("[:-]", text))
    elif _MAC_OF_WORDS.fullmatch(text) or _MAC_PLAIN.fullmatch(text):
        digits = text.replace(".", "")
    else:
        return ""
    return digits if len(digits) in _MAC_DIGITS else ""


def own_keys(name: str) -> tuple[str, ...]:
    """The keys that any name has: its letters whatever their case, and the digits of a MAC address."""
    mac = mac_digits(name)
    return (f"={fold(name)}", f"mac {mac}") if mac else (f"={fold(name)}",)


def device_keys(name: str) -> tuple[str, ...]:
    """The keys of a device's name: a dot that ends it says that it is whole, and is no part of it (RFC 1034, 3.1)."""
    return own_keys(name.rstrip(".") or name)


def told_port_keys(name: str) -> tuple[str, ...]:
    """The keys under which a port that a fact names so is found.

    An RDMA device named without a port is its port 1, a PCI address without a domain is in domain 0.
    """
    keys = own_keys(name)
    if ":" in name and (pci := _PCI.fullmatch(fold(name))):
        keys += (f"pci {int(pci[1] or '0', 16):x}:{pci[2]}", f"pci *:{pci[2]}")
    if rdma := _RDMA.fullmatch(name):
        keys += (f"rdma {rdma[1]}/{int(rdma[2] or 1)}", f"rdma {rdma[1]}")
    return keys


def asked_port_keys(name: str) -> tuple[str, ...]:
    """The keys that a row's or link's port name is looked up by: one that leaves a part out fits every value of it."""
    keys = own_keys(name)
    if ":" in name and (pci := _PCI.fullmatch(fold(name))):
        keys += (f"pci {int(pci[1], 16):x}:{pci[2]}" if pci[1] else f"pci *:{pci[2]}",)
    if rdma := _RDMA.fullmatch(name):
        keys += (f"rdma {rdma[1]}/{int(rdma[2])}" if rdma[2] else f"rdma {rdma[1]}",)
    return keys


def host_label(name: str) -> tuple[str, bool]:
    """The first label of a device's name, and whether a domain follows it; ("", False) for a number or IP address."""
    text = fold(name).rstrip(".")
    label, dot, _ = text.partition(".")
    return ("", False) if label.isdigit() or not label or ":" in text else (label, bool(dot))
