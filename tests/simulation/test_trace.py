"""What the reader takes from a folder, and what it says of a folder that is wrong."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from simulation.trace import OPTIONAL_FILES, read_trace
from simulation.trace_rows import trace_streams
from simulation.truth import read_truth
from stream.errors import ConfigError, TraceError
from stream.facts import Hop
from stream.kinds import UNKNOWN
from tests.simulation.small_trace import FILES, gzip_file, write_trace

DATA = Path(__file__).parents[1] / "data"
RECORDED = sorted(path.parent for path in DATA.glob("*/*/devices.csv"))


def test_all_sixteen_recorded_traces_are_there() -> None:
    assert len(list((DATA / "ns3").glob("*/devices.csv"))) == 14
    assert len(RECORDED) == 16


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_a_recorded_trace_reads_in_full(folder: Path) -> None:
    trace = read_trace(folder)
    assert trace.period_ns == 100_000
    assert trace.pauses is not None
    assert trace.counters is not None
    assert trace.counters.q_max_bytes is not None
    assert trace.flows is not None
    assert all(trace.flows.paths)
    assert trace.flow_bytes is not None
    assert trace.notes == ()


def test_the_small_trace_reads_as_written(tmp_path: Path) -> None:
    trace = read_trace(write_trace(tmp_path / "small"))
    assert trace.name == "small"
    assert trace.devices == ("h0", "h1", "s0")
    assert trace.roles == ("host", "host", "switch")
    assert trace.ports.names == ("eth0", "p1", "eth0", "p2")
    assert trace.ports.peer.tolist() == [1, 0, 3, 2]
    assert trace.ports.local.tolist() == [0, 0, 0, 1]
    assert trace.ports.delay_ns.tolist() == [1000] * 4
    assert trace.flows is not None
    assert trace.flows.paths == ((Hop("h0", "", "eth0"), Hop("s0", "p1", "p2"), Hop("h1", "eth0", "")),)
    assert trace.counters is not None
    assert trace.counters.q_max_bytes is not None
    assert trace.counters.q_max_bytes.tolist() == [4000, UNKNOWN, 0]
    assert trace.counters.end_ns.tolist() == [100_000, 100_000, 200_000]


def test_gzipped_files_read_like_plain_ones(tmp_path: Path) -> None:
    plain = read_trace(write_trace(tmp_path / "plain"))
    folder = write_trace(tmp_path / "gzipped")
    for name in FILES:
        gzip_file(folder / name)
    zipped = read_trace(folder)
    assert zipped.devices == plain.devices
    assert zipped.counters is not None
    assert plain.counters is not None
    np.testing.assert_array_equal(zipped.counters.rx_paused_ns, plain.counters.rx_paused_ns)


def test_columns_may_stand_in_any_order_and_strange_ones_are_ignored(tmp_path: Path) -> None:
    folder = write_trace(
        tmp_path, pfc="note,event,port,device,time_ns\nhello,xoff_rx,p2,s0,10000\n,xon_rx,p2,s0,50000\n"
    )
    pauses = read_trace(folder).pauses
    assert pauses is not None
    assert pauses.time_ns.tolist() == [10_000, 50_000]
    assert pauses.priority.tolist() == [3, 3]
    assert pauses.xoff.tolist() == [1, 0]


def test_a_trace_of_devices_and_links_alone_is_one(tmp_path: Path) -> None:
    optional = ("pfc", "port_counters", "flows", "paths", "flow_port_bytes", "host_pcie")
    trace = read_trace(write_trace(tmp_path, **dict.fromkeys(optional)))
    assert (trace.pauses, trace.counters, trace.flows, trace.flow_bytes, trace.pcie) == (None,) * 5
    assert trace.notes == ("no pfc.csv: no exact pause events, so its counters are taken as polls",)


def test_flows_without_paths_have_none(tmp_path: Path) -> None:
    flows = read_trace(write_trace(tmp_path, paths=None)).flows
    assert flows is not None
    assert flows.paths == ((),)


def test_withheld_flows_take_their_paths_and_bytes_along(tmp_path: Path) -> None:
    trace = read_trace(write_trace(tmp_path), {"flows"})
    assert trace.flows is None
    assert trace.flow_bytes is None
    assert trace.counters is not None
    assert trace.counters.q_max_bytes is not None


def test_withheld_queues_leave_the_pause_columns(tmp_path: Path) -> None:
    trace = read_trace(write_trace(tmp_path), {"queues"})
    counters = trace.counters
    assert counters is not None
    queue_columns = (counters.q_max_bytes, counters.tx_bytes, counters.rx_bytes)
    assert queue_columns == (None, None, None)
    assert (counters.tx_ce_packets, counters.rx_ce_packets) == (None, None)
    assert counters.rx_paused_ns is not None
    assert counters.rx_paused_ns.tolist() == [40_000, 0, 0]
    assert trace.flow_bytes is not None


def test_evidence_that_nobody_knows_cannot_be_withheld(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot withhold weather; choose from: flows, queues"):
        read_trace(write_trace(tmp_path), {"weather", "flows"})


def test_a_pause_log_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    folder = write_trace(tmp_path)
    (folder / "truth.json").write_text(json.dumps({"pfc_events_total": 9, "pfc_events_written": 2}))
    trace = read_trace(folder)
    assert trace.pauses is None
    assert trace.notes == ("pfc.csv holds 2 of 9 pause events and is left out",)


def test_a_whole_pause_log_is_used_whatever_else_the_truth_says(tmp_path: Path) -> None:
    folder = write_trace(tmp_path)
    (folder / "truth.json").write_text(json.dumps({"pfc_events_total": 2, "pfc_events_written": 2, "flows": "?"}))
    assert read_trace(folder).pauses is not None


def test_a_bin_has_the_width_that_its_row_says(tmp_path: Path) -> None:
    folder = write_trace(
        tmp_path,
        port_counters="bin_start_ns,bin_ns,device,port,rx_paused_ns\n0,,s0,p2,40000\n100000,7000,s0,p2,5000\n",
    )
    counters = read_trace(folder).counters
    assert counters is not None
    assert counters.span_ns.tolist() == [100_000, 7_000]
    assert counters.end_ns.tolist() == [100_000, 107_000]


@pytest.mark.parametrize(
    ("starts", "period_ns"), [((0, 500, 250), 250), ((3000,), 3000), ((0,), 100_000), ((0, 0), 100_000)]
)
def test_the_counters_period_is_read_from_the_bins(tmp_path: Path, starts: tuple[int, ...], period_ns: int) -> None:
    rows = "".join(f"{start},s0,p{i % 2 + 1},1\n" for i, start in enumerate(starts))
    folder = write_trace(tmp_path, port_counters=f"bin_start_ns,device,port,tx_bytes\n{rows}", flow_port_bytes=None)
    assert read_trace(folder).period_ns == period_ns


MALFORMED: dict[str, tuple[dict[str, str | None], str]] = {
    "no devices": ({"devices": None}, r"devices\.csv is missing; docs/trace-format"),
    "no links": ({"links": None}, r"links\.csv is missing; docs/trace-format"),
    "an empty file": ({"devices": ""}, r"devices\.csv:1: the file is empty; its first line names"),
    "no device at all": ({"devices": "device,kind\n"}, r"devices\.csv:2: no device"),
    "a missing column": ({"devices": "device\nh0\n"}, r"devices\.csv:1: column kind is missing"),
    "two missing columns": ({"pfc": "device,port\n"}, r"pfc\.csv:1: column time_ns, event is missing"),
    "a column twice": ({"devices": "device,kind,kind\nh0,host,host\n"}, r"devices\.csv:1: two columns"),
    "a short row": ({"devices": "device,kind\nh0,host\nh1\n"}, r"devices\.csv:3: 1 cells, but the header names 2"),
    "a blank line": ({"devices": "device,kind\n\nh0,host\n"}, r"devices\.csv:2: 0 cells"),
    "a device twice": ({"devices": "device,kind\nh0,host\nh0,host\n"}, r"devices\.csv:3: device 'h0' is there twice"),
    "a device without a name": ({"devices": "device,kind\n,host\n"}, r"devices\.csv:2: a device's name"),
    "a device without a kind": ({"devices": "device,kind\nh0,\n"}, r"devices\.csv:2: .*no kind; write host"),
    "an unknown device in a link": (
        {"links": "a,a_port,b,b_port,speed_mbps\nh0,eth0,s9,p1,1\n"},
        r"links\.csv:2: b 's9': no such device in devices\.csv",
    ),
    "a port in two links": (
        {"links": "a,a_port,b,b_port,speed_mbps\nh0,eth0,s0,p1,1\nh1,eth0,s0,p1,1\n"},
        r"links\.csv:3: s0:p1 ends two links; give each cable",
    ),
    "a port without a name": (
        {"links": "a,a_port,b,b_port,speed_mbps\nh0,,s0,p1,1\n"},
        r"links\.csv:2: a port's name",
    ),
    "a speed in words": (
        {"links": "a,a_port,b,b_port,speed_mbps\nh0,eth0,s0,p1,fast\n"},
        r"links\.csv:2: speed_mbps is 'fast', not a whole number",
    ),
    "a speed of nothing": (
        {"links": "a,a_port,b,b_port,speed_mbps\nh0,eth0,s0,p1,0\n"},
        r"links\.csv:2: speed_mbps is 0, outside 1",
    ),
    "an unknown port": ({"pfc": "time_ns,device,port,event\n1,s0,p9,xoff_rx\n"}, r"pfc\.csv:2: .*'p9': no such port"),
    "an unknown event": ({"pfc": "time_ns,device,port,event\n1,s0,p2,stop\n"}, r"pfc\.csv:2: event 'stop': .*xoff_rx"),
    "a negative time": (
        {"pfc": "time_ns,device,port,event\n1,s0,p2,xoff_rx\n-5,s0,p2,xon_rx\n"},
        r"pfc\.csv:3: time_ns is -5, outside 0",
    ),
    "a time in seconds": ({"pfc": "time_ns,device,port,event\n0.1,s0,p2,xoff_rx\n"}, r"pfc\.csv:2: time_ns is '0\.1'"),
    "a time beyond 64 bits": (
        {"pfc": f"time_ns,device,port,event\n{1 << 70},s0,p2,xoff_rx\n"},
        r"pfc\.csv:2: time_ns is \d+, beyond 64 bits",
    ),
    "a priority of 8": ({"pfc": "time_ns,device,port,event,prio\n1,s0,p2,xoff_rx,8\n"}, r"pfc\.csv:2: prio is 8"),
    "a sender at another link": (
        {"pfc": "time_ns,device,port,event,sender,sender_port\n1,s0,p2,xoff_rx,h0,eth0\n"},
        r"pfc\.csv:2: h0:eth0 stopped s0:p2, but links\.csv does not join them; correct",
    ),
    "an empty time of a bin": (
        {"port_counters": "bin_start_ns,device,port\n,s0,p2\n"},
        r"port_counters\.csv:2: bin_start_ns is '', not a whole number",
    ),
    "a negative counter": (
        {"port_counters": "bin_start_ns,device,port,q_max_bytes\n0,s0,p2,\n0,s0,p1,-7\n"},
        r"port_counters\.csv:3: q_max_bytes is -7",
    ),
    "a bin of no width": (
        {"port_counters": "bin_start_ns,bin_ns,device,port\n0,0,s0,p2\n"},
        r"port_counters\.csv:2: bin_ns is 0, outside 1",
    ),
    "a bin twice": (
        {"port_counters": "bin_start_ns,device,port,tx_bytes\n0,s0,p2,1\n5,s0,p2,1\n0,s0,p1,1\n0,s0,p2,1\n"},
        r"port_counters\.csv:5: this bin of s0:p2 and its priority is there twice; leave one of the two rows",
    ),
    "a flow's bin twice": (
        {"flow_port_bytes": "bin_start_ns,device,port,flow,tx_bytes\n0,h0,eth0,7,1\n5,h0,eth0,7,1\n0,h0,eth0,7,2\n"},
        r"flow_port_bytes\.csv:4: this bin of h0:eth0 and flow 7 is there twice; leave one of the two rows",
    ),
    "a flow twice": (
        {"flows": "flow,src,dst,sport,dport\n7,h0,h1,1,2\n7,h1,h0,1,2\n"},
        r"flows\.csv:3: flow '7' is there twice",
    ),
    "two flows of one identity": (
        {"flows": "flow,src,dst,sport,dport\n7,h0,h1,1,2\n8,h0,h1,1,2\n"},
        r"flows\.csv:3: flow '8' has the ends and ports of flow '7'; .*qpn",
    ),
    "a flow from nowhere": (
        {"flows": "flow,src,dst,sport,dport\n7,h5,h1,1,2\n"},
        r"flows\.csv:2: src 'h5': no such device",
    ),
    "a transport port too large": (
        {"flows": "flow,src,dst,sport,dport\n7,h0,h1,70000,2\n"},
        r"flows\.csv:2: sport is 70000, outside 0 to 65535",
    ),
    "a path of no flow": (
        {"paths": "flow,hop,device,in_port,out_port\n9,0,h0,,eth0\n"},
        r"paths\.csv:2: flow '9': no such flow",
    ),
    "a path by an unknown port": (
        {"paths": "flow,hop,device,in_port,out_port\n7,0,h0,,eth5\n"},
        r"paths\.csv:2: device 'h0', out_port 'eth5': no such port",
    ),
    "a hop twice": (
        {"paths": "flow,hop,device,in_port,out_port\n7,0,h0,,eth0\n7,0,s0,p1,p2\n"},
        r"paths\.csv:3: hop 0 of flow '7' is there twice",
    ),
    "bytes of no flow": (
        {"flow_port_bytes": "bin_start_ns,device,port,flow,tx_bytes\n0,h0,eth0,9,1\n"},
        r"flow_port_bytes\.csv:2: flow '9': no such flow",
    ),
    "a PCIe link of no host": (
        {"host_pcie": "host,link_max_mbps,link_now_mbps\nh9,1,1\n"},
        r"host_pcie\.csv:2: host 'h9': no such device",
    ),
    "a PCIe link of a switch": (
        {"host_pcie": "host,link_max_mbps,link_now_mbps\nh0,1,1\ns0,1,1\n"},
        r"host_pcie\.csv:3: 's0' is a switch in devices\.csv",
    ),
    "a PCIe link twice": (
        {"host_pcie": "host,link_max_mbps,link_now_mbps\nh0,2,1\nh1,2,1\nh0,2,2\n"},
        r"host_pcie\.csv:4: the PCIe link of host 'h0' is there twice; leave one of the two rows",
    ),
    "a PCIe link above its maximum": (
        {"host_pcie": "host,link_max_mbps,link_now_mbps\nh0,2,3\n"},
        r"host_pcie\.csv:2: link_now_mbps is 3, more than link_max_mbps, 2",
    ),
    "a PCIe link without a maximum": (
        {"host_pcie": "host,link_max_mbps,link_now_mbps\nh0,0,3\n"},
        r"host_pcie\.csv:2: link_max_mbps is 0, outside 1",
    ),
    "a kind that is nearly host": (
        {"devices": "device,kind\nh0, Host\n"},
        r"devices\.csv:2: .* kind ' Host'; write host",
    ),
    "a quote that never closes": ({"devices": 'device,kind\n"h0,host\n'}, r"devices\.csv is not CSV"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_folder_names_file_line_and_next_step(tmp_path: Path, case: str) -> None:
    changes, message = MALFORMED[case]
    folder = write_trace(tmp_path, **changes)
    with pytest.raises(TraceError, match=message) as caught:
        read_trace(folder)
    assert caught.value.next_step


def test_a_log_that_lost_all_that_begins_pauses_says_so(tmp_path: Path) -> None:
    rows = "10000,s0,p2,xon_rx\n50000,s0,p2,xon_rx\n"
    trace = read_trace(write_trace(tmp_path, pfc=f"time_ns,device,port,event\n{rows}"))
    assert trace.notes == ("pfc.csv has 2 XONs and no XOFF: the events that begin pauses were lost",)


def test_bytes_that_no_link_carries_count_as_not_told(tmp_path: Path) -> None:
    # 100 Gb/s carry 1.25 MB in a bin of 100 us.
    rows = "0,s0,p2,2500000\n100000,s0,p2,2500001\n200000,s0,p2,4000000000000000000\n300000,s0,p2,\n"
    trace = read_trace(write_trace(tmp_path, port_counters=f"bin_start_ns,device,port,tx_bytes\n{rows}"))
    assert trace.counters is not None
    assert trace.counters.tx_bytes is not None
    assert trace.counters.tx_bytes.tolist() == [2_500_000, UNKNOWN, UNKNOWN, UNKNOWN]
    assert [note for note in trace.notes if "2 bins of tx_bytes" in note and "line 3" in note]


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"is not a folder; give the folder that holds devices\.csv"):
        read_trace(tmp_path / "absent")


def test_a_truncated_gzip_file_says_so(tmp_path: Path) -> None:
    folder = write_trace(tmp_path)
    gzip_file(folder / "pfc.csv")
    packed = (folder / "pfc.csv.gz").read_bytes()
    (folder / "pfc.csv.gz").write_bytes(packed[:-10])
    with pytest.raises(TraceError, match=r"pfc\.csv\.gz cannot be read"):
        read_trace(folder)


def test_text_in_another_encoding_says_so(tmp_path: Path) -> None:
    folder = write_trace(tmp_path)
    (folder / "devices.csv").write_bytes(b"device,kind\nh\xe9,host\n")
    with pytest.raises(TraceError, match=r"devices\.csv is not UTF-8 text"):
        read_trace(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_there_and_cannot_be_read_is_not_absent(tmp_path: Path, name: str) -> None:
    folder = write_trace(tmp_path, **{name.removesuffix(".csv"): None})
    (folder / name).symlink_to("nowhere")
    with pytest.raises(TraceError, match=rf"{name} is a link that leads nowhere; mend or remove it"):
        read_trace(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(TraceError, match=rf"{name} is a folder, not a file"):
        read_trace(folder)


def test_a_file_that_is_there_twice_says_so(tmp_path: Path) -> None:
    folder = write_trace(tmp_path)
    gzip_file(folder / "pfc.csv")
    write_trace(tmp_path)
    with pytest.raises(TraceError, match=r"pfc\.csv and pfc\.csv\.gz are both there; remove one of them"):
        read_trace(folder)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    plain = read_trace(write_trace(tmp_path / "plain"))
    folder = write_trace(tmp_path / "marked")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8-sig")
    gzip_file(folder / "pfc.csv")
    marked = read_trace(folder)
    assert (marked.devices, marked.ports.names, marked.notes) == (plain.devices, plain.ports.names, ())


@pytest.mark.parametrize("written", ["{", "[]", ""])
def test_a_truth_that_cannot_be_read_is_the_judges_business(tmp_path: Path, written: str) -> None:
    folder = write_trace(tmp_path)
    (folder / "truth.json").write_text(written)
    trace = read_trace(folder)
    assert trace.pauses is not None
    assert any("truth.json cannot be read" in note for note in trace.notes)


def test_a_share_below_nothing_is_no_truth(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    shutil.copytree(RECORDED[0], folder)
    truth = json.loads((folder / "truth.json").read_text())
    truth["packet_level_roots"] = [{"device": "x", "port": "y", "share": -0.5}]
    (folder / "truth.json").write_text(json.dumps(truth))
    with pytest.raises(TraceError, match=r"packet_level_roots\[0\]\.share"):
        read_truth(folder)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    folder = write_trace(tmp_path)
    (folder / "pfc.csv").unlink()
    os.mkfifo(folder / "pfc.csv")
    with pytest.raises(TraceError, match="a pipe or a device"):
        read_trace(folder)


def test_links_that_are_none_are_told_before_the_ports_that_they_would_have(tmp_path: Path) -> None:
    folder = write_trace(tmp_path)
    (folder / "links.csv").write_text((folder / "links.csv").read_text().splitlines()[0] + "\n")
    with pytest.raises(TraceError, match=r"links\.csv has no link"):
        read_trace(folder)


@pytest.mark.parametrize("name", OPTIONAL_FILES)
def test_a_file_passed_over_is_as_good_as_one_that_is_not_there(tmp_path: Path, name: str) -> None:
    for folder in RECORDED[::4]:
        copy = tmp_path / folder.name
        shutil.copytree(folder, copy)
        (found,) = copy.glob(f"{name}.csv*")
        found.unlink()
        passed, gone = read_trace(folder, absent={name}), read_trace(copy)
        assert passed.notes == gone.notes
        parts = [trace_streams(trace, "lab", "trace", "e1", 0) for trace in (passed, gone)]
        assert [(rows.topic, rows.device, rows.events.tobytes()) for rows in parts[0].rows] == [
            (rows.topic, rows.device, rows.events.tobytes()) for rows in parts[1].rows
        ]
        assert (parts[0].facts, parts[0].up, parts[0].down) == (parts[1].facts, parts[1].up, parts[1].down)


def test_a_file_that_every_trace_needs_cannot_be_passed_over(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot leave out links; choose from: pfc, port_counters"):
        read_trace(write_trace(tmp_path), absent={"links"})
