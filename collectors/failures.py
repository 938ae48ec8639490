"""Why a session ended, and what follows from that: how soon to try again, and whether the breaker opens at once.

In: the status of an RPC with its text. Out: a `Failure` of one of the sorts in `SORTS`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream.errors import PausetraceError

MAX_TEXT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Sort:
    """One row of the table. The delays are the bounds of full jitter; `opens` opens the breaker at the first."""

    name: str
    meaning: str
    base_s: float
    cap_s: float
    opens: bool = False
    next_step: str = ""


# fmt: off
SORTS: dict[str, Sort] = {sort.name: sort for sort in (
    Sort("unreachable", "no connection: refused, reset, no route, or the name is not known", 1.0, 60.0,
         next_step="check the address and that gNMI is on"),
    Sort("connect_deadline", "the target did not answer by the deadline", 2.0, 60.0,
         next_step="check the address, the port and the firewall"),
    Sort("tls", "no TLS: the certificate is not trusted, expired or of another name, ours is refused, or there is none",
         30.0, 600.0, True,
         "check ca, server_name, certificate and key, and both clocks; plaintext = true where the target has no TLS"),
    Sort("unauthenticated", "the target does not know the user or the password", 60.0, 600.0, True,
         "check username and password: repeated wrong logins may lock the account"),
    Sort("permission_denied", "the user may not subscribe", 60.0, 600.0, True,
         "give the user the right to read by gNMI"),
    Sort("resource_exhausted", "the target takes no more streams", 10.0, 300.0,
         next_step="other collectors may hold all its streams"),
    Sort("oversize", "the target says more at once than is taken", 10.0, 300.0,
         next_step="raise max_message_mb, or subscribe to less at once"),
    Sort("invalid_argument", "the target refuses the subscription", 30.0, 600.0, True,
         "see `pausetrace collect check`: no path of the profile was taken"),
    Sort("unimplemented", "the target does not have gNMI Subscribe", 60.0, 600.0, True,
         "check that the port is gNMI's"),
    Sort("not_supported", "nothing that the target offers fits: encoding, profile or model", 60.0, 600.0, True,
         "name a profile and an encoding in the inventory"),
    Sort("stalled", "the connection is open and nothing came for too long", 1.0, 60.0,
         next_step="the target hangs, or a firewall dropped the connection in silence"),
    Sort("garbage", "too many messages do not decode", 30.0, 600.0, True,
         "the target or something between speaks no gNMI"),
    Sort("reset", "the target broke the stream off", 1.0, 60.0, next_step="see the target's log"),
    Sort("silent", "the target told nothing that was asked of it", 30.0, 600.0,
         next_step="see `pausetrace collect check`: which of its paths give data"),
    Sort("unsynced", "the target never said that it had told all", 30.0, 600.0,
         next_step="see its log: a ONCE ends with sync_response"),
    Sort("ended", "the target ended the stream in order", 1.0, 60.0, next_step="see the target's log"),
    Sort("unavailable", "the target is going away or restarting", 1.0, 60.0, next_step="see the target's log"),
    Sort("internal", "the target failed", 2.0, 120.0, next_step="see the target's log"),
)}
# fmt: on

REFUSALS = frozenset({"invalid_argument", "unimplemented"})
"""What a target may answer because of one path, interval or mode alone."""


class Failure(PausetraceError):  # noqa: N818 - what a session ends with, also when nothing is wrong
    """A session's end. `sort` is a name of SORTS, `status` gRPC's name of the code where there was one."""

    def __init__(self, sort: str, text: str, status: str = "") -> None:
        self.sort = SORTS[sort]
        self.status = status
        self.text = " ".join(text.split())[:MAX_TEXT_CHARS]
        super().__init__(f"{self.sort.meaning}{': ' * bool(self.text)}{self.text}", self.sort.next_step)


_TLS_WORDS = (
    "handshake", "certificate", "ssl_error", "tsi_", "hostname verification", "peer name", "not in peer certificate",
    "no match found for server name", "alert",
)  # fmt: skip
_NO_TLS = "the target speaks no TLS there"
_OVERSIZE_WORDS = ("message larger than max", "received message larger", "larger than max")
_BY_STATUS = {
    "UNAUTHENTICATED": "unauthenticated",
    "PERMISSION_DENIED": "permission_denied",
    "INVALID_ARGUMENT": "invalid_argument",
    "NOT_FOUND": "invalid_argument",
    "OUT_OF_RANGE": "invalid_argument",
    "FAILED_PRECONDITION": "invalid_argument",
    "UNIMPLEMENTED": "unimplemented",
    "DEADLINE_EXCEEDED": "connect_deadline",
    "CANCELLED": "reset",
    "ABORTED": "reset",
    "DATA_LOSS": "internal",
    "INTERNAL": "internal",
    "UNKNOWN": "internal",
}


def of_status(status: str, text: str, *, connected: bool) -> Failure:
    """The failure that an RPC's status means; `connected` if the target had answered anything before on this RPC."""
    lower = text.lower()
    if status == "RESOURCE_EXHAUSTED":
        oversize = any(word in lower for word in _OVERSIZE_WORDS)
        return Failure("oversize" if oversize else "resource_exhausted", text, status)
    if status == "UNAVAILABLE":
        if any(word in lower for word in _TLS_WORDS) and not connected:
            return Failure("tls", _NO_TLS if "wrong_version_number" in lower else text, status)
        return Failure("unavailable" if connected else "unreachable", text, status)
    if status in ("INTERNAL", "UNKNOWN") and ("rst_stream" in lower or "goaway" in lower):
        return Failure("reset", text, status)
    return Failure(_BY_STATUS.get(status, "internal"), text, status)
