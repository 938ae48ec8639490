/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent may change while programs run. Slots are those of probes/sources.py. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* SOURCES thresholds in ns, from which on a latency is an outlier; then whether single pauses are told (0 or 1). */
BPF_ARRAY(settings, u64, SETTINGS);

ALWAYS_INLINE u64 setting(u32 slot) {
    u64 *value = settings.lookup(&slot);
    return value ? *value : ~0ULL;
}
