"""What a run of the fabric is made with: buffers, thresholds, marks, rate control, and how fine time is cut.

In: nothing. Out: `Settings`, whose defaults are those of fleets of 100 Gb/s.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream.errors import ConfigError

LINE_MBPS = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Levels are choices; docs/simulation.md says which of them were held against packet-level runs."""

    tick_ns: int = 500
    """Length of a tick; 200 where counts of XOFF matter."""
    seed: int = 1
    buffer_bytes: int = 12_000_000
    """Of each switch, shared by all ports."""
    nic_buffer_bytes: int = 512_000
    line_mbps: int = LINE_MBPS
    """Of a NIC: DCQCN's greatest rate, and the port speed whose threshold is 1/8 of what is free."""
    payload_bytes: int = 4096
    header_bytes: int = 62
    acks: bool = False
    """Whether each packet is acknowledged on a way of its own; if not, notifications take the base delay."""
    dcqcn: bool = True
    kmin_bytes: int = 400_000
    """Depth from which packets are marked, at 100 Gb/s; it scales with a port's speed, as does the next."""
    kmax_bytes: int = 1_600_000
    mark_ratio: float = 0.2
    priorities: tuple[int, ...] = (3,)
    """The lossless classes; a flow's `priority` is a place in this."""
    pause_quanta: int = 0
    """Bit times of 512 after which a pause runs out unless it is sent again; 0: it holds until XON."""
    contents: bool = True
    """Whether buffer contents are logged at each XOFF, which exact roots need."""

    def __post_init__(self) -> None:
        for name, can_be, why in (
            ("tick_ns", self.tick_ns >= 1, "1 at least"),
            ("line_mbps", self.line_mbps >= 1, "1 at least"),
            ("priorities", self.priorities and set(self.priorities) <= set(range(8)), "from 0 to 7"),
            ("priorities", len(set(self.priorities)) == len(self.priorities), "there once each"),
            ("pause_quanta", 0 <= self.pause_quanta <= 65_535, "from 0 to 65535"),
            ("mark_ratio", 0 <= self.mark_ratio <= 1, "from 0 to 1"),
        ):
            if not can_be:
                raise ConfigError(f"{name} of a fabric cannot be {getattr(self, name)!r}", f"it is {why}")

    @property
    def packet_bytes(self) -> int:
        """A full packet on the wire."""
        return self.payload_bytes + self.header_bytes

    def wire_bytes(self, size_bytes: int) -> int:
        """Bytes on the wire of a message."""
        return size_bytes + -(-size_bytes // self.payload_bytes) * self.header_bytes
