"""The flow id: XXH3-64 over the 5-tuple and destination QPN, 40 bytes in network order and data direction.

The same number is computed by the BPF programs; a hash of 0 becomes 1, since 0 means no flow.
"""

from __future__ import annotations

import ipaddress

import xxhash


def flow_id(src_ip: str, dst_ip: str, protocol: int, src_port: int, dst_port: int, qpn: int = 0) -> int:
    """Flow id of a 5-tuple (IPv4 addresses are IPv4-mapped, RFC 4291 2.5.5.2) and a 24-bit destination QPN.

    Raises ValueError for an address or number that does not fit its field.
    """
    packed = _address(src_ip) + _address(dst_ip)
    packed += protocol.to_bytes(1, "big") if 0 <= protocol < 256 else _reject("protocol", protocol)
    packed += src_port.to_bytes(2, "big") if 0 <= src_port < 65536 else _reject("src_port", src_port)
    packed += dst_port.to_bytes(2, "big") if 0 <= dst_port < 65536 else _reject("dst_port", dst_port)
    packed += qpn.to_bytes(3, "big") if 0 <= qpn < 1 << 24 else _reject("qpn", qpn)
    return xxhash.xxh3_64_intdigest(packed) or 1


def job_id(job: str) -> int:
    """The flow of a job's STEP_TIME and COMPUTE_TIME: XXH3-64 of its name, 1 for a hash of 0."""
    return xxhash.xxh3_64_intdigest(job.encode()) or 1


def flow_text(flow: int) -> str:
    """A flow id for people and JSON: 16 hex digits."""
    return f"{flow:016x}"


def _address(text: str) -> bytes:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv4Address):
        return bytes(10) + b"\xff\xff" + address.packed
    return address.packed


def _reject(field: str, number: int) -> bytes:
    raise ValueError(f"{field} {number} does not fit its field")
