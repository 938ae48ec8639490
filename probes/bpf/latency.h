/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Histograms of latencies, exact and per CPU, and a ring for single outliers.
 *
 * Buckets are log-linear, four an octave: 0 to 3 ns are buckets of their own, and bucket 4 (o - 1) + s holds the
 * latencies from (4 + s) 2^(o - 2) ns on. 248 buckets hold every latency below 2^63 ns; the array is rounded up to a
 * power of two, so that the verifier sees its bound. */
#define BUCKETS 256

struct histogram {
    u64 sum_ns;
    u64 buckets[BUCKETS];
};

/* SOURCES x 2,056 bytes a CPU. */
BPF_PERCPU_ARRAY(histograms, struct histogram, SOURCES);
BPF_RINGBUF_OUTPUT(outliers, RING_PAGES);
BPF_PERCPU_ARRAY(outliers_lost, u64, 1);

/* 1 if a number below 2^63 is above a bound: BPF has no instruction for it but a branch, which would be mispredicted
 * wherever latencies vary. */
ALWAYS_INLINE u64 above(u64 number, u64 bound) {
    return (bound - number) >> 63;
}

ALWAYS_INLINE u32 bucket_of(u64 ns) {
    if (ns < 4)
        return ns;
    u64 rest = ns, shift = above(rest, 0xffffffff) << 5, octave = shift;
    rest >>= shift;
    shift = above(rest, 0xffff) << 4;
    rest >>= shift;
    octave |= shift;
    shift = above(rest, 0xff) << 3;
    rest >>= shift;
    octave |= shift;
    shift = above(rest, 0xf) << 2;
    rest >>= shift;
    octave |= shift;
    shift = above(rest, 3) << 1;
    rest >>= shift;
    octave |= shift | rest >> 1;
    return 4 * (octave - 1) + ((ns >> (octave - 2)) & 3);
}

/* Counts a latency; says whether it is an outlier. The caller runs where nothing else counts into this source's
 * histogram on this CPU. No threshold is ever set below `least_ns`, a constant, so that the setting, a line of the
 * cache more, is looked up for what is rare alone. */
ALWAYS_INLINE bool count_latency(u32 source, u64 least_ns, u64 ns) {
    struct histogram *histogram = histograms.lookup(&source);
    if (!histogram)
        return false;
    histogram->sum_ns += ns;
    histogram->buckets[bucket_of(ns) & (BUCKETS - 1)]++;
    return ns >= least_ns && ns >= setting(source);
}

/* Tells of one outlier. The command's name, 16 bytes, rides in seen_ns and span_ns: the first is the agent's to fill
 * in, and an instant has no span. */
ALWAYS_INLINE void tell_outlier(u8 kind, u64 now_ns, u64 ns, u32 pid, const u64 *comm) {
    struct pausetrace_event *event = outliers.ringbuf_reserve(sizeof(*event));
    if (!event) {
        u32 zero = 0;
        u64 *lost = outliers_lost.lookup(&zero);
        if (lost)
            __sync_fetch_and_add(lost, 1); /* an interrupt may count between a load and a store */
        return;
    }
    event->time_ns = now_ns;
    event->seen_ns = comm[0];
    event->span_ns = comm[1];
    event->value = ns;
    event->extra = pid;
    event->flow = 0;
    event->device = 0;
    event->port = bpf_get_smp_processor_id();
    event->kind = kind;
    event->priority = PAUSETRACE_NO_PRIORITY;
    event->side = PAUSETRACE_SIDE_NONE;
    event->quality = PAUSETRACE_QUALITY_EXACT;
    outliers.ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* Tells of an outlier during which the present task was on the CPU. */
ALWAYS_INLINE void tell_outlier_here(u8 kind, u64 now_ns, u64 ns) {
    u64 comm[2] = {0, 0};
    bpf_get_current_comm(comm, sizeof(comm));
    tell_outlier(kind, now_ns, ns, (u32)bpf_get_current_pid_tgid(), comm);
}
