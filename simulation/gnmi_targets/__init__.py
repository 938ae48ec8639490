"""Fake gNMI targets: independent of the collectors that are tested with them, seeded, and on a clock of the test's own.

`server` speaks gNMI by grpc.aio and knows its semantics; `http2` and `farm` send prepared bytes, for load and for
everything that no honest gRPC server would send.
"""
