"""The plain manifests on a real API server, and what the account that they make may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from muster.cluster.kubernetes import KubernetesCluster, LeaseOptions
from muster.server.controllers import ControllerOptions, ControllerService
from muster.testing.control_plane import ControlPlane
from tests.deploy.manifests import DEPLOY, NAMESPACE
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, priority_class, queue
from tests.kubernetes.stage import WITH_EVICTIONS, Stage
from tests.kubernetes.test_volcano_jobs import KIND, job, pods_of

_PLACES = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


@pytest.fixture
def installed(kubectl: Kubectl) -> Iterator[list[Json]]:
    """What `kubectl apply` makes of the manifests; fields that the server does not know are refused."""
    documents = [each for each in yaml.safe_load_all((DEPLOY / "manifests" / "muster.yaml").read_text()) if each]
    made = [kubectl.request("POST", f"{_PLACES[each['kind']]}?fieldValidation=Strict", each) for each in documents]
    yield made
    for each in reversed(made):
        kubectl.request("DELETE", f"{_PLACES[each['kind']]}/{each['metadata']['name']}")
    # No controller runs here that would say that the namespace is empty.
    standing = kubectl.request("GET", f"/api/v1/namespaces/{NAMESPACE}")
    kubectl.request("PUT", f"/api/v1/namespaces/{NAMESPACE}/finalize", {**standing, "spec": {"finalizers": []}})


@pytest.fixture
def account(control_plane: ControlPlane, kubectl: Kubectl, installed: list[Json], tmp_path: Path) -> Path:
    """A kubeconfig of the scheduler's account."""
    del installed
    return kubeconfig_of("muster", control_plane, kubectl, tmp_path)


@pytest.fixture
def controllers_account(control_plane: ControlPlane, kubectl: Kubectl, installed: list[Json], tmp_path: Path) -> Path:
    """A kubeconfig of the controllers' account."""
    del installed
    return kubeconfig_of("muster-controllers", control_plane, kubectl, tmp_path)


def kubeconfig_of(name: str, control_plane: ControlPlane, kubectl: Kubectl, folder: Path) -> Path:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = kubectl.request("POST", f"{_PLACES['ServiceAccount']}/{name}/token", request)
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = folder / f"kubeconfig-{name}"
    path.write_text(json.dumps(config))
    return path


def may(kubectl: Kubectl, verb: str, group: str, resource: str, subresource: str = "", namespace: str = "") -> bool:
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
    user = f"system:serviceaccount:{NAMESPACE}:muster"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    }
    answer = kubectl.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def test_the_account_of_the_manifests_is_enough_to_lead_to_start_gangs_and_to_evict_for_them(
    account: Path, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), priority_class("low", 1), priority_class("high", 100)])
    kubectl.create_all(gang("low", 2, minimum=1, group={"priorityClassName": "low"}))
    with KubernetesCluster(account, lease=LeaseOptions(NAMESPACE, "muster", "this-one")) as cluster:
        kubectl.wait(cluster.is_leader)
        stage = Stage(cluster, kubectl, WITH_EVICTIONS)
        stage.run_until(lambda: stage.is_bound("low-0", "low-1"))
        stage.run_until(lambda: kubectl.get("PodGroup", "low")["status"].get("running") == 2)
        kubectl.create_all(gang("high", 1, group={"priorityClassName": "high"}))
        stage.run_until(lambda: stage.is_bound("high-0"))
        stage.run_until(lambda: kubectl.get("PodGroup", "high")["status"].get("running") == 1)


def test_the_account_of_the_controllers_is_enough_to_see_a_job_through(
    account: Path, controllers_account: Path, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    lease = LeaseOptions(NAMESPACE, "muster-controllers", "this-one")
    controllers = ControllerService(ControllerOptions(controllers_account, lease=lease))
    plugins = {"svc": [], "ssh": ["--ssh-private-key=a", "--ssh-public-key=b"], "ray": ["--head=w"]}
    volume = {"mountPath": "/out", "volumeClaim": {"storageClassName": "none", "accessModes": ["ReadWriteOnce"]}}
    volume["volumeClaim"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]  # it is a mapping
    with KubernetesCluster(account, lease=LeaseOptions(NAMESPACE, "muster", "this-one")) as cluster:
        stage = Stage(cluster, kubectl)
        controllers.start()
        try:
            kubectl.create(job("seen-through", 2, plugins=plugins, ttlSecondsAfterFinished=1))
            kubectl.create(job("other", 1, volumes=[volume]))
            stage.run_until(lambda: "seen-through" not in [each["metadata"]["name"] for each in kubectl.list(KIND)], 60)
            kubectl.wait(lambda: "other-w-0" in pods_of(kubectl, "other"))
        finally:
            controllers.stop()
    assert controllers.trouble() == ""


@pytest.mark.usefixtures("installed")
def test_the_account_may_do_nothing_that_scheduling_does_not_need(kubectl: Kubectl) -> None:
    assert may(kubectl, "create", "", "pods", "binding", "default")
    assert may(kubectl, "update", "coordination.k8s.io", "leases", namespace=NAMESPACE) is False  # any lease
    for verb, group, resource in [
        ("get", "", "secrets"),
        ("list", "", "configmaps"),
        ("create", "", "pods"),
        ("delete", "", "pods"),
        ("patch", "", "nodes"),
        ("delete", "scheduling.volcano.sh", "podgroups"),
        ("create", "rbac.authorization.k8s.io", "clusterroles"),
        ("patch", "apiextensions.k8s.io", "customresourcedefinitions"),
    ]:
        assert not may(kubectl, verb, group, resource, namespace="default"), f"{verb} {resource}"


def test_the_server_takes_the_manifests_as_they_are(installed: list[Json]) -> None:
    assert {each["kind"] for each in installed} == set(_PLACES)
    deployment = next(each for each in installed if each["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
