"""Calls of a client library that may never return, with an end: the caller goes on, and the call is left to itself.

In: a call and seconds. Out: its result or its exception, or TimeoutError.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


def call_within(seconds: float, call: Callable[[], object]) -> None:
    """Calls in a thread of its own; raises what the call raises, or TimeoutError if it has not ended by then.

    The thread goes on for as long as the call does, and does not keep the process from ending.
    """
    errors: list[BaseException] = []
    over = threading.Event()

    def run() -> None:
        try:
            call()
        except BaseException as err:  # noqa: BLE001 - raised in the caller's thread
            errors.append(err)
        over.set()

    threading.Thread(target=run, daemon=True, name="bounded call").start()
    if not over.wait(seconds):
        raise TimeoutError(f"a call did not end within {seconds:.3g} s")
    if errors:
        raise errors[0]
