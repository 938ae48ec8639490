/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A switch's ECN for tests: marks every 16th packet Congestion Experienced, a GSO packet with all its segments. */
BPF_ARRAY(mark_ce_packets, u64, 1);

int mark_ce(struct __sk_buff *skb) {
    u32 zero = 0;
    u64 *packets = mark_ce_packets.lookup(&zero);
    if (!packets)
        return -1;
    __sync_fetch_and_add(packets, 1);
    if (*packets % 16 == 0)
        bpf_skb_ecn_set_ce(skb);
    return -1;
}
