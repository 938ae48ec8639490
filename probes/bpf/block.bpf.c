/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Block I/O latency: from the issue of a request to the device until it first completes.
 *
 * In: block_rq_issue([queue,] request), block_rq_complete(request, error, bytes). The request's address is its key:
 * nothing of it is read. */
struct block_issue {
    u64 issued_ns;
    u64 comm[2];
    u32 pid;
    u32 unused;
};

/* Requests on their way: more than any device has tags for; what finds no room is counted. */
BPF_HASH(block_issues, u64, struct block_issue, 16384);
BPF_PERCPU_ARRAY(block_untimed, u64, 1);

int block_issue(struct bpf_raw_tracepoint_args *ctx) {
    u64 request = ctx->args[ARG_BLOCK_RQ_ISSUE];
    struct block_issue issue = {};
    issue.issued_ns = bpf_ktime_get_ns();
    bpf_get_current_comm(issue.comm, sizeof(issue.comm));
    issue.pid = bpf_get_current_pid_tgid();
    if (block_issues.update(&request, &issue)) {
        u32 zero = 0;
        u64 *untimed = block_untimed.lookup(&zero);
        if (untimed)
            (*untimed)++;
    }
    return 0;
}

int block_complete(struct bpf_raw_tracepoint_args *ctx) {
    u64 request = ctx->args[0];
    struct block_issue *found = block_issues.lookup(&request);
    if (!found)
        return 0;
    struct block_issue issue = *found;
    block_issues.delete(&request);
    u64 now_ns = bpf_ktime_get_ns();
    u64 took_ns = now_ns - issue.issued_ns;
    if (count_latency(SOURCE_BLOCK, LEAST_NS_BLOCK, took_ns))
        tell_outlier(PAUSETRACE_KIND_BLOCK_OUTLIER, now_ns, took_ns, issue.pid, issue.comm);
    return 0;
}
