"""What the server refuses again and again, and what is not meant for the object that stands there now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.requests import Client
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.in_flight import write
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, priority_class, queue
from tests.kubernetes.proxy import FaultyProxy
from tests.kubernetes.replicas import Process, replica

GROUP = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/train"


class VolumeRefusals:
    """A rule of the proxy that refuses some requests, and counts them."""

    def __init__(self, is_refused: Callable[[str], bool]) -> None:
        self._is_refused = is_refused
        self.n_refused = 0

    def __call__(self, method: str, path: str) -> int:
        if method == "GET" or not self._is_refused(path):
            return 0
        self.n_refused += 1
        return 403


def failures(kubectl: Kubectl, name: str) -> list[Json]:
    events = kubectl.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [each for each in events if each["regarding"]["name"] == name and each["reason"] == "FailedScheduling"]


def test_a_pod_that_may_never_be_bound_is_tried_less_often_says_why_and_leaves_its_room_to_others(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    rule = VolumeRefusals(lambda path: path.endswith("/pods/barred/binding"))
    kubectl.create_all([queue("default"), node("n1", gpu=1), pod("barred")])
    with FaultyProxy(control_plane, tmp_path, rule) as proxy:
        process = Process(proxy.kubeconfig, tmp_path / "log", "--no-leader-elect")
        kubectl.wait(lambda: rule.n_refused >= 2, seconds=60)
        kubectl.create(pod("welcome"))
        kubectl.wait(lambda: kubectl.nodes_of_pods()["welcome"] == "n1")
        kubectl.wait(lambda: failures(kubectl, "barred"))
        assert process.end() == 0
    assert rule.n_refused < 10
    assert "403" in failures(kubectl, "barred")[0]["note"]


def test_an_eviction_that_is_never_allowed_is_tried_less_often(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    rule = VolumeRefusals(lambda path: path.endswith("/pods/old/eviction"))
    kubectl.create_all([queue("default"), priority_class("high", 1000), priority_class("low", 10)])
    kubectl.create_all([node("n1", gpu=1), pod("old", priorityClassName="low")])
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        'actions: "allocate, preempt"\n'
        "tiers: [{plugins: [{name: priority}, {name: conformance}, {name: predicates}, {name: proportion}]}]\n"
    )
    with FaultyProxy(control_plane, tmp_path, rule) as proxy:
        process = Process(proxy.kubeconfig, tmp_path / "log", "--no-leader-elect", "--config", str(config))
        kubectl.wait(lambda: kubectl.get("Pod", "old")["status"].get("phase") == "Running", seconds=60)
        kubectl.create(pod("new", priorityClassName="high"))
        kubectl.wait(lambda: rule.n_refused >= 3)
        time.sleep(3)
        assert process.end() == 0
    assert rule.n_refused < 10


def test_a_status_that_may_not_be_written_is_not_tried_with_every_cycle(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    rule = VolumeRefusals(lambda path: "/podgroups/" in path)
    kubectl.create_all([queue("default"), node("n1", gpu=2), *gang("train", 3)])
    with FaultyProxy(control_plane, tmp_path, rule) as proxy:
        process = Process(proxy.kubeconfig, tmp_path / "log", "--no-leader-elect")
        kubectl.wait(lambda: rule.n_refused, seconds=60)
        for number in range(4):  # things happen, and cycles follow
            kubectl.create_all(gang(f"other-{number}", 3))
        kubectl.wait(lambda: rule.n_refused >= 5)
        kubectl.create(pod("small"))
        kubectl.wait(lambda: kubectl.nodes_of_pods()["small"])
        time.sleep(3)
        assert process.end() == 0
    assert rule.n_refused < 25


def test_a_podgroup_made_anew_under_the_same_name_is_not_annotated_with_what_was_for_the_old_one(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    [group] = gang("train", 0, minimum=1)
    old = kubectl.create(group)["metadata"]["uid"]
    kubectl.delete("PodGroup", "train")
    new = kubectl.create(group)["metadata"]["uid"]

    async def annotate(uid: str) -> str:
        client = Client(await connect(control_plane.kubeconfig))
        try:
            return await write(client, calls.annotate(GROUP, uid, {"a": "b"}))
        finally:
            await client.close()

    assert "metadata.uid" in asyncio.run(annotate(old))
    assert "annotations" not in kubectl.get("PodGroup", "train")["metadata"]
    assert asyncio.run(annotate(new)) == ""


def in_namespace(namespace: str, documents: Sequence[Json]) -> list[Json]:
    for document in documents:
        document["metadata"]["namespace"] = namespace
    return list(documents)


def test_nothing_is_bound_in_a_namespace_that_is_being_deleted(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    """The server refuses every binding there; pods that wait for room when it begins are not even tried."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}}
    kubectl.create_all([queue("default"), node("n1", gpu=2), namespace, *in_namespace("leaving", gang("old", 4))])
    with replica(control_plane, tmp_path / "log") as process:
        kubectl.wait(lambda: process.has_logged("event=ready"), seconds=60)
        kubectl.wait(lambda: kubectl.get("PodGroup", "old", "leaving").get("status", {}).get("phase") == "Inqueue")
        kubectl.delete("Namespace", "leaving")
        kubectl.create_all([node("n2", gpu=8), *gang("new", 2)])
        kubectl.wait(lambda: all(kubectl.nodes_of_pods()[name] for name in ("new-0", "new-1")))
        kubectl.wait(lambda: "namespace is being deleted" in why(kubectl, "old", "leaving"))
        metrics = process.get("/metrics")
    assert 'muster_api_refusals_total{kind="bind"} 0' in metrics
    assert not any(kubectl.nodes_of_pods()[f"old-{number}"] for number in range(4))
    # What a namespace controller does at the end.
    kubectl.request("PUT", "/api/v1/namespaces/leaving/finalize", {**namespace, "spec": {"finalizers": []}})


def why(kubectl: Kubectl, name: str, namespace: str) -> str:
    """What a waiting gang says it waits for."""
    conditions = kubectl.get("PodGroup", name, namespace).get("status", {}).get("conditions", [])
    return " ".join(each.get("message", "") for each in conditions)
