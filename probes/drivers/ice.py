"""Counters of ice (Intel E810 and later): ice_ethtool.c, and verbs.c of infiniband/hw/irdma for its RDMA device.

It counts XOFF and XON frames and no time. The driver of the vendor may show the same counters under other names, and
older kernels call some of the RDMA device's by TCP's.
"""

from probes.counted_rows import EXTRA
from probes.drivers.mapped import Driver, Mapped, checked
from stream.kinds import BY_NAME, ECN_MARKED, LINK_ERRORS, PFC_FRAMES, PORT_BYTES, SIDE_RX, SIDE_TX

_DROPS = BY_NAME["QUEUE_DROPS"].code
_CNP = BY_NAME["CNP"].code
_RDMA = BY_NAME["RDMA_ERRORS"].code

# fmt: off
STATISTICS = checked((
    # Frames that stop and frames that let go, together: what other drivers count as pause frames.
    Mapped("rx_priority_{p}_xoff.nic", PFC_FRAMES, "frames", SIDE_RX),
    Mapped("rx_priority_{p}_xon.nic", PFC_FRAMES, "frames", SIDE_RX),
    Mapped("tx_priority_{p}_xoff.nic", PFC_FRAMES, "frames", SIDE_TX),
    Mapped("tx_priority_{p}_xon.nic", PFC_FRAMES, "frames", SIDE_TX),
    Mapped("port-rx-xoff_prio-{p}_events", PFC_FRAMES, "frames", SIDE_RX),
    Mapped("port-rx-xon_prio-{p}_events", PFC_FRAMES, "frames", SIDE_RX),
    Mapped("port-tx-xoff_prio-{p}_events", PFC_FRAMES, "frames", SIDE_TX),
    Mapped("port-tx-xon_prio-{p}_events", PFC_FRAMES, "frames", SIDE_TX),
    Mapped("rx_bytes.nic", PORT_BYTES, "bytes", SIDE_RX),
    Mapped("rx_unicast.nic", PORT_BYTES, "packets", SIDE_RX, EXTRA),
    Mapped("rx_multicast.nic", PORT_BYTES, "packets", SIDE_RX, EXTRA),
    Mapped("rx_broadcast.nic", PORT_BYTES, "packets", SIDE_RX, EXTRA),
    Mapped("tx_bytes.nic", PORT_BYTES, "bytes", SIDE_TX),
    Mapped("tx_unicast.nic", PORT_BYTES, "packets", SIDE_TX, EXTRA),
    Mapped("tx_multicast.nic", PORT_BYTES, "packets", SIDE_TX, EXTRA),
    Mapped("tx_broadcast.nic", PORT_BYTES, "packets", SIDE_TX, EXTRA),
    Mapped("rx_dropped.nic", _DROPS, "packets", SIDE_RX),
    Mapped("tx_dropped_link_down.nic", _DROPS, "packets", SIDE_TX),
    Mapped("rx_crc_errors.nic", LINK_ERRORS, "errors", SIDE_RX, code=1),
))

HW_COUNTERS = checked((
    Mapped("RxECNMrkd", ECN_MARKED, "packets", SIDE_RX),
    Mapped("cnpSent", _CNP, "packets", SIDE_TX),
    Mapped("cnpHandled", _CNP, "packets", SIDE_RX),
    Mapped("cnpIgnored", _CNP, "packets", SIDE_RX),
    Mapped("RNR received", _RDMA, "errors", code=2),
    Mapped("RetransSegs", _RDMA, "errors", code=8),
    Mapped("tcpRetransSegs", _RDMA, "errors", code=8),
    Mapped("InProtoErrors", _RDMA, "errors", code=12),
    Mapped("tcpInProtoErrors", _RDMA, "errors", code=12),
    Mapped("ip4InDiscards", _RDMA, "errors", code=13),
    Mapped("ip6InDiscards", _RDMA, "errors", code=13),
))
# fmt: on

DRIVER = Driver(STATISTICS, HW_COUNTERS, source="drivers/net/ethernet/intel/ice/ice_ethtool.c")
