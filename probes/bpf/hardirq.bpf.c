/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Time that handlers of hardware interrupts take: interrupts are off meanwhile, so that no two overlap on a CPU.
 *
 * In: irq_handler_entry(irq, action), irq_handler_exit(irq, action, ret). */
BPF_PERCPU_ARRAY(hardirq_entered_ns, u64, 1);

int hardirq_entry(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0;
    u64 *entered_ns = hardirq_entered_ns.lookup(&zero);
    if (entered_ns)
        *entered_ns = bpf_ktime_get_ns();
    return 0;
}

int hardirq_exit(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0;
    u64 *entered_ns = hardirq_entered_ns.lookup(&zero);
    if (!entered_ns || !*entered_ns)
        return 0;
    u64 now_ns = bpf_ktime_get_ns();
    u64 ran_ns = now_ns - *entered_ns;
    *entered_ns = 0;
    if (count_latency(SOURCE_HARDIRQ, LEAST_NS_HARDIRQ, ran_ns))
        tell_outlier_here(PAUSETRACE_KIND_HARDIRQ_OUTLIER, now_ns, ran_ns);
    return 0;
}
