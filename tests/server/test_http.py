"""Clients that are slow, silent, greedy or many cost themselves, and nobody else."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest

from muster.admission import Settings
from muster.api import BackendError
from muster.server import webhooks
from muster.server.http import Limits
from muster.server.reload import CertificateFiles
from muster.server.status import StatusServer, TokenReviews
from muster.server.webhooks import Desk, WebhookServer
from tests.admission.requests import facts, question, queue

DATA = Path(__file__).parent / "data"
SHORT = Limits(n_connections=4, handshake_s=0.5, idle_s=0.5, request_s=0.5)
LONG = Limits(n_connections=4, handshake_s=30, idle_s=30, request_s=30)


def certificates(folder: Path) -> CertificateFiles:
    for suffix in ("crt", "key"):
        shutil.copy(DATA / f"first.{suffix}", folder / f"tls.{suffix}")
    return CertificateFiles(folder / "tls.crt", folder / "tls.key")


@contextlib.contextmanager
def status_server(limits: Limits, **options: object) -> Iterator[StatusServer]:
    server = StatusServer(
        ("127.0.0.1", 0),
        healthy=lambda: "",
        ready=lambda: "",
        metrics=lambda: "muster_leader 1\n",
        limits=limits,
        **options,  # type: ignore[arg-type]  # given by name below
    )
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def webhook_server(limits: Limits, folder: Path) -> Iterator[WebhookServer]:
    desk = Desk(facts(), Settings(), lambda: "", lambda: "")
    server = WebhookServer(("127.0.0.1", 0), certificates(folder), desk, limits)
    try:
        yield server
    finally:
        server.close()


def is_ended(connection: socket.socket, within_s: float = 5.0) -> bool:
    """Whether the other side ends a connection, without a word or after one."""
    connection.settimeout(within_s)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def ask(port: int, path: str = "/healthz", headers: dict[str, str] | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def until(is_so: Callable[[], bool], within_s: float = 5.0) -> bool:
    end = time.monotonic() + within_s
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    return is_so()


def trickle(connection: socket.socket, stop: threading.Event) -> None:
    """Send a byte of a header now and then, often enough for any wait for a single byte."""
    with contextlib.suppress(OSError):
        while not stop.wait(0.1):
            connection.sendall(b"x")


# -- time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", b"GET", b"GET /healthz HTTP/1.1\r\nX-Slow: "])
def test_who_stays_silent_is_left(said: bytes) -> None:
    with status_server(SHORT) as server, socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.sendall(said)
        assert is_ended(silent)
        assert until(lambda: server._server.n_connections == 0)


@pytest.mark.parametrize("said", [b"GET /", b"GET /healthz HTTP/1.1\r\nX-Slow: "])
def test_who_sends_byte_by_byte_has_no_more_time_than_others(said: bytes) -> None:
    with status_server(SHORT) as server, socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(said)
        stop = threading.Event()
        sending = threading.Thread(target=trickle, args=(slow, stop))
        sending.start()
        try:
            assert is_ended(slow)
        finally:
            stop.set()
            sending.join()


def test_a_handshake_and_a_body_have_their_time(tmp_path: Path) -> None:
    with webhook_server(SHORT, tmp_path) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.sendall(b"\x16\x03")
            assert is_ended(plain)
        context = ssl.create_default_context(cafile=str(DATA / "first.crt"))
        with (
            socket.create_connection(("127.0.0.1", server.port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(b"POST /queues/validate HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
            assert is_ended(secure)


# -- places ----------------------------------------------------------------------------------------------------


def test_there_are_no_more_threads_than_places() -> None:
    before = threading.active_count()
    with status_server(LONG) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(20)]
        for client in clients[:4]:
            client.sendall(b"GET /healthz HTTP/1.1\r\n")  # begun, and so not idle
        assert until(lambda: server._server.n_connections == LONG.n_connections)
        assert sum(is_ended(client, 0.2) for client in clients) == 20 - LONG.n_connections
        assert threading.active_count() <= before + 1 + LONG.n_connections


def test_who_only_waits_gives_way_to_who_asks() -> None:
    with status_server(LONG) as server, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(4)]
        # All four at once: who is accepted in which order, and when its thread begins, is for the machine to say.
        assert until(lambda: [known.is_idle for known in list(server._server._connections.values())] == [True] * 4)
        assert ask(server.port) == (200, "ok\n")
        assert until(lambda: any(is_ended(client, 0.05) for client in idle))
        assert sum(is_ended(client, 0.2) for client in idle) == 1


def test_few_large_questions_are_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_N_LARGE", 1)
    small = msgspec.json.encode(question("Queue", "CREATE", queue("a")))
    large = small + b" " * 2**19
    context = ssl.create_default_context(cafile=str(DATA / "first.crt"))
    patient = Limits(n_connections=4, request_s=1.0)

    def post(body: bytes) -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=5, context=context)
        connection.request("POST", "/queues/validate", body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
        connection.close()
        return status

    with webhook_server(patient, tmp_path) as server:
        assert post(large) == 200
        held = server._server.large  # type: ignore[attr-defined]  # of the server below
        with held:
            assert post(small) == 200
            assert post(large) == 503
        assert post(large) == 200


# -- metrics for those who may ----------------------------------------------------------------------------------


class Cluster:
    """Knows two users, of whom one may read metrics."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.is_silent = False

    def ask(self, path: str, body: bytes) -> bytes:
        self.n_asked += 1
        if self.is_silent:
            raise BackendError("no answer", retryable=True)
        document = msgspec.json.decode(body)
        if path.endswith("/tokenreviews"):
            name = {"good": "prometheus", "other": "somebody"}.get(document["spec"]["token"], "")
            user = {"username": name, "groups": ["g"]}
            return msgspec.json.encode({"status": {"authenticated": bool(name), "user": user}})
        assert path.endswith("/subjectaccessreviews")
        assert document["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        return msgspec.json.encode({"status": {"allowed": document["spec"]["user"] == "prometheus"}})


def test_metrics_are_for_those_whom_the_cluster_knows_and_allows() -> None:
    cluster = Cluster()
    with status_server(LONG, reviews=TokenReviews(cluster.ask)) as server:
        for token, wanted in (("good", 200), ("other", 403), ("unknown", 401)):
            status, text = ask(server.port, "/metrics", {"Authorization": f"Bearer {token}"})
            assert status == wanted
            assert ("muster_leader" in text) == (status == 200)
        for header in ({}, {"Authorization": "Basic good"}, {"Authorization": f"Bearer {'x' * 20000}"}):
            assert ask(server.port, "/metrics", header)[0] == 401
        assert ask(server.port, "/healthz")[0] == 200, "probes have no token"


def test_answers_about_tokens_are_kept_for_a_while_and_not_for_ever() -> None:
    cluster, now = Cluster(), [0.0]
    reviews = TokenReviews(cluster.ask, lambda: now[0])
    assert reviews.refusal("Bearer good") is None
    assert reviews.refusal("Bearer good") is None
    assert cluster.n_asked == 2
    cluster.is_silent = True
    assert reviews.refusal("Bearer good") is None
    now[0] = 61.0
    refused = reviews.refusal("Bearer good")
    assert refused is not None
    assert refused[0] == HTTPStatus.SERVICE_UNAVAILABLE
    cluster.is_silent = False
    for number in range(1000):
        reviews.refusal(f"Bearer made-up-{number}")
    assert len(reviews._known) <= 256


def test_metrics_over_tls(tmp_path: Path) -> None:
    with status_server(LONG, certificates=certificates(tmp_path)) as server:
        context = ssl.create_default_context(cafile=str(DATA / "first.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=5, context=context)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"muster_leader 1\n")
        connection.close()
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            plain.settimeout(5)
            with contextlib.suppress(OSError):
                assert b"muster_leader" not in plain.recv(4096)
