"""Who may read: hosts that a browser may call us by, bearers of a token, and how much each may ask for.

On loopback nobody needs a token, but a request has to name us by a loopback name: otherwise a page from elsewhere could
have its own name point here and read along (DNS rebinding). Everywhere else a token is needed: one of a file or made at
the start, or, on a cluster, the reader's own, which the cluster reviews. Answers of the cluster are kept for a short
while, by a digest of the token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

from muster.api import BackendError, MusterError, UserError
from muster.server.status import Ask, User, is_allowed, user_of
from muster.ui.visibility import EVERYTHING, Reader

_KEEP_S: Final = 30.0
_MAX_KEPT: Final = 512
_MAX_TOKEN: Final = 16 * 2**10
_LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost"})
_SHORTEST_TOKEN: Final = 16


class RefusedError(Exception):
    """A request that gets no answer."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Gate(Protocol):
    """Says who a bearer is."""

    def reader(self, authorization: str, namespaces: Callable[[], Iterable[str]]) -> Reader:
        """The reader of a header. Raises RefusedError."""
        ...


class OpenGate:
    """Everybody on this machine."""

    def reader(self, authorization: str, namespaces: Callable[[], Iterable[str]]) -> Reader:
        return EVERYTHING


class TokenGate:
    """Whoever bears the token; where it stands in a file, the one that stands there now."""

    def __init__(self, token: str = "", file: Path | None = None) -> None:
        self._token = token
        self._file = file
        self._read()

    def _read(self) -> str:
        if self._file is None:
            return self._token
        try:
            token = self._file.read_text(encoding="utf-8").strip()
        except OSError as fault:
            raise UserError(f"--token-file: cannot read {self._file}: {fault.strerror}") from None
        except UnicodeDecodeError:
            raise UserError(f"--token-file: expected text in UTF-8 in {self._file}") from None
        if len(token) < _SHORTEST_TOKEN:
            raise UserError(f"--token-file: expected a token of at least {_SHORTEST_TOKEN} characters in {self._file}")
        return token

    def reader(self, authorization: str, namespaces: Callable[[], Iterable[str]]) -> Reader:
        try:
            right = self._read()
        except UserError as fault:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(fault)) from None
        if not hmac.compare_digest(bearer(authorization).encode(), right.encode()):
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "the token is not the right one, or not valid any more")
        return EVERYTHING


class ReviewGate:
    """Whoever the cluster knows; each sees the namespaces whose pods the cluster lets them list."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, User, dict[str, bool]]] = OrderedDict()

    def reader(self, authorization: str, namespaces: Callable[[], Iterable[str]]) -> Reader:
        token = bearer(authorization)
        digest = hashlib.sha256(token.encode()).digest()
        try:
            user, allowed = self._user(token, digest)
            if self._may(user, allowed, ""):
                return Reader(user.username)
            seen = frozenset(name for name in namespaces() if self._may(user, allowed, name))
        except (MusterError, BackendError) as fault:
            why = f"the cluster cannot be asked whose token that is: {fault}"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, why) from None
        return Reader(user.username, seen)

    def _user(self, token: str, digest: bytes) -> tuple[User, dict[str, bool]]:
        with self._lock:
            until, user, allowed = self._known.get(digest, (0.0, User(), {}))
            if self._clock() < until:
                return user, allowed
        found = user_of(self._ask, token)
        if found is None:
            with self._lock:
                self._known.pop(digest, None)
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "the cluster does not know the token, or not any more")
        with self._lock:
            allowed = {}
            self._known[digest] = (self._clock() + _KEEP_S, found, allowed)
            while len(self._known) > _MAX_KEPT:
                self._known.popitem(last=False)
        return found, allowed

    def _may(self, user: User, allowed: dict[str, bool], namespace: str) -> bool:
        """Whether the user may list the pods of a namespace; "": of all."""
        if namespace not in allowed:
            wanted = {"verb": "list", "resource": "pods", **({"namespace": namespace} if namespace else {})}
            allowed[namespace] = is_allowed(self._ask, user, {"resourceAttributes": wanted})
        return allowed[namespace]


def bearer(authorization: str) -> str:
    """The token of a header. Raises RefusedError."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN:
        raise RefusedError(HTTPStatus.UNAUTHORIZED, "expected the header Authorization: Bearer TOKEN")
    return token


def is_loopback(host: str) -> bool:
    """Whether a name or an address, with or without a port, means this machine alone."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if host.count(":") > 1 and not host.startswith("["):
        name = host
    if name.lower().rstrip(".") in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass(slots=True)
class RateLimit:
    """So many requests a second for each client, and more of them at once; old clients are forgotten."""

    per_second: float = 60.0
    at_once: float = 240.0
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def admits(self, client: str) -> bool:
        """Count one request of a client; False: it has to wait."""
        now = self.clock()
        bucket = self._buckets.pop(client, None) or _Bucket(self.at_once, now)
        bucket.left = min(self.at_once, bucket.left + (now - bucket.at) * self.per_second)
        bucket.at = now
        self._buckets[client] = bucket
        while len(self._buckets) > _MAX_KEPT:
            self._buckets.popitem(last=False)
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
