"""Two spellings have a key in common where they mean one name, and none where they do not."""

from __future__ import annotations

import pytest

from stream.spellings import asked_port_keys, device_keys, fold, host_label, mac_digits, told_port_keys

MAC = "98039b00a10c"
SPELLINGS = (
    "98:03:9b:00:a1:0c", "98-03-9B-00-A1-0C", "9803.9b00.a10c", "98039B00A10C", "98:3:9b:0:a1:c",
)  # fmt: skip


def meet(told: str, asked: str) -> bool:
    return not set(told_port_keys(told)).isdisjoint(asked_port_keys(asked))


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_mac_address_is_the_same_however_it_is_written(text: str) -> None:
    assert mac_digits(text) == MAC
    assert all(meet(text, other) and meet(other, text) for other in SPELLINGS)


def test_an_eui_64_is_a_mac_address_and_names_like_one_are_not() -> None:
    assert mac_digits("98:03:9b:ff:fe:00:a1:0c") == mac_digits("98039bfffe00a10c") == "98039bfffe00a10c"
    for text in (
        "98:03:9b:00:a1",
        "98:03:9b:00:a1:0c:01",
        "98:03-9b:00-a1:0c",
        "9803.9b00",
        "0000:41:00.0",
        "eth0",
        "",
    ):
        assert mac_digits(text) == ""


@pytest.mark.parametrize(
    ("told", "asked", "same"),
    [
        ("0000:41:00.0", "41:00.0", True),
        ("41:00.0", "0000:41:00.0", True),
        ("0000:C1:00.1", "0:c1:00.1", True),
        ("0001:41:00.0", "41:00.0", True),
        ("0001:41:00.0", "0000:41:00.0", False),
        ("41:00.0", "0001:41:00.0", False),
        ("0000:41:00.0", "0000:41:00.1", False),
        ("mlx5_0", "mlx5_0/1", True),
        ("mlx5_0/1", "mlx5_0", True),
        ("mlx5_0/2", "mlx5_0", True),
        ("mlx5_0", "mlx5_0/2", False),
        ("mlx5_0", "mlx5_1", False),
        ("mlx5_1", "mlx5_10", False),
        ("rocep65s0f0", "rocep65s0f0/1", True),
        ("bnxt_re0", "bnxt_re0/1", True),
        ("Ethernet0", "ethernet0", True),
        ("Eth1/1", "ETH1/1", True),
        ("Eth1", "Eth1/1", False),
        ("Eth1/1", "Ethernet1/1", False),
        ("eth0", "eth00", False),
    ],
)
def test_names_of_ports_meet_where_they_mean_the_same(told: str, asked: str, same: bool) -> None:
    assert meet(told, asked) is same


def test_letters_alone_lose_their_case_and_only_those_of_ascii() -> None:
    assert fold("LEAF-1.Example.NET") == "leaf-1.example.net"
    # Lower-casing these is another thing in another version of Unicode, or makes another number of letters of them.
    assert fold("İßÄ") == "İßÄ"
    assert set(device_keys("Leaf-1.")) == set(device_keys("leaf-1"))
    assert device_keys(".") == ("=.",)


def test_the_first_label_of_a_host_and_whether_a_domain_follows() -> None:
    assert host_label("Host-7.example.net") == ("host-7", True)
    assert host_label("HOST-7") == ("host-7", False)
    assert host_label("host-7.") == ("host-7", False)
    for address in ("10.0.0.7", "fd00::7", "::ffff:10.0.0.7", "", "."):
        assert host_label(address) == ("", False)
