"""For each row of the built-in profiles a notification in the vendor's words, and the record rows that it has to make.

A line: NAME | PATH OF THE LEAF | ITS READINGS, one second apart; OTHER LEAVES OF THE CONTAINER | THE ROWS OF THE SECOND ONE.
"""

from __future__ import annotations

from typing import NamedTuple

_OPENCONFIG = """
MAC pause frames received | /interfaces/interface[name=eth1]/ethernet/state/counters/in-mac-pause-frames | 10 25 | PFC_FRAMES eth1/- rx 15 null 1s
MAC pause frames sent | /interfaces/interface[name=eth1]/ethernet/state/counters/out-mac-pause-frames | 10 25 | PFC_FRAMES eth1/- tx 15 null 1s
queue ECN marked packets | /qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state/ecn-marked-pkts | 5 7; transmit-pkts 100 200 | ECN_MARKED eth1/3 tx 2 100 1s ESTIMATED
queue packets sent | /qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state/transmit-pkts | 100 200; transmit-octets 0 150000 | PORT_BYTES eth1/3 tx 150000 100 1s ESTIMATED
queue bytes sent | /qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state/transmit-octets | 5 1505 | PORT_BYTES eth1/3 tx 1500 null 1s ESTIMATED
queue packets dropped | /qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state/dropped-pkts | 5 7; dropped-octets 7000 10000 | QUEUE_DROPS eth1/3 tx 2 3000 1s ESTIMATED
queue bytes dropped | /qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state/dropped-octets | 7000 10000 | QUEUE_DROPS eth1/3 tx null 3000 1s ESTIMATED
queue depth peak | /qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state/max-queue-len | 900 400; avg-queue-len 10 20 | QUEUE_DEPTH eth1/3 tx null 10 0s ESTIMATED; QUEUE_DEPTH eth1/3 tx 400 20 1s ESTIMATED
queue depth mean | /qos/interfaces/interface[interface-id=eth1]/output/queues/queue[name=3]/state/avg-queue-len | 10 20 | QUEUE_DEPTH eth1/3 tx null 20 0s ESTIMATED
virtual output queue ECN marked packets | /qos/interfaces/interface[interface-id=eth1]/input/virtual-output-queues/voq-interface[name=eth2]/queues/queue[name=q3]/state/ecn-marked-pkts | 5 7 | ECN_MARKED eth2/3 tx 2 null 1s ESTIMATED
virtual output queue packets sent | /qos/interfaces/interface[interface-id=eth1]/input/virtual-output-queues/voq-interface[name=eth2]/queues/queue[name=q3]/state/transmit-pkts | 0 9; transmit-octets 0 900 | PORT_BYTES eth2/3 tx 900 9 1s ESTIMATED
virtual output queue bytes sent | /qos/interfaces/interface[interface-id=eth1]/input/virtual-output-queues/voq-interface[name=eth2]/queues/queue[name=q3]/state/transmit-octets | 0 900 | PORT_BYTES eth2/3 tx 900 null 1s ESTIMATED
virtual output queue packets dropped | /qos/interfaces/interface[interface-id=eth1]/input/virtual-output-queues/voq-interface[name=eth2]/queues/queue[name=q3]/state/dropped-pkts | 0 9 | QUEUE_DROPS eth2/3 tx 9 null 1s ESTIMATED
virtual output queue bytes dropped | /qos/interfaces/interface[interface-id=eth1]/input/virtual-output-queues/voq-interface[name=eth2]/queues/queue[name=q3]/state/dropped-octets | 0 900 | QUEUE_DROPS eth2/3 tx null 900 1s ESTIMATED
virtual output queue depth peak | /qos/interfaces/interface[interface-id=eth1]/input/virtual-output-queues/voq-interface[name=eth2]/queues/queue[name=q3]/state/max-queue-len | 900 400 | QUEUE_DEPTH eth2/3 tx 400 null 1s ESTIMATED
virtual output queue depth mean | /qos/interfaces/interface[interface-id=eth1]/input/virtual-output-queues/voq-interface[name=eth2]/queues/queue[name=q3]/state/avg-queue-len | 10 20 | QUEUE_DEPTH eth2/3 tx null 20 0s ESTIMATED
port bytes received | /interfaces/interface[name=eth1]/state/counters/in-octets | 1000 5000; in-pkts 1 5 | PORT_BYTES eth1/- rx 4000 4 1s
port packets received | /interfaces/interface[name=eth1]/state/counters/in-pkts | 1 5; in-octets 1000 5000 | PORT_BYTES eth1/- rx 4000 4 1s
port bytes sent | /interfaces/interface[name=eth1]/state/counters/out-octets | 1000 5000 | PORT_BYTES eth1/- tx 4000 null 1s
port packets sent | /interfaces/interface[name=eth1]/state/counters/out-pkts | 1 5; out-octets 1000 5000 | PORT_BYTES eth1/- tx 4000 4 1s
port packets discarded on the way in | /interfaces/interface[name=eth1]/state/counters/in-discards | 1 5 | QUEUE_DROPS eth1/- rx 4 null 1s
port packets discarded on the way out | /interfaces/interface[name=eth1]/state/counters/out-discards | 1 5 | QUEUE_DROPS eth1/- tx 4 null 1s
frames with a wrong checksum | /interfaces/interface[name=eth1]/state/counters/in-fcs-errors | 1 5 | LINK_ERRORS eth1/- rx 4 1 1s
link transitions | /interfaces/interface[name=eth1]/state/counters/carrier-transitions | 1 4 | LINK_ERRORS eth1/- none 2 5 1s
chip queue memory | /components/component[name=chip0]/integrated-circuit/pipeline-counters/packet/queueing-block/state/queue-memory-used | 7 900 | QUEUE_DEPTH chip0/- none 900 null 0s
"""

_SONIC = """
PFC frames received | /COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_RX_PKTS | 10 25 | PFC_FRAMES Ethernet0/3 rx 15 null 1s
PFC frames sent | /COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_4_TX_PKTS | 10 25 | PFC_FRAMES Ethernet0/4 tx 15 null 1s
PFC transitions | /COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_ON2OFF_RX_PKTS | 1 3; SAI_PORT_STAT_PFC_3_RX_PKTS 10 25 | PFC_FRAMES Ethernet0/3 rx 15 2 1s
pause time received | /COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US | 1000 1250; SAI_PORT_STAT_PFC_3_RX_PKTS 10 25 | PFC_FRAMES Ethernet0/3 rx 15 null 1s; PFC_PAUSED Ethernet0/3 rx 250000 15 1s
pause time sent | /COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_TX_PAUSE_DURATION_US | 1000 1250 | PFC_PAUSED Ethernet0/3 tx 250000 null 1s
pause quanta received | /COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION | 0 1000 | PFC_PAUSED Ethernet0/3 rx 5120 null 1s
pause quanta sent | /COUNTERS/Ethernet0/SAI_PORT_STAT_PFC_3_TX_PAUSE_DURATION | 7 1007 | PFC_PAUSED Ethernet0/3 tx 5120 null 1s
queue packets sent | /COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_PACKETS | 1 5; SAI_QUEUE_STAT_BYTES 1000 5000 | PORT_BYTES Ethernet0/3 tx 4000 4 1s ESTIMATED
queue bytes sent | /COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_BYTES | 1000 5000 | PORT_BYTES Ethernet0/3 tx 4000 null 1s ESTIMATED
queue packets dropped | /COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_DROPPED_PACKETS | 1 5; SAI_QUEUE_STAT_DROPPED_BYTES 1000 5000 | QUEUE_DROPS Ethernet0/3 tx 4 4000 1s ESTIMATED
queue bytes dropped | /COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_DROPPED_BYTES | 1000 5000 | QUEUE_DROPS Ethernet0/3 tx null 4000 1s ESTIMATED
queue depth now | /COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES | 1 208 | QUEUE_DEPTH Ethernet0/3 tx null 208 0s ESTIMATED
queue depth peak | /COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES | 64 192 | QUEUE_DEPTH Ethernet0/3 tx 192 null 60s ESTIMATED
queue depth peak of the period | /PERIODIC_WATERMARKS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES | 64 192 | QUEUE_DEPTH Ethernet0/3 tx 192 null 120s ESTIMATED
queue ECN marked packets | /COUNTERS/Ethernet0/Queues/Ethernet0:3/SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS | 1 5; SAI_QUEUE_STAT_PACKETS 10 20 | ECN_MARKED Ethernet0/3 tx 4 10 1s ESTIMATED
PFC watchdog status | /COUNTERS/Ethernet0/Pfcwd/Ethernet0:3/PFC_WD_STATUS | operational stormed | PFC_WATCHDOG Ethernet0/3 rx 1 null 0s ESTIMATED
PFC watchdog drops | /COUNTERS/Ethernet0/Pfcwd/Ethernet0:3/PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS | 1 5; PFC_WD_STATUS operational stormed | PFC_WATCHDOG Ethernet0/3 rx 1 4 1s ESTIMATED
priority group peak | /PERIODIC_WATERMARKS/Ethernet0/PriorityGroups/Ethernet0:3/SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES | 64 192 | QUEUE_DEPTH Ethernet0/3 rx 192 null 120s ESTIMATED
headroom peak | /PERIODIC_WATERMARKS/Ethernet0/PriorityGroups/Ethernet0:3/SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES | 64 192 | HEADROOM Ethernet0/3 rx 192 null 120s ESTIMATED
priority group packets dropped | /COUNTERS/Ethernet0/PriorityGroups/Ethernet0:3/SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS | 1 5 | QUEUE_DROPS Ethernet0/3 rx 4 null 1s ESTIMATED
port bytes received | /COUNTERS/Ethernet0/SAI_PORT_STAT_IF_IN_OCTETS | 1000 5000 | PORT_BYTES Ethernet0/- rx 4000 null 1s
port packets received | /COUNTERS/Ethernet0/SAI_PORT_STAT_IF_IN_UCAST_PKTS | 1 5; SAI_PORT_STAT_IF_IN_OCTETS 1000 5000 | PORT_BYTES Ethernet0/- rx 4000 4 1s ESTIMATED
port bytes sent | /COUNTERS/Ethernet0/SAI_PORT_STAT_IF_OUT_OCTETS | 1000 5000 | PORT_BYTES Ethernet0/- tx 4000 null 1s
port packets sent | /COUNTERS/Ethernet0/SAI_PORT_STAT_IF_OUT_UCAST_PKTS | 1 5; SAI_PORT_STAT_IF_OUT_OCTETS 1000 5000 | PORT_BYTES Ethernet0/- tx 4000 4 1s ESTIMATED
port packets discarded on the way in | /COUNTERS/Ethernet0/SAI_PORT_STAT_IF_IN_DISCARDS | 1 5 | QUEUE_DROPS Ethernet0/- rx 4 null 1s
port packets discarded on the way out | /COUNTERS/Ethernet0/SAI_PORT_STAT_IF_OUT_DISCARDS | 1 5 | QUEUE_DROPS Ethernet0/- tx 4 null 1s
frames with a wrong checksum | /COUNTERS/Ethernet0/SAI_PORT_STAT_ETHER_STATS_CRC_ALIGN_ERRORS | 1 5 | LINK_ERRORS Ethernet0/- rx 4 1 1s
"""

_ARISTA = """
PFC frames received | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/priorities/priority[index=3]/state/in-frames | 10 25 | PFC_FRAMES Ethernet1/1/3 rx 15 null 1s
PFC frames sent | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/priorities/priority[index=3]/state/out-frames | 10 25 | PFC_FRAMES Ethernet1/1/3 tx 15 null 1s
pause time received | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/priorities/priority[index=3]/state/pfc-on-total-rx-time | 1000 1250; in-frames 10 25 | PFC_FRAMES Ethernet1/1/3 rx 15 null 1s; PFC_PAUSED Ethernet1/1/3 rx 250 15 1s
PFC transitions | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/priorities/priority[index=3]/state/rx-transitions | 1 3; in-frames 10 25 | PFC_FRAMES Ethernet1/1/3 rx 15 2 1s
PFC packets dropped | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/priorities/priority[index=3]/state/dropped-pkts | 1 5; dropped-octets 1000 5000 | QUEUE_DROPS Ethernet1/1/3 rx 4 4000 1s
PFC bytes dropped | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/priorities/priority[index=3]/state/dropped-octets | 1000 5000 | QUEUE_DROPS Ethernet1/1/3 rx null 4000 1s
PFC buffer peak | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/priorities/priority[index=3]/state/all-buffers-octets-max-last-poll | 900 400 | QUEUE_DEPTH Ethernet1/1/3 rx 400 null 1s ESTIMATED
PFC watchdog found a storm | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/watchdog/tx-queues/tx-queue[index=3][queue-type=UNICAST]/state/stuck-count | 1 2 | PFC_WATCHDOG Ethernet1/1/3 rx 1 null 1s ESTIMATED
PFC watchdog gave back the queue | /interfaces/interface[name=Ethernet1/1]/ethernet/pfc/watchdog/tx-queues/tx-queue[index=3][queue-type=UNICAST]/state/recovery-count | 1 2 | PFC_WATCHDOG Ethernet1/1/3 rx 0 null 1s ESTIMATED
queue packets dropped by WRED | /qos/interfaces/interface[interface-id=Ethernet1/1]/output/queues/queue[name=UC3]/state/wred-dropped-pkts | 1 5 | QUEUE_DROPS Ethernet1/1/3 tx 4 null 1s ESTIMATED
LANZ congestion record | /arista/lanz/congestion-record/state/queue-length | 4096 8192; interface-id Ethernet1/1 Ethernet1/1; traffic-class 3 3; duration 250 250 | QUEUE_DEPTH Ethernet1/1/3 tx 8192 null 0.00025s ESTIMATED
"""

_NXOS_LIST = "/System/ipqos-items/queuing-items/policy-items/out-items/intf-items/If-list[name=eth1/1]/queCmap-items/QueuingStats-list[cmapName=c-out-8q-q3][statType=mcast]"
_NXOS = f"""
PFC frames sent | {_NXOS_LIST}/pfcTxPpp | 10 25 | PFC_FRAMES eth1/1/3 tx 15 null 1s ESTIMATED
PFC frames received | {_NXOS_LIST}/pfcRxPpp | 10 25 | PFC_FRAMES eth1/1/3 rx 15 null 1s ESTIMATED
PFC watchdog found a storm | {_NXOS_LIST}/pfcwdShutdownCount | 1 2 | PFC_WATCHDOG eth1/1/3 rx 1 null 1s ESTIMATED
PFC watchdog gave back the queue | {_NXOS_LIST}/pfcwdRestoredCount | 1 2 | PFC_WATCHDOG eth1/1/3 rx 0 null 1s ESTIMATED
PFC watchdog drops | {_NXOS_LIST}/pfcwdFlushedPackets | 1 5 | PFC_WATCHDOG eth1/1/3 rx null 4 1s ESTIMATED
queue ECN marked packets | {_NXOS_LIST}/randEcnMarkedPackets | 1 5; txPackets 10 20 | ECN_MARKED eth1/1/3 tx 4 10 1s ESTIMATED
queue packets sent | {_NXOS_LIST}/txPackets | 10 20; txBytes 1000 5000 | PORT_BYTES eth1/1/3 tx 4000 10 1s ESTIMATED
queue bytes sent | {_NXOS_LIST.replace("c-out-8q-q3", "c-out-8q-q-default")}/txBytes | 1000 5000 | PORT_BYTES eth1/1/0 tx 4000 null 1s ESTIMATED
queue packets dropped | {_NXOS_LIST}/dropPackets | 10 20; dropBytes 1000 5000 | QUEUE_DROPS eth1/1/3 tx 10 4000 1s ESTIMATED
queue bytes dropped | {_NXOS_LIST.replace("queuing-items", "dflt-items")}/dropBytes | 1000 5000 | QUEUE_DROPS eth1/1/3 tx null 4000 1s ESTIMATED
queue packets dropped by WRED | {_NXOS_LIST}/randDropPackets | 10 20 | QUEUE_DROPS eth1/1/3 tx 10 null 1s ESTIMATED
queue depth peak | {_NXOS_LIST}/maxQueueDepth | 9000 4000; currQueueDepth 10 20 | QUEUE_DEPTH eth1/1/3 tx null 10 0s ESTIMATED; QUEUE_DEPTH eth1/1/3 tx 4000 20 1s ESTIMATED
queue depth now | {_NXOS_LIST}/currQueueDepth | 10 20 | QUEUE_DEPTH eth1/1/3 tx null 20 0s ESTIMATED
ingress queue packets dropped | {_NXOS_LIST.replace("out-items", "in-items").replace("c-out-8q", "c-in")}/ingQDropPackets | 10 20 | QUEUE_DROPS eth1/1/3 rx 10 null 1s ESTIMATED
ingress queue depth now | {_NXOS_LIST.replace("out-items", "in-items").replace("c-out-8q", "c-in")}/ingQDepthBytes | 10 20 | QUEUE_DEPTH eth1/1/3 rx null 20 0s ESTIMATED
"""

_QMON = "/junos/system/linecard/qmon-sw[name=et-0/0/1]"
_CARD = "/junos/system/linecard/interface[name=et-0/0/1]"
_JUNOS = f"""
PFC frames received | /interfaces/interface[name=et-0/0/1]/ethernet/state/counters/jnx-pfc-statistics[priority=3]/in-mac-pause-frames | 10 25 | PFC_FRAMES et-0/0/1/3 rx 15 null 1s
PFC frames sent | /interfaces/interface[name=et-0/0/1]/ethernet/state/counters/jnx-pfc-statistics[priority=3]/out-mac-pause-frames | 10 25 | PFC_FRAMES et-0/0/1/3 tx 15 null 1s
queue depth peak | {_QMON}/egress[queue-number=3]/peak-buffer-occupancy-bytes | 900 416 | QUEUE_DEPTH et-0/0/1/3 tx 416 null 1s ESTIMATED
queue packets | {_QMON}/egress[queue-number=3]/packets | 10 20; bytes 1000 5000 | PORT_BYTES et-0/0/1/3 tx 4000 10 1s ESTIMATED
queue bytes | {_QMON}/egress[queue-number=3]/bytes | 1000 5000 | PORT_BYTES et-0/0/1/3 tx 4000 null 1s ESTIMATED
queue packets dropped | {_QMON}/egress[queue-number=3]/tail-drop-packets | 10 20; tail-drop-bytes 1000 5000 | QUEUE_DROPS et-0/0/1/3 tx 10 4000 1s ESTIMATED
queue bytes dropped | {_QMON}/egress[queue-number=3]/tail-drop-bytes | 1000 5000 | QUEUE_DROPS et-0/0/1/3 tx null 4000 1s ESTIMATED
ingress queue depth peak | {_QMON}/ingress[queue-number=3]/peak-buffer-occupancy-bytes | 900 416 | QUEUE_DEPTH et-0/0/1/3 rx 416 null 1s ESTIMATED
ingress queue packets | {_QMON}/ingress[queue-number=3]/packets | 10 20; bytes 1000 5000 | PORT_BYTES et-0/0/1/3 rx 4000 10 1s ESTIMATED
ingress queue bytes | {_QMON}/ingress[queue-number=3]/bytes | 1000 5000 | PORT_BYTES et-0/0/1/3 rx 4000 null 1s ESTIMATED
ingress queue packets dropped | {_QMON}/ingress[queue-number=3]/tail-drop-packets | 10 20 | QUEUE_DROPS et-0/0/1/3 rx 10 null 1s ESTIMATED
ingress queue bytes dropped | {_QMON}/ingress[queue-number=3]/tail-drop-bytes | 1000 5000 | QUEUE_DROPS et-0/0/1/3 rx null 4000 1s ESTIMATED
line card queue packets | {_CARD}/out-queue[queue-number=3]/pkts | 10 20; bytes 1000 5000 | PORT_BYTES et-0/0/1/3 tx 4000 10 1s ESTIMATED
line card queue bytes | {_CARD}/egress-stats/out-queue[queue-number=3]/bytes | 1000 5000 | PORT_BYTES et-0/0/1/3 tx 4000 null 1s ESTIMATED
line card queue packets dropped | {_CARD}/out-queue[queue-number=3]/tail-drop-pkts | 10 20 | QUEUE_DROPS et-0/0/1/3 tx 10 null 1s ESTIMATED
line card queue depth peak | {_CARD}/out-queue[queue-number=3]/peak-buffer-occupancy | 900 416; avg-buffer-occupancy 10 20 | QUEUE_DEPTH et-0/0/1/3 tx null 10 0s ESTIMATED; QUEUE_DEPTH et-0/0/1/3 tx 416 20 1s ESTIMATED
line card queue depth mean | {_CARD}/out-queue[queue-number=3]/avg-buffer-occupancy | 10 20 | QUEUE_DEPTH et-0/0/1/3 tx null 20 0s ESTIMATED
line card ingress queue packets | {_CARD}/in-queue[queue-number=3]/pkts | 10 20; bytes 1000 5000 | PORT_BYTES et-0/0/1/3 rx 4000 10 1s ESTIMATED
line card ingress queue bytes | {_CARD}/in-queue[queue-number=3]/bytes | 1000 5000 | PORT_BYTES et-0/0/1/3 rx 4000 null 1s ESTIMATED
line card ingress queue packets dropped | {_CARD}/ingress-stats/in-queue[queue-number=3]/tail-drop-pkts | 10 20 | QUEUE_DROPS et-0/0/1/3 rx 10 null 1s ESTIMATED
line card ingress queue depth peak | {_CARD}/in-queue[queue-number=3]/peak-buffer-occupancy | 900 416 | QUEUE_DEPTH et-0/0/1/3 rx 416 null 1s ESTIMATED
line card ingress queue depth mean | {_CARD}/in-queue[queue-number=3]/avg-buffer-occupancy | 10 20 | QUEUE_DEPTH et-0/0/1/3 rx null 20 0s ESTIMATED
"""

_SRL = "/qos/interfaces/interface[interface-id=ethernet-1/1]"
_SRL_QUEUE = f"{_SRL}/output/queues/queue[queue-name=unicast-3]"
_SRL_STATS = f"{_SRL_QUEUE}/queue-statistics/aggregate-statistics"
_SRLINUX = f"""
PFC frames received | {_SRL}/pfc/statistics/pfc-priority[index=3]/pfc-pause-frames-received | 10 25 | PFC_FRAMES ethernet-1/1/3 rx 15 null 1s
PFC frames sent | {_SRL}/pfc/statistics/pfc-priority[index=3]/pfc-pause-frames-generated | 10 25 | PFC_FRAMES ethernet-1/1/3 tx 15 null 1s
PFC transitions | {_SRL}/pfc/statistics/pfc-priority[index=3]/pfc-transitions | 1 3; pfc-pause-frames-received 10 25 | PFC_FRAMES ethernet-1/1/3 rx 15 2 1s
PFC watchdog gave back the queue | {_SRL}/pfc/statistics/pfc-priority[index=3]/deadlock-recovery-occurrences | 1 2 | PFC_WATCHDOG ethernet-1/1/3 rx 0 null 1s
PFC packets dropped | {_SRL}/pfc/statistics/total-packet-pfc-discards | 10 20 | QUEUE_DROPS ethernet-1/1/- rx 10 null 1s
PFC buffer | {_SRL}/pfc/pfc-queue[pfc-queue-name=pfc-3]/peak-pfc-buffer-used | 900 400 | HEADROOM ethernet-1/1/3 rx 400 null 1s ESTIMATED
PFC buffer size | {_SRL}/pfc/pfc-queue[pfc-queue-name=pfc-3]/pfc-reserved-buffer-used | 2000 3000; peak-pfc-buffer-used 900 400 | HEADROOM ethernet-1/1/3 rx 400 3000 1s ESTIMATED
chip headroom | /platform/linecard[slot=1]/forwarding-complex[name=0]/buffer-memory/pfc-headroom-buffer/used | 7 900 | HEADROOM 1/0/- rx 900 null 0s
chip buffer | /platform/linecard[slot=1]/forwarding-complex[name=0]/buffer-memory/used | 7 900 | QUEUE_DEPTH 1/0/- none 900 null 0s
queue ECN marked packets | {_SRL_STATS}/ecn-marked-packets | 1 5; transmitted-packets 10 20 | ECN_MARKED ethernet-1/1/3 tx 4 10 1s ESTIMATED
queue packets sent | {_SRL_STATS}/transmitted-packets | 10 20; transmitted-octets 1000 5000 | PORT_BYTES ethernet-1/1/3 tx 4000 10 1s ESTIMATED
queue bytes sent | {_SRL_STATS}/transmitted-octets | 1000 5000 | PORT_BYTES ethernet-1/1/3 tx 4000 null 1s ESTIMATED
queue packets dropped | {_SRL_STATS}/dropped-packets | 10 20; dropped-octets 1000 5000 | QUEUE_DROPS ethernet-1/1/3 tx 10 4000 1s ESTIMATED
queue bytes dropped | {_SRL_STATS}/dropped-octets | 1000 5000 | QUEUE_DROPS ethernet-1/1/3 tx null 4000 1s ESTIMATED
queue depth peak of a minute | {_SRL_QUEUE}/queue-depth/high-watermark-1 | 900 400; average-1 10 20 | QUEUE_DEPTH ethernet-1/1/3 tx 400 20 60s ESTIMATED
queue depth mean of a minute | {_SRL_QUEUE}/queue-depth/average-1 | 10 20 | QUEUE_DEPTH ethernet-1/1/3 tx null 20 0s ESTIMATED
MAC pause frames received | /interface[name=ethernet-1/1]/ethernet/statistics/in-mac-pause-frames | 10 25 | PFC_FRAMES ethernet-1/1/- rx 15 null 1s
MAC pause frames sent | /interface[name=ethernet-1/1]/ethernet/statistics/out-mac-pause-frames | 10 25 | PFC_FRAMES ethernet-1/1/- tx 15 null 1s
frames with a wrong checksum | /interface[name=ethernet-1/1]/statistics/in-fcs-error-packets | 1 5 | LINK_ERRORS ethernet-1/1/- rx 4 1 1s
port bytes received | /interface[name=ethernet-1/1]/statistics/in-octets | 1000 5000 | PORT_BYTES ethernet-1/1/- rx 4000 null 1s
port packets received | /interface[name=ethernet-1/1]/statistics/in-packets | 1 5; in-octets 1000 5000 | PORT_BYTES ethernet-1/1/- rx 4000 4 1s
port bytes sent | /interface[name=ethernet-1/1]/statistics/out-octets | 1000 5000 | PORT_BYTES ethernet-1/1/- tx 4000 null 1s
port packets sent | /interface[name=ethernet-1/1]/statistics/out-packets | 1 5; out-octets 1000 5000 | PORT_BYTES ethernet-1/1/- tx 4000 4 1s
port packets discarded on the way in | /interface[name=ethernet-1/1]/statistics/in-discarded-packets | 1 5 | QUEUE_DROPS ethernet-1/1/- rx 4 null 1s
port packets discarded on the way out | /interface[name=ethernet-1/1]/statistics/out-discarded-packets | 1 5 | QUEUE_DROPS ethernet-1/1/- tx 4 null 1s
link transitions | /interface[name=ethernet-1/1]/statistics/carrier-transitions | 1 4 | LINK_ERRORS ethernet-1/1/- none 2 5 1s
"""

_SWP = "/qos/interfaces/interface[interface-id=swp1]"
_CUMULUS = f"""
PFC frames received | {_SWP}/state/switch-priority[priority=3]/counters/in-pause-pkts | 10 25 | PFC_FRAMES swp1/3 rx 15 null 1s
PFC frames sent | {_SWP}/switch-priority[priority=3]/state/counters/out-pause-pkts | 10 25 | PFC_FRAMES swp1/3 tx 15 null 1s
pause time received | {_SWP}/switch-priority[priority=3]/state/in-pause-duration | 1000 1250; counters/in-pause-pkts 10 25 | PFC_FRAMES swp1/3 rx 15 null 1s; PFC_PAUSED swp1/3 rx 250000 15 1s
pause time sent | {_SWP}/switch-priority[priority=3]/state/out-pause-duration | 1000 1250 | PFC_PAUSED swp1/3 tx 250000 null 1s
priority packets discarded on the way in | {_SWP}/switch-priority[priority=3]/state/counters/in-discards | 1 5 | QUEUE_DROPS swp1/3 rx 4 null 1s
queue packets dropped | {_SWP}/output/queues/queue[name=3]/state/no-buffer-uc-dropped-pkts | 1 5 | QUEUE_DROPS swp1/3 tx 4 null 1s ESTIMATED
queue packets dropped by WRED | {_SWP}/output/queues/queue[name=3]/state/wred-dropped-pkts | 1 5 | QUEUE_DROPS swp1/3 tx 4 null 1s ESTIMATED
queue depth peak | {_SWP}/output/queues/queue[name=3]/state/max-queue-len | 900 400 | QUEUE_DEPTH swp1/3 tx 400 null 1s ESTIMATED
queue depth peak in cells | {_SWP}/output/queues/queue[name=3]/state/max-queue-len-cells | 9 4 | QUEUE_DEPTH swp1/3 tx 768 null 1s ESTIMATED
queue depth now | {_SWP}/output/queues/queue[name=3]/state/instant-queue-len | 10 20 | QUEUE_DEPTH swp1/3 tx null 20 0s ESTIMATED
headroom peak | {_SWP}/input/headroom-buffer[buffer-type=primary]/priority-group[pg-id=3]/state/max-occupancy-since-last-sample | 900 400 | HEADROOM swp1/3 rx 400 null 1s ESTIMATED
packets trimmed | /qos/packet-trimming/state/counters/trimmed-unicast-pkts | 1 5 | QUEUE_DROPS -/- tx 4 null 1s
FEC corrected | /interfaces/interface[name=swp1]/ethernet/phy/state/fec-corrected-codewords | 1 5 | LINK_ERRORS swp1/- rx 4 2 1s
FEC uncorrected | /interfaces/interface[name=swp1]/ethernet/phy/state/fec-uncorrectable-codewords | 1 5 | LINK_ERRORS swp1/- rx 4 3 1s
"""


class Example(NamedTuple):
    """Leaves with their two readings, and the rows of the second."""

    leaves: list[tuple[str, tuple[str, str]]]
    rows: list[str]


def _examples(table: str) -> dict[str, Example]:
    found = {}
    for line in table.strip().splitlines():
        name, path, readings, rows = (field.strip() for field in line.split(" | "))
        first, *others = readings.split("; ")
        container = path[: path.rindex("/") + 1]
        before, now = first.split()
        leaves = [(path, (before, now))]
        for other in others:
            leaf, before, now = other.split()
            leaves.append((container + leaf, (before, now)))
        found[name] = Example(leaves, rows.split("; "))
    return found


_OF_BASE = _examples(_OPENCONFIG)
EXAMPLES: dict[str, dict[str, Example]] = {
    "openconfig": _OF_BASE,
    "sonic": _examples(_SONIC),
    "arista-eos": _OF_BASE | _examples(_ARISTA),
    "cisco-nxos": _OF_BASE | _examples(_NXOS),
    "juniper-junos": _OF_BASE | _examples(_JUNOS),
    "nokia-srlinux": _examples(_SRLINUX),
    "nvidia-cumulus": _OF_BASE | _examples(_CUMULUS),
}
