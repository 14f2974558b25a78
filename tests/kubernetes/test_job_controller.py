"""Jobs whose controller makes pods only after the PodGroup has left `InFlight`, on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import SchedulerConfig, parse_config, profile
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.job_controller import JobController
from tests.kubernetes.kubectl import Json, Kubectl, node, queue
from tests.kubernetes.replicas import replica
from tests.kubernetes.stage import Stage

WITHOUT_ENQUEUE = parse_config('actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]', "t")


def condition(group: Json, kind: str) -> Json:
    found = [known for known in group.get("status", {}).get("conditions", []) if known["type"] == kind]
    assert len(found) < 2
    return found[0] if found else {}


def test_muster_run_without_a_configuration_starts_them(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    controller = JobController(kubectl)
    with replica(control_plane, tmp_path / "log"):
        controller.submit("first", 4)
        controller.submit("second", 2)
        kubectl.wait(lambda: controller.is_done("first", "second"), seconds=60)
    assert set(kubectl.nodes_of_pods().values()) == {"n1"}


@pytest.mark.parametrize(
    "config", [WITHOUT_ENQUEUE, profile("volcano"), profile("kai")], ids=["bare", "volcano", "kai"]
)
def test_every_configuration_starts_them(cluster: KubernetesCluster, kubectl: Kubectl, config: SchedulerConfig) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    controller, stage = JobController(kubectl), Stage(cluster, kubectl, config)
    controller.submit("train", 4)
    stage.run_until(lambda: controller.is_done("train"))


def test_a_job_without_pods_that_is_refused_says_why(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    controller, stage = JobController(kubectl), Stage(cluster, kubectl)
    controller.submit("lost", 2, queue="nowhere")
    stage.run_until(lambda: condition(kubectl.get("PodGroup", "lost"), "Unschedulable"))
    assert condition(kubectl.get("PodGroup", "lost"), "Unschedulable")["reason"] == "queue-missing"
    assert (controller.phase("lost"), kubectl.list("Pod")) == ("Pending", [])
    kubectl.create(queue("nowhere"))
    stage.run_until(lambda: controller.is_done("lost"))
    assert not condition(kubectl.get("PodGroup", "lost"), "Unschedulable")
