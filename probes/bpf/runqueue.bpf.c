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


int runqueue_wakeup(struct bpf_raw_tracepoint_args *ctx) { return 0; }
int runqueue_switch(struct bpf_raw_tracepoint_args *ctx) {
    u64 next = ctx->args[2];
    u64 task = read_only_cast(next, TYPE_TASK_STRUCT);
    u64 queued = *(u64 *)(task + 1048);
    if (!queued) return 0;
    u64 delay = *(u64 *)(task + 1016);
    u32 pid = *(u32 *)(task + OFF_TASK_PID);
    u64 cfs = read_only_cast(*(u64 *)(task + 296), 10203);
    u64 rq = read_only_cast(*(u64 *)(cfs + 312), 10206);
    u64 clock = *(u64 *)(rq + 2776);
    u64 *was = runqueue_since_ns.lookup(&pid);
    if (!was || !pid) return 0;
    u64 now = delay + clock - queued, waited_ns = now - *was;
    *was = now;
    if ((s64)waited_ns < 0) waited_ns = clock - queued;
    if (!count_latency(SOURCE_RUNQUEUE, LEAST_NS_RUNQUEUE, waited_ns))
        return 0;
    u64 comm[2] = {0, 0};
    bpf_probe_read_kernel(comm, sizeof(comm), (void *)(next + OFF_TASK_COMM));
    tell_outlier(PAUSETRACE_KIND_RUNQUEUE_OUTLIER, bpf_ktime_get_ns(), waited_ns, pid, comm);
    return 0;
}
