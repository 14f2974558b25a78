"""Claims that wait for their first consumer: told, waited for, refused, late, and met again after a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Kubectl, gang, node, pod, queue
from tests.kubernetes.stage import Stage
from tests.kubernetes.storage import Storage, mounting


@pytest.fixture
def storage(kubectl: Kubectl) -> Iterator[Storage]:
    made = Storage(kubectl)
    yield made
    made.delete_everything()


def unbound_for_some_cycles(stage: Stage) -> bool:
    for _ in range(5):
        stage.run_once()
    return not any(stage.kubectl.nodes_of_pods().values())


def test_a_pod_is_bound_when_the_volume_that_is_made_for_it_is_there_and_not_before(
    cluster: KubernetesCluster, kubectl: Kubectl, storage: Storage
) -> None:
    storage.claim("data")
    kubectl.create_all([queue("default"), node("n1"), mounting("reader", "data")])
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: storage.selected_node("data") == "n1")
    assert unbound_for_some_cycles(stage)
    storage.provide("data")
    stage.run_until(lambda: stage.is_bound("reader"))
    assert sum(len(result.decisions) for result in stage.results) == 1


def test_a_volume_made_by_hand_is_reserved_for_the_claim(
    cluster: KubernetesCluster, kubectl: Kubectl, storage: Storage
) -> None:
    storage.claim("data", "local")
    for name, size, host in (("large", "9Gi", "n2"), ("small", "2Gi", "n2"), ("far", "1Gi", "n3")):
        storage.volume(name, host, size)
    kubectl.create_all([queue("default"), node("n1"), node("n2"), mounting("reader", "data")])
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: storage.reserved() == {"large": "", "small": "data", "far": ""})
    assert unbound_for_some_cycles(stage)
    storage.bind("data", "small")
    stage.run_until(lambda: stage.is_bound("reader"))
    assert kubectl.nodes_of_pods() == {"reader": "n2"}


def test_a_node_that_is_refused_is_followed_by_another(
    cluster: KubernetesCluster, kubectl: Kubectl, storage: Storage
) -> None:
    storage.claim("data")
    kubectl.create_all([queue("default"), node("n1"), node("n2"), mounting("reader", "data")])
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: storage.selected_node("data"))
    first = storage.selected_node("data")
    storage.refuse("data")
    stage.run_until(lambda: storage.selected_node("data") not in ("", first))
    storage.provide("data")
    stage.run_until(lambda: stage.is_bound("reader"))
    assert kubectl.nodes_of_pods() == {"reader": {"n1": "n2", "n2": "n1"}[first]}


def test_a_gang_whose_volumes_come_too_late_is_given_back_whole_and_bound_whole_when_they_are_there(
    control_plane: ControlPlane, kubectl: Kubectl, storage: Storage
) -> None:
    for name in ("a", "b"):
        storage.claim(name)
    group, plain, *_ = gang("train", 3)
    members = [group, plain, mounting("train-a", "a", group="train"), mounting("train-b", "b", group="train")]
    kubectl.create_all([queue("default"), node("n1", gpu=3), *members])
    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig, volume_wait_s=2.0) as cluster:
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: storage.selected_node("a") and storage.selected_node("b"))
        storage.provide("a")
        reasons = ("volume-refused", "volume-selected")
        stage.run_until(lambda: any(reason in str(kubectl.get("PodGroup", "train")) for reason in reasons))
        assert unbound_for_some_cycles(stage)
        # The room that the gang had is there for others meanwhile.
        kubectl.create(pod("other", gpu=3))
        stage.run_until(lambda: stage.is_bound("other"))
        kubectl.delete("Pod", "other", grace=0)
        storage.provide("b")
        stage.run_until(lambda: all(kubectl.nodes_of_pods().values()))
    assert not [pod for pod in kubectl.list("Pod") if pod["metadata"].get("deletionTimestamp")]


def test_the_next_scheduler_waits_on_the_node_that_the_claim_was_told(
    control_plane: ControlPlane, kubectl: Kubectl, storage: Storage
) -> None:
    storage.claim("data")
    kubectl.create_all([queue("default"), node("n1"), mounting("reader", "data")])
    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig) as before:
        Stage(before, kubectl).run_until(lambda: storage.selected_node("data") == "n1")
    kubectl.create_all([node("n0", gpu=1), node("n2", gpu=1)])
    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig) as after:
        stage = Stage(after, kubectl)
        stage.run_until(lambda: any(result.decisions for result in stage.results))
        assert unbound_for_some_cycles(stage)
        storage.provide("data")
        stage.run_until(lambda: stage.is_bound("reader"))
    assert kubectl.nodes_of_pods() == {"reader": "n1"}


def test_an_ephemeral_volume_is_waited_for_from_its_claim_on(
    cluster: KubernetesCluster, kubectl: Kubectl, storage: Storage
) -> None:
    template = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": template}}}
    kubectl.create_all([queue("default"), node("n1"), pod("worker", volumes=[volume])])
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: "volume-missing" in str(kubectl.get("Pod", "worker")["status"]))
    storage.claim("worker-scratch", owner=kubectl.get("Pod", "worker"))
    stage.run_until(lambda: storage.selected_node("worker-scratch") == "n1")
    storage.provide("worker-scratch")
    stage.run_until(lambda: stage.is_bound("worker"))
