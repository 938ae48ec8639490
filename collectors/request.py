"""Builds SubscribeRequests: what a plan asks of a target, in as few RPCs as gNMI lets it.

In: subscriptions of a profile or of the inventory. Out: requests as bytes. Devices allow few RPCs at a time (NX-OS 8),
so all subscriptions of one origin, target and encoding share one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from collectors.messages import gnmi_pb2
from collectors.paths import Path, parse_path

NS_PER_MS = 1_000_000


class Asked(msgspec.Struct, frozen=True):
    """One subscription as it is asked of a target; intervals in ms, 0 leaves them to the target."""

    path: str
    mode: str = "SAMPLE"
    interval_ms: int = 0
    heartbeat_ms: int = 0
    suppress_redundant: bool = False
    metric: str = ""
    alternatives: tuple[str, ...] = ()
    least_ms: int = 0
    """What the vendor takes at least."""
    topics: tuple[str, ...] = ()
    """Of what comes by it; () is any."""


class Rpc(msgspec.Struct, frozen=True):
    """One Subscribe RPC: what its prefix says, and its subscriptions."""

    asked: tuple[Asked, ...]
    encoding: str = "PROTO"
    origin: str = ""
    target: str = ""
    updates_only: bool = False


def subscribe_request(rpc: Rpc, mode: str = "STREAM") -> bytes:
    """The request as bytes; `mode` is STREAM, ONCE or POLL. Raises ConfigError for a path that is none."""
    request = gnmi_pb2.SubscribeRequest()
    wanted = request.subscribe
    wanted.mode = gnmi_pb2.SubscriptionList.Mode.Value(mode)
    wanted.encoding = gnmi_pb2.Encoding.Value(rpc.encoding)
    wanted.updates_only = rpc.updates_only
    if rpc.target or rpc.origin:
        wanted.prefix.target = rpc.target
        wanted.prefix.origin = rpc.origin
    for asked in rpc.asked:
        subscription = wanted.subscription.add()
        path = parse_path(asked.path)
        # gNMI allows the origin in the prefix or in the paths, not in both.
        _put(subscription.path, path, with_origin=not rpc.origin)
        if mode == "STREAM":
            subscription.mode = gnmi_pb2.SubscriptionMode.Value(asked.mode)
            if asked.mode == "SAMPLE":
                subscription.sample_interval = asked.interval_ms * NS_PER_MS
            subscription.heartbeat_interval = asked.heartbeat_ms * NS_PER_MS
            subscription.suppress_redundant = asked.suppress_redundant
    made: bytes = request.SerializeToString()
    return made


def _put(into: gnmi_pb2.Path, path: Path, *, with_origin: bool) -> None:
    if with_origin:
        into.origin = path.origin
    for name, keys in path.elems:
        elem = into.elem.add(name=name)
        for key, value in keys:
            elem.key[key] = value


def longest_ms(rpcs: Sequence[Rpc], topic: str = "") -> int:
    """The longest interval at which rows of a topic are sampled; "": rows of any, by what is asked for all of them."""
    sampled = [asked for rpc in rpcs for asked in rpc.asked if asked.mode == "SAMPLE"]
    return max((asked.interval_ms for asked in sampled if not asked.topics or topic in asked.topics), default=0)


def shortest_ms(rpcs: Sequence[Rpc]) -> int:
    """The shortest time within which something has to come; 0 if nothing has to."""
    bounds = []
    for rpc in rpcs:
        for asked in rpc.asked:
            if asked.mode == "SAMPLE" and asked.interval_ms and not asked.suppress_redundant:
                bounds.append(asked.interval_ms)
            elif asked.heartbeat_ms:
                bounds.append(asked.heartbeat_ms)
    return min(bounds, default=0)
