"""Compiles the kernels of both steps before the first row comes: what came meanwhile would be late.

In: nothing. Out: nothing; some seconds where Numba's cache is warm, a minute where it is not. The kernels of the blame
of flows, which few fabrics tell, are compiled when the first of them is blamed.
"""

from __future__ import annotations

from collections.abc import Iterator

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream import kinds, messages
from stream.batch import Batch, StreamKey
from stream.facts import TOPIC_OF_FACT, Device, Fact, FactStream, Flow, Hop, Link
from stream.messages import Item
from stream.record import Events, empty_events, joined
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp

_FABRIC, _SOURCE, _PORTS = "-", "-", ("a", "b", "c")
_PERIOD_NS = 10_000_000
_BEGIN_NS = 1_000_000_000
_ROUNDS = 4
_PHASE_NS = {"leaf1": 0, "spine": 3_000_000, "leaf2": 6_000_000}
_HOSTS = ("host1", "host2", "host3", "host4")
_FLOW = 7


def warm_up(*, polled: bool = True) -> None:
    """Takes a short story of a fabric in with logs of pauses and, unless told not to, with polls; provisionally too."""
    for logged in (True, False) if polled else (True,):
        detect, correlate = Detect(), Correlate(provisional=True)
        for told in _story(logged):
            items = [messages.decode(*messages.encode(item)) for item in told]
            correlate.process([item for item in items if not isinstance(item, Batch)] + detect.process(items))


def _story(logged: bool) -> Iterator[list[Item]]:
    """Hosts of leaf1 send to one of leaf2: leaf2 stops the spine, which stops leaf1. Where polled, that host began."""
    facts = list(_facts())
    topics = sorted({TOPIC_OF_FACT[type(fact)] for fact in facts})
    streams = [
        StreamUp(topic, device, 0 if logged and topic == "pfc" else _PERIOD_NS)
        for device in _PHASE_NS
        for topic in ("pfc", "queue", "ecn", "flowbytes")
    ]
    last = tuple(StreamDown(t, "", sum(TOPIC_OF_FACT[type(f)] == t for f in facts) - 1) for t in topics)
    yield [
        SourceUp(_FABRIC, "facts", "-", 0, tuple(map(StreamUp, topics))),
        SourceUp(_FABRIC, _SOURCE, "-", 0, tuple(streams)),
        *facts,
        SourceDown(_FABRIC, "facts", "-", _BEGIN_NS, last),
    ]
    seqs = {(stream.topic, stream.device): 0 for stream in streams}
    for round_ in range(_ROUNDS):
        told: list[Item] = []
        for device, phase_ns in _PHASE_NS.items():
            end_ns = _BEGIN_NS + (round_ + 1) * _PERIOD_NS + phase_ns
            for topic, events in _rows(device, end_ns, logged).items():
                key = StreamKey(_FABRIC, _SOURCE, "-", topic, device)
                told.append(Batch(key, seqs[topic, device], end_ns, _PORTS, events))
                seqs[topic, device] += len(events)
        yield told
    end_ns = _BEGIN_NS + 2 * _ROUNDS * _PERIOD_NS
    downs = tuple(StreamDown(*key, seq - 1) for key, seq in seqs.items())
    yield [SourceDown(_FABRIC, _SOURCE, "-", end_ns, downs)]


def _facts() -> Iterator[Fact]:
    names = [(name, "switch") for name in _PHASE_NS] + [(name, "host") for name in _HOSTS]
    for seq, (name, role) in enumerate(names):
        yield Device(_FABRIC, name, role, 0, FactStream("facts", "-", seq, 0))
    ends = (("leaf1", "a", "spine", "a"), ("spine", "b", "leaf2", "a"), ("leaf2", "b", "host3", "a"),
            ("leaf2", "c", "host4", "a"), ("leaf1", "b", "host1", "a"), ("leaf1", "c", "host2", "a"))  # fmt: skip
    for seq, link in enumerate(ends):
        yield Link(_FABRIC, *link, 100_000, 0, FactStream("facts", "-", seq, 0))
    path = (Hop("leaf1", "a"), Hop("spine", "b"), Hop("leaf2", "b"))
    yield Flow(
        _FABRIC, f"{_FLOW:016x}", "host1", "host3", "", "", 17, 1, 2, 0, FactStream("facts", "-", 0, 0), path=path
    )


def _rows(device: str, end_ns: int, logged: bool) -> dict[str, Events]:
    """What a switch tells at the end of a period: its port to the host, or on the way there, is stopped."""
    ahead, back = {"leaf1": (0, 1), "spine": (1, 0), "leaf2": (1, 0)}[device]
    begin_ns = end_ns - _PERIOD_NS
    if logged:
        pauses = [
            _row(kind, begin_ns + at_ns, port, side, 0, kinds.UNKNOWN, kinds.UNKNOWN)
            for at_ns, kind in ((1_000, kinds.PFC_XOFF), (5_000_000, kinds.PFC_XON))
            for port, side in ((ahead, kinds.SIDE_RX), (back, kinds.SIDE_TX))
            if (device, side) != ("leaf2", kinds.SIDE_RX)
        ]
    else:
        pauses = [
            _row(kinds.PFC_PAUSED, end_ns, ahead, kinds.SIDE_RX, _PERIOD_NS, 5_000_000, 50),
            _row(kinds.PFC_FRAMES, end_ns, back, kinds.SIDE_TX, _PERIOD_NS, 50, 0),
        ]
    sent = [
        _row(kinds.PORT_BYTES, end_ns, port, side, _PERIOD_NS, 50_000_000, 0)
        for port in (ahead, back)
        for side in (kinds.SIDE_TX, kinds.SIDE_RX)
    ]
    depths = [
        _row(kinds.QUEUE_DEPTH, end_ns, port, kinds.SIDE_TX, _PERIOD_NS, peak_bytes, 0)
        for port, peak_bytes in ((ahead, 500_000), (2, 1_000))
    ]
    flow = _row(kinds.FLOW_BYTES, end_ns, ahead, kinds.SIDE_TX, _PERIOD_NS, 1_000_000, 0)
    flow["flow"] = _FLOW
    marks = _row(kinds.ECN_MARKED, end_ns, ahead, kinds.SIDE_TX, _PERIOD_NS, 10, 0)
    return {"pfc": joined(pauses), "queue": joined([*depths, *sent]), "ecn": marks, "flowbytes": flow}


def _row(kind: int, time_ns: int, port: int, side: int, span_ns: int, value: int, extra: int) -> Events:
    row = empty_events(1)
    row["kind"], row["time_ns"], row["port"], row["side"], row["priority"] = kind, time_ns, port, side, 3
    row["span_ns"], row["value"], row["extra"] = span_ns, value, extra
    return row
