/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* In which threads programs are run at a tracepoint: a kernel may keep them away from some, with the softirqs on top. */
BPF_HASH(witnessed, u32, u64, 10240);

int witness(struct bpf_raw_tracepoint_args *ctx) {
    u32 thread = bpf_get_current_pid_tgid();
    u64 zero = 0, *count = witnessed.lookup_or_try_init(&thread, &zero);
    if (count)
        __sync_fetch_and_add(count, 1);
    return 0;
}
