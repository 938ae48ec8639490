/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Run-queue latency: from the moment a task may run until it does.
 *
 * In: sched_wakeup(task), sched_wakeup_new(task), sched_switch(preempt, previous, next, previous_state). */

/* When the task of this pid last began to wait; 0: it does not. An array, since the lookup in a hash is most of what
 * such a program costs: 8 bytes x pid_max (256 KiB at 32,768; 32 MiB at 4,194,304). */
BPF_ARRAY(runqueue_since_ns, u64, PID_MAX);

ALWAYS_INLINE u32 pid_of(u64 task) {
#ifdef TYPE_TASK_STRUCT
    /* A load that the kernel guards, instead of a call: reading pids by calls is a quarter of what this program costs. */
    return *(u32 *)(read_only_cast(task, TYPE_TASK_STRUCT) + OFF_TASK_PID);
#else
    u32 pid = 0;
    bpf_probe_read_kernel(&pid, sizeof(pid), (void *)(task + OFF_TASK_PID));
    return pid;
#endif
}

ALWAYS_INLINE void begin_to_wait(u32 pid) {
    u64 *since_ns = runqueue_since_ns.lookup(&pid);
    if (since_ns)
        *since_ns = bpf_ktime_get_ns();
}

int runqueue_wakeup(struct bpf_raw_tracepoint_args *ctx) {
    begin_to_wait(pid_of(ctx->args[0]));
    return 0;
}

int runqueue_switch(struct bpf_raw_tracepoint_args *ctx) {
    u64 previous = ctx->args[1];
    u64 next = ctx->args[2];
    bool runnable = ctx->args[0] & 1;
    if (!runnable) {
#ifdef SWITCH_TELLS_STATE
        runnable = (u32)ctx->args[3] == 0;
#else
        u32 state = 1;
        bpf_probe_read_kernel(&state, sizeof(state), (void *)(previous + OFF_TASK_STATE));
        runnable = state == 0;
#endif
    }
    /* Who was preempted waits again. The idle task, pid 0, always may run and never waits. The current task is still
     * the previous one here, which saves reading its pid. */
    if (runnable) {
        u32 pid = bpf_get_current_pid_tgid();
        if (pid)
            begin_to_wait(pid);
    }
    u32 pid = pid_of(next);
    if (!pid)
        return 0;
    u64 *since_ns = runqueue_since_ns.lookup(&pid);
    if (!since_ns || !*since_ns)
        return 0;
    u64 now_ns = bpf_ktime_get_ns();
    u64 waited_ns = now_ns - *since_ns;
    *since_ns = 0;
    if (!count_latency(SOURCE_RUNQUEUE, LEAST_NS_RUNQUEUE, waited_ns))
        return 0;
    u64 comm[2] = {0, 0};
    bpf_probe_read_kernel(comm, sizeof(comm), (void *)(next + OFF_TASK_COMM));
    tell_outlier(PAUSETRACE_KIND_RUNQUEUE_OUTLIER, now_ns, waited_ns, pid, comm);
    return 0;
}
