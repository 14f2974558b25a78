"""Pods that a controller will name a gang for are waited for, where Volcano's controllers are installed."""

from __future__ import annotations

import time

from muster.cluster.kubernetes import KubernetesCluster
from muster.snapshot import GATED
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.foreign_kinds import definition, installed
from tests.kubernetes.kubectl import Kubectl, gang, node, pod, queue
from tests.kubernetes.stage import Stage

NUMA_TOPOLOGY = definition("nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies")


def connected(plane: ControlPlane) -> KubernetesCluster:
    return KubernetesCluster(plane.kubeconfig, takes_over_from=["volcano"])


def test_a_pod_is_placed_with_the_gang_that_a_controller_gives_it(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    """Two of three pods would fit: as gangs of one they would start, as the gang that they belong to they wait."""
    group, *members = gang("set", 3, minimum=3)
    for member in members:
        member["metadata"]["annotations"] = {}
    with installed(kubectl, NUMA_TOPOLOGY), connected(control_plane) as cluster:
        stage = Stage(cluster, kubectl)
        kubectl.create_all([queue("default"), node("n1", gpu=2), *members])
        for _ in range(5):
            stage.run_once()
            time.sleep(0.1)
        kubectl.create(group)
        for member in members:
            name = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "set"}}}
            kubectl.patch("Pod", member["metadata"]["name"], name)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            stage.run_once()
            time.sleep(0.1)
        assert set(kubectl.nodes_of_pods().values()) == {""}
        kubectl.create(node("n2", gpu=1))
        stage.run_until(lambda: stage.is_bound("set-0", "set-1", "set-2"))


def test_a_pod_that_nobody_comes_for_is_placed_by_itself(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    with installed(kubectl, NUMA_TOPOLOGY), connected(control_plane) as cluster:
        stage = Stage(cluster, kubectl)
        kubectl.create_all([queue("default"), node("n1"), pod("alone")])
        began = time.monotonic()
        stage.run_until(lambda: stage.is_bound("alone"))
        assert time.monotonic() - began > 1
        assert not [
            each
            for each in kubectl.get("Pod", "alone")["status"].get("conditions", [])
            if each["type"] == "PodScheduled" and each["status"] == "False"
        ]


def test_without_those_controllers_nobody_waits(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    with connected(control_plane) as cluster:
        stage = Stage(cluster, kubectl)
        kubectl.create_all([queue("default"), node("n1"), pod("alone")])
        stage.run_until(lambda: stage.scheduler.mirror.snapshot().tasks.ids)
        snapshot = stage.scheduler.mirror.snapshot()
        assert not snapshot.tasks.flags[snapshot.tasks.ids.index("default/alone")] & GATED
