"""The breaker and the backoff of a target."""

from __future__ import annotations

import random

from collectors.backoff import Backoff
from collectors.breaker import FAILURES_TO_OPEN, MAX_OPEN_S, OPEN_S, Breaker, State
from collectors.failures import SORTS, of_status

RESET, TLS = SORTS["reset"], SORTS["tls"]


def state_of(breaker: Breaker) -> State:
    """Asked anew: it changes by the way."""
    return breaker.state


def test_it_opens_after_several_failures_and_lets_one_trial_through() -> None:
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed(RESET, 0.0)
        assert state_of(breaker) is State.CLOSED
    breaker.failed(RESET, 0.0)
    assert state_of(breaker) is State.OPEN
    assert breaker.wait_s(1.0) == OPEN_S - 1.0
    assert breaker.wait_s(OPEN_S) == 0.0
    assert state_of(breaker) is State.HALF_OPEN
    breaker.succeeded()
    assert state_of(breaker) is State.CLOSED


def test_a_failed_trial_doubles_the_time_up_to_the_cap() -> None:
    breaker, now_s, waits = Breaker(), 0.0, []
    breaker.failed(TLS, now_s)
    for _ in range(8):
        waits.append(breaker.wait_s(now_s))
        now_s += waits[-1]
        assert breaker.wait_s(now_s) == 0.0
        breaker.failed(TLS, now_s)
    assert waits == [60.0, 120.0, 240.0, 480.0, *[MAX_OPEN_S] * 4]


def test_what_no_retry_mends_opens_it_at_once() -> None:
    for name in ("tls", "unauthenticated", "permission_denied"):
        breaker = Breaker()
        breaker.failed(SORTS[name], 0.0)
        assert state_of(breaker) is State.OPEN


def test_delays_have_full_jitter_and_a_cap() -> None:
    backoff = Backoff(random.Random(1))
    many = [[Backoff(random.Random(seed)).next_s(RESET) for seed in range(2000)]]
    for _ in range(20):
        assert 0.0 <= backoff.next_s(RESET) <= RESET.cap_s
    # Two thousand targets lost at once come back spread over the whole second.
    counts = [0] * 10
    for delay in many[0]:
        counts[int(delay * 10)] += 1
    assert min(counts) > 130
    backoff.held()
    assert backoff.next_s(RESET) <= RESET.base_s


def test_every_status_has_its_sort() -> None:
    cases = {
        ("UNAVAILABLE", "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED: certificate has expired", False): "tls",
        ("UNAVAILABLE", "failed to connect to all addresses; Connection refused", False): "unreachable",
        ("UNAVAILABLE", "Socket closed", True): "unavailable",
        ("RESOURCE_EXHAUSTED", "Received message larger than max (5 vs. 4)", True): "oversize",
        ("RESOURCE_EXHAUSTED", "too many subscriptions", False): "resource_exhausted",
        ("INTERNAL", "Received RST_STREAM with error code 2", True): "reset",
        ("NOT_FOUND", "no such path", False): "invalid_argument",
        ("SOMETHING_NEW", "", False): "internal",
    }
    for (status, text, connected), sort in cases.items():
        assert of_status(status, text, connected=connected).sort.name == sort, status
