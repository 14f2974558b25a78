"""The webhook server: AdmissionReview over HTTPS, and probes.

Rules are pure and take well under a millisecond, so nothing here waits for anything but the network, within the limits
of `http`. Few large questions are read at the same time, so that memory has a limit too, whoever asks.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from muster.admission import HOOKS, BadReviewError, Hook, Known, Settings, answer
from muster.api import MusterError
from muster.server.http import BoundedHandler, BoundedServer, Limits, Listener, Probe
from muster.server.reload import CertificateFiles

log = logging.getLogger("muster.server")

#: Two versions of the largest object that an API server takes, 3 MiB, and the question around them.
MAX_BODY: Final = 6 * 2**20 + 2**16
#: A question that is larger than this is read only while few others like it are.
_LARGE_BODY: Final = 2**18
_N_LARGE: Final = 4
#: API servers keep idle connections for a minute and a half, and wait at most ten seconds for an answer.
_LIMITS: Final = Limits(n_connections=64, idle_s=120.0, request_s=10.0)
_MAX_DIGITS: Final = 12
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

    def __init__(
        self, address: tuple[str, int], certificates: CertificateFiles, desk: Desk, limits: Limits = _LIMITS
    ) -> None:
        super().__init__(address, lambda: _Server(address, certificates, desk, limits), "muster-webhooks")


class _Server(BoundedServer):
    def __init__(self, address: tuple[str, int], certificates: CertificateFiles, desk: Desk, limits: Limits) -> None:
        self.desk = desk
        self.large = threading.BoundedSemaphore(_N_LARGE)
        super().__init__(address, _Handler, limits, certificates)


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:  # noqa: N802  # the name is the base class's
        probes = {"/healthz": "", "/readyz": self.server.desk.unready()}
        wrong = probes.get(self.path.partition("?")[0])
        if wrong is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", _TEXT)
        elif wrong:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{wrong}\n".encode(), _TEXT)
        else:
            self._send(HTTPStatus.OK, b"ok\n", _TEXT)

    def do_POST(self) -> None:  # noqa: N802  # the same
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
        length = self._length()
        with self._room_for(length):
            return self._answer_to(self.rfile.read(length))

    @contextlib.contextmanager
    def _room_for(self, n_bytes: int) -> Iterator[None]:
        """Wait until a question of this size may be read. Raises _RefusalError when that takes too long."""
        if n_bytes <= _LARGE_BODY:
            yield
            return
        if not self.server.large.acquire(timeout=self.server.limits.request_s / 2):
            self.close_connection = True
            raise _RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large questions at once; ask again")
        try:
            yield
        finally:
            self.server.large.release()

    def _answer_to(self, body: bytes) -> bytes:
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

    def _length(self) -> int:
        """How long the request is; it is read to its end, so that the connection can be used again."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise _RefusalError(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if len(length) > _MAX_DIGITS or int(length) > MAX_BODY:
            self.close_connection = True
            raise _RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MAX_BODY} bytes, got {length}")
        return int(length)

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
