"""A bad network between Muster and the API server: refuses, delays and cuts requests by rule.

Speaks plain HTTP on loopback, so that a kubeconfig with its address is all a test needs. `refuse` decides for every
request that changes something; `cut_watches` breaks all streams that are open, `hold_watches` makes them silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import aiohttp
import yaml
from aiohttp import web

from muster.testing.control_plane import ControlPlane, free_ports

#: Method and path in; a status to answer with, RESET to drop the connection, or 0 to let the request through.
Rule = Callable[[str, str], int]
RESET = -1
#: Carry the request out, but drop the connection instead of answering.
SWALLOW = -2


def let_through(_method: str, _path: str) -> int:
    """No fault at all."""
    return 0


class FaultyProxy:
    """Use it as a context manager; `kubeconfig` leads through it."""

    def __init__(self, plane: ControlPlane, work: Path, refuse: Rule | None = None) -> None:
        self._plane = plane
        self._port = free_ports(1)[0]
        self.refuse: Rule = refuse or let_through
        #: How many seconds a request waits here before it goes on, unless its sender has left by then.
        self.late_s: Callable[[str, str], float] = lambda _method, _path: 0.0
        #: When which requests went on.
        self.passed: list[tuple[float, str]] = []
        self.kubeconfig = work / "proxied-kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._configuration()))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._upstream: aiohttp.ClientSession
        self._streams: set[asyncio.Task[object]] = set()
        #: Set while watches say what they have to say.
        self._flow: asyncio.Event

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def cut_watches(self) -> None:
        """Break every stream that is open."""
        self._loop.call_soon_threadsafe(lambda: [stream.cancel() for stream in self._streams])

    @contextlib.contextmanager
    def hold_watches(self) -> Iterator[None]:
        """Nothing comes through watches for a while; what came meanwhile follows later."""
        self._loop.call_soon_threadsafe(self._flow.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._flow.set)

    def _configuration(self) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxied", "cluster": {"server": f"http://127.0.0.1:{self._port}"}}],
            "users": [{"name": "admin", "user": {"token": self._plane.token}}],
            "contexts": [{"name": "proxied", "context": {"cluster": "proxied", "user": "admin"}}],
            "current-context": "proxied",
        }

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._flow = asyncio.Event(), asyncio.Event()
        self._flow.set()
        connector = aiohttp.TCPConnector(ssl=ssl._create_unverified_context(), limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._upstream:
            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self._ready.set()
            await self._stop.wait()
            for stream in list(self._streams):
                stream.cancel()
            await runner.cleanup()
        await asyncio.sleep(0.25)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.late_s(request.method, request.path))
        self.passed.append((time.monotonic(), request.path))
        verdict = self.refuse(request.method, request.path)
        if verdict > 0:
            return web.json_response({"kind": "Status", "code": verdict, "message": "made up"}, status=verdict)
        if verdict == RESET:
            return self._drop(request)
        headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Content-Length")}
        url = f"{self._plane.server}{request.path_qs}"
        body = await request.read() or None
        try:
            async with self._upstream.request(request.method, url, data=body, headers=headers) as answer:
                if verdict == SWALLOW:
                    await answer.read()
                    return self._drop(request)
                return await self._pass_on(request, answer)
        except aiohttp.ClientError:
            return self._drop(request)

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            async for chunk in answer.content.iter_any():
                if "watch" in request.query:
                    await self._flow.wait()
                await response.write(chunk)
            await response.write_eof()
        except asyncio.CancelledError:
            self._drop(request)
        finally:
            self._streams.discard(task)
        return response

    def _drop(self, request: web.Request) -> web.Response:
        with contextlib.suppress(AttributeError):
            if request.transport is not None:
                request.transport.abort()
        return web.Response()
