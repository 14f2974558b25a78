"""The application: answers under /api, a stream of what is new, and the built front end for everything else.

Every answer under /api is JSON and describes itself in /api/openapi.json. Requests pass the same door: the host that
they name, the client's rate, the token, and then, on the way out, the namespaces that the reader may see. Answers are
made in threads, one at a time for each feed; streams are a few bytes for each cycle however many happen, so that a slow
browser is only late.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from muster.api import MusterError, UserError
from muster.simulate import Run
from muster.ui.access import Gate, OpenGate, RateLimit, RefusedError, is_loopback
from muster.ui.decisions import MAX_CYCLES, CycleFilter, cycles_document, line_document
from muster.ui.feeds import Feed
from muster.ui.history import Json, Moment, MomentGoneError
from muster.ui.jobs import DEFAULT_ROWS, MAX_ROWS, JobFilter, all_jobs, job_document, jobs_document
from muster.ui.node_map import node_document, prepared
from muster.ui.openapi import openapi_document
from muster.ui.overview import config_document, search_document, status_document
from muster.ui.questions import MAX_BYTES, Asked, answer, read_question, remedies
from muster.ui.queues import queues_document, series_document, takings
from muster.ui.runs import Runs
from muster.ui.visibility import Reader, shown_to
from muster.whatif import Options

#: Streams at once: of all clients, and of one.
MAX_STREAMS: Final = 64
MAX_STREAMS_EACH: Final = 12
#: Seconds between signs of life on a stream, at which the token is looked at again; and how long one lasts.
BEAT_S: Final = 10.0
STREAM_S: Final = 3600.0
#: The least time between two messages on a stream.
_PAUSE_S: Final = 0.05

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(slots=True)
class Desk:
    """What answers are made from, and who may have them."""

    feed: Feed
    runs: Runs = field(default_factory=Runs)
    gate: Gate = field(default_factory=OpenGate)
    #: Whether requests have to name this machine.
    loopback_only: bool = True
    rate: RateLimit = field(default_factory=RateLimit)
    #: Streams that are open, by client.
    streams: dict[str, int] = field(default_factory=dict)
    beat_s: float = BEAT_S
    is_closing: bool = False

    def close(self) -> None:
        """End all streams: the server is about to end."""
        self.is_closing = True
        self.feed.history.tell()

    def shown(self, reader: Reader, document: Json) -> Json:
        """What of a document the reader may see."""
        if reader.namespaces is None:
            return document
        cleaned: Json = shown_to(reader, document, self.feed.history.namespaces())
        return cleaned

    def admit(self, request: Request) -> None:
        """Look at host and rate. Raises RefusedError."""
        if self.loopback_only and not is_loopback(request.headers.get("host", "")):
            why = "this server answers on loopback only, by the name localhost or 127.0.0.1"
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, why)
        if not self.rate.admits(_client(request)):
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; wait a second")

    def admit_stream(self, client: str) -> None:
        """Look whether there is room for one more stream. Raises RefusedError."""
        if sum(self.streams.values()) >= MAX_STREAMS or self.streams.get(client, 0) >= MAX_STREAMS_EACH:
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too many streams are open")

    def reader(self, request: Request) -> Reader:
        """Who asks. Raises RefusedError."""
        return self.gate.reader(request.headers.get("authorization", ""), self.feed.history.namespaces)


Answer = Callable[[Desk, Request], Json]


def make_app(desk: Desk) -> Starlette:
    """The application of one desk."""
    answers: Mapping[str, Answer] = {
        "/api/status": lambda desk, _: status_document(desk.feed),
        "/api/cluster/tree": _tree,
        "/api/cluster/state": _state,
        "/api/nodes/{name}": _node,
        "/api/jobs": _jobs,
        "/api/jobs/{name:path}": _job,
        "/api/queues": _queues,
        "/api/queues/series": _series,
        "/api/cycles": lambda desk, _: line_document(desk.feed.history),
        "/api/decisions": _decisions,
        "/api/names": lambda desk, _: desk.feed.history.names(),
        "/api/config": lambda desk, _: config_document(desk.feed),
        "/api/search": lambda desk, request: search_document(_moment(desk, request), _text(request, "q")),
        "/api/lab": lambda desk, _: desk.runs.list_document(),
        "/api/lab/{name}": _run,
        "/api/lab/{name}/{key}": _compared_run,
    }
    routes = [Route(path, _endpoint(desk, answer), methods=["GET"]) for path, answer in answers.items()]
    routes += [
        Route("/api/openapi.json", _endpoint(desk, lambda _desk, _request: openapi_document(), is_open=True)),
        Route("/api/remedies/{name:path}", _endpoint(desk, _remedies, is_long=True), methods=["GET"]),
        Route("/api/whatif", _whatif(desk), methods=["POST"]),
        Route("/api/events", _stream(desk), methods=["GET"]),
        Route("/healthz", _healthz, methods=["GET"]),
        Route("/readyz", _readyz(desk), methods=["GET"]),
        Route("/api/{rest:path}", _endpoint(desk, _nothing, is_open=True)),
        Route("/{path:path}", _page(desk), methods=["GET"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=20_000, compresslevel=1)])


# -- the door --------------------------------------------------------------------------------------------------------


def _endpoint(
    desk: Desk, answer: Answer, *, is_open: bool = False, is_long: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """One address. `is_open`: told to whoever reaches us; `is_long`: made from a copy, while the feed goes on."""

    def make(request: Request) -> Json:
        ready = _ready(desk, request)
        if ready is not None:
            return ready
        if is_long:
            return answer(desk, request)
        with desk.feed.turns.mine():
            return answer(desk, request)

    async def endpoint(request: Request) -> Response:
        whole = (lambda: answer(desk, request)) if is_open else (lambda: make(request))
        status, document = await run_in_threadpool(_guarded, desk, request, whole, is_open=is_open)
        return _json(status, document)

    return endpoint


def _guarded(
    desk: Desk, request: Request, make: Callable[[], Json], *, is_open: bool = False
) -> tuple[HTTPStatus, Json]:
    """An answer for whoever may have it, without what they may not see; or what is wrong."""
    try:
        desk.admit(request)
        if is_open:
            return _told(make)
        reader = desk.reader(request)
        status, document = _told(make)
        return status, desk.shown(reader, document)
    except RefusedError as refused:
        return refused.status, {"error": refused.why}


def _told(make: Callable[[], Json]) -> tuple[HTTPStatus, Json]:
    """An answer, or what is wrong with the question. Raises RefusedError."""
    try:
        return HTTPStatus.OK, make()
    except MomentGoneError as gone:
        return HTTPStatus.GONE, {"error": str(gone)}
    except _NoSuchError as missing:
        return HTTPStatus.NOT_FOUND, {"error": str(missing)}
    except UserError as wrong:
        return HTTPStatus.BAD_REQUEST, {"error": str(wrong)}
    except MusterError as fault:
        return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(fault)}


def _json(status: HTTPStatus, document: Json) -> Response:
    headers = {**HEADERS, "Cache-Control": "no-store"}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status is HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = "1"
    return Response(msgspec.json.encode(document), status, headers, media_type="application/json")


class _NoSuchError(UserError):
    """Something that was asked for and is not there."""


def _nothing(_desk: Desk, request: Request) -> Json:
    raise _NoSuchError(f"there is nothing at {request.url.path}; /api/openapi.json lists what there is")


def _client(request: Request) -> str:
    return request.client.host if request.client is not None else ""


async def _healthz(_request: Request) -> Response:
    return Response("ok\n", headers=HEADERS, media_type="text/plain")


def _readyz(desk: Desk) -> Callable[[Request], Awaitable[Response]]:
    """Ready as soon as there is something to show; a feed that waits for its cluster has nothing yet."""

    async def endpoint(_request: Request) -> Response:
        if desk.feed.history.latest is not None or desk.feed.has_ended:
            return Response("ok\n", headers=HEADERS, media_type="text/plain")
        why = "no cycle has been run yet"
        return Response(f"{why}\n", HTTPStatus.SERVICE_UNAVAILABLE, HEADERS, media_type="text/plain")

    return endpoint


# -- what is asked ---------------------------------------------------------------------------------------------------


def _text(request: Request, name: str) -> str:
    return request.query_params.get(name, "")


def _number(request: Request, name: str, default: int | None, least: int = 0, most: int = 2**31) -> int | None:
    text = _text(request, name)
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise UserError(f'{name}: expected a whole number from {least} to {most}, got "{text}"')
    return int(text)


def _moment(desk: Desk, request: Request) -> Moment:
    return desk.feed.history.at(_number(request, "at", None))


def _ready(desk: Desk, request: Request) -> Json | None:
    """An answer that was made before: nobody has to wait for a cycle that is under way."""
    key = {"/api/cluster/tree": "tree", "/api/cluster/state": "state"}.get(request.url.path)
    found: Json | None = None if key is None else _moment(desk, request).answers.get(key)
    return found


def _tree(desk: Desk, request: Request) -> Json:
    moment = _moment(desk, request)
    return prepared(moment, "tree")


def _state(desk: Desk, request: Request) -> Json:
    moment = _moment(desk, request)
    return prepared(moment, "state")


def _node(desk: Desk, request: Request) -> Json:
    name = request.path_params["name"]
    session = _moment(desk, request).session
    assert session is not None  # `History.at` looks at that
    found = node_document(session, name)
    if found is None:
        raise _NoSuchError(f"there is no node {name!r}")
    return found


def _jobs(desk: Desk, request: Request) -> Json:
    moment = _moment(desk, request)
    wanted = JobFilter(
        text=_text(request, "q"),
        queue=_text(request, "queue"),
        state=_text(request, "state"),
        namespace=_text(request, "namespace"),
        offset=_number(request, "offset", 0) or 0,
        limit=_number(request, "limit", DEFAULT_ROWS, 1, MAX_ROWS) or DEFAULT_ROWS,
    )
    reader = desk.reader(request)
    rows = [row for row in all_jobs(moment, desk.feed.history) if reader.sees(row["job"])]
    return {"cycle": moment.cycle, "time": moment.time, **jobs_document(rows, wanted)}


def _job(desk: Desk, request: Request) -> Json:
    name = request.path_params["name"]
    reader = desk.reader(request)
    moment = _moment(desk, request)
    if not reader.sees(name):
        raise _NoSuchError(f"there is no job {name!r}")
    try:
        found = job_document(moment, desk.feed.history, name)
    except UserError as unknown:
        raise _NoSuchError(str(unknown) if reader.namespaces is None else f"there is no job {name!r}") from None
    return {"cycle": moment.cycle, "time": moment.time, **found}


def _remedies(desk: Desk, request: Request) -> Json:
    name = request.path_params["name"]
    moment = _moment(desk, request)
    assert moment.session is not None  # `History.at` looks at that
    if name not in moment.session.snapshot.jobs.index or not desk.reader(request).sees(name):
        raise _NoSuchError(f"there is no job {name!r}")
    key = f"remedies {name}"
    found: Json | None = moment.answers.get(key)
    if found is None:
        found = moment.answers[key] = {"cycle": moment.cycle, **remedies(name, _run_of(desk, moment))}
    return found


def _run_of(desk: Desk, moment: Moment) -> Callable[[], Run]:
    """The run that has come to a moment, for questions about it."""
    feed = desk.feed
    if not isinstance(feed, Asked):
        raise _NoSuchError("there is no cluster here to ask about")
    return lambda: feed.run_to(moment.cycle)


def _queues(desk: Desk, request: Request) -> Json:
    moment = _moment(desk, request)
    past = [each for each in desk.feed.history if each.cycle <= moment.cycle]
    return {"cycle": moment.cycle, "time": moment.time, **queues_document(moment), "takings": takings(past)}


def _series(desk: Desk, request: Request) -> Json:
    return series_document(desk.feed.history, _text(request, "resource") or "cpu")


def _decisions(desk: Desk, request: Request) -> Json:
    wanted = CycleFilter(
        before=_number(request, "before", None),
        limit=_number(request, "limit", 30, 1, MAX_CYCLES) or 30,
        job=_text(request, "job"),
        kind=_text(request, "kind"),
        busy=_text(request, "quiet") != "true",
    )
    return cycles_document(desk.feed.history, wanted)


def _run(desk: Desk, request: Request) -> Json:
    name = request.path_params["name"]
    found = desk.runs.run_document(name)
    if found is None:
        raise _NoSuchError(f"there is no run {name!r}")
    return found


def _compared_run(desk: Desk, request: Request) -> Json:
    name, key = request.path_params["name"], request.path_params["key"]
    found = desk.runs.compared_document(name, key)
    if found is None:
        raise _NoSuchError(f"there is no run {key!r} of a comparison {name!r}")
    return found


def _whatif(desk: Desk) -> Callable[[Request], Awaitable[Response]]:
    """The one address that is posted to: a question with a body. It changes nothing."""

    def make(body: bytes) -> Json:
        question = read_question(body)
        moment = desk.feed.history.at(question.at)
        options = Options(config=desk.feed.config, registry=desk.feed.registry)
        return {"cycle": moment.cycle, **answer(question, _run_of(desk, moment), options)}

    async def endpoint(request: Request) -> Response:
        # A page from elsewhere can send a form, but not this type, without asking first.
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _json(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, {"error": "expected Content-Type: application/json"})
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                return _json(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"expected at most {MAX_BYTES:,} bytes"})
        status, document = await run_in_threadpool(_guarded, desk, request, lambda: make(body))
        return _json(status, document)

    return endpoint


# -- the stream ------------------------------------------------------------------------------------------------------


def _stream(desk: Desk) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        client = _client(request)
        try:
            desk.admit(request)
            desk.admit_stream(client)
            reader = await run_in_threadpool(desk.reader, request)
        except RefusedError as refused:
            return _json(refused.status, {"error": refused.why})
        headers = {**HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_news(desk, request, reader, client), headers=headers, media_type="text/event-stream")

    return endpoint


async def _news(desk: Desk, request: Request, reader: Reader, client: str) -> AsyncIterator[bytes]:
    """The state of the feed whenever it is new: however much happens while nobody reads, it is one message."""
    loop = asyncio.get_running_loop()
    news = asyncio.Event()

    def hear() -> None:
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(news.set)

    forget = desk.feed.history.listen(hear)
    desk.streams[client] = desk.streams.get(client, 0) + 1
    until = loop.time() + STREAM_S
    try:
        yield await run_in_threadpool(_status, desk, reader)
        while loop.time() < until and not desk.is_closing:
            try:
                await asyncio.wait_for(news.wait(), desk.beat_s)
                news.clear()
                yield await run_in_threadpool(_status, desk, reader)
                await asyncio.sleep(_PAUSE_S)
            except TimeoutError:
                try:
                    reader = await run_in_threadpool(desk.reader, request)
                except RefusedError as refused:
                    yield _message("refused", {"error": refused.why})
                    return
                yield b": still here\n\n"
    finally:
        forget()
        left = desk.streams.pop(client, 1) - 1
        if left:
            desk.streams[client] = left


def _status(desk: Desk, reader: Reader) -> bytes:
    return _message("status", desk.shown(reader, status_document(desk.feed)))


def _message(event: str, document: Json) -> bytes:
    return f"event: {event}\n".encode() + b"data: " + msgspec.json.encode(document) + b"\n\n"


# -- the front end ---------------------------------------------------------------------------------------------------


def _page(desk: Desk) -> Callable[[Request], Awaitable[Response]]:
    """Built files by name; every other address is a view of the one page."""
    static = {path.name: path.read_bytes() for path in (files("muster.ui") / "static").iterdir() if path.is_file()}

    async def endpoint(request: Request) -> Response:
        try:
            desk.admit(request)
        except RefusedError as refused:
            return Response(f"{refused.why}\n", refused.status, HEADERS, media_type="text/plain")
        name = request.path_params["path"]
        if name.startswith("static/") and name.removeprefix("static/") not in static:
            return Response("not found\n", HTTPStatus.NOT_FOUND, HEADERS, media_type="text/plain")
        name = name.removeprefix("static/") if name.startswith("static/") else "index.html"
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        headers = {**HEADERS, "Cache-Control": "no-cache"}
        return Response(static.get(name, b""), headers=headers, media_type=kind)

    return endpoint
