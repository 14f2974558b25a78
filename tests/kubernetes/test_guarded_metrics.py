"""Metrics over TLS, for those whom a real API server knows and allows."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path

import yaml

from muster.testing.control_plane import ControlPlane
from tests.kubernetes.accounts import account
from tests.kubernetes.kubectl import Kubectl, node, queue
from tests.kubernetes.replicas import replica

DATA = Path(__file__).parent.parent / "server" / "data"
MAY_READ = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


def status_of(port: int, path: str, token: str = "") -> int:
    context = ssl.create_default_context(cafile=str(DATA / "first.crt"))
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert ("muster_leader" in text) == (answer.status == 200 and path == "/metrics")
    return answer.status


def test_metrics_are_told_to_those_whom_the_cluster_allows(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    options = ["--cert", str(DATA / "first.crt"), "--key", str(DATA / "first.key"), "--metrics-auth"]
    with account(control_plane, kubectl, tmp_path, []) as scraper:
        token = yaml.safe_load(scraper.kubeconfig.read_text())["users"][0]["user"]["token"]
        with replica(control_plane, tmp_path / "log", *options) as process:
            kubectl.wait(lambda: process.has_logged("event=ready"), seconds=60)
            assert status_of(process.port, "/healthz") == 200
            assert status_of(process.port, "/metrics") == 401
            assert status_of(process.port, "/metrics", "made-up") == 401
            assert status_of(process.port, "/metrics", token) == 403
            assert status_of(process.port, "/metrics", control_plane.token) == 200
            scraper.allow(MAY_READ)
            kubectl.wait(lambda: status_of(process.port, "/metrics", token) == 200, seconds=30)
