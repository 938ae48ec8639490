"""The flow id: the same 40 bytes and the same hash whoever computes it."""

from __future__ import annotations

import ipaddress
import struct

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stream.flow_id import flow_id, flow_text

# Captures, facts and BPF programs hold these numbers: they never change.
PINNED = (
    (("10.0.0.1", "10.0.0.7", 17, 49152, 4791, 0x1234), "1647800b8585a8ae"),
    (("10.0.0.7", "10.0.0.1", 17, 49152, 4791, 0x1234), "29491d1b3ba0c1a4"),
    (("0.0.0.0", "0.0.0.0", 0, 0, 0, 0), "19979ea3ead47d55"),
    (("255.255.255.255", "255.255.255.255", 255, 65535, 65535, 0xFFFFFF), "c18eb2750e809ce7"),
    (("fd00::1", "fd00::2", 17, 49152, 4791, 17), "08cd70a67c4199a4"),
    (("2001:db8::1", "2001:db8:ffff::2", 6, 443, 50000, 0), "039509820e6df0c9"),
)

PRIME64_1 = 0x9E3779B185EBCA87
MASK = (1 << 64) - 1
# The first 64 bytes of the default secret in the XXH3 specification.
SECRET = struct.unpack(
    "<8Q",
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    ),
)

addresses_v4 = st.ip_addresses(v=4)
ports = st.integers(0, 65535)


def fold(one: int, other: int) -> int:
    product = one * other
    return (product & MASK) ^ (product >> 64)


def xxh3_of_40_bytes(data: bytes) -> int:
    """XXH3-64 of exactly 40 bytes, as its specification words it for 17 to 128 bytes."""
    w = struct.unpack("<5Q", data)
    s = SECRET
    total = 40 * PRIME64_1
    total += fold(w[2] ^ s[4], w[3] ^ s[5]) + fold(w[1] ^ s[6], w[2] ^ s[7])
    total += fold(w[0] ^ s[0], w[1] ^ s[1]) + fold(w[3] ^ s[2], w[4] ^ s[3])
    total &= MASK
    total ^= total >> 37
    total = total * 0x165667919E3779F9 & MASK
    return total ^ (total >> 32)


def forty_bytes(src: str, dst: str, protocol: int, src_port: int, dst_port: int, qpn: int) -> bytes:
    data = bytearray(40)
    for at, text in ((0, src), (16, dst)):
        address = ipaddress.ip_address(text)
        if address.version == 4:
            data[at + 10 : at + 12] = b"\xff\xff"
            data[at + 12 : at + 16] = int(address).to_bytes(4, "big")
        else:
            data[at : at + 16] = int(address).to_bytes(16, "big")
    struct.pack_into(">BHH", data, 32, protocol, src_port, dst_port)
    data[37:40] = struct.pack(">I", qpn)[1:]
    return bytes(data)


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 255), ports, ports, st.integers(0, 2**24 - 1))
def test_a_flow_id_is_xxh3_over_the_forty_bytes_of_the_format(
    src: ipaddress.IPv4Address | ipaddress.IPv6Address,
    dst: ipaddress.IPv4Address | ipaddress.IPv6Address,
    protocol: int,
    src_port: int,
    dst_port: int,
    qpn: int,
) -> None:
    data = forty_bytes(str(src), str(dst), protocol, src_port, dst_port, qpn)
    expected = xxh3_of_40_bytes(data)
    assert xxhash.xxh3_64_intdigest(data) == expected
    assert flow_id(str(src), str(dst), protocol, src_port, dst_port, qpn) == (expected or 1)


@pytest.mark.parametrize(("flow", "text"), PINNED)
def test_known_flows_keep_their_ids(flow: tuple[str, str, int, int, int, int], text: str) -> None:
    assert flow_text(flow_id(*flow)) == text


@given(addresses_v4, addresses_v4, ports, ports)
def test_an_ipv4_address_and_its_mapped_form_are_one_flow(
    src: ipaddress.IPv4Address, dst: ipaddress.IPv4Address, src_port: int, dst_port: int
) -> None:
    plain = flow_id(str(src), str(dst), 17, src_port, dst_port)
    assert flow_id(f"::ffff:{src}", f"::ffff:{dst}", 17, src_port, dst_port) == plain
    assert flow_id(str(src), f"::ffff:{dst}", 17, src_port, dst_port) == plain


def test_a_flow_and_its_way_back_are_two() -> None:
    assert flow_id("10.0.0.1", "10.0.0.2", 17, 4791, 4791) != flow_id("10.0.0.2", "10.0.0.1", 17, 4791, 4791)


def test_a_flow_whose_hash_is_zero_gets_the_id_one() -> None:
    # XXH3 of 40 bytes mixes five words with the secret, two at a time; words that equal the secret make a product 0,
    # which leaves one word to choose such that the sum is 0, and the last scrambling keeps 0.
    s = SECRET
    words = (s[0], s[6], s[4], s[2] ^ 1, s[3] ^ (-40 * PRIME64_1 & MASK))
    data = struct.pack("<5Q", *words)
    assert xxhash.xxh3_64_intdigest(data) == xxh3_of_40_bytes(data) == 0
    src, dst = (str(ipaddress.IPv6Address(data[at : at + 16])) for at in (0, 16))
    protocol, src_port, dst_port = struct.unpack_from(">BHH", data, 32)
    assert flow_id(src, dst, protocol, src_port, dst_port, int.from_bytes(data[37:], "big")) == 1


@pytest.mark.parametrize(
    "flow",
    [
        ("10.0.0.256", "10.0.0.1", 17, 1, 1, 0),
        ("", "10.0.0.1", 17, 1, 1, 0),
        ("10.0.0.1", "leaf-1", 17, 1, 1, 0),
        ("10.0.0.1", "10.0.0.2", 256, 1, 1, 0),
        ("10.0.0.1", "10.0.0.2", -1, 1, 1, 0),
        ("10.0.0.1", "10.0.0.2", 17, 65536, 1, 0),
        ("10.0.0.1", "10.0.0.2", 17, 1, -1, 0),
        ("10.0.0.1", "10.0.0.2", 17, 1, 1, 1 << 24),
    ],
)
def test_a_number_that_does_not_fit_its_field_is_refused(flow: tuple[str, str, int, int, int, int]) -> None:
    with pytest.raises(ValueError):
        flow_id(*flow)
