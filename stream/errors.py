"""Every exception of Pausetrace: one base, an exit status for the shell and the next step for the reader.

A vendor's exception is wrapped once, in the module that imports the vendor.
"""

from __future__ import annotations

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_MISSING_DEPENDENCY = 3
EXIT_INTERRUPTED = 130


class PausetraceError(Exception):
    """Base of all errors: `message` says what is wrong, `next_step` what the reader can do about it."""

    exit_status: int = EXIT_FAILURE

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}; {self.next_step}" if self.next_step else self.message


class ConfigError(PausetraceError):
    """A configuration file, variable or flag is wrong; stops at start with file, line and key."""

    exit_status = EXIT_USAGE


class MissingDependencyError(PausetraceError):
    """A package or program that the command needs cannot be used here."""

    exit_status = EXIT_MISSING_DEPENDENCY


class BrokerError(PausetraceError):
    """Kafka cannot be reached, refused a call or did not answer before the deadline."""


class UnreachableError(BrokerError):
    """Kafka gave no answer by a deadline: a process that is at work tries again, one that just starts says so."""


class WireError(PausetraceError):
    """A Kafka value does not decode; the value goes to the dead-letter topic and the stream goes on."""


class TraceError(PausetraceError):
    """A trace folder is incomplete or a file in it is malformed; the message has file and line."""


class TopologyError(PausetraceError):
    """A file of devices and links is malformed; the message has the file and, of a table, the line."""


class CaptureError(PausetraceError):
    """A capture is damaged, unfinished or cannot be written; the message names the file or the offsets."""
