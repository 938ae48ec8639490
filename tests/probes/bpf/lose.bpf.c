/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A lossy path for tests: drops every 8th packet that carries data, a GSO packet with all its segments. */
BPF_ARRAY(lose_packets, u64, 1);
BPF_ARRAY(lose_segments, u64, 1); /* that were dropped */

int lose(struct __sk_buff *skb) {
    u32 zero = 0;
    u64 *packets = lose_packets.lookup(&zero), *segments = lose_segments.lookup(&zero);
    if (!packets || !segments || skb->len < 200)
        return -1;
    if ((__sync_fetch_and_add(packets, 1) + 1) % 8)
        return -1;
    __sync_fetch_and_add(segments, skb->gso_segs ? skb->gso_segs : 1);
    return 2;
}
