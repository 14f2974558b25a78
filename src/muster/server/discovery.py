"""Where the network is described: the ConfigMap that says so, and questions to managers of networks by HTTP and TLS.

The ConfigMap is read again now and then, so that nobody needs the right to list any. A Secret has `username` and
`password` (HTTP's basic way) or `token` (a bearer's), and maybe `ca.crt`: the certificates that sign the manager's own.
It is read for each question, so that changed credentials are taken up. Faults say where and what, never what was in it.
"""

from __future__ import annotations

import base64
import binascii
import logging
import ssl
import time
from typing import Final

import aiohttp
import msgspec

from muster.api import BackendError, KubeObject
from muster.cluster.kubernetes.client.kinds import ObjectDecoder
from muster.cluster.kubernetes.client.requests import FORBIDDEN, NOT_FOUND, ApiError, Client
from muster.controllers.contract import Ask
from muster.controllers.hypernodes.controller import HyperNodeController
from muster.controllers.hypernodes.discovery import ConfigMap

log = logging.getLogger("muster.controllers")

_SECONDS: Final = 30.0
_MOST_BYTES: Final = 100 * 2**20


class _Secret(msgspec.Struct):
    data: dict[str, str] = {}


_CONFIG: Final = ObjectDecoder(ConfigMap)
_SECRET: Final = msgspec.json.Decoder(_Secret)


class Network:
    """Reads where the network is described, and says what has to be watched for that."""

    def __init__(self, client: Client, controller: HyperNodeController, key: str) -> None:
        self._client = client
        self._controller = controller
        self._namespace, _, self._name = key.partition("/")
        self._known: ConfigMap | None = None
        self._followed: set[type[KubeObject]] = set()
        self._fault = ""

    async def look(self) -> None:
        """Take in the ConfigMap as it is now; whoever may not read it has none."""
        try:
            path = f"/api/v1/namespaces/{self._namespace}/configmaps/{self._name}"
            config, fault = _CONFIG.decode_or_stub(await self._client.send("GET", path))
        except ApiError as error:
            self._tell("" if error.status in (NOT_FOUND, FORBIDDEN) else str(error))
            if error.status == NOT_FOUND and self._known is not None:
                self._controller.take("DELETED", self._known, time.time())
                self._known = None
            return
        self._tell(fault)
        version = config.metadata.resource_version
        if isinstance(config, ConfigMap) and not fault and version != self._version():
            self._known = config
            self._controller.take("MODIFIED", config, time.time())

    def new_kinds(self) -> list[type[KubeObject]]:
        """Kinds that are needed from now on."""
        found = [kind for kind in self._controller.follows() if kind not in self._followed]
        self._followed.update(found)
        return found

    def _version(self) -> str:
        return "" if self._known is None else self._known.metadata.resource_version

    def _tell(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.warning("event=discovery-config-not-read error=%r", fault)
        self._fault = fault


async def ask_outside(client: Client, ask: Ask) -> bytes:
    """The answer to a question. Raises BackendError."""
    secret = await _read(client, ask.secret) if ask.secret else {}
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=_tls(ask, secret)),
                timeout=aiohttp.ClientTimeout(total=_SECONDS),
                headers=_headers(ask, secret),
            ) as session,
            session.get(ask.url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise BackendError(f"{ask.url} answers {answer.status} {answer.reason}", retryable=True)
            return await _body(ask, answer)
    except (aiohttp.ClientError, OSError, TimeoutError) as fault:
        raise BackendError(f"{ask.url} does not answer: {str(fault) or type(fault).__name__}", retryable=True) from None


async def _body(ask: Ask, answer: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > _MOST_BYTES:
            raise BackendError(f"{ask.url} answers with more than {_MOST_BYTES >> 20} MiB", retryable=True)
        parts.append(part)
    return b"".join(parts)


async def _read(client: Client, key: str) -> dict[str, str]:
    namespace, _, name = key.partition("/")
    try:
        answer = await client.send("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except ApiError as fault:
        if fault.status == NOT_FOUND:
            raise BackendError(f"Secret {key} is not there", retryable=True) from None
        raise
    try:
        data = _SECRET.decode(answer).data
        return {field: base64.b64decode(text, validate=True).decode() for field, text in data.items()}
    except (msgspec.DecodeError, binascii.Error, UnicodeDecodeError):
        raise BackendError(f"Secret {key}: expected texts in its data", retryable=True) from None


def _headers(ask: Ask, secret: dict[str, str]) -> dict[str, str]:
    if not ask.secret:
        return {}
    if token := secret.get("token", "").strip():
        return {"Authorization": f"Bearer {token}"}
    user, word = secret.get("username"), secret.get("password")
    if not user or not word:
        raise BackendError(f"Secret {ask.secret}: expected username and password, or token", retryable=True)
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{word}'.encode()).decode()}"}


def _tls(ask: Ask, secret: dict[str, str]) -> ssl.SSLContext | bool:
    if not ask.verify:
        return False
    signers = secret.get("ca.crt")
    if not signers:
        return True
    try:
        return ssl.create_default_context(cadata=signers)
    except ssl.SSLError as fault:
        raise BackendError(f"Secret {ask.secret}: ca.crt: {fault}", retryable=True) from None
