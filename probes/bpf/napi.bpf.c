/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Time that NAPI polls take, and polls that used their whole budget up, after which the NIC has more than the CPU took.
 *
 * In: softirq_entry(vector), softirq_exit(vector), napi_poll(napi, work, budget), which comes after a poll. A poll
 * begins where the softirq began or where the poll before it ended. Polls outside of the softirq (threaded NAPI, busy
 * polling) are counted but not timed. */
#define NET_RX_SOFTIRQ 3

struct napi_state {
    u64 begun_ns;
    u64 polls;
    u64 exhausted;
};

BPF_PERCPU_ARRAY(napi_state, struct napi_state, 1);

int napi_softirq_entry(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0;
    if ((u32)ctx->args[0] != NET_RX_SOFTIRQ)
        return 0;
    struct napi_state *state = napi_state.lookup(&zero);
    if (state)
        state->begun_ns = bpf_ktime_get_ns();
    return 0;
}

int napi_softirq_exit(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0;
    if ((u32)ctx->args[0] != NET_RX_SOFTIRQ)
        return 0;
    struct napi_state *state = napi_state.lookup(&zero);
    if (state)
        state->begun_ns = 0;
    return 0;
}

int napi_poll(struct bpf_raw_tracepoint_args *ctx) {
    u32 zero = 0;
    s32 work = ctx->args[1], budget = ctx->args[2];
    struct napi_state *state = napi_state.lookup(&zero);
    if (!state)
        return 0;
    state->polls++;
    if (budget > 0 && work >= budget)
        state->exhausted++;
    if (!state->begun_ns)
        return 0;
    u64 now_ns = bpf_ktime_get_ns();
    u64 polled_ns = now_ns - state->begun_ns;
    state->begun_ns = now_ns;
    if (count_latency(SOURCE_NAPI, LEAST_NS_NAPI, polled_ns))
        tell_outlier_here(PAUSETRACE_KIND_NAPI_OUTLIER, now_ns, polled_ns);
    return 0;
}
