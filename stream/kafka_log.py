"""librdkafka's own log lines and background errors: into Python's logging and a memory, never onto the terminal.

In: what a client reports while it is polled. Out: debug log lines, and the last error for a message to people.
"""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import KafkaError

_log = logging.getLogger("pausetrace.kafka")
# Without a handler of its own, logging's last resort would print librdkafka's warnings on stderr.
_log.addHandler(logging.NullHandler())


_UNANSWERED = "Timed out ApiVersionRequest"
"""How librdkafka words that its first request on a connection got no answer."""


class QuietLog:
    """What a client takes for its `logger`: a lost connection is retried by librdkafka and is no warning to people.

    Errors that matter come back from calls as exceptions, so the lines are for `--log-level debug` alone. But for one:
    that whoever took the connection says nothing is told nowhere else.
    """

    def __init__(self, last_error: LastError | None = None) -> None:
        self._last_error = last_error

    def log(self, level: int, message: str, *arguments: object) -> None:
        """One line of librdkafka."""
        if self._last_error is not None and _UNANSWERED in message % arguments:
            self._last_error.unanswered = True
        _log.log(min(level, logging.DEBUG), message, *arguments)


class LastError:
    """What a client takes for its `error_cb`: remembers the last error until the client works again.

    `mute` says that no broker can be used and none has said why; `unanswered` that one took a connection and said
    nothing at all.
    """

    def __init__(self) -> None:
        self.text = ""
        self.fatal = ""
        self.mute = False
        self.unanswered = False

    @property
    def callbacks(self) -> dict[str, Any]:
        """What makes a client tell it everything."""
        return {"error_cb": self, "logger": QuietLog(self)}

    def __call__(self, error: KafkaError) -> None:
        # "All brokers are down" only follows the error that says why.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.text:
            self.text = error_text(error)
            self.mute = error.code() == KafkaError._ALL_BROKERS_DOWN
        if error.fatal():
            self.fatal = error_text(error)

    def clear(self) -> None:
        """The client works again."""
        self.text = ""
        self.mute = self.unanswered = False


def error_text(error: KafkaError) -> str:
    """An error of Kafka for people, without librdkafka's state and thread names."""
    return error.str().split(" (after ")[0]
