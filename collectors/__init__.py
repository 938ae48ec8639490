"""Switch side: gNMI sessions, wire decoder and vendor profiles that turn what switches tell into events and facts.

The only room that imports pygnmi and grpc for live targets.
"""

import os

# gRPC reads it once, when it is imported. Its event engine hands each message from thread to thread, which costs
# nearly as much as all else of the collector; without it, the thread that waits for messages reads them.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client")

# It tells of each failed handshake on stderr, in words of its own and without the target; we do so with it.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
