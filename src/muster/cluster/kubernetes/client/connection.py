"""Where the API server is, and who we are to it: kubeconfig or the pod's own service account.

What comes out is what `requests` sends through: an exchange, and a session of aiohttp for what that leaves alone.
Credentials are read again every minute, and at once when the server does not accept them, so that rotated tokens are
taken up. Where a program or a provider has to be asked for them (exec plugins, OIDC), that is left to
kubernetes_asyncio, which is imported only then: with it comes a class for every kind of Kubernetes, and that takes a
good second. Must be opened and used inside one event loop.
"""

# ruff: noqa: PLC0415  # see above

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import aiohttp

from muster.api import UserError
from muster.cluster.kubernetes.client.exchange import Exchange
from muster.cluster.kubernetes.client.kubeconfig import Access, name_of_cluster, read_kubeconfig

log = logging.getLogger("muster.kubernetes")

#: Seconds between looks at the credentials.
_REFRESH_SECONDS: Final = 60.0
#: Requests under way at once, watches aside; each has a connection of its own.
CONNECTIONS: Final = 64
#: Watches beside them never wait for a connection.
_WATCHES: Final = 64
#: How long an idle connection is kept; the server closes its side after 90 seconds.
_KEEP_SECONDS: Final = 60.0
# One event of a watch is one line, and an object may be as large as etcd takes: 1.5 MiB.
_READ_BUFFER: Final = 2**21

_GOODBYE_SECONDS: Final = 0.25

#: Where a pod finds its account.
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Gets the Authorization header anew; None when there is none.
Authorize = Callable[[], Awaitable[str | None]]


class Connection:
    """An open session with an API server."""

    def __init__(self, access: Access, authorize: Authorize, origin: str) -> None:
        #: Where the address and the credentials come from, for messages.
        self.origin = origin
        self._authorize = authorize
        self._refreshed = time.monotonic()
        self._renewing = asyncio.Lock()
        self._authorization = access.authorization()
        self.server = access.server
        #: The proxy that the kubeconfig names.
        self.proxy = access.proxy
        self.tls_name = access.tls_name
        tls = _tls(access) if self.server.startswith("https") else None
        #: For all but watches; None: there is a proxy.
        self.exchange: Exchange | None = None
        if self.proxy is None:
            self.exchange = Exchange(self.server, tls, self.tls_name, CONNECTIONS, _KEEP_SECONDS)
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS + _WATCHES, keepalive_timeout=_KEEP_SECONDS, ssl=True if tls is None else tls
        )
        self.session = aiohttp.ClientSession(connector=connector, read_bufsize=_READ_BUFFER, auto_decompress=True)

    async def authorization(self, *, renew: bool = False) -> str | None:
        """The Authorization header; None when a certificate says who we are."""
        asked = time.monotonic()
        if renew or asked - self._refreshed > _REFRESH_SECONDS:
            # One for all: many requests find out at the same moment, and getting a token may take a process.
            async with self._renewing:
                if self._refreshed < asked and (renew or asked - self._refreshed > _REFRESH_SECONDS):
                    await self._renew()
        return self._authorization

    async def _renew(self) -> None:
        """Get credentials anew; without luck, those that we have are used on, and the server decides."""
        try:
            self._authorization = await self._authorize()
        except Exception as fault:  # noqa: BLE001  # whatever a plugin that gets tokens raises
            log.warning("event=credentials-not-renewed origin=%s error=%r", self.origin, str(fault))
        self._refreshed = time.monotonic()

    async def close(self) -> None:
        if self.exchange is not None:
            self.exchange.close()
        await self.session.close()
        # Connections say goodbye to the other side before they close, and nobody else lets them.
        await asyncio.sleep(_GOODBYE_SECONDS)


async def connect(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """Open a session: with the named kubeconfig, else $KUBECONFIG or the user's own, else the pod's account.

    Raises UserError when there is none, or when it cannot be used.
    """
    if kubeconfig is None and context is None and _in_cluster():
        access, origin = _of_pod(), "the pod's service account"
        return Connection(access, _reading(access), origin)
    path = str(kubeconfig) if kubeconfig is not None else _default_kubeconfig()
    plain = read_kubeconfig(path, context)
    try:
        if plain is not None:
            return Connection(plain, _reading(plain), path)
        return Connection(*await _by_library(path, context), path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as fault:
        # What the check before does not know of.
        raise UserError(f"the kubeconfig cannot be used: {fault}", place=path) from None


def name_of(kubeconfig: Path | None, context: str | None) -> str:
    """What people call the cluster that `connect` leads to; "cluster" where nobody says."""
    if kubeconfig is None and context is None and _in_cluster():
        return "cluster"
    try:
        return name_of_cluster(str(kubeconfig) if kubeconfig is not None else _default_kubeconfig(), context)
    except UserError:  # whoever connects says so
        return "cluster"


def _in_cluster() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


def _default_kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _of_pod() -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise UserError("the pod's service account cannot be used: $KUBERNETES_SERVICE_HOST or _PORT is empty")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        trusted = (_ACCOUNT / "ca.crt").read_text(encoding="utf-8")
        access = Access(f"https://{address}", trusted, token_file=_ACCOUNT / "token")
        if not trusted.strip() or access.authorization() is None:
            raise UserError(f"the pod's service account cannot be used: ca.crt or token of {_ACCOUNT} is empty")
    except (OSError, UnicodeDecodeError) as fault:
        raise UserError(f"the pod's service account cannot be used: {fault}") from None
    return access


def _reading(access: Access) -> Authorize:
    async def authorize() -> str | None:
        return access.authorization()

    return authorize


async def _by_library(path: str, context: str | None) -> tuple[Access, Authorize]:
    """Access by credentials that a program or a provider gives. Raises UserError, and whatever the library does."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_kube_config

    configuration = Configuration()
    try:
        loader = await load_kube_config(path, context, configuration, persist_config=False)
    except ConfigException as fault:
        raise UserError(f"the kubeconfig cannot be used: {fault}", place=path) from None

    async def authorize() -> str | None:
        await loader.load_and_set(configuration)
        return await configuration.get_api_key_with_prefix("BearerToken")

    def text(file: str | None) -> str:
        return "" if file is None else Path(file).read_text(encoding="utf-8")

    first = await configuration.get_api_key_with_prefix("BearerToken") or ""
    access = Access(
        str(configuration.host).rstrip("/"),
        text(configuration.ssl_ca_cert),
        text(configuration.cert_file),
        text(configuration.key_file),
        is_verified=bool(configuration.verify_ssl),
        tls_name=configuration.tls_server_name or None,
        proxy=configuration.proxy or None,
        token=first.removeprefix("Bearer "),
    )
    return access, authorize


def _tls(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.trusted or None)
    if access.certificate:
        # The library of TLS reads files only.
        with tempfile.TemporaryDirectory(prefix="muster-") as folder:
            certificate, key = Path(folder, "certificate"), Path(folder, "key")
            certificate.write_text(access.certificate)
            key.touch(mode=0o600)
            key.write_text(access.key)
            context.load_cert_chain(certificate, key)
    if not access.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
