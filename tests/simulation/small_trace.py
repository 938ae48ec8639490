"""A trace folder written by hand: two hosts on a switch, and h1 stops the switch for 40 us."""

import gzip
from pathlib import Path

FILES: dict[str, str] = {
    "devices.csv": "device,kind\nh0,host\nh1,host\ns0,switch\n",
    "links.csv": "a,a_port,b,b_port,speed_mbps\nh0,eth0,s0,p1,100000\nh1,eth0,s0,p2,100000\n",
    "pfc.csv": (
        "time_ns,device,port,prio,event,sender,sender_port\n"
        "10000,s0,p2,3,xoff_rx,h1,eth0\n"
        "50000,s0,p2,3,xon_rx,h1,eth0\n"
    ),
    "port_counters.csv": (
        "bin_start_ns,device,port,tx_bytes,rx_bytes,q_max_bytes,tx_ce_pkts,rx_ce_pkts,"
        "rx_pause_frames,tx_pause_frames,rx_paused_ns\n"
        "0,s0,p2,5000,60,4000,2,0,1,0,40000\n"
        "0,h1,eth0,60,5000,,0,2,0,1,0\n"
        "100000,s0,p2,7000,0,0,0,0,0,0,0\n"
    ),
    "flows.csv": "flow,src,dst,sport,dport,prio,size_bytes,start_ns,fct_ns\n7,h0,h1,10000,4791,3,12000,0,90000\n",
    "paths.csv": "flow,hop,device,in_port,out_port\n7,0,h0,,eth0\n7,1,s0,p1,p2\n7,2,h1,eth0,\n",
    "flow_port_bytes.csv": "bin_start_ns,device,port,flow,tx_bytes\n0,h0,eth0,7,12000\n0,s0,p2,7,5000\n",
    "host_pcie.csv": "host,link_max_mbps,link_now_mbps\nh0,100000,100000\nh1,100000,25000\n",
}


def write_trace(folder: Path, **changes: str | None) -> Path:
    """Writes the trace with some files changed (`pfc="..."` for pfc.csv), or left out (None)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (FILES | {f"{stem}.csv": text for stem, text in changes.items()}).items():
        if text is not None:
            (folder / name).write_text(text)
    return folder


def gzip_file(path: Path) -> None:
    """Replaces the file by its gzipped self."""
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
