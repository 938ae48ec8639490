"""The twin of simulation/fabric/buffers.py: a switch's buffer as a list of packets, all sums made anew each time.

In: packets that come and go, one by one. Out: what each ingress holds, and the pause frames that it sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RESERVE, RESUME = 4096, 3072


@dataclass
class Packet:
    ingress: int
    egress: int
    count: int


@dataclass
class SharedBuffer:
    """`pool` bytes shared by all; an ingress may have an eighth of what is free, and `limit` bytes of headroom."""

    pool: int
    limit: int
    packets: list[Packet] = field(default_factory=list)
    headroom: dict[int, int] = field(default_factory=dict)
    stopping: set[int] = field(default_factory=set)
    frames: list[tuple[int, str]] = field(default_factory=list)

    def held(self, ingress: int) -> int:
        """Bytes of an ingress that are in its reserve and the shared buffer."""
        whole = sum(packet.count for packet in self.packets if packet.ingress == ingress)
        return whole - self.headroom.get(ingress, 0)

    def over(self, ingress: int) -> int:
        return self.held(ingress) - RESERVE

    def threshold(self) -> int:
        ingresses = {packet.ingress for packet in self.packets}
        return (self.pool - sum(max(self.over(one), 0) for one in ingresses)) // 8

    def come(self, packet: Packet) -> bool:
        """Whether there was room for it."""
        ingress, count = packet.ingress, packet.count
        free = max(-self.over(ingress), 0)
        # Nine parts of a packet are one that the threshold falls by, and eight that the ingress may still take.
        fits = count <= free or count <= free + max(self.threshold() - max(self.over(ingress), 0), 0) * 8 // 9
        if not fits:
            if self.headroom.get(ingress, 0) + count > self.limit:
                return False
            self.headroom[ingress] = self.headroom.get(ingress, 0) + count
        self.packets.append(packet)
        full = self.headroom.get(ingress, 0) > 0 or self.over(ingress) >= self.threshold()
        if full and ingress not in self.stopping:
            self.stopping.add(ingress)
            self.frames.append((ingress, "xoff"))
        return True

    def go(self, packet: Packet) -> None:
        ingress = packet.ingress
        of_headroom = min(packet.count, self.headroom.get(ingress, 0))
        self.packets.remove(packet)
        self.headroom[ingress] = self.headroom.get(ingress, 0) - of_headroom
        if ingress in self.stopping and self.headroom[ingress] == 0:
            over = self.over(ingress)
            if over <= 0 or over + RESUME <= self.threshold():
                self.stopping.discard(ingress)
                self.frames.append((ingress, "xon"))
