"""Functions in a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def in_a_thread(function: Callable[[], _Result]) -> _Result:
    """What the function returns or raises, once its thread has ended."""
    found: list[_Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the function was called
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
