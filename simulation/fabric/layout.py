"""Where each number of the fabric's state lies: columns of the records that the kernel works on, and of its scalars.

A record fills whole lines of 64 bytes, so that one look at a queue costs one or two misses of the cache. A directed
link with P priorities has P queues, `link * P + priority`: each is the egress queue at the link's source (`OUT_*`) and
the ingress account at its target (`IN_*`). What belongs to the link as a whole is kept in its first queue.
"""

from __future__ import annotations

# Egress queue: out (queues, 16) int64.
OUT_HEAD = 0  # first slab, -1 if none
OUT_TAIL = 1
OUT_BYTES = 2
OUT_CREDIT = 3  # of the link, thousandths of a byte
OUT_RATE = 4  # of the link, thousandths of a byte a tick
OUT_PAUSED = 5  # tick at which the pause runs out, 0 if there is none
OUT_TX_BYTES = 6
OUT_PEAK = 7  # greatest depth since it was last read
OUT_IS_ACTIVE = 8  # of the link
OUT_IS_SOURCE = 9  # flows begin here
OUT_NODE = 10
OUT_KMIN = 11
OUT_KMAX = 12  # 0: nothing is marked here
OUT_PLACE = 13  # of the link, among the node's egresses
OUT_FLOWS = 14  # flows that have something to send, if flows begin here
OUT_TURN = 15

# Ingress account: into (queues, 16) int64.
IN_NODE = 0
IN_HELD = 1  # bytes in reserve and shared buffer
IN_HEADROOM = 2  # bytes in the headroom
IN_IS_STOPPING = 3
IN_SHIFT = 4  # threshold = free shared buffer >> shift
IN_DELAY = 5  # ticks
IN_IS_SINK = 6
IN_PLACE = 7  # of the link, among the node's ingresses
IN_LIMIT = 8  # bytes of headroom before packets are dropped
IN_XOFFS = 9  # sent
IN_PAUSED_TICKS = 10  # of the egress side, pauses that ended
IN_PAUSED_SINCE = 11
IN_DROPPED = 12  # bytes that found no room
IN_TX_MARKED = 13  # packets that left with CE
IN_ERROR_PPM = 14  # probability that a packet is lost on the link
IN_RX_BYTES = 15

# What is seldom looked at: rare (queues, 8) int64.
RARE_FLOW_OFFSET = 0  # this queue's part of `senders`
RARE_RX_XOFFS = 1
RARE_RX_MARKED = 2
RARE_LOST_PACKETS = 3  # by errors on the link
RARE_LOST_BYTES = 4
RARE_IS_SILENT = 5  # its XOFFs are not repeated before they run out
RARE_NEXT = 6  # of the link: the priority whose turn it is

# Node: node (nodes, 8) int64.
NODE_POOL = 0  # shared buffer in bytes
NODE_SHARED = 1  # used of it
NODE_MATRIX = 2  # offset into `held` and `edges`
NODE_EGRESSES = 3
NODE_ACTIVE = 4  # links that have something to send
NODE_IS_BUSY = 5
NODE_STAMP = 6
NODE_OFFSET = 7  # this node's part of `active` and `egress`

# Slab, consecutive whole packets of one flow: slab (pool, 8) int32.
SLAB_NEXT = 0
SLAB_FLOW = 1
SLAB_BYTES = 2
SLAB_MARKED = 3  # packets with CE; of acknowledgements: those that echo it
SLAB_HOP = 4

# Flow: flow (flows, 32) int64.
FLOW_LEFT = 0
FLOW_SENT = 1
FLOW_DELIVERED = 2
FLOW_TOTAL = 3
FLOW_START = 4
FLOW_DONE = 5  # tick, -1 while it goes on
FLOW_GATE = 6  # flow that must have delivered first, -1 if none
FLOW_PACKET = 7
FLOW_QUEUE = 8
FLOW_IS_CUT = 9  # DCQCN has begun
FLOW_ALPHA_NS = 10
FLOW_CUT_NS = 11
FLOW_RISE_NS = 12
FLOW_ALPHA_CNP = 13
FLOW_CUT_CNP = 14
FLOW_STAGE = 15
FLOW_TOKEN_TICK = 16
FLOW_IS_WAITED = 17
FLOW_CNP_NS = 18  # when a notification arrives, 0 if none is on its way
FLOW_GATED = 19  # flow that waits for this one, -1 if none
FLOW_ACKS_OUT = 20
FLOW_WINDOW = 21  # bytes that a gated flow may be ahead of what its gate delivered
FLOW_IS_LISTED = 22
FLOW_BASE_NS = 23  # delay of the way there
FLOW_CNPS = 24

# DCQCN of a flow: pace (flows, 4) float64.
PACE_RATE = 0  # thousandths of a byte a tick
PACE_TARGET = 1
PACE_ALPHA = 2
PACE_TOKENS = 3

# Scalars: state (40,) int64.
NOW = 0
FREE_SLAB = 1
FREE_SLABS = 2
SLABS_MARGIN = 3  # the most slabs that one tick can take
IN_FLIGHT = 4
FRAMES = 5  # pause frames on their way
BUSY = 6
NEXT_START = 7
STARTS = 8
WAITING = 9  # flows that the caller waits for
RANDOM = 10
PAUSES = 11  # rows of the log of pauses
PARTS = 12  # rows of the log of buffer contents
TIMERS = 13
TICK_NS = 14
PRIORITIES = 15
ACK_OFFSET = 16  # acknowledgements of flow f are flow f + offset; 0: there are none
QUANTA = 17  # ticks after which a pause runs out, 0: never
HAS_DCQCN = 18
MARK_PPM = 19  # probability of a mark at Kmax
MOVES = 20
LINE_RATE = 21  # of a NIC, thousandths of a byte a tick
ACK_BYTES = 22
PAUSE_MARGIN = 23  # the most rows that one tick can log
HAS_PARTS = 24  # buffer contents are logged
PACKET_CREDIT = 25  # of the longest packet: what a link keeps that has nothing more to send
STATE_SIZE = 40

# Why `advance` came back.
AT_END, ALL_DONE, NO_SLABS, LOG_FULL = 0, 1, 2, 3

# Pause frames, and timers.
XON, XOFF, REPEAT = 0, 1, 2
WAKE, RUN_OUT, SEND_AGAIN = 0, 1, 2
WHEEL = 1024
FOREVER = 1 << 60

RESERVE_BYTES = 4096
"""Of each ingress, before it takes of the shared buffer (HPCC `switch-mmu`)."""
RESUME_BYTES = 3072
"""So far below the threshold an ingress must be before it lets the other side go on (the same)."""
MAX_SLAB_BYTES = 65536
MAX_HOPS = 16
