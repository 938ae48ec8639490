/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* PCIe errors (AER) as the kernel reports them (RAS).
 *
 * In: aer_event(device name, status, severity, ...). */
struct pcie_error_key {
    char device[28];
    u32 severity; /* 0 nonfatal, 1 fatal, 2 corrected */
};

BPF_HASH(pcie_errors, struct pcie_error_key, u64, 1024);

int pcie_error(struct bpf_raw_tracepoint_args *ctx) {
    struct pcie_error_key key = {};
    bpf_probe_read_kernel_str(key.device, sizeof(key.device), (void *)ctx->args[0]);
    key.severity = (u8)ctx->args[2];
    u64 zero = 0, *count = pcie_errors.lookup_or_try_init(&key, &zero);
    if (count)
        __sync_fetch_and_add(count, 1);
    return 0;
}
