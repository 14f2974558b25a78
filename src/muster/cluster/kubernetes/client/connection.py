"""Where the API server is, and who we are to it: kubeconfig or the pod's own service account.

Reading configurations and getting credentials (certificates, tokens and their files, exec plugins, OIDC) is left to
kubernetes_asyncio; what comes out is a session of aiohttp that `client` sends requests through. Credentials are read
again every minute, and at once when the server does not accept them, so that rotated tokens are taken up.
The library is imported by the first to connect: with it comes a class for every kind of Kubernetes, of which none is
used here, and that takes a good part of a second. Must be opened and used inside one event loop.
"""

# ruff: noqa: PLC0415  # see above

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp

from muster.api import UserError
from muster.cluster.kubernetes.client.kubeconfig import check_kubeconfig

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

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

Refresh = Callable[["Configuration"], Awaitable[None]]


class Connection:
    """An open session with an API server."""

    def __init__(self, configuration: Configuration, refresh: Refresh, origin: str) -> None:
        self._configuration = configuration
        #: Where the address and the credentials come from, for messages.
        self.origin = origin
        self._refresh = refresh
        self._refreshed = time.monotonic()
        self._renewing = asyncio.Lock()
        self._authorization: str | None = None
        self.server = str(configuration.host).rstrip("/")
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS + _WATCHES,
            keepalive_timeout=_KEEP_SECONDS,
            ssl=_tls(configuration) if self.server.startswith("https") else True,
        )
        self.session = aiohttp.ClientSession(connector=connector, read_bufsize=_READ_BUFFER, auto_decompress=True)

    @property
    def proxy(self) -> str | None:
        """The proxy that the kubeconfig names."""
        return self._configuration.proxy or None

    @property
    def tls_name(self) -> str | None:
        """The name in the server's certificate, where it is not that of the address."""
        return self._configuration.tls_server_name or None

    async def authorization(self, *, renew: bool = False) -> str | None:
        """The Authorization header; None when a certificate says who we are."""
        asked = time.monotonic()
        if renew or asked - self._refreshed > _REFRESH_SECONDS:
            # One for all: many requests find out at the same moment, and getting a token may take a process.
            async with self._renewing:
                if self._refreshed < asked and (renew or asked - self._refreshed > _REFRESH_SECONDS):
                    await self._renew()
        if self._authorization is None:
            self._authorization = await self._configuration.get_api_key_with_prefix("BearerToken")
        return self._authorization

    async def _renew(self) -> None:
        """Get credentials anew; without luck, those that we have are used on, and the server decides."""
        try:
            await self._refresh(self._configuration)
            self._authorization = await self._configuration.get_api_key_with_prefix("BearerToken")
        except Exception as fault:  # noqa: BLE001  # whatever a plugin that gets tokens raises
            log.warning("event=credentials-not-renewed origin=%s error=%r", self.origin, str(fault))
        self._refreshed = time.monotonic()

    async def close(self) -> None:
        await self.session.close()
        # Connections say goodbye to the other side before they close, and nobody else lets them.
        await asyncio.sleep(_GOODBYE_SECONDS)


async def connect(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """Open a session: with the named kubeconfig, else $KUBECONFIG or the user's own, else the pod's account.

    Raises UserError when there is none, or when it cannot be used.
    """
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_kube_config

    configuration = Configuration()
    if kubeconfig is None and context is None and _in_cluster():
        _from_pod(configuration)
        return Connection(configuration, _reload_pod, "the pod's service account")
    path = str(kubeconfig) if kubeconfig is not None else _default_kubeconfig()
    check_kubeconfig(path, context)
    try:
        loader = await load_kube_config(path, context, configuration, persist_config=False)
        return Connection(configuration, loader.load_and_set, path)
    except (ConfigException, OSError, ValueError, LookupError, TypeError, AttributeError) as fault:
        # What the check before does not know of; the library reads on and falls over what it finds.
        raise UserError(f"the kubeconfig cannot be used: {fault}", place=path) from None


def _in_cluster() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


def _default_kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _from_pod(configuration: Configuration) -> None:
    from kubernetes_asyncio.config import ConfigException, load_incluster_config

    try:
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library's own gap
    except (ConfigException, OSError) as fault:
        raise UserError(f"the pod's service account cannot be used: {fault}") from None


async def _reload_pod(configuration: Configuration) -> None:
    _from_pod(configuration)


def _tls(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
