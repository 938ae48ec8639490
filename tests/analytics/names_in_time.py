"""The lives of tests.analytics.many_sources under names that facts explain, dispute or take back in the middle."""

from __future__ import annotations

from collections import deque
from random import Random

import msgspec

from stream.batch import Batch, StreamKey
from stream.facts import Device, FactStream, Port
from stream.messages import Item
from stream.roster import RosterChange, SourceDown, SourceUp, StreamDown, StreamUp
from tests.analytics.many_sources import LIFE_NS

Streams = dict[StreamKey, deque[Item]]


def renamed(changes: list[RosterChange], streams: Streams, seed: int) -> tuple[list[RosterChange], Streams]:
    """Roster changes and streams in which some sources give hosts a domain and ports another name."""
    random = Random(f"names {seed}")
    begin_ns, epoch = min(change.from_ns for change in changes if isinstance(change, SourceUp)), changes[0].epoch
    with_domain = {key for key in streams if key.device and random.random() < 0.5}
    with_alias = {key for key in streams if key.device and random.random() < 0.5}
    # One source goes by one name of its device on all topics, and so it does in the roster.
    sources = {key.source for key in with_domain}

    def device(source: str, name: str) -> str:
        return f"{name}.example.net" if name and source in sources else name

    def change(told: RosterChange) -> RosterChange:
        parts = tuple(msgspec.structs.replace(part, device=device(told.source, part.device)) for part in told.streams)
        return msgspec.structs.replace(told, streams=parts)

    out: Streams = {}
    for key, items in streams.items():
        new = key._replace(device=device(key.source, key.device))
        out[new] = deque(
            msgspec.structs.replace(
                item, stream=new,
                ports=tuple(f"to-{port}" if key in with_alias else port for port in item.ports),
            )
            if isinstance(item, Batch) else item
            for item in items
        )  # fmt: skip
    facts = _facts(streams, random, begin_ns, epoch)
    out[StreamKey("lab", "names", epoch, "device", "")] = deque(facts)
    up = SourceUp("lab", "names", epoch, begin_ns, (StreamUp("device"),))
    down = SourceDown("lab", "names", epoch, begin_ns + LIFE_NS, (StreamDown("device", "", len(facts) - 1),))
    return [up, *(change(told) for told in changes), down], out


def _facts(streams: Streams, random: Random, begin_ns: int, epoch: str) -> list[Device]:
    """Device facts by time: what `to-p` means is told late, disputed by another port, and told again."""
    ports: dict[str, set[str]] = {}
    for key, items in streams.items():
        for item in items:
            if isinstance(item, Batch):
                ports.setdefault(key.device, set()).update(item.ports)
    facts: list[Device] = []
    for moment_ns in sorted(begin_ns + random.choice((0, random.randrange(LIFE_NS))) for _ in range(2 * len(ports))):
        name = random.choice(sorted(ports))
        aliases = {port: [f"to-{port}"] for port in sorted(ports[name]) if random.random() < 0.9}
        if aliases and random.random() < 0.3:
            aliases[random.choice(sorted(aliases))].append(f"to-{random.choice(sorted(ports[name]))}")
        told = tuple(Port(port, 0, tuple(names)) for port, names in aliases.items())
        known_as = random.choice(((), (), (f"{name}.example.net",), ("leaf0.example.net",)))
        role = "" if random.random() < 0.9 else "switch"
        stream = FactStream("names", epoch, len(facts), moment_ns)
        facts.append(Device("lab", name, role, moment_ns, stream, told, known_as))
    return facts
