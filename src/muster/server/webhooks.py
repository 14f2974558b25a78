"""The webhook server: AdmissionReview over HTTPS, and probes.

One thread per connection; rules are pure and take well under a millisecond, so nothing here waits for anything but the
network. Handshakes happen in the connection's own thread: a client that stays silent holds up nobody else.
"""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from muster.admission import HOOKS, BadReviewError, Hook, Known, Settings, answer
from muster.api import MusterError
from muster.server.certificates import CertificateFiles
from muster.server.http import Listener, Probe

log = logging.getLogger("muster.server")

#: Two versions of the largest object that an API server takes, and the question around them.
MAX_BODY: Final = 8 * 2**20
_HANDSHAKE_SECONDS: Final = 10.0
#: API servers keep idle connections for a minute and a half.
_IDLE_SECONDS: Final = 120.0
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"


class _RefusalError(Exception):
    """A request that is no question for us, with the HTTP status that says so."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        self.status = status
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Desk:
    """What every request is answered with."""

    known: Known
    settings: Settings
    #: Why nobody should be sent here, "" if nothing speaks against it; those who come are answered all the same.
    unready: Probe
    #: Why questions cannot be answered any more, "" when they can.
    lost: Probe


class WebhookServer(Listener):
    """Answers questions about objects."""

    def __init__(self, address: tuple[str, int], certificates: CertificateFiles, desk: Desk) -> None:
        super().__init__(address, lambda: _Server(address, certificates, desk), "muster-webhooks")


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], certificates: CertificateFiles, desk: Desk) -> None:
        self._certificates = certificates
        self.desk = desk
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[ssl.SSLSocket, Any]:  # Any: the address is the base class's
        plain, address = super().get_request()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._certificates.context().wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection broke, or was none of TLS; the next one may be better."""
        log.debug("event=webhook-connection-broken client=%s error=%r", client_address, sys.exception())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    server: _Server
    connection: ssl.SSLSocket

    def setup(self) -> None:
        self.request.settimeout(_HANDSHAKE_SECONDS)
        self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        probes = {"/healthz": "", "/readyz": self.server.desk.unready()}
        wrong = probes.get(self.path.partition("?")[0])
        if wrong is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", _TEXT)
        elif wrong:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{wrong}\n".encode(), _TEXT)
        else:
            self._send(HTTPStatus.OK, b"ok\n", _TEXT)

    def do_POST(self) -> None:
        try:
            self._send(HTTPStatus.OK, self._answer(), _JSON)
        except _RefusalError as fault:
            self._fail(fault.status, str(fault))
        except BadReviewError as fault:
            self._fail(HTTPStatus.BAD_REQUEST, str(fault))
        except MusterError as fault:  # the cluster does not answer: the failure policy decides
            self._fail(HTTPStatus.SERVICE_UNAVAILABLE, str(fault))
        except OSError:  # the other side is gone
            raise
        except Exception as fault:
            log.exception("event=webhook-failed path=%s", self.path)
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, f"this is a bug in muster: {fault}")

    def _answer(self) -> bytes:
        body = self._body()
        hook = self._hook()
        began = time.perf_counter()
        response, verdict = answer(hook, body, self.server.desk.known, self.server.desk.settings)
        if not verdict.is_allowed:
            spent = (time.perf_counter() - began) * 1000
            log.info("event=refused path=%s ms=%.1f message=%r", hook.path, spent, verdict.message)
        return response

    def _hook(self) -> Hook:
        path = self.path.partition("?")[0].rstrip("/")
        if path not in HOOKS:
            raise _RefusalError(HTTPStatus.NOT_FOUND, f"no hook at {path}; there are {', '.join(HOOKS)}")
        content = self.headers.get_content_type()
        if content != _JSON:
            raise _RefusalError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected {_JSON}, got {content}")
        lost = self.server.desk.lost()
        if lost:
            raise _RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, lost)
        return HOOKS[path]

    def _body(self) -> bytes:
        """Read the request to its end, so that the connection can be used again."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise _RefusalError(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if int(length) > MAX_BODY:
            self.close_connection = True
            raise _RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MAX_BODY} bytes, got {length}")
        return self.rfile.read(int(length))

    def _fail(self, status: HTTPStatus, text: str) -> None:
        log.warning("event=webhook-request-refused path=%s status=%d error=%r", self.path, status, text)
        self._send(status, f"{text}\n".encode(), _TEXT)

    def _send(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """What matters is logged where it is decided."""
