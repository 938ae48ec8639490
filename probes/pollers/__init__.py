"""Probes that read counters and states of a host at their interval, one a file; each has `available` and `make`."""
