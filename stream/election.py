"""One active process of several: membership in a group that reads a topic of one partition; whoever has it is active.

In: Kafka's group protocol. Out: whether this process is the active one now; a standby takes over when it dies.
"""

from __future__ import annotations

import threading
import time

from stream.closing import Closing
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings
from stream.subscriber import Subscriber

ELECTION_TOPIC = "control"
_LOOK_S = 0.02


class Election(Closing):
    """A candidate of the group; `active` must be asked at least every few seconds, which is what keeps it a member.

    With `instance` (a name that is this candidate's own) a restart within the session's timeout loses no time.
    """

    def __init__(
        self, settings: KafkaSettings, group: str, *, instance: str = "", deadline_s: float = CONNECT_DEADLINE_S
    ) -> None:
        self._member = Subscriber(
            settings, [ELECTION_TOPIC], group=group, instance=instance, deadline_s=deadline_s
        )  # fmt: skip

    def active(self) -> bool:
        """Whether this candidate is the active one; never waits."""
        # What the topic holds is of no interest here, and is read so that the client stays in the group.
        self._member.consume(1000, 0)
        return bool(self._member.assigned)

    def wait(self, wait_s: float, stop: threading.Event) -> bool:
        """Whether it is the active one by the end of the wait, which `stop` ends early; asked often enough."""
        end_s = time.monotonic() + wait_s
        while not self.active():
            if stop.wait(_LOOK_S) or time.monotonic() >= end_s:
                return False
        return True

    def close(self) -> None:
        """Leaves the group, so that a standby is active at once."""
        self._member.close()
