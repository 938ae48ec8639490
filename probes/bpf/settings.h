/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the agent may change while programs run. Slots are those of probes/sources.py. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

#ifdef READ_ONLY_CAST
/* Not a helper: probes/compile.py makes it a call of the kernel's own bpf_rdonly_cast (Linux 6.2). */
static u64 (*read_only_cast)(u64 address, u32 type) = (void *)READ_ONLY_CAST;
#endif

/* SOURCES thresholds in ns, from which on a latency is an outlier; then whether single pauses are told (0 or 1). */
BPF_ARRAY(settings, u64, SETTINGS);

ALWAYS_INLINE u64 setting(u32 slot) {
    u64 *value = settings.lookup(&slot);
    return value ? *value : ~0ULL;
}
