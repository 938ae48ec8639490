"""Loads the compiled code of correlate: it takes half a second, best spent while there is nothing else to do.

In: nothing. Out: nothing. Compiled code is loaded when it is first called, so correlate is given a little to do.
"""

from __future__ import annotations

from analytics.correlate import Correlate
from analytics.detect import episode_stream
from stream import kinds
from stream.batch import MARK_END, Batch, StreamKey
from stream.facts import Device, FactStream, Flow, Link
from stream.messages import Item
from stream.record import Events, empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp

_FABRIC, _SOURCE, _EPOCH = "f", "s", "e"
_MS_NS = 1_000_000
_LAST_NS = 200 * _MS_NS
_SWITCH, _HOST, _PORT = "leaf", "host", "p"
_FLOW = 1


def load_correlate() -> list[Item]:
    """Has correlate follow one pause of a switch that a host stopped; returns what it makes of it."""
    streams = {topic: StreamKey(_FABRIC, _SOURCE, _EPOCH, topic, _SWITCH) for topic in ("pfc", "queue")}
    facts = (
        Device(_FABRIC, _HOST, "host", 0, FactStream(_SOURCE, _EPOCH, 0, 0)),
        Link(_FABRIC, _SWITCH, _PORT, _HOST, _PORT, 100_000, 0, FactStream(_SOURCE, _EPOCH, 0, 0)),
        Flow(_FABRIC, f"{_FLOW:016x}", _HOST, _HOST, "", "", 17, 1, 1, 0, FactStream(_SOURCE, _EPOCH, 0, 0)),
    )
    topics = ("device", "link", "flow")
    ups = (*map(StreamUp, topics), *(StreamUp(key.topic, key.device, _MS_NS) for key in streams.values()))
    ends = (
        *(StreamDown(topic, "", 0) for topic in topics),
        *(StreamDown(k.topic, k.device, 1) for k in streams.values()),
    )
    pauses, windows = _pauses(), _windows()
    return Correlate().process(
        [
            SourceUp(_FABRIC, _SOURCE, _EPOCH, 0, ups),
            *facts,
            Batch(episode_stream(streams["pfc"]), 0, _LAST_NS, (_PORT,), pauses),
            Batch(episode_stream(streams["queue"]), 0, _LAST_NS, (_PORT,), windows),
            SourceDown(_FABRIC, _SOURCE, _EPOCH, _LAST_NS, ends),
            *(Batch(episode_stream(key), 9, MARK_END, (), empty_events(0)) for key in streams.values()),
        ]
    )


def _pauses() -> Events:
    rows = empty_events(2)
    rows["kind"] = [kinds.PAUSE_OPEN, kinds.PAUSE_INTERVAL]
    rows["time_ns"] = [2 * _MS_NS, 3 * _MS_NS]
    rows["span_ns"] = rows["value"] = [0, _MS_NS]
    rows["extra"], rows["side"], rows["priority"], rows["quality"] = 1, kinds.SIDE_RX, 3, kinds.EXACT
    return rows


def _windows() -> Events:
    rows = empty_events(4)
    rows["kind"] = [kinds.QUEUE_DEPTH, kinds.PORT_BYTES, kinds.ECN_MARKED, kinds.FLOW_BYTES]
    rows["time_ns"], rows["span_ns"] = 3 * _MS_NS, _MS_NS
    rows["value"], rows["side"], rows["priority"], rows["flow"] = 1_000, kinds.SIDE_TX, 3, [0, 0, 0, _FLOW]
    return rows
