"""Requests to an API server, as bytes: one attempt, attempts with back-off, paged lists, watches.

Everything else of this package talks to the server through `Client`. Answers are not decoded here, errors are: each
is an `ApiError` that says whether trying again can help. A request that got no answer may have been carried out; who
sends one that must not happen twice has to look afterwards.
No change may happen after another scheduler leads. So each has a time after which both sides drop it: we close the
connection, and the server, which is told the time with the request, ends what it has begun. `uncertain_s` says how long
it may be until everything without an answer is over.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from random import SystemRandom
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from muster.api import BackendError, UserError
from muster.api.documents import MAX_DEPTH, shallow
from muster.cluster.kubernetes.client.connection import Connection
from muster.cluster.kubernetes.client.exchange import Answer, NotConnectedError

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

NO_ANSWER: Final = 0
UNKNOWN_USER: Final = 401
FORBIDDEN: Final = 403
#: The reason of our own refusal to send a change.
NOT_LEADER: Final = "NotLeader"
NOT_FOUND: Final = 404
GONE: Final = 410
_RETRYABLE: Final = frozenset({NO_ANSWER, 429, 500, 502, 503, 504})
#: Answers that leave open whether something was done: a server that ran out of time may have been about to.
_UNCERTAIN: Final = frozenset({NO_ANSWER, 502, 504})
#: Fields that a server does not know it drops, either way; nobody would read its warning, which takes it time to find.
_UNCHECKED: Final = "&fieldValidation=Ignore"
#: Answers that send us to another address.
_ELSEWHERE: Final = frozenset({301, 302, 303, 307, 308})
_ATTEMPTS: Final = 6
_REQUEST_SECONDS: Final = 30.0
#: The longest that a server may make us wait with Retry-After.
_RETRY_AFTER_SECONDS: Final = 10.0
_PAGE: Final = 1000
#: The server ends a watch after this long, and sends a bookmark about every minute until then.
WATCH_SECONDS: Final = 600
_SILENCE_SECONDS: Final = 90.0
#: The first line of the answer comes at once, even when there is nothing to tell yet.
_GREETING_SECONDS: Final = 10.0
_RANDOM: Final = SystemRandom()

_T = TypeVar("_T")


class ApiError(BackendError):
    """The server said no, or nothing (`status` 0)."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after_s: float = 0.0, *, was_sent: bool = True
    ) -> None:
        self.status = status
        #: False when the server cannot have seen the request.
        self.was_sent = was_sent
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(f"{status or 'no answer'} {reason}: {message}".strip(), retryable=status in _RETRYABLE)


class Client:
    """Sends requests; must be used inside the event loop of its connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session
        #: Asked before every attempt of `send` to change something: the seconds that it may take, 0 when it may not be.
        self.write_seconds: Callable[[], float] = lambda: _REQUEST_SECONDS
        #: Told of every request that is no watch: its method, and the seconds that it took.
        self.observe: Callable[[str, float], None] = lambda _method, _seconds: None
        #: When changes that have no answer are over at the latest, by the event loop's clock.
        self._unanswered: dict[int, float] = {}
        self._n_writes = 0

    async def close(self) -> None:
        await self._connection.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        timeout_s: float = _REQUEST_SECONDS,
    ) -> bytes:
        """Send one request once; path and query are given as they go over the wire. Raises ApiError."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._ask(method, path, body, content_type)
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            raise no_answer(fault) from None
        finally:
            self.observe(method, asyncio.get_running_loop().time() - began)
        if answer.status >= 400:
            raise status_error(answer.status, answer.content, _retry_after(answer.headers))
        return answer.content

    async def send(
        self, method: str, path: str, body: bytes | None = None, *, content_type: str = JSON, attempts: int = _ATTEMPTS
    ) -> bytes:
        """Send a request, again while that can help and we still may. Raises the last ApiError."""
        backoff = Backoff()
        for left in range(attempts - 1, -1, -1):
            try:
                if method == "GET":
                    return await self.request(method, path, body, content_type=content_type)
                return await self._write(method, path, body, content_type)
            except ApiError as fault:
                if not fault.retryable or not left:
                    raise
                await asyncio.sleep(backoff.next_s(fault.retry_after_s))
        raise AssertionError("attempts must be positive")

    async def _write(self, method: str, path: str, body: bytes | None, content_type: str) -> bytes:
        """Change something once, while we may. Raises ApiError."""
        seconds = min(self.write_seconds(), _REQUEST_SECONDS)
        if seconds <= 0:
            raise ApiError(FORBIDDEN, NOT_LEADER, "another scheduler leads now")
        self._n_writes += 1
        number = self._n_writes
        self._unanswered[number] = asyncio.get_running_loop().time() + seconds
        limited = f"{path}{'&' if '?' in path else '?'}timeout={max(1, int(seconds * 1000))}ms{_UNCHECKED}"
        try:
            content = await self.request(method, limited, body, content_type=content_type, timeout_s=seconds)
        except ApiError as fault:
            if fault.status not in _UNCERTAIN or not fault.was_sent:
                del self._unanswered[number]
            raise
        del self._unanswered[number]
        return content

    def uncertain_s(self) -> float:
        """How long it may take until no change that we sent can happen any more."""
        now = asyncio.get_running_loop().time()
        self._unanswered = {number: until for number, until in self._unanswered.items() if until > now}
        return max(self._unanswered.values(), default=now) - now

    async def pages(self, path: str, selector: str | Selection = "") -> AsyncIterator[Page]:
        """List everything under a path that has the labels, page by page, as of one moment. Raises ApiError.

        While a page is being read the server makes the next one.
        """
        query = f"{path}?limit={_PAGE}{_selected(selector)}"
        under_way = asyncio.create_task(self.send("GET", query))
        try:
            while True:
                page = decode_cut(_PAGE_DECODER, await under_way, depth=2)
                proceed = page.metadata.proceed
                if proceed:
                    under_way = asyncio.create_task(self.send("GET", f"{query}&continue={proceed}"))
                    await asyncio.sleep(0)  # so that it is sent before anything else is done
                yield page
                if not proceed:
                    return
        finally:
            under_way.cancel()

    async def newest_version(self, path: str) -> str:
        """The version of a list as it is now, without the list. Raises ApiError."""
        return _PAGE_DECODER.decode(await self.send("GET", f"{path}?limit=1")).metadata.resource_version

    async def watch(
        self,
        path: str,
        resource_version: str,
        selector: str | Selection = "",
        seconds: int = WATCH_SECONDS,
        gather_s: float = 0.0,
    ) -> AsyncIterator[list[bytes]]:
        """Yield the lines of a watch as they come, many at a time; ends when the server ends it. Raises ApiError.

        The first time there are none: it says that the server has accepted the watch. `gather_s`: for how long nothing
        is read after something has come, where it is more important that it costs little than that it is the newest.
        """
        options = f"allowWatchBookmarks=true&timeoutSeconds={seconds}{_selected(selector)}"
        query = f"?watch=1&resourceVersion={resource_version}&{options}"
        try:
            async with asyncio.timeout(_GREETING_SECONDS):
                opened = await self._open(path + query)
            async with opened as answer:
                if answer.status >= 400:
                    raise status_error(answer.status, await answer.read(), _retry_after(answer.headers))
                yield []
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    if lines:
                        yield lines
                    if gather_s:
                        await _gather(answer, gather_s)
        except aiohttp.SocketTimeoutError:
            return  # nothing happens there, or the connection is dead: the next watch will tell
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            raise no_answer(fault) from None

    def explain(self, fault: ApiError) -> BackendError:
        """Say in one sentence which server it was, and where its address comes from."""
        where = f"the API server {self._connection.server} (of {self._connection.origin})"
        said = " ".join(str(fault).split())
        if fault.status == NO_ANSWER:
            return BackendError(f"{where} does not answer: {said.removeprefix('no answer ')}", retryable=True)
        if fault.status == UNKNOWN_USER:
            return BackendError(f"{where} does not accept your credentials", retryable=False)
        return BackendError(f"{where} answers {said}", retryable=fault.retryable)

    async def _ask(self, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        """Send a request once, twice if our credentials are out of date."""
        answer = await self._attempt(method, path, body, content_type)
        if answer.status == UNKNOWN_USER:
            await self._connection.authorization(renew=True)
            answer = await self._attempt(method, path, body, content_type)
        return answer

    async def _attempt(self, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        exchange = self._connection.exchange
        if exchange is not None:
            answer = await exchange.ask(method, path, await self._headers(body, content_type), body)
            if answer.status not in _ELSEWHERE:
                return answer
        async with await self._by_session(method, path, body, content_type) as other:
            headers = {name.lower(): text for name, text in other.headers.items()}
            return Answer(other.status, headers, await other.read())

    async def _open(self, path: str) -> aiohttp.ClientResponse:
        """Begin to read something that may not end for long."""
        answer = await self._by_session("GET", path, None, JSON, _SILENCE_SECONDS)
        if answer.status != UNKNOWN_USER:
            return answer
        answer.release()
        await self._connection.authorization(renew=True)
        return await self._by_session("GET", path, None, JSON, _SILENCE_SECONDS)

    async def _by_session(
        self, method: str, path: str, body: bytes | None, content_type: str, silence_s: float | None = None
    ) -> aiohttp.ClientResponse:
        return await self._session.request(
            method,
            URL(self._connection.server + path, encoded=True),
            data=body,
            headers=await self._headers(body, content_type),
            proxy=self._connection.proxy,
            server_hostname=self._connection.tls_name,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=silence_s),
        )

    async def _headers(self, body: bytes | None, content_type: str) -> dict[str, str]:
        # Compressing costs the server more than it saves where servers and schedulers are close together.
        headers = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "muster"}
        if body is not None:
            headers["Content-Type"] = content_type
        authorization = await self._connection.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    proceed: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a list; items are decoded one by one, as one that is wrong must not hide the others."""

    metadata: _ListMeta
    items: list[msgspec.Raw] = []


_STATUS = msgspec.json.Decoder(_Status)
_PAGE_DECODER = msgspec.json.Decoder(Page)


def status_error(status: int, body: bytes, retry_after_s: float = 0.0) -> ApiError:
    """Make an error of an answer; what is no Status object is quoted."""
    try:
        told = _STATUS.decode(body)
    except msgspec.DecodeError:
        return ApiError(status, "", body[:200].decode(errors="replace"), retry_after_s)
    return ApiError(status or told.code, told.reason, told.message, retry_after_s)


def no_answer(fault: Exception) -> ApiError:
    """Make an error of a connection that failed. Raises UserError for one that trying again cannot mend."""
    if isinstance(fault, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        raise UserError(f"the API server's certificate is not trusted: {fault}")
    was_sent = not isinstance(fault, aiohttp.ClientConnectorError | NotConnectedError)
    return ApiError(NO_ANSWER, type(fault).__name__, str(fault), was_sent=was_sent)


def decode_cut(decoder: msgspec.json.Decoder[_T], text: bytes, depth: int) -> _T:
    """Decode what may be nested so deep that readers give up on it, with `CUT` for the parts that are."""
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(shallow(text.decode(), depth=MAX_DEPTH + depth)[0])


class Selection(NamedTuple):
    """Which objects of a kind are wanted: by labels, and by the few fields that a server knows."""

    labels: str = ""
    fields: str = ""


async def _gather(answer: aiohttp.ClientResponse, seconds: float) -> None:
    """Read on after a moment, so that what comes meanwhile is taken together, which costs far less than one by one."""
    protocol = None if answer.connection is None else answer.connection.protocol
    if protocol is not None:
        protocol.pause_reading()
    await asyncio.sleep(seconds)
    if protocol is not None:
        protocol.resume_reading()


def _selected(selector: str | Selection) -> str:
    labels, fields = selector if isinstance(selector, Selection) else (selector, "")
    by_labels = f"&labelSelector={quote(labels)}" if labels else ""
    return by_labels + (f"&fieldSelector={quote(fields)}" if fields else "")


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    return min(float(text), _RETRY_AFTER_SECONDS) if text.isdecimal() else 0.0


class Backoff:
    """A growing wait, in seconds."""

    def __init__(self, first_s: float = 0.05, limit_s: float = 5.0) -> None:
        self._first = first_s
        self._limit = limit_s
        self._next = first_s

    def next_s(self, at_least_s: float = 0.0) -> float:
        """The next wait; never shorter than what a server asked for."""
        wait, self._next = self._next, min(self._next * 2, self._limit)
        return max(at_least_s, wait * _RANDOM.uniform(0.5, 1.0))

    def reset(self) -> None:
        """It worked: the next trouble starts with a short wait again."""
        self._next = self._first
