"""`/healthz`, `/readyz`, `/metrics` and `/debug/quarantine`, for probes, Prometheus and operators. Read-only.

Where it is asked for, metrics and what is in quarantine are told only to those whose token the cluster knows and allows
to read them; probes have no token, and learn no more than whether something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from muster.server.certificates import CertificateFiles
from muster.server.http import BoundedHandler, BoundedServer, Limits, Listener, Probe
from muster.server.token_reviews import TokenReviews

_LIMITS: Final = Limits(n_connections=16)


class StatusServer(Listener):
    """Answers probes and scrapes; `reviews` says who may read metrics, None: everybody."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        healthy: Probe,
        ready: Probe,
        metrics: Callable[[], str],
        quarantine: Callable[[], str] = lambda: "{}\n",
        certificates: CertificateFiles | None = None,
        reviews: TokenReviews | None = None,
        limits: Limits = _LIMITS,
    ) -> None:
        def told(authorization: str, text: Callable[[], str]) -> tuple[HTTPStatus, str]:
            refusal = None if reviews is None else reviews.refusal(authorization)
            return (HTTPStatus.OK, text()) if refusal is None else (refusal[0], f"{refusal[1]}\n")

        routes: dict[str, Callable[[str], tuple[HTTPStatus, str]]] = {
            "/healthz": lambda _: _probed(healthy()),
            "/readyz": lambda _: _probed(ready()),
            "/metrics": lambda authorization: told(authorization, metrics),
            "/debug/quarantine": lambda authorization: told(authorization, quarantine),
        }

        class Handler(BoundedHandler):
            """One request."""

            def do_GET(self) -> None:  # noqa: N802  # the name is the base class's
                route = routes.get(self.path.partition("?")[0])
                if route is None:
                    status, text = HTTPStatus.NOT_FOUND, "not found\n"
                else:
                    status, text = route(self.headers.get("Authorization", ""))
                body = text.encode()
                self.send_response(status)
                if status is HTTPStatus.UNAUTHORIZED:
                    self.send_header("WWW-Authenticate", "Bearer")
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(address, lambda: BoundedServer(address, Handler, limits, certificates), "muster-http")


def _probed(wrong: str) -> tuple[HTTPStatus, str]:
    return (HTTPStatus.SERVICE_UNAVAILABLE, f"{wrong}\n") if wrong else (HTTPStatus.OK, "ok\n")
