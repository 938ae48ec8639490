/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A producer of ring records for tests and benchmarks, run by BPF_PROG_TEST_RUN: each has its CPU, its number on that
 * CPU and a checksum of both, and every DISCARD_EVERY-th is discarded (0: none). */
BPF_RINGBUF_OUTPUT(produced, RING_PAGES);
BPF_PERCPU_ARRAY(produced_lost, u64, 1);
BPF_PERCPU_ARRAY(produced_tried, u64, 1);
BPF_PERCPU_ARRAY(produced_discarded, u64, 1);

int produce(struct xdp_md *packet) {
    u32 zero = 0;
    u64 *tried = produced_tried.lookup(&zero), *lost = produced_lost.lookup(&zero);
    u64 *discarded = produced_discarded.lookup(&zero);
    if (!tried || !lost || !discarded)
        return XDP_PASS;
    u64 number = (*tried)++, cpu = bpf_get_smp_processor_id();
    struct pausetrace_event *event = produced.ringbuf_reserve(sizeof(*event));
    if (!event) {
        (*lost)++;
        return XDP_PASS;
    }
    event->time_ns = number;
    event->seen_ns = ~number;
    event->span_ns = cpu;
    event->value = number;
    event->extra = cpu;
    event->flow = number * 0x9E3779B97F4A7C15ULL + cpu;
    event->device = number;
    event->port = cpu;
    event->kind = 1;
    event->priority = number & 7;
    event->side = 1;
    event->quality = 0;
    if (DISCARD_EVERY && number % DISCARD_EVERY == 0) {
        (*discarded)++;
        produced.ringbuf_discard(event, BPF_RB_NO_WAKEUP);
    } else {
        produced.ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    }
    return XDP_PASS;
}
