"""The queues `root` and `default` on a real API server: made when missing, by an account with the rights of deploy/."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.accounts import account, scheduler_rules, without
from tests.kubernetes.job_controller import JobController
from tests.kubernetes.kubectl import Kubectl, node, queue
from tests.kubernetes.replicas import Process
from tests.kubernetes.stage import Stage


def queues_of(kubectl: Kubectl) -> set[str]:
    return {known["metadata"]["name"] for known in kubectl.list("Queue")}


def test_they_are_made_when_missing_and_a_job_without_a_queue_starts(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create(node("n1"))
    controller = JobController(kubectl)
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    with account(control_plane, kubectl, tmp_path, [*scheduler_rules(), leases]) as limited:
        process = Process(limited.kubeconfig, tmp_path / "log")
        try:
            controller.submit("train", 2)
            kubectl.wait(lambda: controller.is_done("train"), seconds=60)
        finally:
            process.end()
    assert queues_of(kubectl) == {"root", "default"}
    assert kubectl.get("Queue", "root")["spec"]["reclaimable"] is False
    assert kubectl.get("Queue", "default")["spec"]["reclaimable"] is True


def test_one_that_is_there_stays_as_it_is(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default", weight=7), node("n1")])
    with KubernetesCluster(control_plane.kubeconfig, makes_queues=True) as cluster:
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: queues_of(kubectl) == {"root", "default"})
        kubectl.delete("Queue", "root")
        for _ in range(20):  # whoever deletes it means it
            stage.run_once()
    assert queues_of(kubectl) == {"default"}
    assert kubectl.get("Queue", "default")["spec"]["weight"] == 7


def test_a_right_that_is_missing_is_said_once(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubectl.create(node("n1"))
    rules = without(scheduler_rules(), "create", "queues")
    with (
        account(control_plane, kubectl, tmp_path, rules) as limited,
        KubernetesCluster(limited.kubeconfig, makes_queues=True) as cluster,
    ):
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: caplog.text.count("event=refused what='queue'") == 2)
        stage.run_once()
    assert caplog.text.count("event=refused what='queue'") == 2
