"""Counters of bnxt (Broadcom NetXtreme-E): bnxt_ethtool.c, and hw_counters.c of infiniband/hw/bnxt_re.

The NIC writes its statistics to memory once a second, so that a number may be a second old. The driver of the vendor
names errors of the RDMA device as mlx5 does, and counts CNPs; the kernel's own does not.
"""

from probes.counted_rows import EXTRA
from probes.drivers.mapped import Driver, Mapped, checked
from stream.kinds import BY_NAME, ECN_MARKED, LINK_ERRORS, PFC_PAUSED, PORT_BYTES, SIDE_RX, SIDE_TX

_DROPS = BY_NAME["QUEUE_DROPS"].code
_CNP = BY_NAME["CNP"].code
_RDMA = BY_NAME["RDMA_ERRORS"].code

# fmt: off
STATISTICS = checked((
    Mapped("pfc_pri{p}_rx_duration_us", PFC_PAUSED, "us", SIDE_RX),
    Mapped("rx_pfc_ena_frames_pri{p}", PFC_PAUSED, "frames", SIDE_RX, EXTRA),
    Mapped("pfc_pri{p}_tx_duration_us", PFC_PAUSED, "us", SIDE_TX),
    Mapped("tx_pfc_ena_frames_pri{p}", PFC_PAUSED, "frames", SIDE_TX, EXTRA),
    Mapped("rx_bytes_pri{p}", PORT_BYTES, "bytes", SIDE_RX),
    Mapped("rx_packets_pri{p}", PORT_BYTES, "packets", SIDE_RX, EXTRA),
    Mapped("tx_bytes_pri{p}", PORT_BYTES, "bytes", SIDE_TX),
    Mapped("tx_packets_pri{p}", PORT_BYTES, "packets", SIDE_TX, EXTRA),
    Mapped("rx_bytes", PORT_BYTES, "bytes", SIDE_RX),
    Mapped("rx_total_frames", PORT_BYTES, "packets", SIDE_RX, EXTRA),
    Mapped("tx_bytes", PORT_BYTES, "bytes", SIDE_TX),
    Mapped("tx_total_frames", PORT_BYTES, "packets", SIDE_TX, EXTRA),
    Mapped("rx_stat_discard", _DROPS, "packets", SIDE_RX),
    Mapped("tx_stat_discard", _DROPS, "packets", SIDE_TX),
    Mapped("rx_fcs_err_frames", LINK_ERRORS, "errors", SIDE_RX, code=1),
    Mapped("rx_fec_corrected_blocks", LINK_ERRORS, "errors", SIDE_RX, code=2),
    Mapped("rx_fec_uncorrectable_blocks", LINK_ERRORS, "errors", SIDE_RX, code=3),
    Mapped("rx_pcs_symbol_err", LINK_ERRORS, "errors", SIDE_RX, code=4),
    Mapped("link_down_events", LINK_ERRORS, "errors", code=5),
))

HW_COUNTERS = checked((
    Mapped("seq_err_naks_rcvd", _RDMA, "errors", code=1),
    Mapped("packet_seq_err", _RDMA, "errors", code=1),
    Mapped("rnr_naks_rcvd", _RDMA, "errors", code=2),
    Mapped("rnr_nak_retry_err", _RDMA, "errors", code=2),
    Mapped("oos_drop_count", _RDMA, "errors", code=3),
    Mapped("out_of_sequence", _RDMA, "errors", code=3),
    Mapped("to_retransmits", _RDMA, "errors", code=4),
    Mapped("local_ack_timeout_err", _RDMA, "errors", code=4),
    Mapped("missing_resp", _RDMA, "errors", code=5),
    Mapped("implied_nak_seq_err", _RDMA, "errors", code=5),
    Mapped("rx_out_of_buffer", _RDMA, "errors", code=6),
    Mapped("dup_req", _RDMA, "errors", code=7),
    Mapped("duplicate_request", _RDMA, "errors", code=7),
    Mapped("rx_roce_discards", _RDMA, "errors", code=13),
    Mapped("max_retry_exceeded", _RDMA, "errors", code=14),
    Mapped("np_ecn_marked_roce_packets", ECN_MARKED, "packets", SIDE_RX),
    Mapped("np_cnp_sent", _CNP, "packets", SIDE_TX),
    Mapped("rp_cnp_handled", _CNP, "packets", SIDE_RX),
))
# fmt: on

DRIVER = Driver(
    STATISTICS, HW_COUNTERS, statistics_stale_ns=1_000_000_000,
    source="drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c",
)  # fmt: skip
