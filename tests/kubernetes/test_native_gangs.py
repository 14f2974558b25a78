"""Gangs of Kubernetes itself on an API server that serves them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from muster.api.definitions import definitions
from muster.cluster.kubernetes import KubernetesCluster
from muster.cluster.kubernetes.client.commands import install
from muster.server.controllers import ControllerOptions, ControllerService
from muster.testing.control_plane import ControlPlane
from muster.testing.real_parts import MissingPartsError, find_native
from tests.kubernetes.kubectl import Json, Kubectl, node, pod, queue
from tests.kubernetes.stage import Stage

VERSION = "scheduling.k8s.io/v1alpha2"
GROUPS = f"/apis/{VERSION}/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def native_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    try:
        program = find_native()
    except MissingPartsError as fault:
        pytest.skip(str(fault))
    flags = {"runtime-config": f"{VERSION}=true", "feature-gates": "GenericWorkload=true,GangScheduling=true"}
    with ControlPlane(tmp_path_factory.mktemp("native"), api_server=program, api_server_flags=flags) as plane:
        install(definitions(), plane.kubeconfig)
        yield plane


@pytest.fixture
def shell(native_plane: ControlPlane) -> Iterator[Kubectl]:
    kubectl = Kubectl(native_plane)
    yield kubectl
    try:
        for group in kubectl.request("GET", GROUPS)["items"]:
            name = group["metadata"]["name"]
            kubectl.request(
                "PATCH", f"{GROUPS}/{name}", {"metadata": {"finalizers": []}}, "application/merge-patch+json"
            )
            kubectl.request("DELETE", f"{GROUPS}/{name}")
        kubectl.delete_everything()
    finally:
        kubectl.close()


def conditions(kubectl: Kubectl) -> list[tuple[str, str, str]]:
    found: Json = kubectl.request("GET", f"{GROUPS}/train").get("status") or {}
    return [(each["type"], each["status"], each["reason"]) for each in found.get("conditions") or []]


def test_a_gang_starts_whole_in_a_queue_of_ours_and_says_so(native_plane: ControlPlane, shell: Kubectl) -> None:
    group = {
        "apiVersion": VERSION,
        "kind": "PodGroup",
        "metadata": {"name": "train", "annotations": {"scheduling.volcano.sh/queue-name": "team"}},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    members = [pod(f"p-{n}", schedulingGroup={"podGroupName": "train"}) for n in range(3)]
    service = ControllerService(ControllerOptions(native_plane.kubeconfig))
    service.start()
    try:
        with KubernetesCluster(native_plane.kubeconfig, takes_over_from=["volcano"], awaits_groups=True) as cluster:
            stage = Stage(cluster, shell)
            shell.create_all([queue("default"), queue("team"), node("n1", gpu=2), *members])
            until = time.monotonic() + 3
            while time.monotonic() < until:  # the PodGroup is not there yet
                stage.run_once()
                time.sleep(0.1)
            assert set(shell.nodes_of_pods().values()) == {""}
            shell.request("POST", GROUPS, group)
            stage.run_until(lambda: conditions(shell) == [("PodGroupScheduled", "False", "Unschedulable")], 30)
            [made] = shell.list("PodGroup")
            assert (made["metadata"]["name"], made["spec"]["minMember"], made["spec"]["queue"]) == (
                "native-train",
                3,
                "team",
            )
            assert set(shell.nodes_of_pods().values()) == {""}
            shell.create(node("n2", gpu=1))
            stage.run_until(lambda: stage.is_bound("p-0", "p-1", "p-2"))
            stage.run_until(lambda: conditions(shell) == [("PodGroupScheduled", "True", "Scheduled")], 30)
    finally:
        service.stop()
