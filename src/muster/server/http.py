"""`/healthz`, `/readyz` and `/metrics`, for probes and Prometheus. Read-only, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from muster.api import UserError

#: Returns what is wrong, "" if nothing is.
Probe = Callable[[], str]


class Listener:
    """An HTTP server on a thread of its own, until it is closed. Raises UserError when it cannot listen."""

    def __init__(self, address: tuple[str, int], make: Callable[[], ThreadingHTTPServer], name: str) -> None:
        try:
            self._server = make()
        except OSError as fault:
            raise UserError(f"cannot listen on {address[0]}:{address[1]}: {fault.strerror}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on, for those who asked for any."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class StatusServer(Listener):
    """Answers probes and scrapes."""

    def __init__(self, address: tuple[str, int], *, healthy: Probe, ready: Probe, metrics: Callable[[], str]) -> None:
        routes: dict[str, Callable[[], tuple[HTTPStatus, str]]] = {
            "/healthz": lambda: _probed(healthy()),
            "/readyz": lambda: _probed(ready()),
            "/metrics": lambda: (HTTPStatus.OK, metrics()),
        }

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self) -> None:
                route = routes.get(self.path.partition("?")[0])
                status, text = (HTTPStatus.NOT_FOUND, "not found\n") if route is None else route()
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
                """Probes come every few seconds, and nobody wants to read of them."""

        super().__init__(address, lambda: ThreadingHTTPServer(address, Handler), "muster-http")


def _probed(wrong: str) -> tuple[HTTPStatus, str]:
    return (HTTPStatus.SERVICE_UNAVAILABLE, f"{wrong}\n") if wrong else (HTTPStatus.OK, "ok\n")
