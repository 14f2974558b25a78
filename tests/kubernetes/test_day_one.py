"""What users run on the first day: `muster run` without any configuration, beside the controllers of Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.testing.control_plane import ControlPlane
from tests.kubernetes.accounts import account, scheduler_rules
from tests.kubernetes.job_controller import JobController
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError, node
from tests.kubernetes.replicas import Process

LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}


def template(app: str, **spec: object) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    body = {"schedulerName": "volcano", "containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"metadata": {"labels": {"app": app}}, "spec": body}


def deployment(name: str, replicas: int) -> Json:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def batch_job(name: str, completions: int) -> Json:
    """A Job of Kubernetes; KWOK lets the pods of such end at once."""
    made = template(name, restartPolicy="Never")
    spec = {"completions": completions, "parallelism": completions, "template": made}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def count(kubectl: Kubectl, kind: str, name: str, field: str, namespace: str = "default") -> int:
    return int(kubectl.get(kind, name, namespace).get("status", {}).get(field) or 0)


def pods_held(kubectl: Kubectl) -> str:
    """How many pods the queue says that it holds."""
    found: str = kubectl.get("Queue", "default").get("status", {}).get("allocated", {}).get("pods", "")
    return found


@pytest.mark.usefixtures("controllers")
def test_a_deployment_a_job_and_a_gang_run_without_any_configuration(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([node("n1"), node("n2"), deployment("serve", 3), batch_job("sweep", 2)])
    controller = JobController(kubectl)
    controller.submit("train", 4)
    with account(control_plane, kubectl, tmp_path, [*scheduler_rules(), LEASES]) as limited:
        process = Process(limited.kubeconfig, tmp_path / "log")
        try:
            kubectl.wait(lambda: controller.is_done("train"), seconds=90)
            kubectl.wait(lambda: count(kubectl, "Deployment", "serve", "readyReplicas") == 3, seconds=60)
            kubectl.wait(lambda: count(kubectl, "Job", "sweep", "succeeded") == 2, seconds=60)
            kubectl.wait(lambda: pods_held(kubectl) == "7", seconds=30)
            # A pod that is lost is made anew by its owner, and placed again.
            lost = next(pod for pod in kubectl.list("Pod") if pod["metadata"]["name"].startswith("serve-"))
            kubectl.delete("Pod", lost["metadata"]["name"], grace=0)
            kubectl.wait(lambda: _is_replaced(kubectl, lost), seconds=60)
            assert process.end() == 0
        finally:
            process.end()
    text = (tmp_path / "log").read_text()
    assert not [line for line in text.splitlines() if "event=refused" in line or "event=error" in line]


def _is_replaced(kubectl: Kubectl, lost: Json) -> bool:
    pods = [pod for pod in kubectl.list("Pod") if pod["metadata"]["name"].startswith("serve-")]
    ready = [pod for pod in pods if pod["spec"].get("nodeName") and pod["metadata"]["uid"] != lost["metadata"]["uid"]]
    return len(ready) == 3


@pytest.mark.usefixtures("controllers")
def test_a_namespace_goes_with_all_that_is_in_it(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    name = "short-lived"  # plays leave the namespaces of their examples behind
    kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    made = deployment("serve", 2)
    made["metadata"]["namespace"] = name
    kubectl.create_all([node("n1"), made])
    process = Process(control_plane.kubeconfig, tmp_path / "log")
    try:
        kubectl.wait(lambda: count(kubectl, "Deployment", "serve", "readyReplicas", name) == 2, seconds=60)
        kubectl.delete("Namespace", name)
        kubectl.wait(lambda: _is_gone(kubectl, name), seconds=60)
        kubectl.wait(lambda: pods_held(kubectl) == "0", seconds=30)
    finally:
        process.end()
    assert "event=error" not in (tmp_path / "log").read_text()


def _is_gone(kubectl: Kubectl, namespace: str) -> bool:
    try:
        kubectl.get("Namespace", namespace)
    except RefusedError as refused:
        return refused.status == 404
    return False
