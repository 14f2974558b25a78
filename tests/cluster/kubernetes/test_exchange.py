"""One request and its answer after the other, on connections that stay open; with servers that do not behave, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.kubernetes.client import exchange as module
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.exchange import Answer, BrokenExchangeError, Exchange, NotConnectedError
from muster.cluster.kubernetes.client.requests import NO_ANSWER, ApiError, Client

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NO_ROOM = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nlate"
#: What a server does about a request; False: it closes the connection.
Serve = Callable[[asyncio.StreamWriter, bytes, int], Awaitable[bool]]


class Server:
    """Answers as it is told; takes down what it was sent and over how many connections."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.requests: list[bytes] = []
        self.n_connections = 0
        self.n_closed = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self.writers:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((line[15:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), b"0")
                self.requests.append(head + await reader.readexactly(int(length)))
                if not await self._serve(writer, head, len(self.requests)):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.n_closed += 1
            writer.close()


def saying(*answers: bytes, pieces: int = 0) -> Serve:
    """Give the answers in turn, the last one again and again; in pieces of so many bytes, if any."""

    async def serve(writer: asyncio.StreamWriter, _: bytes, number: int) -> bool:
        answer = answers[min(number, len(answers)) - 1]
        if not answer:
            return False
        for start in range(0, len(answer), pieces or len(answer)):
            writer.write(answer[start : start + (pieces or len(answer))])
            await writer.drain()
            await asyncio.sleep(0)
        return b"Content-Length" in answer or b"chunked" in answer or b"204" in answer

    return serve


def run(serve: Serve, talk: Callable[[Exchange, Server], Awaitable[None]]) -> None:
    """Let somebody talk with such a server."""

    async def main() -> None:
        async with Server(serve) as server:
            exchange = Exchange(f"http://127.0.0.1:{server.port}", None, None, 4, 60.0)
            try:
                await talk(exchange, server)
            finally:
                exchange.close()
                await asyncio.sleep(0.01)

    asyncio.run(main())


async def get(exchange: Exchange, path: str = "/a") -> Answer:
    return await exchange.ask("GET", path, {}, None)


async def post(exchange: Exchange, path: str = "/a") -> Answer:
    return await exchange.ask("POST", path, {"Content-Type": "application/json"}, b"{}")


@pytest.mark.parametrize("pieces", [0, 1, 7])
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nRetry-After:  3\r\n\r\nhello world",
        b"HTTP/1.1 200\r\ntransfer-encoding: Chunked\r\nretry-after:3\r\n\r\n5;x\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nRetry-After: 3\r\n\r\nB\r\nhello world\r\n0\r\nX: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nRetry-After: 3\r\nContent-Length: 11\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\nRetry-After: 3\r\n\r\nhello world",
    ],
)
def test_an_answer_is_read_whole_however_it_comes(answer: bytes, pieces: int) -> None:
    async def talk(exchange: Exchange, _: Server) -> None:
        for _again in range(2):
            found = await get(exchange)
            assert (found.status, found.content, found.headers["retry-after"]) == (200, b"hello world", "3")

    run(saying(answer, pieces=pieces), talk)


def test_an_answer_without_content_has_none() -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        assert await get(exchange) == Answer(204, {}, b"")
        assert (await get(exchange)).status == 200
        assert server.n_connections == 1

    run(saying(b"HTTP/1.1 204 No Content\r\n\r\n", OK), talk)


def test_a_request_says_all_that_it_has_to() -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        await post(exchange, "/api/v1/pods?limit=5&labelSelector=a%3Db")
        head = f"POST /api/v1/pods?limit=5&labelSelector=a%3Db HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        assert server.requests == [f"{head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}".encode()]

    run(saying(OK), talk)


def test_a_path_cannot_become_another_request() -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        await get(exchange, "/a b\r\nX: ü")
        assert server.requests[0].startswith(b"GET /a%20b%0D%0AX:%20%C3%BC HTTP/1.1\r\nHost: ")
        with pytest.raises(ValueError, match="more than one line"):
            await exchange.ask("GET", "/", {"Authorization": "Bearer a\r\nX: b"}, None)

    run(saying(OK), talk)


def test_a_server_below_a_path_is_asked_there() -> None:
    async def talk(_: Exchange, server: Server) -> None:
        below = Exchange(f"http://127.0.0.1:{server.port}/k8s/clusters/c-1/", None, None, 4, 60.0)
        await get(below, "/version")
        assert server.requests[0].startswith(b"GET /k8s/clusters/c-1/version HTTP/1.1\r\n")
        below.close()

    run(saying(OK), talk)


# -- connections ---------------------------------------------------------------------------------------------------


def test_connections_stay_open_and_are_few() -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        await asyncio.gather(*(get(exchange) for _ in range(50)))
        assert len(server.requests) == 50
        assert server.n_connections == 4

    run(saying(OK), talk)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
def test_a_connection_that_is_to_close_is_not_used_again(answer: bytes) -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        for _ in range(3):
            await get(exchange)
        assert server.n_connections == 3

    run(saying(answer), talk)


def test_a_connection_that_nobody_used_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        monkeypatch.setattr(exchange, "_keep_s", -1.0)
        await post(exchange)
        await post(exchange)
        assert server.n_connections == 2

    run(saying(OK), talk)


def test_a_connection_that_the_server_closed_meanwhile_costs_nothing() -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        await post(exchange)
        server.writers[0].close()
        await asyncio.sleep(0.01)
        assert (await post(exchange)).content == b"ok"
        assert server.n_connections == 2

    run(saying(OK), talk)


def test_what_a_server_says_unasked_is_no_answer() -> None:
    """Some say that they waited for long before they close."""

    async def talk(exchange: Exchange, server: Server) -> None:
        await post(exchange)
        server.writers[0].write(NO_ROOM)
        await asyncio.sleep(0.01)
        assert (await post(exchange)).content == b"ok"
        assert server.n_connections == 2

    run(saying(OK), talk)


def test_reading_is_tried_again_when_a_used_connection_breaks() -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        await get(exchange)
        assert (await get(exchange)).content == b"ok"
        assert (len(server.requests), server.n_connections) == (3, 2)

    run(saying(OK, b"", OK), talk)


def test_a_change_is_not_sent_twice_when_a_used_connection_breaks() -> None:
    async def talk(exchange: Exchange, server: Server) -> None:
        await get(exchange)
        with pytest.raises(BrokenExchangeError, match="closed the connection"):
            await post(exchange)
        assert len(server.requests) == 2

    run(saying(OK, b"", OK), talk)


def test_whoever_waits_no_longer_closes_the_connection() -> None:
    """The server drops what it has not done."""

    async def serve(*_: object) -> bool:
        return True

    async def talk(exchange: Exchange, server: Server) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await post(exchange)
        await asyncio.sleep(0.05)
        assert server.n_closed == 1

    run(serve, talk)


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n"])
def test_what_is_no_http_is_said(answer: bytes) -> None:
    async def talk(exchange: Exchange, _: Server) -> None:
        with pytest.raises(BrokenExchangeError, match="no HTTP"):
            await post(exchange)

    run(saying(answer), talk)


def test_where_nobody_listens_nothing_was_sent() -> None:
    async def main() -> None:
        with pytest.raises(NotConnectedError, match=r"cannot connect to 127\.0\.0\.1:1"):
            await post(Exchange("http://127.0.0.1:1", None, None, 4, 60.0))

    asyncio.run(main())


# -- through a client ----------------------------------------------------------------------------------------------


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., Path]:
    def write(port: int, **more: Any) -> Path:  # Any: fields of a cluster
        document = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}", **more}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }
        path = tmp_path / "config"
        path.write_text(json.dumps(document))
        return path

    return write


def test_a_client_follows_to_another_address(kubeconfig: Callable[..., Path]) -> None:
    elsewhere = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"

    async def main() -> list[bytes]:
        async with Server(saying(elsewhere, elsewhere, OK)) as server:
            client = Client(await connect(kubeconfig(server.port)))
            assert await client.request("GET", "/a") == b"ok"
            await client.close()
            return [request.split(b" ")[1] for request in server.requests]

    assert asyncio.run(main()) == [b"/a", b"/a", b"/b"]


def test_a_client_asks_a_proxy_where_there_is_one(kubeconfig: Callable[..., Path]) -> None:
    async def main() -> bytes:
        async with Server(saying(OK)) as server:
            client = Client(await connect(kubeconfig(1, **{"proxy-url": f"http://127.0.0.1:{server.port}"})))
            assert await client.request("GET", "/a") == b"ok"
            await client.close()
            return server.requests[0]

    assert asyncio.run(main()).startswith(b"GET http://127.0.0.1:1/a HTTP/1.1\r\n")


def test_a_change_without_an_answer_may_have_been_made(kubeconfig: Callable[..., Path]) -> None:
    async def main() -> tuple[int, bool, float]:
        async with Server(saying(OK, b"")) as server:
            client = Client(await connect(kubeconfig(server.port)))
            await client.send("POST", "/a", b"{}")
            with pytest.raises(ApiError) as caught:
                await client.send("POST", "/a", b"{}", attempts=1)
            uncertain = client.uncertain_s()
            await client.close()
            return caught.value.status, caught.value.was_sent, uncertain

    status, was_sent, uncertain = asyncio.run(main())
    assert (status, was_sent) == (NO_ANSWER, True)
    assert uncertain > 20


def test_connecting_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.05)

    async def main() -> None:
        async def never(*_: object, **__: object) -> None:
            await asyncio.sleep(9)

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never, raising=False)
        with pytest.raises(NotConnectedError):
            await post(Exchange("http://127.0.0.1:1", None, None, 4, 60.0))

    asyncio.run(main())


def test_lines_of_a_watch_that_come_close_together_are_taken_together_if_wanted(
    kubeconfig: Callable[..., Path],
) -> None:
    async def serve(writer: asyncio.StreamWriter, *_: object) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(30):
            line = b"%d\n" % number
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))
            await asyncio.sleep(0.003)
        writer.write(b"0\r\n\r\n")
        return True

    async def main() -> list[list[bytes]]:
        async with Server(serve) as server:
            client = Client(await connect(kubeconfig(server.port)))
            batches = [lines async for lines in client.watch("/a", "1", gather_s=0.5)]
            await client.close()
            return batches

    greeting, first, *others = asyncio.run(main())
    assert (greeting, first) == ([], [b"0"])
    assert [line for lines in others for line in lines] == [b"%d" % number for number in range(1, 30)]
    assert len(others) < 5


def test_a_change_says_how_long_it_may_take_and_wants_no_warnings(kubeconfig: Callable[..., Path]) -> None:
    async def main() -> list[bytes]:
        async with Server(saying(OK)) as server:
            client = Client(await connect(kubeconfig(server.port)))
            await client.send("POST", "/a", b"{}")
            await client.send("DELETE", "/a?x=1")
            await client.close()
            return [request.split(b" ")[1] for request in server.requests]

    assert asyncio.run(main()) == [
        b"/a?timeout=30000ms&fieldValidation=Ignore",
        b"/a?x=1&timeout=30000ms&fieldValidation=Ignore",
    ]
