"""Network namespaces of a test's own: everything that a function does in them goes with the thread that ran it."""

from __future__ import annotations

import ctypes
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.threads import in_a_thread

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_Result = TypeVar("_Result")


def in_namespace(function: Callable[[], _Result]) -> _Result:
    """Runs a function in a thread that has its own network and its own view of it in /sys."""

    def run() -> _Result:
        libc = ctypes.CDLL(None, use_errno=True)
        for result in (
            libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS),
            libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None),
            libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None),
        ):
            if result:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return function()

    return in_a_thread(run)


def ip(*arguments: str) -> None:
    """The command ip."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


def add_cable(*names: str) -> None:
    """Two interfaces at the ends of one cable, up and silent."""
    ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
    for name in names:
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:  # noqa: PTH123 - shorter
            file.write("1")
        ip("link", "set", name, "up")


def send(interface: str, frames: Iterable[bytes]) -> int:
    """Sends frames as they are; says how many."""
    count = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, 0))
        for frame in frames:
            while True:
                try:
                    raw.send(frame)
                    break
                except OSError as error:
                    if error.errno != 105:  # ENOBUFS: the interface's queue is full
                        raise
            count += 1
    return count


@contextmanager
def moved(interface: str, prepare: Callable[[], None]) -> Iterator[Callable[[Callable[[], _Result]], _Result]]:
    """Moves an interface into a namespace of a thread of its own; gives what runs functions there."""
    asked: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    thread_ids: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run() -> None:
        if ctypes.CDLL(None).unshare(_CLONE_NEWNET):
            thread_ids.put(0)
            return
        thread_ids.put(threading.get_native_id())
        while (function := asked.get()) is not None:
            try:
                answers.put((function(), None))
            except BaseException as error:  # noqa: BLE001 - it is raised again where the function was called
                answers.put((None, error))

    def call(function: Callable[[], Any]) -> Any:
        asked.put(function)
        found, error = answers.get(timeout=60)
        if error is not None:
            raise error
        return found

    thread = threading.Thread(target=run)
    thread.start()
    try:
        ip("link", "set", interface, "netns", str(thread_ids.get(timeout=10)))
        call(prepare)
        yield call
    finally:
        asked.put(None)
        thread.join()


def traffic_control(*arguments: str) -> None:
    """The command tc."""
    subprocess.run(["tc", *arguments], check=True, capture_output=True, timeout=10)
