"""A fabric watched by many sources that come and go, and the orders in which what they say may arrive; all by a seed.

Links are replaced and flows become known in the middle; some devices never report, and some only for a time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from random import Random

import msgspec

from stream import kinds
from stream.batch import MARK_END, Batch, StreamKey
from stream.facts import TOPIC_OF_FACT, Device, FactStream, Flow, Link, fact_stream
from stream.messages import Item
from stream.record import Events, empty_events
from stream.roster import RosterChange, SourceDown, SourceUp, StreamDown, StreamUp, change_ns
from tests.analytics.engine_by_names import facts
from tests.analytics.random_runs import leaf_spine
from tests.reference.topology import Fabric

TICK_NS = 10_000_000
LIFE_NS = 12 * TICK_NS
DELAY_NS = 1_000
PERIODS_NS = {"pfc": 0, "queue": 1_000_000, "flowbytes": 1_000_000, "pcie": 0}


@dataclass
class _Row:
    topic: str
    device: str
    port: str
    time_ns: int
    kind: int
    side: int = kinds.SIDE_NONE
    span_ns: int = 0
    value: int = 0
    extra: int = 0
    flow: int = 0
    priority: int = 3


@dataclass
class _Source:
    name: str
    topics: tuple[str, ...]
    device: str
    from_ns: int
    at_ns: int
    periods_ns: dict[str, int] = field(default_factory=dict)


def life(seed: int, epoch: str, begin_ns: int) -> tuple[list[RosterChange], dict[StreamKey, deque[Item]]]:
    """All roster changes by time, and the items of every stream in its order."""
    random = Random(f"{seed} {epoch}")
    fabric = leaf_spine(random.randint(1, 3), random.randint(1, 2), random.randint(1, 2))
    end_ns = begin_ns + LIFE_NS
    streams: dict[StreamKey, deque[Item]] = {}
    changes: list[tuple[int, RosterChange]] = []
    known = _facts(fabric, random, epoch, begin_ns)
    counts: defaultdict[str, int] = defaultdict(int)
    for fact in known:
        streams.setdefault(fact_stream(fact), deque()).append(fact)
        counts[TOPIC_OF_FACT[type(fact)]] += 1
    topics = ("device", "link", "flow")
    changes.append((begin_ns, SourceUp("lab", "inventory", epoch, begin_ns, tuple(map(StreamUp, topics)))))
    downs = tuple(StreamDown(topic, "", counts[topic] - 1) for topic in topics)
    changes.append((end_ns, SourceDown("lab", "inventory", epoch, end_ns, downs)))
    rows = _rows(fabric, random, begin_ns)
    for source in _sources(fabric, random, begin_ns, end_ns):
        ups, ends = [], []
        for topic in source.topics:
            key = StreamKey("lab", source.name, epoch, topic, source.device)
            mine = [row for row in rows if (row.topic, row.device) == (topic, source.device)
                    and source.from_ns <= row.time_ns <= source.at_ns]  # fmt: skip
            streams[key] = deque(_values(key, mine, source, random))
            ups.append(StreamUp(topic, source.device, source.periods_ns[topic]))
            ends.append(StreamDown(topic, source.device, len(mine) - 1))
        changes.append((source.from_ns, SourceUp("lab", source.name, epoch, source.from_ns, tuple(ups))))
        changes.append((source.at_ns, SourceDown("lab", source.name, epoch, source.at_ns, tuple(ends))))
    changes.sort(key=lambda change: (change[0], isinstance(change[1], SourceDown), change[1].source))
    return [change for _, change in changes], streams


def _facts(fabric: Fabric, random: Random, epoch: str, begin_ns: int) -> list[Device | Link | Flow]:
    """What is known at the beginning; in the middle of the life flows become known and links change their ends."""
    told: list[Device | Link | Flow] = []
    seqs: defaultdict[str, int] = defaultdict(int)

    def tell(fact: Device | Link | Flow, valid_from_ns: int, mark_ns: int) -> None:
        topic = TOPIC_OF_FACT[type(fact)]
        stream = FactStream("inventory", epoch, seqs[topic], mark_ns)
        told.append(msgspec.structs.replace(fact, valid_from_ns=valid_from_ns, stream=stream))
        seqs[topic] += 1

    for fact in facts(fabric):
        # Some inventory says since when a thing has been so, which is before it came up itself.
        tell(fact, random.choice((0, begin_ns)), begin_ns)
    hosts, ports = sorted(fabric.hosts), sorted(fabric.links)
    moments = sorted(begin_ns + random.randrange(LIFE_NS) for _ in range(8))
    for moment_ns in moments:
        mark_ns = random.choice((begin_ns, moment_ns))
        if random.random() < 0.5:
            one, other = random.sample(ports, 2)
            tell(Link("lab", *one, *other, 100_000, 0, FactStream("", "", 0, 0), DELAY_NS), moment_ns, mark_ns)
        else:
            number = random.randint(1, 3)
            src, dst = random.choices(hosts, k=2)
            flow = Flow("lab", f"{number:016x}", src, dst, "", "", 17, 1, 2, 0, FactStream("", "", 0, 0),
                        name=f"{src} to {dst}")  # fmt: skip
            tell(flow, moment_ns, mark_ns)
    # A fact stream's marks never go back.
    return _with_rising_marks(told)


def _with_rising_marks(told: list[Device | Link | Flow]) -> list[Device | Link | Flow]:
    marks: defaultdict[str, int] = defaultdict(int)
    out: list[Device | Link | Flow] = []
    for fact in told:
        topic = TOPIC_OF_FACT[type(fact)]
        marks[topic] = max(marks[topic], fact.stream.mark_ns)
        out.append(msgspec.structs.replace(fact, stream=msgspec.structs.replace(fact.stream, mark_ns=marks[topic])))
    return out


def _sources(fabric: Fabric, random: Random, begin_ns: int, end_ns: int) -> list[_Source]:
    sources = []
    for device in sorted({device for device, _ in fabric.links}):
        hosts_only = ("pcie",) if device in fabric.hosts else ()
        for topics in (("pfc",), ("queue", "flowbytes", *hosts_only)):
            watch = random.choice(("all the time", "all the time", "from then on", "until then", "twice", "never"))
            middle_ns = begin_ns + random.randrange(LIFE_NS // 4, LIFE_NS)
            spans = {
                "all the time": [(begin_ns, end_ns)],
                "from then on": [(middle_ns, end_ns)],
                "until then": [(begin_ns, middle_ns)],
                "twice": [(begin_ns, middle_ns - random.choice((0, 3 * TICK_NS // 2))), (middle_ns + 1, end_ns)],
                "never": [],
            }[watch]
            for number, (from_ns, at_ns) in enumerate(spans):
                longer = random.choice((1, 1, 1, 20))
                periods_ns = {topic: PERIODS_NS[topic] * longer for topic in topics}
                name = f"{topics[0]} of {device} {number}"
                sources.append(_Source(name, topics, device, from_ns, at_ns, periods_ns))
    return sources


def _rows(fabric: Fabric, random: Random, begin_ns: int) -> list[_Row]:
    """Pauses as both ends of a link see them, queue marks, bytes and PCIe states, by time."""
    rows: list[_Row] = []
    ports = sorted(fabric.links)
    busy: dict[tuple[str, str], int] = {}
    now_ns = begin_ns
    stopped = ports[0]
    while now_ns < begin_ns + LIFE_NS:
        now_ns += random.choice((0, 1_000, 10_000, 30_000, 500_000, 3_000_000, 12_000_000))
        upstream = [port for port in ports if fabric.links[port][0] == stopped[0]]
        stopped = random.choice(upstream) if upstream and random.random() < 0.6 else random.choice(ports)
        length_ns = random.choice((0, 5_000, 40_000, 700_000, 4_000_000, 25_000_000))
        if busy.get(stopped, -1) > now_ns:
            continue
        busy[stopped] = now_ns + length_ns + 1
        for time_ns, kind in ((now_ns, kinds.PFC_XOFF), (now_ns + length_ns, kinds.PFC_XON)):
            pauser = fabric.links[stopped]
            rows.append(_Row("pfc", *stopped, time_ns, kind, kinds.SIDE_RX))
            rows.append(_Row("pfc", *pauser, time_ns - DELAY_NS, kind, kinds.SIDE_TX))
    for port in ports:
        for place in range(begin_ns // 1_000_000, (begin_ns + LIFE_NS) // 1_000_000):
            time_ns, span_ns, tx = (place + 1) * 1_000_000, 1_000_000, kinds.SIDE_TX
            depth, sent, flow = random.choice((900, 40_000)), random.randrange(1, 12**6), random.randint(1, 4)
            if random.random() < 0.5:
                rows.append(_Row("queue", *port, time_ns, kinds.QUEUE_DEPTH, tx, span_ns, depth))
            if random.random() < 0.5:
                rows.append(_Row("queue", *port, time_ns, kinds.PORT_BYTES, tx, span_ns, sent))
            if random.random() < 0.3:
                rows.append(_Row("flowbytes", *port, time_ns, kinds.FLOW_BYTES, tx, span_ns, 1_000, flow=flow))
    for host in sorted(fabric.hosts):
        for _ in range(random.randint(0, 5)):
            time_ns = begin_ns + random.randrange(LIFE_NS)
            lanes = random.choice((4, 8, 16))
            rows.append(_Row("pcie", host, "0000:01:00.0", time_ns, kinds.PCIE_WIDTH, value=lanes, extra=16))
    rows.sort(key=lambda row: row.time_ns)
    return [row for row in rows if row.time_ns >= begin_ns]


def _values(key: StreamKey, rows: list[_Row], source: _Source, random: Random) -> list[Batch]:
    """The rows cut at random, with empty values that only move the mark in between."""
    values: list[Batch] = []
    place = 0
    while place < len(rows):
        size = random.choice((1, 2, 5, 40))
        part = rows[place : place + size]
        values.append(_value(key, place, part, part[-1].time_ns))
        place += len(part)
        later_ns = rows[place].time_ns if place < len(rows) else source.at_ns
        if random.random() < 0.3 and later_ns > part[-1].time_ns:
            values.append(_value(key, place, [], random.randint(part[-1].time_ns, later_ns)))
    return values


def _value(key: StreamKey, seq: int, rows: list[_Row], mark_ns: int) -> Batch:
    ports = tuple(sorted({row.port for row in rows}))
    return Batch(key, seq, mark_ns, ports, _events(rows, ports))


def _events(rows: list[_Row], ports: tuple[str, ...]) -> Events:
    events = empty_events(len(rows))
    for event, row in zip(range(len(rows)), rows, strict=True):
        here = events[event : event + 1]
        here["port"] = ports.index(row.port)
        for name in ("time_ns", "kind", "side", "span_ns", "value", "extra", "flow", "priority"):
            here[name] = getattr(row, name)
    return events


def arrivals(changes: list[RosterChange], streams: dict[StreamKey, deque[Item]], random: Random) -> list[Item]:
    """One order in which everything may arrive.

    The roster's order is its own, as is each stream's. A value may be late by any time, but none is ahead of a change
    of its life (its epoch) that happened before the value's mark.
    """
    waiting = {key: deque(items) for key, items in streams.items() if items}
    announced: set[tuple[str, str]] = set()
    left = deque(changes)
    eager = random.random()
    out: list[Item] = []
    while left or waiting:
        next_ns = {change.epoch: _time_ns(change) for change in reversed(left)}
        ready = [key for key, items in waiting.items() if (key.source, key.epoch) in announced
                 and _mark_ns(items[0]) < next_ns.get(key.epoch, MARK_END)]  # fmt: skip
        if left and (not ready or random.random() < eager * 0.2):
            change = left.popleft()
            announced.add((change.source, change.epoch))
            out.append(change)
            continue
        key = random.choice(ready)
        before_ns, most = next_ns.get(key.epoch, MARK_END), random.choice((1, 3, 30))
        while most and waiting[key] and _mark_ns(waiting[key][0]) < before_ns:
            out.append(waiting[key].popleft())
            most -= 1
        if not waiting[key]:
            del waiting[key]
    return out


def _time_ns(change: RosterChange) -> int:
    return change_ns(change)


def _mark_ns(item: Item) -> int:
    if isinstance(item, Batch):
        return item.mark_ns
    assert isinstance(item, Device | Link | Flow)
    return item.stream.mark_ns
