"""What Muster finds on a server: kinds of other projects, and volumes that wait for a node."""

from __future__ import annotations

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import foreign_kinds
from tests.kubernetes.foreign_kinds import KAI_GROUP, KAI_QUEUE, KUEUE_TOPOLOGY
from tests.kubernetes.kubectl import Json, Kubectl, node, pod, queue
from tests.kubernetes.stage import Stage

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def test_kinds_of_other_projects_are_read_in_the_version_that_is_there(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    with foreign_kinds.installed(kubectl, KAI_GROUP, KAI_QUEUE, KUEUE_TOPOLOGY):
        foreign_kinds.make(kubectl, KUEUE_TOPOLOGY, "racks", {"levels": [{"nodeLabel": "rack"}]})
        foreign_kinds.make(kubectl, KAI_QUEUE, "team", {})
        foreign_kinds.make(kubectl, KAI_GROUP, "gang", {"minMember": 2, "queue": "team"})
        with KubernetesCluster(control_plane.kubeconfig) as cluster:
            found = {(event.object.kind, event.object.name) for event in cluster.poll()}
    assert found >= {("Topology", "racks"), ("Queue", "team"), ("PodGroup", "gang")}


@pytest.fixture
def storage(kubectl: Kubectl) -> Kubectl:
    """Storage that waits for its first consumer: made on demand, and made by hand."""
    for name, provisioner in (("fast", "example.com/disks"), ("local", "kubernetes.io/no-provisioner")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        kubectl.request("POST", CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **body})
    return kubectl


@pytest.fixture(autouse=True)
def _no_storage_left(kubectl: Kubectl) -> object:
    yield
    for path in (CLAIMS, VOLUMES, CLASSES):
        for found in kubectl.request("GET", path)["items"]:
            one = f"{path}/{found['metadata']['name']}"
            # Nobody runs here who would take the protection away.
            kubectl.request("PATCH", one, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            kubectl.request("DELETE", one)


def claim(kubectl: Kubectl, name: str, class_name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    kubectl.request("POST", CLAIMS, {**head, "spec": spec})


def volume(kubectl: Kubectl, name: str, size: str, host: str) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "capacity": {"storage": size},
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    kubectl.request("POST", VOLUMES, {**head, "spec": spec})
    phase = {"status": {"phase": "Available"}}
    kubectl.request("PATCH", f"{VOLUMES}/{name}/status", phase, "application/merge-patch+json")


def mounting(name: str, claim_name: str) -> Json:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


def test_a_claim_is_told_the_node_before_its_pod_is_bound(control_plane: ControlPlane, storage: Kubectl) -> None:
    claim(storage, "data", "fast")
    storage.create_all([queue("default"), node("n1"), mounting("reader", "data")])
    with KubernetesCluster(control_plane.kubeconfig) as cluster:
        stage = Stage(cluster, storage)
        stage.run_until(lambda: stage.is_bound("reader"))
    annotations = storage.request("GET", f"{CLAIMS}/data")["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/selected-node"] == "n1"


def test_a_volume_made_by_hand_is_reserved_for_the_claim(control_plane: ControlPlane, storage: Kubectl) -> None:
    claim(storage, "data", "local")
    for name, size, host in (("large", "9Gi", "n2"), ("small", "2Gi", "n2"), ("far", "1Gi", "n3")):
        volume(storage, name, size, host)
    storage.create_all([queue("default"), node("n1"), node("n2"), mounting("reader", "data")])
    with KubernetesCluster(control_plane.kubeconfig) as cluster:
        stage = Stage(cluster, storage)
        stage.run_until(lambda: stage.is_bound("reader"))
    assert storage.nodes_of_pods() == {"reader": "n2"}
    claimed = {
        found["metadata"]["name"]: found["spec"].get("claimRef", {}).get("name")
        for found in storage.request("GET", VOLUMES)["items"]
    }
    assert claimed == {"large": None, "small": "data", "far": None}
