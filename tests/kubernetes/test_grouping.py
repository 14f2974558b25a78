"""Pods of others' workloads on a real API server: they get a PodGroup by what owns them, and start as gangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.cluster.kubernetes.verbs.mirror_only import PATIENCE_SECONDS
from muster.server.controllers import ControllerOptions, ControllerService
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.foreign_kinds import definition, installed, path_of
from tests.kubernetes.kubectl import Json, Kubectl, node, pod, queue
from tests.kubernetes.replicas import replica
from tests.kubernetes.stage import Stage

TRAINING = definition("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", namespaced=True)
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


@contextmanager
def serving(plane: ControlPlane) -> Iterator[ControllerService]:
    service = ControllerService(ControllerOptions(plane.kubeconfig))
    service.start()
    try:
        yield service
    finally:
        service.stop()


def _has_minimums(kubectl: Kubectl, wanted: list[int]) -> bool:
    return wanted == sorted(group["spec"]["minMember"] for group in kubectl.list("PodGroup"))


def owned(owner: Json, name: str, labels: Json | None = None) -> Json:
    """A pod that somebody made."""
    made = pod(name)
    meta = owner["metadata"]
    made["metadata"]["labels"] = labels or {}
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
    ]
    return made


def group_of(kubectl: Kubectl, name: str) -> str:
    annotations: Json = kubectl.get("Pod", name)["metadata"].get("annotations") or {}
    return str(annotations.get("scheduling.k8s.io/group-name", ""))


def test_a_set_waits_until_its_minimum_has_room(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    document = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "annotations": {"scheduling.volcano.sh/group-min-member": "3"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    }
    owner = {**document, **kubectl.request("POST", REPLICA_SETS, document)}
    try:
        with (
            serving(control_plane),
            KubernetesCluster(control_plane.kubeconfig, takes_over_from=["volcano"], awaits_groups=True) as cluster,
        ):
            stage = Stage(cluster, kubectl)
            kubectl.create_all([queue("default"), node("n1", gpu=2), *(owned(owner, f"web-{n}") for n in range(3))])
            kubectl.wait(lambda: group_of(kubectl, "web-2"))
            until = time.monotonic() + 3
            while time.monotonic() < until:
                stage.run_once()
                time.sleep(0.1)
            assert set(kubectl.nodes_of_pods().values()) == {""}
            [group] = kubectl.list("PodGroup")
            assert group["metadata"]["name"] == f"podgroup-{owner['metadata']['uid']}"
            assert group["spec"]["minMember"] == 3
            assert group["metadata"]["ownerReferences"][0]["name"] == "web"
            kubectl.create(node("n2", gpu=1))
            stage.run_until(lambda: stage.is_bound("web-0", "web-1", "web-2"))
    finally:
        kubectl.request("DELETE", f"{REPLICA_SETS}/web")


def test_a_scheduler_alone_waits_for_controllers_elsewhere(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    owner = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web", "uid": "some"}}
    kubectl.create_all([queue("default"), node("n1")])
    with replica(control_plane, tmp_path / "log", "--components", "scheduler") as process:
        kubectl.wait(lambda: process.has_logged("event=ready"), seconds=60)
        began = time.monotonic()
        kubectl.create_all([owned(owner, "web-0"), pod("alone")])
        kubectl.wait(lambda: kubectl.nodes_of_pods()["alone"], seconds=60)
        kubectl.wait(lambda: kubectl.nodes_of_pods()["web-0"], seconds=60)
        assert time.monotonic() - began >= PATIENCE_SECONDS
        lines = (tmp_path / "log").read_text().splitlines()
        bound = [line for line in lines if "event=bind" in line]
        assert "pod=default/alone" in bound[0], "a pod without an owner is alone anyway"


@pytest.mark.usefixtures("controllers")
def test_deployments_and_jobs_of_kubernetes_start_as_gangs(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    template: Json = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "schedulerName": "volcano",
            "restartPolicy": "Always",
            "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"scheduling.volcano.sh/group-min-member": "2"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    of_job = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sweep"},
        "spec": {"parallelism": 2, "completions": 2, "template": {**of_job, "metadata": {}}},
    }
    deployments, jobs = ("/apis/apps/v1/namespaces/default/deployments", "/apis/batch/v1/namespaces/default/jobs")
    kubectl.create_all([queue("default"), node("n1")])
    with (
        serving(control_plane),
        KubernetesCluster(control_plane.kubeconfig, takes_over_from=["volcano"], awaits_groups=True) as cluster,
    ):
        stage = Stage(cluster, kubectl)
        kubectl.request("POST", deployments, deployment)
        kubectl.request("POST", jobs, job)
        try:
            stage.run_until(lambda: list(kubectl.nodes_of_pods().values()) == ["n1"] * 5, 60)
            assert _has_minimums(kubectl, [1, 2])
            for replicas, expected in ((0, [1]), (2, [1, 2])):
                merge = "application/merge-patch+json"
                kubectl.request("PATCH", f"{deployments}/web", {"spec": {"replicas": replicas}}, merge)
                stage.run_until(partial(_has_minimums, kubectl, expected), 60)
            stage.run_until(lambda: list(kubectl.nodes_of_pods().values()) == ["n1"] * 4, 60)
        finally:
            background: Json = {"propagationPolicy": "Background"}
            kubectl.request("DELETE", f"{deployments}/web", background)
            kubectl.request("DELETE", f"{jobs}/sweep", background)
        # PodGroups go with what they were made for.
        kubectl.wait(lambda: not kubectl.list("PodGroup"), 60)


def test_a_kind_with_a_definition_is_grouped_by_its_fields_and_one_without_by_its_name(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    role = "training.kubeflow.org/replica-type"
    with installed(kubectl, TRAINING), serving(control_plane) as service:
        document = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "bert"},
            "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}},
        }
        owner = {**document, **kubectl.request("POST", path_of(TRAINING, "default"), document)}
        mystery = {"apiVersion": "example.com/v1", "kind": "Mystery", "metadata": {"name": "m", "uid": "u-1"}}
        kubectl.create_all([queue("default"), owned(owner, "bert-master-0", {role: "master"})])
        kubectl.create_all([owned(owner, f"bert-worker-{n}", {role: "worker"}) for n in range(2)])
        kubectl.create_all([owned(mystery, f"m-{n}") for n in range(2)])
        kubectl.create(pod("alone"))
        names = ["bert-master-0", "bert-worker-0", "bert-worker-1", "m-0", "m-1", "alone"]
        kubectl.wait(lambda: all(group_of(kubectl, name) for name in names))
        groups = {group["metadata"]["name"]: group["spec"] for group in kubectl.list("PodGroup")}
        of_bert = groups[f"podgroup-{owner['metadata']['uid']}"]
        assert of_bert["minTaskMember"] == {"master": 1, "worker": 2}
        assert of_bert["minMember"] == 3
        assert groups["podgroup-u-1"]["minMember"] == 1
        assert len(groups) == 3
        said = [event for event in kubectl.list("Event") if event["reason"] == "OwnerNotRead"]
        assert "Mystery default/m" in said[0]["message"]
        service.stop()
    with serving(control_plane):
        time.sleep(1)
        assert {group["metadata"]["name"] for group in kubectl.list("PodGroup")} == set(groups)
