/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Memory errors as the kernel's memory controllers report them (EDAC, RAS).
 *
 * In: mc_event(type, message, label, count, controller, ...). */
struct memory_error_key {
    u32 controller;
    u32 type; /* 0 corrected, 1 uncorrected, 2 deferred, 3 fatal, 4 information */
};

BPF_HASH(memory_errors, struct memory_error_key, u64, 1024);

int memory_error(struct bpf_raw_tracepoint_args *ctx) {
    struct memory_error_key key = {.controller = (u8)ctx->args[4], .type = (u32)ctx->args[0]};
    u64 zero = 0, *count = memory_errors.lookup_or_try_init(&key, &zero);
    if (count)
        __sync_fetch_and_add(count, (u32)ctx->args[3]);
    return 0;
}
