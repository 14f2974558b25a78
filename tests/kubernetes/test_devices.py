"""Pods that ask for devices by claim or for part of a GPU, on a real API server under `muster run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.main import run
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, node, pod, queue
from tests.kubernetes.replicas import replica

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def claim(name: str) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
    return {**head, "spec": {"devices": {"requests": [request]}}}


def allocate(kubectl: Kubectl, name: str, node_name: str) -> None:
    """Do what a scheduler that knows devices would do."""
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": node_name, "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    where = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    status = {"status": {"allocation": {"devices": {"results": [device]}, "nodeSelector": where}}}
    kubectl.request("PATCH", f"{CLAIMS}/{name}/status", status, "application/merge-patch+json")


def claiming(name: str) -> Json:
    """A pod with one claim by name."""
    return pod(name, gpu=0, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])


def why(kubectl: Kubectl, name: str) -> str:
    """What a waiting pod says it waits for."""
    conditions = kubectl.get("Pod", name)["status"].get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def test_pods_wait_for_their_claims_and_go_where_the_devices_are(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("default"), node("n1"), node("n2")])
    try:
        for name in ("one", "two"):
            kubectl.request("POST", CLAIMS, claim(name))
        allocate(kubectl, "one", "n2")
        kubectl.create_all([claiming("one"), claiming("two"), claiming("missing")])
        with replica(control_plane, tmp_path / "log"):
            kubectl.wait(lambda: kubectl.nodes_of_pods()["one"] == "n2", seconds=60)
            kubectl.wait(lambda: "the claim default/two is not allocated" in why(kubectl, "two"))
            kubectl.wait(lambda: "the claim default/missing does not exist" in why(kubectl, "missing"))
            assert kubectl.nodes_of_pods()["two"] == ""
            allocate(kubectl, "two", "n1")
            kubectl.wait(lambda: kubectl.nodes_of_pods()["two"] == "n1")
            assert kubectl.nodes_of_pods()["missing"] == ""
    finally:
        kubectl.request("DELETE", CLAIMS)


def test_pods_that_ask_for_part_of_a_gpu_wait_and_say_why(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    part = pod("part", gpu=0)
    part["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    kubectl.create_all([queue("default"), node("n1"), part, pod("whole")])
    with replica(control_plane, tmp_path / "log"):
        kubectl.wait(lambda: kubectl.nodes_of_pods()["whole"] == "n1", seconds=60)
        kubectl.wait(lambda: "asks for part of a GPU" in why(kubectl, "part"))
        assert kubectl.nodes_of_pods()["part"] == ""


def test_explanations_of_a_live_cluster_agree_with_what_is_done(
    control_plane: ControlPlane, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create_all([queue("default"), node("n1"), claiming("missing")])
    assert run(["explain", "missing", "--cluster", "--kubeconfig", str(control_plane.kubeconfig)]) == 0
    assert "the claim default/missing does not exist" in " ".join(capsys.readouterr().out.split())
