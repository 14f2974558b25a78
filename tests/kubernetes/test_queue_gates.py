"""The scheduling gate that waits for room in the queue, on a real API server, as Volcano's users set it."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.api.names import QUEUE_GATE
from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import SchedulerConfig, default_config, profile
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.accounts import account, scheduler_rules
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, queue
from tests.kubernetes.stage import Stage

OTHER = "example.com/other"


def gated(name: str, n_pods: int, *gates: str, **spec: object) -> list[Json]:
    """A gang of one or more in the queue `small`, whose pods have gates."""
    group, *pods = gang(name, n_pods, minimum=1, group={"queue": "small"})
    for each in pods:
        each["metadata"]["annotations"][QUEUE_GATE] = "true"
        each["spec"] |= {"schedulingGates": [{"name": gate} for gate in (QUEUE_GATE, *gates)], **spec}
    return [group, *pods]


def gates_of(kubectl: Kubectl) -> dict[str, list[str]]:
    """The gates of every pod that has some."""
    pods = kubectl.list("Pod")
    found = {pod["metadata"]["name"]: [gate["name"] for gate in pod["spec"].get("schedulingGates", [])] for pod in pods}
    return {name: gates for name, gates in found.items() if gates}


def small_queue() -> Json:
    room = {"cpu": "2", "nvidia.com/gpu": "2"}
    return queue("small", capability=room, deserved=room)


@pytest.mark.parametrize("config", [default_config(), profile("volcano")], ids=["muster", "volcano"])
def test_the_gate_goes_while_the_queue_has_room_and_stays_while_it_has_not(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, config: SchedulerConfig
) -> None:
    kubectl.create_all([queue("default"), small_queue(), node("n1"), *gated("a", 3)])
    with (
        account(control_plane, kubectl, tmp_path, scheduler_rules()) as limited,
        KubernetesCluster(limited.kubeconfig) as cluster,
    ):
        stage = Stage(cluster, kubectl, config)
        stage.run_until(lambda: sum(map(bool, kubectl.nodes_of_pods().values())) == 2)
        for _ in range(20):
            stage.run_once()
        ((waits, gates),) = gates_of(kubectl).items()
        assert gates == [QUEUE_GATE]
        (condition,) = kubectl.get("Pod", waits)["status"]["conditions"]
        assert condition["reason"] == "SchedulingGated"  # autoscalers leave such a pod alone
        kubectl.delete("Pod", "a-0" if waits != "a-0" else "a-1")
        stage.run_until(lambda: not gates_of(kubectl) and stage.is_bound(waits))


def test_a_pod_without_a_node_keeps_its_place_in_the_queue_and_other_gates_stay(
    cluster: KubernetesCluster, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), small_queue(), node("n1"), *gated("other", 1, OTHER)])
    kubectl.create_all(gated("lost", 2, nodeSelector={"such": "nowhere"}))
    stage = Stage(cluster, kubectl, profile("volcano"))
    stage.run_until(lambda: gates_of(kubectl) == {"other-0": [QUEUE_GATE, OTHER]})
    kubectl.create_all(gated("later", 1))
    kubectl.patch("Pod", "other-0", {"spec": {"schedulingGates": [{"name": QUEUE_GATE}]}})
    for _ in range(20):
        stage.run_once()
    assert set(gates_of(kubectl)) == {"other-0", "later-0"}
    for name in ("lost-0", "lost-1"):
        kubectl.delete("Pod", name, grace=0)
    stage.run_until(lambda: not gates_of(kubectl) and stage.is_bound("other-0", "later-0"))
