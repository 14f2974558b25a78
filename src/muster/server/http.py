"""HTTP servers with limits: connections at once, time for each step of one, TLS where there is a certificate.

One thread per connection. What a client does can cost only its own connection: silence, a trickle of bytes or an
answer that nobody reads end with the time of the step, counted from its beginning and not from the last byte. When
all places are taken, the connection that has waited longest for a next request gives way; if there is none, the
newcomer goes.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from muster.api import UserError
from muster.server.reload import CertificateFiles

log = logging.getLogger("muster.server")

#: Returns what is wrong, "" if nothing is.
Probe = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take."""

    #: Connections at once; each has a thread.
    n_connections: int
    #: Seconds for the handshake, until the first or next request, and from its first line to the end of the answer.
    handshake_s: float = 5.0
    idle_s: float = 30.0
    request_s: float = 10.0


class Listener:
    """An HTTP server on a thread of its own, until it is closed. Raises UserError when it cannot listen."""

    def __init__(self, address: tuple[str, int], make: Callable[[], BoundedServer], name: str) -> None:
        try:
            self._server = make()
        except OSError as fault:
            raise UserError(f"cannot listen on {address[0]}:{address[1]}: {fault.strerror}") from None
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


@dataclass(slots=True)
class _Connection:
    """Where a connection stands."""

    socket: socket.socket
    deadline: float
    #: Whether it waits for a request.
    is_idle: bool = False


class BoundedServer(ThreadingHTTPServer):
    """Accepts connections within limits; handlers have to be of `BoundedHandler`."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BoundedHandler],
        limits: Limits,
        certificates: CertificateFiles | None = None,
    ) -> None:
        self.limits = limits
        self._certificates = certificates
        self._connections: dict[int, _Connection] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    @property
    def n_connections(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    def step(self, of: socket.socket, seconds: float, *, is_idle: bool = False) -> None:
        """Begin a step of a connection, which may take so long."""
        with self._lock:
            known = self._connections.get(id(of))
            if known is not None:
                known.deadline, known.is_idle = time.monotonic() + seconds, is_idle

    # -- of the base class, in the thread that accepts -------------------------------------------------------------

    def get_request(self) -> tuple[socket.socket, Any]:  # Any: the address is the base class's
        plain, address = super().get_request()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._certificates is None:
            return plain, address
        try:
            # The handshake is the handler's, so that a client that stays silent holds up nobody else.
            wrapped = self._certificates.context().wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        except OSError:
            plain.close()
            raise
        return wrapped, address

    def verify_request(self, request: Any, client_address: object) -> bool:  # noqa: ANN401  # as in the base class
        """Find a place for a new connection."""
        with self._lock:
            if len(self._connections) >= self.limits.n_connections and not self._give_way():
                log.warning("event=connection-refused client=%s error=%r", client_address, "all places are taken")
                return False
            self._connections[id(request)] = _Connection(request, time.monotonic() + self.limits.handshake_s)
        return True

    def service_actions(self) -> None:
        """End what has had its time; called about twice a second."""
        now = time.monotonic()
        with self._lock:
            for known in self._connections.values():
                if known.deadline <= now:
                    _end(known.socket)

    def _give_way(self) -> bool:
        idle = [number for number, known in self._connections.items() if known.is_idle]
        if not idle:
            return False
        # The one whose time is up first has waited longest.
        oldest = min(idle, key=lambda number: self._connections[number].deadline)
        _end(self._connections.pop(oldest).socket)
        return True

    # -- of the base class, in the connection's thread ------------------------------------------------------------

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401  # as in the base class
        with self._lock:
            self._connections.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection broke, or was none of TLS; the next one may be better."""
        log.debug("event=connection-broken client=%s error=%r", client_address, sys.exception())


class BoundedHandler(BaseHTTPRequestHandler):
    """One connection, with a time for each step."""

    server: BoundedServer
    #: Head and body of an answer go out together, as one record of TLS.
    wbufsize = 2**16

    def setup(self) -> None:
        limits = self.server.limits
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(limits.handshake_s)
            self.request.do_handshake()
        super().setup()
        # The server ends steps that take too long; this wait for a single byte ends even if it cannot.
        self.connection.settimeout(max(limits.idle_s, limits.request_s))

    def handle_one_request(self) -> None:
        self.server.step(self.request, self.server.limits.idle_s, is_idle=True)
        super().handle_one_request()

    def parse_request(self) -> bool:
        self.server.step(self.request, self.server.limits.request_s)
        return super().parse_request()

    def handle_expect_100(self) -> bool:
        is_wanted = super().handle_expect_100()
        self.wfile.flush()  # who asks first waits for this before the body
        return is_wanted

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """What matters is logged where it is decided."""


def _end(connection: socket.socket) -> None:
    """Wake whoever reads from or writes to a connection of another thread."""
    with contextlib.suppress(OSError):  # it is over already
        # Not the method of TLS sockets, which would take part in what that thread is doing.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
