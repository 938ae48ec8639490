"""The streams that a trace becomes: which there are, what their rows say, and that the wire takes them."""

from pathlib import Path

import numpy as np
import pytest

from simulation.trace import read_trace
from simulation.trace_rows import StreamRows, TraceStreams, trace_streams
from stream import kinds
from stream.errors import ConfigError, TraceError
from stream.facts import Device, Flow, Hop, Link, Port
from stream.flow_id import flow_id, flow_text
from stream.kinds import EXACT, SIDE_NONE, SIDE_RX, SIDE_TX, UNKNOWN
from stream.record import MAX_TIME_NS
from stream.roster import StreamDown, StreamUp
from tests.simulation.small_trace import write_trace

START_NS = 1_700_000_000_000_000_000
DATA = Path(__file__).parents[1] / "data"
Row = tuple[str, int, int, int, int, int, int, int]


def streams_of(folder: Path, without: frozenset[str] = frozenset(), start_ns: int = START_NS) -> TraceStreams:
    return trace_streams(read_trace(folder, without), "lab", "trace", "e1", start_ns)


def rows_of(streams: TraceStreams, topic: str, device: str) -> StreamRows:
    (found,) = [rows for rows in streams.rows if (rows.topic, rows.device) == (topic, device)]
    return found


def shown(rows: StreamRows) -> list[Row]:
    """Port, kind, side, time from the start, span, value, extra, quality of each row."""
    fields = ("kind", "side", "time_ns", "span_ns", "value", "extra", "quality")
    return [
        (rows.ports[row["port"]], *(int(row[name]) - START_NS * (name == "time_ns") for name in fields))
        for row in rows.events
    ]


@pytest.fixture(name="small")
def small_streams(tmp_path: Path) -> TraceStreams:
    return streams_of(write_trace(tmp_path))


def test_a_pause_shows_where_it_came_and_one_link_delay_earlier_where_it_was_sent(small: TraceStreams) -> None:
    assert shown(rows_of(small, "pfc", "s0")) == [
        ("p2", kinds.PFC_XOFF, SIDE_RX, 10_000, 0, UNKNOWN, 0, EXACT),
        ("p2", kinds.PFC_XON, SIDE_RX, 50_000, 0, 0, 0, EXACT),
        ("p2", kinds.PFC_PAUSED, SIDE_RX, 100_000, 100_000, 40_000, 1, 0),
    ]
    assert shown(rows_of(small, "pfc", "h1")) == [
        ("eth0", kinds.PFC_XOFF, SIDE_TX, 9_000, 0, UNKNOWN, 0, EXACT),
        ("eth0", kinds.PFC_XON, SIDE_TX, 49_000, 0, 0, 0, EXACT),
        ("eth0", kinds.PFC_FRAMES, SIDE_TX, 100_000, 100_000, 1, UNKNOWN, 0),
    ]


def test_the_senders_row_takes_the_delay_of_its_link(tmp_path: Path) -> None:
    links = "a,a_port,b,b_port,speed_mbps,delay_ns\nh0,eth0,s0,p1,100000,\nh1,eth0,s0,p2,100000,2500\n"
    rows = rows_of(streams_of(write_trace(tmp_path, links=links)), "pfc", "h1")
    assert [row[3] for row in shown(rows)] == [7_500, 47_500, 100_000]


def test_a_pause_sent_before_the_run_began_is_put_at_its_start(tmp_path: Path) -> None:
    pfc = "time_ns,device,port,event\n300,s0,p2,xoff_rx\n"
    streams = streams_of(write_trace(tmp_path, pfc=pfc), start_ns=0)
    assert rows_of(streams, "pfc", "h1").events["time_ns"][0] == 0


def test_a_switchs_counters_become_one_row_a_measure_and_side(small: TraceStreams) -> None:
    assert shown(rows_of(small, "queue", "s0")) == [
        ("p2", kinds.QUEUE_DEPTH, SIDE_TX, 100_000, 100_000, 4000, UNKNOWN, 0),
        ("p2", kinds.PORT_BYTES, SIDE_TX, 100_000, 100_000, 5000, UNKNOWN, 0),
        ("p2", kinds.PORT_BYTES, SIDE_RX, 100_000, 100_000, 60, UNKNOWN, 0),
        ("p2", kinds.PORT_BYTES, SIDE_TX, 200_000, 100_000, 7000, UNKNOWN, 0),
    ]
    assert shown(rows_of(small, "ecn", "s0")) == [
        ("p2", kinds.ECN_MARKED, SIDE_TX, 100_000, 100_000, 2, UNKNOWN, 0),
    ]
    assert (rows_of(small, "queue", "s0").events["priority"] == 3).all()


def test_a_hosts_unknown_depth_is_no_row(small: TraceStreams) -> None:
    assert {row[1] for row in shown(rows_of(small, "queue", "h1"))} == {kinds.PORT_BYTES}


def test_a_hosts_pcie_link_is_an_instant_at_the_start(small: TraceStreams) -> None:
    assert shown(rows_of(small, "pcie", "h1")) == [("eth0", kinds.PCIE_RATE, SIDE_NONE, 0, 0, 25_000, 100_000, 0)]


def test_bytes_of_flows_bear_the_flows_id_and_priority(small: TraceStreams) -> None:
    rows = rows_of(small, "flowbytes", "s0")
    assert shown(rows) == [("p2", kinds.FLOW_BYTES, SIDE_TX, 100_000, 100_000, 5000, UNKNOWN, 0)]
    assert rows.events["flow"][0] == flow_id("fd00::1", "fd00::2", 17, 10_000, 4791)
    assert rows.events["priority"][0] == 3


def test_facts_are_devices_links_and_flows_numbered_from_0(small: TraceStreams) -> None:
    devices = [fact for fact in small.facts if isinstance(fact, Device)]
    links = [fact for fact in small.facts if isinstance(fact, Link)]
    (flow,) = [fact for fact in small.facts if isinstance(fact, Flow)]
    assert [(device.device, device.role) for device in devices] == [("h0", "host"), ("h1", "host"), ("s0", "switch")]
    assert devices[2].ports == (Port("p1", 100_000), Port("p2", 100_000))
    assert [(link.a_device, link.a_port, link.b_device, link.b_port) for link in links] == [
        ("h0", "eth0", "s0", "p1"),
        ("h1", "eth0", "s0", "p2"),
    ]
    assert [device.stream.seq for device in devices] == [0, 1, 2]
    assert [link.stream.seq for link in links] == [0, 1]
    assert (flow.name, flow.flow) == ("7", flow_text(flow_id("fd00::1", "fd00::2", 17, 10_000, 4791)))
    assert (flow.src_ip, flow.dst_ip, flow.priority, flow.size_bytes) == ("fd00::1", "fd00::2", 3, 12_000)
    assert flow.path == (Hop("h0", "", "eth0"), Hop("s0", "p1", "p2"), Hop("h1", "eth0", ""))
    assert {fact.valid_from_ns for fact in small.facts} == {START_NS}


def test_the_roster_names_every_stream_with_its_period_and_last_row(small: TraceStreams) -> None:
    assert small.up.streams == (
        StreamUp("device"),
        StreamUp("link"),
        StreamUp("flow"),
        *(StreamUp("pfc", device) for device in ("h0", "h1", "s0")),
        *(StreamUp("queue", device, 100_000) for device in ("h1", "s0")),
        *(StreamUp("ecn", device, 100_000) for device in ("h1", "s0")),
        *(StreamUp("flowbytes", device, 100_000) for device in ("h0", "s0")),
        *(StreamUp("pcie", device) for device in ("h0", "h1")),
    )
    assert small.facts_down.streams == (
        StreamDown("device", "", 2),
        StreamDown("link", "", 1),
        StreamDown("flow", "", 0),
    )
    assert small.down.streams == tuple(StreamDown(rows.topic, rows.device, len(rows.events) - 1) for rows in small.rows)
    assert StreamDown("pfc", "h0", -1) in small.down.streams


def test_a_trace_ends_with_its_last_row(small: TraceStreams) -> None:
    assert (small.from_ns, small.end_ns) == (START_NS, START_NS + 200_000)
    assert small.down.at_ns == small.end_ns


def test_without_exact_events_the_pfc_streams_have_the_counters_period(tmp_path: Path) -> None:
    streams = streams_of(write_trace(tmp_path, pfc=None))
    assert {up.period_ns for up in streams.up.streams if up.topic == "pfc"} == {100_000}
    assert {row[1] for row in shown(rows_of(streams, "pfc", "s0"))} == {kinds.PFC_PAUSED}


def test_withheld_flows_leave_no_trace_of_them(tmp_path: Path) -> None:
    streams = streams_of(write_trace(tmp_path), frozenset({"flows"}))
    assert not any(isinstance(fact, Flow) for fact in streams.facts)
    assert "flowbytes" not in {rows.topic for rows in streams.rows}
    assert StreamDown("flow", "", -1) in streams.facts_down.streams


def test_withheld_queues_leave_the_pause_counters(tmp_path: Path) -> None:
    streams = streams_of(write_trace(tmp_path), frozenset({"queues"}))
    assert {rows.topic for rows in streams.rows} == {"pfc", "flowbytes", "pcie"}
    assert kinds.PFC_PAUSED in rows_of(streams, "pfc", "s0").events["kind"]


def test_counters_of_no_frames_are_unknown_and_not_zero(tmp_path: Path) -> None:
    counters = "bin_start_ns,device,port,rx_paused_ns\n0,s0,p2,40000\n"
    rows = rows_of(streams_of(write_trace(tmp_path, port_counters=counters)), "pfc", "s0")
    assert shown(rows)[-1] == ("p2", kinds.PFC_PAUSED, SIDE_RX, 100_000, 100_000, 40_000, UNKNOWN, 0)


def test_a_start_beyond_the_clocks_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot begin at -1"):
        streams_of(write_trace(tmp_path), start_ns=-1)
    with pytest.raises(ConfigError, match="would end after 2116"):
        streams_of(write_trace(tmp_path), start_ns=MAX_TIME_NS - 1)
    assert streams_of(write_trace(tmp_path), start_ns=MAX_TIME_NS - 10**9).end_ns <= MAX_TIME_NS


@pytest.mark.parametrize("folder", sorted((DATA / "ns3").iterdir()), ids=lambda folder: folder.name)
def test_recorded_streams_are_sorted_and_lose_no_event(folder: Path) -> None:
    if not folder.is_dir():
        return
    trace = read_trace(folder)
    streams = trace_streams(trace, "lab", "trace", "e1", START_NS)
    for rows in streams.rows:
        assert (np.diff(rows.events["time_ns"]) >= 0).all()
        assert (rows.events["time_ns"] >= streams.from_ns).all()
        assert (rows.events["port"] < len(rows.ports)).all()
    pfc = np.concatenate([rows.events for rows in streams.rows if rows.topic == "pfc"])
    events = pfc[np.isin(pfc["kind"], (kinds.PFC_XOFF, kinds.PFC_XON))]
    assert trace.pauses is not None
    assert len(events) == 2 * len(trace.pauses.time_ns)
    assert trace.counters is not None
    assert trace.counters.rx_paused_ns is not None
    assert pfc["value"][pfc["kind"] == kinds.PFC_PAUSED].sum() == trace.counters.rx_paused_ns.sum()


STEPS = "step,host,start_ns,comm_start_ns,end_ns\n0,h1,0,700,1000\n0,h0,0,400,900\n1,h1,1000,1500,1900\n"


def test_steps_become_rows_of_a_training_hook(tmp_path: Path) -> None:
    streams = streams_of(write_trace(tmp_path, steps=STEPS))
    assert shown(rows_of(streams, "host", "h1")) == [
        ("rank0", kinds.COMPUTE_TIME, SIDE_NONE, 700, 700, 700, 0, 0),
        ("rank0", kinds.STEP_TIME, SIDE_NONE, 1000, 1000, 1000, 0, 0),
        ("rank0", kinds.COMPUTE_TIME, SIDE_NONE, 1500, 500, 500, 1, 0),
        ("rank0", kinds.STEP_TIME, SIDE_NONE, 1900, 900, 900, 1, 0),
    ]
    assert shown(rows_of(streams, "host", "h0")) == [
        ("rank1", kinds.COMPUTE_TIME, SIDE_NONE, 400, 400, 400, 0, 0),
        ("rank1", kinds.STEP_TIME, SIDE_NONE, 900, 900, 900, 0, 0),
    ]
    assert set(rows_of(streams, "host", "h0").events["flow"].tolist()) == {1}
    assert StreamUp("host", "h0", 0) in streams.up.streams


def test_without_the_end_of_compute_there_are_steps_alone(tmp_path: Path) -> None:
    streams = streams_of(write_trace(tmp_path, steps="step,host,start_ns,end_ns\n0,h1,0,1000\n"))
    assert [row[1] for row in shown(rows_of(streams, "host", "h1"))] == [kinds.STEP_TIME]


@pytest.mark.parametrize("row", ["0,h1,10,5,20", "0,h1,10,30,20"])
def test_a_step_whose_times_do_not_rise_is_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(TraceError, match=r"steps\.csv:2: a step's times do not rise"):
        streams_of(write_trace(tmp_path, steps=f"step,host,start_ns,comm_start_ns,end_ns\n{row}\n"))
