"""The webhook server over HTTPS: questions, probes, clients that are wrong, and certificates that change."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from muster.admission import Facts, Settings
from muster.api import UserError
from muster.server.reload import CertificateFiles
from muster.server.webhooks import MAX_BODY, Desk, WebhookServer
from tests.admission.requests import facts, question, queue

DATA = Path(__file__).parent / "data"
QUESTION = msgspec.json.encode(question("Queue", "CREATE", queue("a", parent="nobody")))
JSON = {"Content-Type": "application/json"}


class Stage:
    """A server whose clock, certificates and state a test controls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.unready = ""
        self.lost = ""
        self.known: Facts = facts()
        self.install("first")
        certificates = CertificateFiles(folder / "tls.crt", folder / "tls.key", lambda: self.now)
        desk = Desk(self.known, Settings(), lambda: self.unready, lambda: self.lost)
        self.server = WebhookServer(("127.0.0.1", 0), certificates, desk)

    def install(self, name: str, *suffixes: str) -> None:
        for suffix in suffixes or ("crt", "key"):
            shutil.copy(DATA / f"{name}.{suffix}", self.folder / f"tls.{suffix}")

    def connect(self, trusted: str = "first") -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(DATA / f"{trusted}.crt"))
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=5, context=context)

    def ask(self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        connection = self.connect()
        connection.request("GET" if body is None else "POST", path, body, JSON if headers is None else headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.server.close()


def test_a_question_is_answered(stage: Stage) -> None:
    status, text = stage.ask("/queues/validate", QUESTION)
    assert status == 200
    assert json.loads(text)["response"]["allowed"] is False
    assert stage.ask("/queues/validate?timeout=5s", QUESTION) == (status, text)


def test_one_connection_carries_many_questions(stage: Stage) -> None:
    connection = stage.connect()
    for path, wanted in (("/queues/validate", 200), ("/nothing/here", 404), ("/queues/validate", 200)):
        connection.request("POST", path, QUESTION, JSON)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == wanted
    connection.close()


def test_probes_tell_whether_to_send_questions_here(stage: Stage) -> None:
    assert stage.ask("/healthz") == (200, "ok\n")
    assert stage.ask("/readyz") == (200, "ok\n")
    stage.unready = "going down"
    assert stage.ask("/readyz") == (503, "going down\n")
    assert stage.ask("/queues/validate", QUESTION)[0] == 200
    stage.lost = "the cluster is gone"
    assert stage.ask("/queues/validate", QUESTION) == (503, "the cluster is gone\n")


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "said"),
    [
        ("/queues/delete", QUESTION, JSON, 404, "no hook at /queues/delete; there are /cronjobs/validate"),
        ("/queues/validate", b"{", JSON, 400, "expected an AdmissionReview in JSON"),
        ("/pods/validate", QUESTION, JSON, 400, "/pods/validate is about Pod"),
        ("/queues/validate", QUESTION, {"Content-Type": "text/plain"}, 415, "expected application/json"),
        ("/queues/validate", b"", {**JSON, "Content-Length": str(MAX_BODY + 1)}, 413, "expected at most"),
    ],
)
def test_what_is_no_question_gets_a_clear_answer(
    stage: Stage, path: str, body: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    found = stage.ask(path, body, headers)
    assert found[0] == status
    assert said in found[1]


def test_a_fault_of_ours_is_told_and_the_next_question_answered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Facts, "queue", lambda *_: 1 / 0)
        status, text = stage.ask("/queues/validate", QUESTION)
    assert (status, text) == (500, "this is a bug in muster: division by zero\n")
    assert "event=webhook-failed" in caplog.text
    assert stage.ask("/queues/validate", QUESTION)[0] == 200


def test_a_silent_client_holds_up_nobody(stage: Stage) -> None:
    with (
        socket.create_connection(("127.0.0.1", stage.server.port)),
        socket.create_connection(("127.0.0.1", stage.server.port)) as talker,
    ):
        talker.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stage.ask("/healthz")[0] == 200


# -- certificates --------------------------------------------------------------------------------------------


def shown(stage: Stage) -> str:
    """Whose certificate a new connection sees."""
    for name in ("first", "second"):
        connection = stage.connect(name)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError:
            continue
        finally:
            connection.close()
        return name
    raise AssertionError("neither")


def test_new_certificates_are_taken_up_once_both_files_fit(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.install("second", "crt")
    assert shown(stage) == "first"
    stage.now += 60
    assert shown(stage) == "first"
    assert "event=certificate-refused" in caplog.text
    stage.install("second", "key")
    stage.now += 60
    assert shown(stage) == "second"


def test_certificates_that_vanish_for_a_moment_stay_in_force(stage: Stage) -> None:
    (stage.folder / "tls.key").unlink()
    stage.now += 60
    assert shown(stage) == "first"


def test_files_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.crt: cannot read the file"):
        CertificateFiles(tmp_path / "absent.crt", DATA / "first.key")
    with pytest.raises(UserError, match=r"first\.crt: expected a certificate in PEM and its key"):
        CertificateFiles(DATA / "first.crt", DATA / "second.key")


def test_a_port_that_is_taken_is_said_to_be(stage: Stage) -> None:
    certificates = CertificateFiles(DATA / "first.crt", DATA / "first.key")
    desk = Desk(stage.known, Settings(), str, str)
    with pytest.raises(UserError, match=r"cannot listen on 127\.0\.0\.1"):
        WebhookServer(("127.0.0.1", stage.server.port), certificates, desk)


def test_who_asks_before_sending_a_body_is_told_to_go_on(stage: Stage) -> None:
    """Answers are collected before they are sent; this one must not wait for the body that waits for it."""
    connection = stage.connect()
    connection.connect()
    lines = ["POST /queues/validate HTTP/1.1", "Host: here", f"Content-Length: {len(QUESTION)}"]
    lines += ["Content-Type: application/json", "Expect: 100-continue", "", ""]
    connection.sock.sendall("\r\n".join(lines).encode())
    assert connection.sock.recv(1000).startswith(b"HTTP/1.1 100 ")
    connection.sock.sendall(QUESTION)
    assert connection.sock.recv(1000).startswith(b"HTTP/1.1 200 ")
    connection.close()
