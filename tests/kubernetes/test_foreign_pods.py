"""Pods of other schedulers on a real API server: whatever state they are in, ours are told how they are."""

from __future__ import annotations

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, queue
from tests.kubernetes.stage import Stage


def foreign(name: str, node_name: str) -> Json:
    """A pod for the scheduler of Kubernetes, bound by hand."""
    return pod(name, schedulerName="default-scheduler", nodeName=node_name)


def test_foreign_pods_that_cannot_leave_disturb_no_status(
    control_plane: ControlPlane, cluster: KubernetesCluster, kubectl: Kubectl, caplog: pytest.LogCaptureFixture
) -> None:
    kept = foreign("kept", "n1")
    kept["metadata"]["finalizers"] = ["example.com/keep"]
    named = foreign("names-our-group", "n1")
    named["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "train"}
    kubectl.create_all([queue("default"), node("n1"), kept, named, foreign("on-no-node", "nowhere")])
    with control_plane.without_kubelets():  # they would let them go at once
        for name in ("kept", "names-our-group", "on-no-node"):
            kubectl.delete("Pod", name)
        kubectl.create_all([*gang("train", 2), *gang("large", 2, gpu=9)])
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: status_of(kubectl, "train").get("phase") == "Running")
        stage.run_until(lambda: status_of(kubectl, "large").get("conditions"))
        left = {pod["metadata"]["name"]: "deletionTimestamp" in pod["metadata"] for pod in kubectl.list("Pod")}
        assert (left["kept"], left["names-our-group"]) == (True, True)
    assert "event=error" not in caplog.text


def status_of(kubectl: Kubectl, group: str) -> Json:
    status: Json = kubectl.get("PodGroup", group).get("status", {})
    return status
