"""Counters of mlx5 (ConnectX-4 and later): en_stats.c of mlx5/core and counters.c of infiniband/hw/mlx5.

`rx_prioN_pause_duration` is how long our transmission was stopped, in us; `tx_prioN_pause_duration` how long we asked
the peer to stop. The q counters of the RDMA device are 32 bits wide, its congestion counters 64.
"""

from probes.counted_rows import EXTRA
from probes.drivers.mapped import Driver, Mapped, checked
from stream.kinds import BY_NAME, ECN_MARKED, LINK_ERRORS, PFC_PAUSED, PORT_BYTES, SIDE_RX, SIDE_TX

_DROPS = BY_NAME["QUEUE_DROPS"].code
_STALL = BY_NAME["PCIE_STALL"].code
_CNP = BY_NAME["CNP"].code
_RDMA = BY_NAME["RDMA_ERRORS"].code

# fmt: off
STATISTICS = checked((
    Mapped("rx_prio{p}_pause_duration", PFC_PAUSED, "us", SIDE_RX),
    Mapped("rx_prio{p}_pause", PFC_PAUSED, "frames", SIDE_RX, EXTRA),
    Mapped("tx_prio{p}_pause_duration", PFC_PAUSED, "us", SIDE_TX),
    Mapped("tx_prio{p}_pause", PFC_PAUSED, "frames", SIDE_TX, EXTRA),
    Mapped("rx_global_pause_duration", PFC_PAUSED, "us", SIDE_RX),
    Mapped("rx_global_pause", PFC_PAUSED, "frames", SIDE_RX, EXTRA),
    Mapped("tx_global_pause_duration", PFC_PAUSED, "us", SIDE_TX),
    Mapped("tx_global_pause", PFC_PAUSED, "frames", SIDE_TX, EXTRA),
    Mapped("rx_prio{p}_bytes", PORT_BYTES, "bytes", SIDE_RX),
    Mapped("rx_prio{p}_packets", PORT_BYTES, "packets", SIDE_RX, EXTRA),
    Mapped("tx_prio{p}_bytes", PORT_BYTES, "bytes", SIDE_TX),
    Mapped("tx_prio{p}_packets", PORT_BYTES, "packets", SIDE_TX, EXTRA),
    Mapped("rx_bytes_phy", PORT_BYTES, "bytes", SIDE_RX),
    Mapped("rx_packets_phy", PORT_BYTES, "packets", SIDE_RX, EXTRA),
    Mapped("tx_bytes_phy", PORT_BYTES, "bytes", SIDE_TX),
    Mapped("tx_packets_phy", PORT_BYTES, "packets", SIDE_TX, EXTRA),
    Mapped("rx_prio{p}_discards", _DROPS, "packets", SIDE_RX),
    Mapped("rx_discards_phy", _DROPS, "packets", SIDE_RX),
    Mapped("tx_discards_phy", _DROPS, "packets", SIDE_TX),
    Mapped("rx_crc_errors_phy", LINK_ERRORS, "errors", SIDE_RX, code=1),
    Mapped("rx_corrected_bits_phy", LINK_ERRORS, "errors", SIDE_RX, code=2),
    Mapped("rx_pcs_symbol_err_phy", LINK_ERRORS, "errors", SIDE_RX, code=4),
    Mapped("link_down_events_phy", LINK_ERRORS, "errors", code=5),
    # Data that came in waits to be written to memory (rx), and data to be sent waits to be read from there (tx).
    Mapped("outbound_pci_stalled_wr", _STALL, "percent", SIDE_RX, percent=True),
    Mapped("outbound_pci_stalled_rd", _STALL, "percent", SIDE_TX, percent=True),
))

HW_COUNTERS = checked((
    Mapped("np_ecn_marked_roce_packets", ECN_MARKED, "packets", SIDE_RX),
    Mapped("np_cnp_sent", _CNP, "packets", SIDE_TX),
    Mapped("rp_cnp_handled", _CNP, "packets", SIDE_RX),
    Mapped("rp_cnp_ignored", _CNP, "packets", SIDE_RX),
    Mapped("packet_seq_err", _RDMA, "errors", bits=32, code=1),
    Mapped("rnr_nak_retry_err", _RDMA, "errors", bits=32, code=2),
    Mapped("out_of_sequence", _RDMA, "errors", bits=32, code=3),
    Mapped("local_ack_timeout_err", _RDMA, "errors", bits=32, code=4),
    Mapped("implied_nak_seq_err", _RDMA, "errors", bits=32, code=5),
    Mapped("out_of_buffer", _RDMA, "errors", bits=32, code=6),
    Mapped("duplicate_request", _RDMA, "errors", bits=32, code=7),
    Mapped("roce_adp_retrans", _RDMA, "errors", bits=32, code=8),
    Mapped("roce_slow_restart", _RDMA, "errors", bits=32, code=9),
    Mapped("rx_icrc_encapsulated", _RDMA, "errors", bits=32, code=10),
    Mapped("req_remote_access_errors", _RDMA, "errors", bits=32, code=11),
    Mapped("req_remote_invalid_request", _RDMA, "errors", bits=32, code=11),
    Mapped("resp_local_length_error", _RDMA, "errors", bits=32, code=12),
    Mapped("resp_remote_access_errors", _RDMA, "errors", bits=32, code=12),
    Mapped("req_transport_retries_exceeded", _RDMA, "errors", bits=32, code=14),
))
# fmt: on

DRIVER = Driver(STATISTICS, HW_COUNTERS, source="drivers/net/ethernet/mellanox/mlx5/core/en_stats.c")
