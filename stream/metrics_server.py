"""Serves /metrics over HTTP: a few requests at a time, each with a deadline, whatever the clients do.

In: an exporter. Out: its text on http://HOST:PORT/metrics, from a thread that dies with the process.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol, Self

from stream.errors import PausetraceError

_log = logging.getLogger(__name__)

PATH = "/metrics"
LOOPBACK = "127.0.0.1"
MAX_REQUESTS = 8
"""At the same time; Prometheus needs one. Whoever comes while all are taken is hung up on."""
REQUEST_DEADLINE_S = 5.0


class Exporter(Protocol):
    """What has metrics to serve; asked by several threads."""

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics as text in the form that the scraper wants, with its content type."""
        ...


class MetricsServer:
    """`with MetricsServer(exporter, port) as server:` serves for as long as the block; port 0 takes any free one."""

    def __init__(self, exporter: Exporter, port: int, host: str = LOOPBACK) -> None:
        try:
            self._server = _Server(exporter, host, port)
        except (OSError, OverflowError) as err:
            why = getattr(err, "strerror", None) or str(err)
            raise PausetraceError(
                f"metrics cannot be served at {host}:{port}: {why}", "choose another --metrics-port or --metrics-host"
            ) from err
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host, port = self._server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}{PATH}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # which ends the wait for a request
        self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        """Sleeps until somebody asks; `serve_forever` looks twice a second whether it is to end."""
        while not self._closing:
            self._server.handle_request()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, exporter: Exporter, host: str, port: int) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.exporter = exporter
        self._slots = threading.BoundedSemaphore(MAX_REQUESTS)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients that hang up or are too slow; the rest is a fault of ours, for whoever looks at the log.
        _log.debug("a request for metrics failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_DEADLINE_S
    server_version = "pausetrace"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self._answer(404, f"the metrics are at {PATH}\n".encode(), "text/plain; charset=utf-8")
            return
        self._answer(200, *self.server.exporter.render(self.headers.get("Accept", "")))

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        _log.debug("metrics: %s", format % args)
