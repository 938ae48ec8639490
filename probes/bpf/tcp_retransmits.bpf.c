/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* TCP segments sent again, by flow: TcpRetransSegs less TCPRetransFail, those that the host itself dropped at once. A
 * packet of many segments counts as all of them.
 *
 * In: tcp_retransmit_skb(socket, packet, error), tcp_retransmit_synack(socket, request), which has the fields of a
 * struct sock_common at its start too. */
#define FAMILY_IPV4 2
#define FAMILY_IPV6 10

struct retransmits {
    u64 id;
    u64 segments;
    u64 last_ns;
};

BPF_HASH(retransmits, struct flow_tuple, struct retransmits, 8192);

struct retransmit_segments {
    u64 all;      /* counted last, so that whoever finds it as before has nothing new to look for */
    u64 unlisted; /* of flows that found no room */
};

BPF_ARRAY(retransmit_segments, struct retransmit_segments, 1);

ALWAYS_INLINE int count_retransmit(u64 sock, u64 segments) {
    struct flow_tuple tuple = {};
    u16 family = 0, source_port = 0, destination_port = 0;
    bpf_probe_read_kernel(&family, 2, (void *)(sock + OFF_SKC_FAMILY));
    bpf_probe_read_kernel(&source_port, 2, (void *)(sock + OFF_SKC_NUM)); /* in host order */
    bpf_probe_read_kernel(&destination_port, 2, (void *)(sock + OFF_SKC_DPORT));
    if (family == FAMILY_IPV6) {
        bpf_probe_read_kernel(tuple.source, 16, (void *)(sock + OFF_SKC_V6_RCV_SADDR));
        bpf_probe_read_kernel(tuple.destination, 16, (void *)(sock + OFF_SKC_V6_DADDR));
    } else if (family == FAMILY_IPV4) {
        tuple.source[10] = tuple.source[11] = tuple.destination[10] = tuple.destination[11] = 0xff;
        bpf_probe_read_kernel(tuple.source + 12, 4, (void *)(sock + OFF_SKC_RCV_SADDR));
        bpf_probe_read_kernel(tuple.destination + 12, 4, (void *)(sock + OFF_SKC_DADDR));
    }
    tuple.bytes[0] = 6;
    tuple.bytes[1] = source_port >> 8;
    tuple.bytes[2] = source_port;
    tuple.bytes[3] = destination_port; /* in network order already */
    tuple.bytes[4] = destination_port >> 8;
    struct retransmits *found = retransmits.lookup(&tuple);
    if (!found) {
        struct retransmits opened = {};
        opened.id = flow_id(&tuple);
        retransmits.insert(&tuple, &opened);
        found = retransmits.lookup(&tuple);
    }
    u32 zero = 0;
    struct retransmit_segments *sum = retransmit_segments.lookup(&zero);
    if (found) {
        found->last_ns = bpf_ktime_get_ns();
        __sync_fetch_and_add(&found->segments, segments);
    } else if (sum) {
        __sync_fetch_and_add(&sum->unlisted, segments);
    }
    if (sum)
        __sync_fetch_and_add(&sum->all, segments);
    return 0;
}

int tcp_retransmit(struct bpf_raw_tracepoint_args *ctx) {
    u16 segments = 0;
#ifdef RETRANSMIT_TELLS_ERROR
    /* Earlier kernels only tell what was sent; these tell of each attempt, also of those that they do not count. */
    if ((u32)ctx->args[2])
        return 0;
#endif
    bpf_probe_read_kernel(&segments, 2, (void *)(ctx->args[1] + OFF_SKB_CB + OFF_TCP_GSO_SEGS));
    return count_retransmit(ctx->args[0], segments ? segments : 1);
}

int tcp_retransmit_synack(struct bpf_raw_tracepoint_args *ctx) {
    return count_retransmit(ctx->args[1], 1);
}
