"""Host side: eBPF programs and pollers that turn kernel, NIC and PCIe observations into events.

The only room that imports bcc; it stays small, because it runs beside the GPU job that it watches.
"""
