"""`/healthz`, `/readyz`, `/metrics` and `/debug/quarantine`, for probes, Prometheus and operators. Read-only.

Where it is asked for, metrics and what is in quarantine are told only to those of whom the cluster says whose token
they bear (TokenReview) and that they may read it (SubjectAccessReview). Answers are kept for a minute, refusals for
less, and only so many, by a digest of the token; while the cluster does not answer, nobody is let in on its word of
before. Probes have no token, and learn no more than whether something is wrong.

What probes are told: whether the service does its work, and whether a new start would help. Work is done when cycles
succeed, the watches are current, and no waiting pod is left undecided for long. A replica that does not lead decides
nothing, but keeps its picture current. Trouble that may pass makes it not ready; trouble that has lasted, unhealthy,
so that it is started anew. A leader whose cycles keep failing gives the lease up: another replica may do better, with
a picture of its own. Written by the service's thread, read by that of the probes.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from muster.api import MusterError
from muster.server.http import BoundedHandler, BoundedServer, Limits, Listener, Probe
from muster.server.reload import CertificateFiles

#: Failed cycles in a row after which we are not ready, and after which the lease is given up.
UNREADY_AFTER: Final = 3
GIVE_UP_AFTER: Final = 10
#: A loop that has not come round for this long is stuck.
_STUCK_S: Final = 120.0
#: How long watches may be silent, or pods undecided, until we are not ready and not healthy.
_UNREADY_S: Final = 120.0
_UNHEALTHY_S: Final = 600.0
#: As `LiveCluster.trouble`.
Trouble = Callable[[float], str]


class Health:
    """What has worked lately."""

    def __init__(self, trouble: Trouble, clock: Callable[[], float] = time.monotonic) -> None:
        self._trouble = trouble
        self._clock = clock
        self._is_up = False
        self._beat = clock()
        #: Since when pods may wait for a decision that no cycle has made; None: all that were seen are decided.
        self._undecided_since: float | None = None
        self.n_failed = 0
        self._fault = ""
        #: Set once so many cycles have failed that another replica should lead; only a cycle that succeeds ends it.
        self._has_given_up = False

    def start(self) -> None:
        """The cluster has been read."""
        self._is_up = True
        self._beat = self._clock()

    def stop(self) -> None:
        self._is_up = False

    def begin(self, *, leads: bool) -> None:
        """The loop comes round; a leader is about to decide."""
        self._beat = self._clock()
        if not leads:
            self._undecided_since = None
        elif self._undecided_since is None:
            self._undecided_since = self._beat

    def succeed(self) -> None:
        """A cycle has looked at every pod; or, in a replica that does not lead, at every event."""
        self.n_failed, self._fault = 0, ""
        self._undecided_since = None

    def recover(self) -> None:
        """A cycle of a leader has succeeded."""
        self.succeed()
        self._has_given_up = False

    def fail(self, fault: str) -> bool:
        """Take in that a cycle, or a look, failed; True when it is time to let another replica lead."""
        self.n_failed += 1
        self._fault = fault
        if self.n_failed < GIVE_UP_AFTER:
            return False
        self.n_failed = 0  # as many attempts again, should nobody else take over
        self._has_given_up = True
        return True

    def undecided_s(self) -> float:
        """The longest that a pod can have waited for a decision."""
        since = self._undecided_since
        return 0.0 if since is None else self._clock() - since

    def unhealthy(self) -> str:
        """Why a new start would help; "" while it would not."""
        if not self._is_up:
            return ""
        silent = self._clock() - self._beat
        if silent > _STUCK_S:
            return f"no cycle for {silent:.0f} s"
        if self._has_given_up:
            return f"{GIVE_UP_AFTER} cycles in a row have failed: {self._fault}"
        return self._overdue(_UNHEALTHY_S)

    def unready(self) -> str:
        """Why the service does not do its work; "" while it does."""
        if not self._is_up:
            return "the cluster has not been read yet"
        if self.n_failed >= UNREADY_AFTER:
            return f"{self.n_failed} cycles in a row have failed: {self._fault}"
        return self.unhealthy() or self._overdue(_UNREADY_S)

    def _overdue(self, limit_s: float) -> str:
        undecided = self.undecided_s()
        if undecided > limit_s:
            return f"pods have waited {undecided:.0f} s for a decision"
        return self._trouble(limit_s)


_LIMITS: Final = Limits(n_connections=16)
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  # a path
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_PATH: Final = "/metrics"
_KEEP_S: Final = 60.0
_KEEP_REFUSAL_S: Final = 5.0
_MAX_KEPT: Final = 256
#: No token of a cluster is longer.
_MAX_TOKEN: Final = 16 * 2**10
Refusal = tuple[HTTPStatus, str]
#: Posts a document to a path of the API server and returns its answer. Raises MusterError.
Ask = Callable[[str, bytes], bytes]


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


# -- who may read metrics --------------------------------------------------------------------------------------


class User(msgspec.Struct):
    """Whom the cluster takes a bearer for."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Authentication(msgspec.Struct):
    authenticated: bool = False
    user: User = msgspec.field(default_factory=User)


class _TokenAnswer(msgspec.Struct):
    status: _Authentication = msgspec.field(default_factory=_Authentication)


class _Access(msgspec.Struct):
    allowed: bool = False


class _AccessAnswer(msgspec.Struct):
    status: _Access = msgspec.field(default_factory=_Access)


_TOKEN_ANSWER = msgspec.json.Decoder(_TokenAnswer)
_ACCESS_ANSWER = msgspec.json.Decoder(_AccessAnswer)


class TokenReviews:
    """Asks the cluster; from any thread."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        #: Until when an answer holds, by the digest of its token.
        self._known: OrderedDict[bytes, tuple[float, Refusal | None]] = OrderedDict()

    def refusal(self, authorization: str) -> Refusal | None:
        """Why the bearer of a header may not read metrics; None: it may."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN:
            return HTTPStatus.UNAUTHORIZED, "expected the header Authorization: Bearer TOKEN"
        digest = hashlib.sha256(token.encode()).digest()
        with self._lock:
            until, refusal = self._known.get(digest, (0.0, None))
            if self._clock() < until:
                return refusal
        try:
            refusal = self._review(token)
        except (MusterError, msgspec.MsgspecError) as fault:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"the cluster cannot be asked whose token that is: {fault}"
        self._keep(digest, refusal)
        return refusal

    def _keep(self, digest: bytes, refusal: Refusal | None) -> None:
        with self._lock:
            self._known[digest] = (self._clock() + (_KEEP_S if refusal is None else _KEEP_REFUSAL_S), refusal)
            self._known.move_to_end(digest)
            if len(self._known) > _MAX_KEPT:
                self._known.popitem(last=False)

    def _review(self, token: str) -> Refusal | None:
        user = user_of(self._ask, token)
        if user is None:
            return HTTPStatus.UNAUTHORIZED, "the cluster does not know the token"
        if is_allowed(self._ask, user, {"nonResourceAttributes": {"path": _PATH, "verb": "get"}}):
            return None
        return HTTPStatus.FORBIDDEN, f"{user.username} may not get {_PATH}: a ClusterRole has to allow it"


def user_of(ask: Ask, token: str) -> User | None:
    """Whose token it is, by the word of the cluster; None: nobody's. Raises MusterError."""
    found = _TOKEN_ANSWER.decode(_post(ask, _TOKEN_REVIEWS, "authentication.k8s.io/v1", {"token": token})).status
    return found.user if found.authenticated else None


def is_allowed(ask: Ask, user: User, attributes: Mapping[str, object]) -> bool:
    """Whether the cluster lets a user do what the attributes of a SubjectAccessReview say. Raises MusterError."""
    spec = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra, **attributes}
    return _ACCESS_ANSWER.decode(_post(ask, _ACCESS_REVIEWS, "authorization.k8s.io/v1", spec)).status.allowed


def _post(ask: Ask, path: str, api_version: str, spec: object) -> bytes:
    kind = "TokenReview" if path == _TOKEN_REVIEWS else "SubjectAccessReview"
    return ask(path, msgspec.json.encode({"apiVersion": api_version, "kind": kind, "spec": spec}))
