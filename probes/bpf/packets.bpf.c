/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Pause frames (IEEE 802.1Qbb and 802.3 Annex 31B), ECN codepoints (RFC 3168) and RoCEv2 packets among the packets that
 * the kernel sees. tcx or clsact shows all of them, with GSO super-packets as the segments that they become; generic
 * XDP does not know segments, so that it looks at pause frames alone.
 *
 * In: packets of the interfaces attached to. Counts by flow and by interface; single pauses go through the ring. */
#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86DD
#define ETH_VLAN 0x8100
#define ETH_QINQ 0x88A8
#define ETH_MAC_CONTROL 0x8808
#define OPCODE_PAUSE 0x0001
#define OPCODE_PFC 0x0101
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define ROCEV2_PORT 4791
#define BTH_CNP 0x81
#define BTH_ACKNOWLEDGE 0x11 /* the low five bits in the classes RC and XRC; 0x12 acknowledges an atomic */
#define NO_PCP 255
#define WHOLE_PORT 8 /* after the eight priorities: the 802.3 pause, which stops them all */
#define MAX_HEADERS 128
#define GO_ON (-1) /* TCX_NEXT and TC_ACT_UNSPEC: leave the packet to whoever comes next */

struct flow_key {
    struct flow_tuple tuple;
    u32 ifindex;
    u8 side;
    u8 dscp;
    u8 pcp;
    u8 unused;
};

struct flow {
    u64 id;
    u64 slows; /* the flow that this flow's CNPs slow, 0 while unknown */
    u64 packets;
    u64 bytes;
    u64 ect_1;
    u64 ect_0;
    u64 ce;
    u64 data;
    u64 acks;
    u64 sequence_naks;
    u64 rnr_naks;
    u64 other_naks;
    u64 cnps;
    u64 last_ns;
};

/* What an interface saw on one side; each entry is made when the program is attached. */
struct port_key {
    u32 ifindex;
    u32 side;
};

struct port {
    u64 pfc_frames;
    u64 pause_frames;
    u64 truncated_frames; /* pause frames cut short */
    u64 xoff[9];
    u64 xon[9];
    u64 quanta[9];
    u64 untold[9]; /* of xoff and xon together, those that were not told one by one */
    struct flow unlisted; /* of all flows that found no room in `flows`, whose id is 0 */
};

/* MAX_FLOWS x (48 + 112) bytes, and what the kernel adds. What finds no room is counted at its port. */
BPF_HASH(flows, struct flow_key, struct flow, MAX_FLOWS);
BPF_HASH(ports, struct port_key, struct port, 512);
BPF_RINGBUF_OUTPUT(pauses, PAUSE_RING_PAGES);
BPF_PERCPU_ARRAY(pauses_lost, u64, 1);

/* Which packet asked for an acknowledgement: by its answer, the two QPs of a connection are known to belong together,
 * so that a CNP, which bears the sender's QPN, finds the flow, which bears the receiver's. */
struct asked_key {
    u8 source[16];
    u8 destination[16];
    u32 psn;
};

struct queue_pair {
    u8 source[16];
    u8 destination[16];
    u32 source_qpn;
};

BPF_TABLE("lru_hash", struct asked_key, u64, asked, 8192);
BPF_TABLE("lru_hash", struct queue_pair, u64, queue_pairs, MAX_FLOWS);

ALWAYS_INLINE void add(u64 *counter, u64 amount) {
    __sync_fetch_and_add(counter, amount);
}

ALWAYS_INLINE u16 net16(const u8 *bytes) {
    return bytes[0] << 8 | bytes[1];
}

ALWAYS_INLINE u32 net24(const u8 *bytes) {
    return bytes[0] << 16 | bytes[1] << 8 | bytes[2];
}

ALWAYS_INLINE void tell_pause(u32 ifindex, u8 side, u8 priority, u16 quanta, u64 now_ns) {
    struct pausetrace_event *event = pauses.ringbuf_reserve(sizeof(*event));
    if (!event) {
        u32 zero = 0;
        u64 *lost = pauses_lost.lookup(&zero);
        if (lost)
            add(lost, 1);
        return;
    }
    event->time_ns = now_ns;
    event->seen_ns = 0;
    event->span_ns = 0;
    event->value = quanta;
    event->extra = 0;
    event->flow = 0;
    /* Both halves of the ifindex, until the agent gives the row its port. */
    event->device = ifindex;
    event->port = ifindex >> 16;
    event->kind = quanta ? PAUSETRACE_KIND_PFC_XOFF : PAUSETRACE_KIND_PFC_XON;
    event->priority = priority == WHOLE_PORT ? PAUSETRACE_NO_PRIORITY : priority;
    event->side = side;
    event->quality = PAUSETRACE_QUALITY_EXACT;
    pauses.ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* The place after the VLAN tags, and what stands there; 0 where the packet is too short. */
struct ethernet {
    u8 *payload;
    u16 type;
    u8 pcp;
};

ALWAYS_INLINE bool ethernet_of(u8 *data, u8 *end, struct ethernet *ethernet) {
    if (data + 14 > end)
        return false;
    ethernet->type = net16(data + 12);
    ethernet->pcp = NO_PCP;
    u8 *payload = data + 14;
#pragma unroll
    for (int tag = 0; tag < 2; tag++) {
        if (ethernet->type != ETH_VLAN && ethernet->type != ETH_QINQ)
            break;
        if (payload + 4 > end)
            return false;
        if (ethernet->pcp == NO_PCP)
            ethernet->pcp = payload[0] >> 5;
        ethernet->type = net16(payload + 2);
        payload += 4;
    }
    ethernet->payload = payload;
    return true;
}

ALWAYS_INLINE void count_pause(struct port *port, u32 ifindex, u8 side, u8 priority, u16 quanta, u64 now_ns,
                               bool single) {
    add(quanta ? &port->xoff[priority] : &port->xon[priority], 1);
    add(&port->quanta[priority], quanta);
    if (single)
        tell_pause(ifindex, side, priority, quanta, now_ns);
    else
        add(&port->untold[priority], 1);
}

ALWAYS_INLINE void count_mac_control(u8 *payload, u8 *end, u32 ifindex, u8 side, struct port *port) {
    u64 now_ns = bpf_ktime_get_ns();
    bool single = setting(SETTING_SINGLE_PAUSES) == 1;
    if (payload + 4 > end) {
        add(&port->truncated_frames, 1);
        return;
    }
    u16 opcode = net16(payload);
    if (opcode == OPCODE_PAUSE) {
        add(&port->pause_frames, 1);
        count_pause(port, ifindex, side, WHOLE_PORT, net16(payload + 2), now_ns, single);
    } else if (opcode == OPCODE_PFC) {
        if (payload + 20 > end) {
            add(&port->truncated_frames, 1);
            return;
        }
        add(&port->pfc_frames, 1);
        u8 classes = payload[3];
#pragma unroll
        for (int priority = 0; priority < 8; priority++) {
            if (classes >> priority & 1)
                count_pause(port, ifindex, side, priority, net16(payload + 4 + 2 * priority), now_ns, single);
        }
    }
}

ALWAYS_INLINE void count_roce(u8 *bth, u8 *end, struct flow_key *key, struct flow *flow) {
    u8 opcode = bth[0];
    u32 psn = net24(bth + 9);
    if (opcode == BTH_CNP) {
        struct queue_pair pair = {};
        __builtin_memcpy(pair.source, key->tuple.destination, 16);
        __builtin_memcpy(pair.destination, key->tuple.source, 16);
        pair.source_qpn = net24(bth + 5);
        u64 *slowed = queue_pairs.lookup(&pair);
        if (slowed)
            flow->slows = *slowed;
        add(&flow->cnps, 1);
        return;
    }
    u8 class = opcode >> 5;
    bool acknowledges = (class == 0 || class == 5) && ((opcode & 31) == BTH_ACKNOWLEDGE || (opcode & 31) == 0x12);
    if (!acknowledges) {
        add(&flow->data, 1);
        if (bth[8] & 0x80) {
            struct asked_key question = {};
            __builtin_memcpy(question.source, key->tuple.source, 16);
            __builtin_memcpy(question.destination, key->tuple.destination, 16);
            question.psn = psn;
            u64 id = flow->id;
            asked.update(&question, &id);
        }
        return;
    }
    if (bth + 13 > end)
        return;
    u8 syndrome = bth[12];
    /* AETH syndrome: bits 6 and 5 say ACK (0), RNR NAK (1) or NAK (3), whose code 0 is a PSN sequence error. */
    u8 what = syndrome >> 5 & 3;
    if (what == 0) {
        add(&flow->acks, 1);
        struct asked_key question = {};
        __builtin_memcpy(question.source, key->tuple.destination, 16);
        __builtin_memcpy(question.destination, key->tuple.source, 16);
        question.psn = psn;
        u64 *answered = asked.lookup(&question);
        if (answered) {
            u64 id = *answered;
            struct queue_pair pair = {};
            __builtin_memcpy(pair.source, question.source, 16);
            __builtin_memcpy(pair.destination, question.destination, 16);
            pair.source_qpn = net24(bth + 5);
            queue_pairs.update(&pair, &id);
            asked.delete(&question);
        }
    } else if (what == 1) {
        add(&flow->rnr_naks, 1);
    } else if ((syndrome & 31) == 0) {
        add(&flow->sequence_naks, 1);
    } else {
        add(&flow->other_naks, 1);
    }
}

ALWAYS_INLINE void map_ipv4(u8 *address, const u8 *ipv4) {
    address[10] = 0xff;
    address[11] = 0xff;
    __builtin_memcpy(address + 12, ipv4, 4);
}

ALWAYS_INLINE int look(struct __sk_buff *skb, u8 side) {
    u32 wanted = skb->len < MAX_HEADERS ? skb->len : MAX_HEADERS;
    u8 *data = (u8 *)(long)skb->data, *end = (u8 *)(long)skb->data_end;
    if (end - data < wanted) {
        bpf_skb_pull_data(skb, wanted);
        data = (u8 *)(long)skb->data;
        end = (u8 *)(long)skb->data_end;
    }
    struct ethernet ethernet;
    if (!ethernet_of(data, end, &ethernet))
        return GO_ON;
    struct port_key port_key = {.ifindex = skb->ifindex, .side = side};
    struct port *port = ports.lookup(&port_key);
    if (!port)
        return GO_ON;
    if (ethernet.type == ETH_MAC_CONTROL) {
        count_mac_control(ethernet.payload, end, skb->ifindex, side, port);
        return GO_ON;
    }
    struct flow_key key = {};
    u8 *ip = ethernet.payload, *transport;
    u8 ecn;
    bool first = true;
    if (ethernet.type == ETH_IPV4) {
        if (ip + 20 > end)
            return GO_ON;
        map_ipv4(key.tuple.source, ip + 12);
        map_ipv4(key.tuple.destination, ip + 16);
        key.tuple.bytes[0] = ip[9];
        key.dscp = ip[1] >> 2;
        ecn = ip[1] & 3;
        first = (net16(ip + 6) & 0x1fff) == 0; /* only the first fragment has ports */
        transport = ip + (ip[0] & 15) * 4;
    } else if (ethernet.type == ETH_IPV6) {
        if (ip + 40 > end)
            return GO_ON;
        __builtin_memcpy(key.tuple.source, ip + 8, 16);
        __builtin_memcpy(key.tuple.destination, ip + 24, 16);
        key.tuple.bytes[0] = ip[6];
        key.dscp = (ip[0] & 15) << 2 | ip[1] >> 6;
        ecn = ip[1] >> 4 & 3;
        transport = ip + 40;
    } else {
        return GO_ON;
    }
    key.ifindex = skb->ifindex;
    key.side = side;
    key.pcp = skb->vlan_present ? skb->vlan_tci >> 13 : ethernet.pcp;
    u32 headers = transport - data;
    u8 *bth = 0;
    u8 protocol = key.tuple.bytes[0];
    if (first && (protocol == PROTOCOL_UDP || protocol == PROTOCOL_TCP) && transport + 14 <= end) {
        __builtin_memcpy(key.tuple.bytes + 1, transport, 4);
        headers += protocol == PROTOCOL_TCP ? (transport[12] >> 4) * 4 : 8;
        if (protocol == PROTOCOL_UDP && net16(transport + 2) == ROCEV2_PORT && transport + 20 <= end) {
            bth = transport + 8;
            __builtin_memcpy(key.tuple.bytes + 5, bth + 5, 3);
        }
    } else if (first && protocol == PROTOCOL_UDP && transport + 8 <= end) {
        __builtin_memcpy(key.tuple.bytes + 1, transport, 4);
        headers += 8;
    }
    u64 segments = skb->gso_segs;
    if (!segments)
        segments = skb->gso_size && skb->len > headers ? (skb->len - headers + skb->gso_size - 1) / skb->gso_size : 1;
    /* Each segment will bear the headers; a tag that is not in the packet's bytes yet will be. */
    u64 bytes = skb->len + (segments - 1) * headers + (skb->vlan_present ? 4 * segments : 0);

    struct flow *flow = flows.lookup(&key);
    if (!flow) {
        struct flow opened = {};
        opened.id = flow_id(&key.tuple);
        flows.insert(&key, &opened);
        flow = flows.lookup(&key);
        if (!flow)
            flow = &port->unlisted;
    }
    flow->last_ns = bpf_ktime_get_ns();
    add(&flow->packets, segments);
    add(&flow->bytes, bytes);
    if (ecn == 3)
        add(&flow->ce, segments);
    else if (ecn == 2)
        add(&flow->ect_0, segments);
    else if (ecn == 1)
        add(&flow->ect_1, segments);
    if (bth && bth + 12 <= end)
        count_roce(bth, end, &key, flow);
    return GO_ON;
}

int packets_ingress(struct __sk_buff *skb) {
    return look(skb, PAUSETRACE_SIDE_RX);
}

int packets_egress(struct __sk_buff *skb) {
    return look(skb, PAUSETRACE_SIDE_TX);
}

int packets_xdp(struct xdp_md *packet) {
    u8 *data = (u8 *)(long)packet->data, *end = (u8 *)(long)packet->data_end;
    struct ethernet ethernet;
    struct port_key port_key = {.ifindex = packet->ingress_ifindex, .side = PAUSETRACE_SIDE_RX};
    if (!ethernet_of(data, end, &ethernet) || ethernet.type != ETH_MAC_CONTROL)
        return XDP_PASS;
    struct port *port = ports.lookup(&port_key);
    if (port)
        count_mac_control(ethernet.payload, end, packet->ingress_ifindex, PAUSETRACE_SIDE_RX, port);
    return XDP_PASS;
}
