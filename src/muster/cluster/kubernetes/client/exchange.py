"""One request and its answer after the other over HTTP/1.1, on connections that stay open.

Binding a pod is a request of its own, and so is making one: there are thousands at once, all short, and the answer is
wanted whole. For these, what a library for everything does costs several times what they need. Watches, proxies, and
answers that send us elsewhere are left to aiohttp (see `requests`).
A connection on which an exchange did not come to its end is closed, so that the server drops what it has not done, and
none is used that was told to close. Must be used inside one event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, SupportsIndex
from urllib.parse import quote, urlsplit

_CONNECT_SECONDS: Final = 5.0
#: How long addresses of one name are tried one after the other before they are tried together.
_NEXT_ADDRESS_SECONDS: Final = 0.25
#: The most that the head of an answer may be long; also how much of a body is read ahead.
_AHEAD_BYTES: Final = 2**20
_NO_CONTENT: Final = (204, 304)
#: What stands in paths as it is; all else that is no letter or digit is written as its number.
_IN_PATHS: Final = "/?&=%:@!$'()*+,;~-._[]"


class NotConnectedError(OSError):
    """The server was not reached, so it has seen nothing."""


class BrokenExchangeError(OSError):
    """The connection ended before the answer did, or what came is no HTTP."""


class Answer(NamedTuple):
    """What a server said."""

    status: int
    #: By their names in small letters.
    headers: Mapping[str, str]
    content: bytes


class _Reader(asyncio.StreamReader):
    """The bytes of a connection, and whether some came that nobody had asked for."""

    is_asked = False
    is_spoilt = False

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.is_spoilt |= not self.is_asked
        super().feed_data(data)


@dataclass(slots=True, eq=False)
class _Line:
    """An open connection."""

    reader: _Reader
    transport: asyncio.Transport
    #: When it was used last, by the event loop's clock.
    used_at: float = 0.0

    def is_open(self) -> bool:
        """Whether another request may be sent; what a server says by itself, it says before it closes."""
        return not (self.transport.is_closing() or self.reader.at_eof() or self.reader.is_spoilt)


class Exchange:
    """Asks one server, over so many connections at most."""

    def __init__(
        self, server: str, tls: ssl.SSLContext | None, tls_name: str | None, n_connections: int, keep_s: float
    ) -> None:
        """`keep_s`: how long a connection that nobody uses is thought to be open."""
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._tls = tls if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls is not None else 80)
        self._tls_name = (tls_name or self._host) if self._tls is not None else None
        #: What stands before every path.
        self._root = parts.path.rstrip("/")
        self._name = parts.netloc.rpartition("@")[2]
        self._keep_s = keep_s
        self._slots = asyncio.Semaphore(n_connections)
        #: Connections that nobody uses, the last one used at the end.
        self._free: list[_Line] = []

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Send a request and return the answer, whatever it says. Raises OSError."""
        request = self._written(method, path, headers, body)
        async with self._slots:
            line = self._take()
            if line is not None:
                try:
                    return await self._on(line, request)
                except BrokenExchangeError:
                    # The server may have closed it at this very moment; what changes something is not sent twice.
                    if method != "GET":
                        raise
            return await self._on(await self._connect(), request)

    def close(self) -> None:
        """Close all connections; each says goodbye to the other side by itself."""
        for line in self._free:
            line.transport.close()
        self._free.clear()

    def _written(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [f"{method} {quote(self._root + path, safe=_IN_PATHS)} HTTP/1.1", f"Host: {self._name}"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        if any("\n" in line or "\r" in line for line in lines):
            raise ValueError("a header of more than one line")
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        return head if body is None else head + body

    # -- connections -------------------------------------------------------------------------------------------

    def _take(self) -> _Line | None:
        """A connection that is open as far as we know."""
        oldest = asyncio.get_running_loop().time() - self._keep_s
        while self._free:
            line = self._free.pop()
            if line.used_at >= oldest and line.is_open():
                return line
            line.transport.close()
        return None

    async def _connect(self) -> _Line:
        loop = asyncio.get_running_loop()
        reader = _Reader(_AHEAD_BYTES, loop)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                transport, _ = await loop.create_connection(
                    lambda: asyncio.StreamReaderProtocol(reader, loop=loop),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._tls_name,
                    happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                )
        except ssl.SSLCertVerificationError:
            raise
        except (OSError, TimeoutError) as fault:
            why = str(fault) or "no answer"
            raise NotConnectedError(f"cannot connect to {self._host}:{self._port}: {why}") from fault
        return _Line(reader, transport)

    async def _on(self, line: _Line, request: bytes) -> Answer:
        is_kept = False
        line.reader.is_asked = True
        try:
            line.transport.write(request)
            answer, is_kept = await _answer(line.reader)
        except (asyncio.IncompleteReadError, ConnectionError) as fault:
            raise BrokenExchangeError("the server closed the connection") from fault
        except (asyncio.LimitOverrunError, ValueError) as fault:
            raise BrokenExchangeError(f"the answer is no HTTP: {fault}") from fault
        finally:
            line.reader.is_asked = False
            if is_kept:
                line.used_at = asyncio.get_running_loop().time()
                self._free.append(line)
            else:
                line.transport.abort()
        return answer


# -- answers -------------------------------------------------------------------------------------------------------


async def _answer(reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    """Read an answer, and whether another one may come. Raises ValueError for what is none."""
    status, version, headers = await _head(reader)
    while 100 <= status < 200:  # more is to come
        status, version, headers = await _head(reader)
    is_kept = version != b"HTTP/1.0" and "close" not in headers.get("connection", "").lower()
    if status in _NO_CONTENT:
        return Answer(status, headers, b""), is_kept
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return Answer(status, headers, await _chunks(reader)), is_kept
    length = headers.get("content-length")
    if length is None:
        return Answer(status, headers, await reader.read()), False
    if not length.isdecimal():
        raise ValueError(f"a content of length {length!r}")
    return Answer(status, headers, await reader.readexactly(int(length))), is_kept


async def _head(reader: asyncio.StreamReader) -> tuple[int, bytes, dict[str, str]]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ValueError(repr(first[:80]))
    headers = {}
    for line in lines:
        name, _, text = line.decode("latin-1").partition(":")
        headers[name.lower()] = text.strip()
    return int(rest[:3]), version, headers


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        if await reader.readexactly(2) != b"\r\n":
            raise ValueError("a part that is longer than it says")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # headers that come last say nothing to us
    return parts[0] if len(parts) == 1 else b"".join(parts)
