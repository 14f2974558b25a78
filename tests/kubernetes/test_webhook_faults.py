"""Webhooks that do not answer, answer late, or show a certificate that has run out: who is held up, and who is not."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from muster.cli.main import run
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError, pod, queue
from tests.kubernetes.test_volcano_jobs import job

REGISTRY = "/apis/admissionregistration.k8s.io/v1"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
EXPIRED = Path(__file__).parent / "data"


@contextlib.contextmanager
def down() -> Iterator[int]:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    yield port


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield int(listening.getsockname()[1])


@contextlib.contextmanager
def expired() -> Iterator[int]:
    """A server whose certificate has run out."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(EXPIRED / "expired.crt", EXPIRED / "expired.key")
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        threading.Thread(target=_shake_hands, args=(listening, context), daemon=True).start()
        yield int(listening.getsockname()[1])


def _shake_hands(listening: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listening.accept()
            with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
                pass


FAULTS = {"down": down, "silent": silent, "expired": expired}
#: What API servers say, each in its own words.
SAYINGS = {"down": "connection refused", "silent": "deadline exceeded", "expired": "certificate has expired"}


@contextlib.contextmanager
def asked(kubectl: Kubectl, port: int, policy: str, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """An API server that asks at a port; it waits a second for an answer."""
    options = ["--url", f"https://127.0.0.1:{port}", "--ca-file", str(EXPIRED / "expired.crt")]
    assert run(["webhooks", "print", *options, "--failure-policy", policy]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    paths = [f"{REGISTRY}/{document['kind'].lower()}s" for document in documents]
    try:
        for path, document in zip(paths, documents, strict=True):
            for hook in document["webhooks"]:
                hook["timeoutSeconds"] = 1
            kubectl.request("POST", path, document)
        yield
    finally:
        for path in paths:
            kubectl.request("DELETE", f"{path}/muster")


def answer(kubectl: Kubectl, path: str, document: Json) -> tuple[str, float]:
    """What the API server says against an object, "" if nothing, and how long it took."""
    began = time.monotonic()
    try:
        kubectl.request("POST", f"{path}?dryRun=All", document)
    except RefusedError as refused:
        return str(refused), time.monotonic() - began
    return "", time.monotonic() - began


@pytest.mark.parametrize("fault", FAULTS)
def test_jobs_are_refused_in_words_while_pods_go_on(
    fault: str, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create(queue("default"))
    with FAULTS[fault]() as port, asked(kubectl, port, "Fail", capsys):
        # Configurations reach the API server's own memory a moment later.
        kubectl.wait(lambda: SAYINGS[fault] in answer(kubectl, JOBS, job("train"))[0], seconds=20)
        ours, foreign = pod("ours"), pod("foreign")
        foreign["spec"]["schedulerName"] = "default-scheduler"
        assert answer(kubectl, PODS, ours)[0] == ""
        said, seconds = answer(kubectl, PODS, foreign)
        assert (said, seconds < 1.0) == ("", True)  # nobody is asked about it, so nobody is waited for


def test_jobs_are_stored_unchecked_where_that_is_wanted(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl.create(queue("default"))
    with down() as port, asked(kubectl, port, "Ignore", capsys):
        assert answer(kubectl, JOBS, job("train", minAvailable=99))[0] == ""
