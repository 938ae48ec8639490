"""What to ask of a target: the profile's subscriptions in the encoding that it offers, and what is left after refusals.

In: a target, its capabilities and a profile. Out: a `Plan`; `without` gives the next one after a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from collectors.capabilities import Capabilities
from collectors.failures import Failure
from collectors.profile import Profile
from collectors.request import Asked, Rpc
from collectors.target import Target

DEFAULT_INTERVAL_MS = 1000
INTERVALS_MS = (1000, 2000, 5000, 10_000, 30_000, 60_000)
"""What is tried next where an interval is too short for a target."""
ENCODINGS = ("PROTO", "JSON_IETF", "JSON", "BYTES", "ASCII")


class Plan(msgspec.Struct, frozen=True):
    """RPCs to open, and the paths that the target has refused so far, each with its words."""

    rpcs: tuple[Rpc, ...]
    refused: tuple[tuple[str, str], ...] = ()


def make_plan(target: Target, capabilities: Capabilities, profile: Profile) -> Plan:
    """The first plan; raises Failure where no encoding fits."""
    encoding = choose_encoding(target.encodings or profile.encodings, capabilities.encodings)
    asked: dict[tuple[str, str], list[Asked]] = {}
    for own in target.subscriptions:
        asked.setdefault((target.origin, target.prefix_target), []).append(_timed(own, target.interval_ms))
    for wanted in () if target.subscriptions else profile.subscriptions:
        place = (
            wanted.origin or target.origin or profile.origin,
            wanted.target or target.prefix_target or profile.target,
        )
        made = Asked(
            path=wanted.path,
            mode=wanted.mode,
            interval_ms=wanted.interval_ms,
            heartbeat_ms=wanted.heartbeat_ms,
            suppress_redundant=wanted.suppress_redundant,
            metric=wanted.metric,
            alternatives=wanted.alternatives,
            least_ms=wanted.min_interval_ms,
            topics=wanted.topics,
        )
        asked.setdefault(place, []).append(_timed(made, target.interval_ms))
    return Plan(tuple(
        Rpc(tuple(subscriptions), encoding, origin, prefix_target, target.updates_only)
        for (origin, prefix_target), subscriptions in asked.items()
    ))  # fmt: skip


def choose_encoding(wanted: Iterable[str], offered: tuple[str, ...]) -> str:
    """The first that the target offers too; the first of all where it tells nothing."""
    chosen = [encoding for encoding in wanted if encoding in offered or not offered]
    if not chosen:
        raise Failure("not_supported", f"it offers the encodings {', '.join(offered)}, wanted {', '.join(wanted)}")
    return chosen[0]


def without(plan: Plan, number: int, refused: Mapping[Asked, Failure]) -> Plan:
    """The plan after a refusal of these subscriptions of an RPC: mended where their text says how, else left out.

    Raises Failure if nothing is left to ask for.
    """
    rpc = plan.rpcs[number]
    kept: list[Asked] = []
    gone = list(plan.refused)
    for asked in rpc.asked:
        failure = refused.get(asked)
        if failure is None:
            kept.append(asked)
            continue
        mended = mend(asked, failure.text)
        if mended is None:
            gone.append((asked.path, failure.text))
        elif mended not in kept:
            kept.append(mended)
    rpcs = list(plan.rpcs)
    if kept:
        rpcs[number] = msgspec.structs.replace(rpc, asked=tuple(kept))
    else:
        del rpcs[number]
    if not rpcs:
        last = next(failure for failure in refused.values())
        raise Failure(last.sort.name, f"every path is refused: {last.text}", last.status)
    return Plan(tuple(rpcs), tuple(gone))


def mend(asked: Asked, text: str) -> Asked | None:
    """The subscription as it may be taken, judged by the target's words; None where nothing is left to try."""
    lower = text.lower()
    if "interval" in lower and asked.mode == "SAMPLE":
        longer = [interval for interval in INTERVALS_MS if interval > asked.interval_ms]
        return msgspec.structs.replace(asked, interval_ms=longer[0]) if longer else None
    if ("on_change" in lower or "mode" in lower) and asked.mode != "SAMPLE":
        interval_ms = max(asked.interval_ms, DEFAULT_INTERVAL_MS, asked.least_ms)
        return msgspec.structs.replace(asked, mode="SAMPLE", interval_ms=interval_ms, heartbeat_ms=0)
    if asked.alternatives:
        return msgspec.structs.replace(asked, path=asked.alternatives[0], alternatives=asked.alternatives[1:])
    return None


def named_in(text: str, rpc: Rpc) -> list[Asked]:
    """The subscriptions whose paths stand in a refusal's text; none unless it is clear which."""
    found = [asked for asked in rpc.asked if _words(asked.path) in _words(text)]
    return found if len(found) < len(rpc.asked) else []


def _words(text: str) -> str:
    return text.lower().replace("'", "").replace('"', "").rstrip("/")


def _timed(asked: Asked, interval_ms: int) -> Asked:
    if asked.mode != "SAMPLE":
        return asked
    wanted_ms = asked.interval_ms or interval_ms or DEFAULT_INTERVAL_MS
    return msgspec.structs.replace(asked, interval_ms=max(wanted_ms, asked.least_ms))
