"""One target as the inventory tells of it, with every default filled in; what it cannot know, a session finds out.

In: the inventory. Out: frozen structs, equal if nothing has changed: a reload leaves such a target's session alone.
"""

from __future__ import annotations

import msgspec

from collectors.profile_intervals import Intervals
from collectors.request import Asked
from collectors.transport import Endpoint

AUTO = "auto"


class Target(msgspec.Struct, frozen=True):
    """A device to subscribe to.

    `profile` is a name, a file or "auto". `encodings`, `interval_ms` and `subscriptions` are the profile's own where
    they are empty or 0; `intervals` take the place of the profile's own for their metrics. `profile_digest` is of the
    user's files that it comes from: another one makes another target. `first_deadline_s`: something has to come within
    that time of a subscription. `stall_s` is the longest silence afterwards; 0 lets it follow from the intervals.
    """

    name: str
    device: str
    endpoint: Endpoint
    profile: str = AUTO
    role: str = "switch"
    aliases: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    interval_ms: int = 0
    intervals: Intervals = ()
    subscriptions: tuple[Asked, ...] = ()
    origin: str = ""
    prefix_target: str = ""
    updates_only: bool = False
    first_deadline_s: float = 30.0
    stall_s: float = 0.0
    profile_digest: str = ""
