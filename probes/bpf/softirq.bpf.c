/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Softirq latency, from the first raise until the vector runs, and how long it runs.
 *
 * In: softirq_raise(vector), softirq_entry(vector), softirq_exit(vector). A vector runs on the CPU that raised it. */
#define SOFTIRQS 16 /* the kernel has 10; a power of two, so that the verifier sees the bound */

struct softirq_times {
    u64 raised_ns[SOFTIRQS];
    u64 entered_ns[SOFTIRQS];
};

BPF_PERCPU_ARRAY(softirq_times, struct softirq_times, 1);

int softirq_raise(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0, vector = (u32)ctx->args[0] & (SOFTIRQS - 1);
    struct softirq_times *times = softirq_times.lookup(&zero);
    /* A raise of what is raised already changes nothing: the wait began at the first. */
    if (times && !times->raised_ns[vector])
        times->raised_ns[vector] = bpf_ktime_get_ns();
    return 0;
}

int softirq_entry(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0, vector = (u32)ctx->args[0] & (SOFTIRQS - 1);
    struct softirq_times *times = softirq_times.lookup(&zero);
    if (!times)
        return 0;
    u64 now_ns = bpf_ktime_get_ns();
    u64 raised_ns = times->raised_ns[vector];
    times->raised_ns[vector] = 0;
    times->entered_ns[vector] = now_ns;
    /* An interrupt that raises the vector again between these lines and now_ns makes the wait 0, not negative. */
    if (raised_ns) {
        u64 waited_ns = raised_ns < now_ns ? now_ns - raised_ns : 0;
        if (count_latency(SOURCE_SOFTIRQ, LEAST_NS_SOFTIRQ, waited_ns))
            tell_outlier_here(PAUSETRACE_KIND_SOFTIRQ_OUTLIER, now_ns, waited_ns);
    }
    return 0;
}

int softirq_exit(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0, vector = (u32)ctx->args[0] & (SOFTIRQS - 1);
    struct softirq_times *times = softirq_times.lookup(&zero);
    if (!times || !times->entered_ns[vector])
        return 0;
    u64 now_ns = bpf_ktime_get_ns();
    u64 ran_ns = now_ns - times->entered_ns[vector];
    times->entered_ns[vector] = 0;
    if (count_latency(SOURCE_SOFTIRQ_RUN, LEAST_NS_SOFTIRQ_RUN, ran_ns))
        tell_outlier_here(PAUSETRACE_KIND_SOFTIRQ_RUN_OUTLIER, now_ns, ran_ns);
    return 0;
}
