"""Host side: eBPF loaders and pollers that turn kernel, NIC and PCIe observations into events. Not built yet.

The only room that will import bcc; it stays small, because it runs beside the GPU job that it watches.
"""
