"""The dashboard of a live cluster: it follows what happens, says why jobs wait, and changes nothing."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane, free_ports
from muster.ui.access import ReviewGate
from muster.ui.app import Desk, make_app
from muster.ui.live import LiveFeed
from tests.deploy.manifests import DEPLOY
from tests.kubernetes.accounts import account
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, queue
from tests.kubernetes.replicas import Process, replica
from tests.kubernetes.stage import Stage


@pytest.fixture
def feed(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[LiveFeed]:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 4), *gang("sweep", 4)])
    made = LiveFeed(control_plane.kubeconfig, None, ())
    made.begin()
    yield made
    made.stop()


def until(what: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def test_it_follows_the_cluster_and_changes_nothing(
    control_plane: ControlPlane, kubectl: Kubectl, feed: LiveFeed
) -> None:
    with TestClient(make_app(Desk(feed)), base_url="http://localhost") as client:

        def jobs() -> dict[str, Json]:
            response = client.get("/api/jobs")
            return {row["job"]: row for row in response.json().get("jobs", [])}

        until(lambda: len(jobs()) == 2)
        time.sleep(0.6)
        assert set(kubectl.nodes_of_pods().values()) == {""}, "what would be decided is not done"
        waits = next(job for job, row in jobs().items() if row["state"] == "waiting")
        assert "no node has room" in client.get(f"/api/jobs/{waits}").json()["headline"]
        with KubernetesCluster(control_plane.kubeconfig) as cluster:
            Stage(cluster, kubectl).run_once()
        until(lambda: sum(group["n"] for group in bound(client)) == 4)
        [group] = bound(client)
        assert {pod["node"] for pod in group["pods"]} == {"n1"}
        assert client.get("/api/status").json()["live"]
        told = client.post("/api/whatif", json={"changes": [{"kind": "add-nodes", "text": "1xn1"}]}).json()
        assert next(job for job in told["jobs"] if job["job"] == waits)["difference"] == "starts"


def bound(client: TestClient) -> list[Json]:
    cards = client.get("/api/decisions?kind=bind").json()["cycles"]
    return [group for card in cards for group in card["groups"]]


def test_the_cluster_says_who_may_read_what(feed: LiveFeed, kubectl: Kubectl) -> None:
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ann", "namespace": "default"}}
    kubectl.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    issued = kubectl.request(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/ann/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    headers = {"Authorization": f"Bearer {issued['status']['token']}"}
    with TestClient(make_app(Desk(feed, gate=ReviewGate(feed.ask), loopback_only=False))) as client:
        until(lambda: feed.history.latest is not None)
        assert client.get("/api/jobs").status_code == 401
        assert client.get("/api/jobs", headers={"Authorization": "Bearer nonsense"}).status_code == 401
        assert client.get("/api/jobs", headers=headers).json()["total"] == 0, "nobody let ann list pods"
    kubectl.request("DELETE", "/api/v1/namespaces/default/serviceaccounts/ann")


# -- as a part of `muster run` ---------------------------------------------------------------------------------------


def answer(port: int, path: str) -> Json:
    """What the dashboard answers; nothing while it is away."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            read: Json = json.load(response)
            return read
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return {}


def children(process: int) -> list[int]:
    """The dashboards that a process, any of its threads, has started."""
    threads = Path(f"/proc/{process}/task").iterdir()
    numbers = [int(each) for thread in threads for each in (thread / "children").read_text().split()]
    return [each for each in numbers if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def is_there(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_beside_a_scheduler_it_is_a_process_of_its_own(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 4)])
    port = free_ports(1)[0]
    options = ("--components", "scheduler,ui", "--ui-listen", f"127.0.0.1:{port}")
    with replica(control_plane, tmp_path / "log", *options) as ours:
        until(lambda: answer(port, "/api/status").get("running") == 1, 240)
        assert set(kubectl.nodes_of_pods().values()) == {"n1"}, "what the scheduler has decided is shown"

        def leaders() -> list[Json]:
            return answer(port, "/api/config").get("surroundings", {}).get("leaders") or []

        until(lambda: any(leader["lease"] == "muster" for leader in leaders()))
        lease = next(leader for leader in leaders() if leader["lease"] == "muster")
        assert lease["renewed"] > time.time() - 60
        [first] = children(ours.process.pid)
        os.kill(first, signal.SIGKILL)
        until(lambda: answer(port, "/api/status").get("cycles", 0) > 0, 240)
        [second] = children(ours.process.pid)
        assert second != first
        assert ours.process.poll() is None, "the scheduler goes on"
        ours.end(signal.SIGKILL)
        until(lambda: not is_there(second))


def test_the_rights_of_the_manifests_are_enough_and_it_asks_for_no_more(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "manifests" / "ui.yaml").read_text()))
    rules = [rule for each in documents if each["kind"] in ("ClusterRole", "Role") for rule in each["rules"]]
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 8)])
    port = free_ports(1)[0]
    with account(control_plane, kubectl, tmp_path, rules) as limited:
        options = ("--components", "ui", "--ui-listen", f"127.0.0.1:{port}")
        ours = Process(limited.kubeconfig, tmp_path / "log", *options)
        try:
            until(lambda: answer(port, "/api/status").get("waiting") == 1, 240)
            config = answer(port, "/api/config")
            assert config["surroundings"]["trouble"] == ""
            assert config["surroundings"]["leaders"] is not None
            told = [line for line in (tmp_path / "log").read_text().splitlines() if "level=INFO" not in line]
            assert told == [], "nothing was refused"
        finally:
            assert ours.end() == 0
