"""The dashboard of a live cluster: it follows what happens, says why jobs wait, and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient

from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import default_config
from muster.testing.control_plane import ControlPlane
from muster.ui.access import ReviewGate
from muster.ui.app import Desk, make_app
from muster.ui.live import LiveFeed
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, queue
from tests.kubernetes.stage import Stage


@pytest.fixture
def feed(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[LiveFeed]:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 4), *gang("sweep", 4)])
    made = LiveFeed(control_plane.kubeconfig, None, (), default_config())
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
