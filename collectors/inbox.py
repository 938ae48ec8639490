"""Raw messages of all targets of a process, in the order in which they were read, until the next turn takes them.

In: messages from sessions. Out: everything since the last turn at once. All calls are made in the event loop's thread.
"""

from __future__ import annotations

from typing import NamedTuple


class Taken(NamedTuple):
    """What came since the last turn. `changes`: targets whose subscription began (True) or ended meanwhile, in order.

    `until_ns`: everything that had arrived by then is in this turn or was in one before, but for what targets in
    `waiting` have sent.
    """

    messages: list[bytes]
    targets: list[int]
    seen_ns: list[int]
    changes: list[tuple[int, bool]]
    until_ns: int = 0
    waiting: frozenset[int] = frozenset()


class Inbox:
    """Its bytes are bounded by the budget, which sessions ask before they read."""

    def __init__(self) -> None:
        self._taken = Taken([], [], [], [])

    def __len__(self) -> int:
        return len(self._taken.messages)

    def put(self, target: int, message: bytes, seen_ns: int) -> None:
        """One message."""
        taken = self._taken
        taken.messages.append(message)
        taken.targets.append(target)
        taken.seen_ns.append(seen_ns)

    def began(self, target: int) -> None:
        """A subscription has its first message, which comes next."""
        self._taken.changes.append((target, True))

    def ended(self, target: int) -> None:
        """A subscription that had messages is over."""
        self._taken.changes.append((target, False))

    def holds(self, target: int) -> bool:
        """Whether anything of this target waits."""
        taken = self._taken
        return target in taken.targets or any(target == changed for changed, _ in taken.changes)

    def take(self, most_bytes: int, until_ns: int = 0, unread: frozenset[int] = frozenset()) -> Taken:
        """The oldest messages up to so many bytes, at least one if there is any; the rest waits for the next turn.

        Everything was read that had arrived by `until_ns`, but for that of the targets in `unread`.
        """
        taken, total, count = self._taken, 0, 0
        for message in taken.messages:
            total += len(message)
            count += 1
            if total >= most_bytes:
                break
        if count == len(taken.messages):
            self._taken = Taken([], [], [], [])
            return taken._replace(until_ns=until_ns, waiting=unread)
        left = self._taken = Taken(taken.messages[count:], taken.targets[count:], taken.seen_ns[count:], [])
        return Taken(
            taken.messages[:count], taken.targets[:count], taken.seen_ns[:count], taken.changes,
            until_ns, unread.union(left.targets),
        )  # fmt: skip
