"""What goes wrong in the middle of something; afterwards all that fits runs, and nobody left for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from muster.api.names import START_STAMP
from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import find_config
from muster.snapshot.messages import Bind, Evict, Failure
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import invariants
from tests.kubernetes.invariants import n_promised
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, priority_class, queue
from tests.kubernetes.owners import Owners
from tests.kubernetes.plays import Connect
from tests.kubernetes.stage import Stage
from tests.kubernetes.test_evictions import budget, ranked_gang

CONFIG = find_config("muster")
CLASSES = [priority_class("high", 9), priority_class("low", 1)]
#: After so many cycles everything that fits must run.
BOUND = 60


def run_cycles(stage: Stage, n_cycles: int) -> None:
    """Run cycles at the pace of a server that has something to do."""
    for _ in range(n_cycles):
        stage.run_once()
        stage.cluster.wait(0.1)


def evicted(stage: Stage) -> list[str]:
    made = (decision for result in stage.results for decision in result.decisions)
    return sorted(decision.job for decision in made if isinstance(decision, Evict))


def is_running(kubectl: Kubectl, prefix: str, n_pods: int) -> bool:
    pods = [each for each in kubectl.list("Pod") if each["metadata"]["name"].startswith(prefix)]
    return len(pods) == n_pods and all(each["status"]["phase"] == "Running" for each in pods)


def test_the_node_goes_that_a_gang_was_promised(
    cluster: KubernetesCluster, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=2), node("n2", gpu=2)])
    kubectl.create_all([*ranked_gang("a", 2, "low"), *ranked_gang("b", 2, "low")])
    stage = Stage(cluster, kubectl, CONFIG)
    stage.run_until(lambda: is_running(kubectl, "a-", 2) and is_running(kubectl, "b-", 2))
    with control_plane.without_kubelets():  # those who are asked to leave stay for now
        kubectl.create_all(ranked_gang("new", 2, "high"))
        stage.run_until(lambda: n_promised(kubectl) == 2)
        gone = kubectl.get("Pod", "new-0")["status"]["nominatedNodeName"]
        kubectl.delete("Node", gone)
        Owners(kubectl, cluster.now).take_a_turn()
        run_cycles(stage, 3)
    stage.run_until(lambda: is_running(kubectl, "new-", 2))
    assert {where for name, where in kubectl.nodes_of_pods().items() if name.startswith("new")} == {"n1", "n2"} - {gone}
    assert not n_promised(kubectl)
    invariants.check(kubectl)


class Interrupted(KubernetesCluster):
    """A backend during whose first bind somebody deletes a pod."""

    def __init__(self, plane: ControlPlane, kubectl: Kubectl, victim: str) -> None:
        super().__init__(plane.kubeconfig, half_bound_s=1.0)
        self._kubectl = kubectl
        self._victim = victim

    def bind(self, decisions: Sequence[Bind]) -> list[Failure]:
        if self._victim and any(made.pod.endswith(self._victim) for made in decisions):
            self._kubectl.delete("Pod", self._victim, grace=0)
            self._victim = ""
        return super().bind(decisions)


@pytest.fixture
def interrupted(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[Interrupted]:
    kubectl.close()
    with Interrupted(control_plane, kubectl, "train-2") as connected:
        yield connected


def test_a_pod_deleted_while_its_gang_is_bound_leaves_no_half_gang(interrupted: Interrupted, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 4)])
    stage = Stage(interrupted, kubectl)
    stage.run_until(lambda: not any(kubectl.nodes_of_pods().values()) and not kubectl.list("Pod"))
    kubectl.create_all(gang("train", 4)[1:])
    stage.run_until(lambda: is_running(kubectl, "train-", 4))
    invariants.check(kubectl)


def test_a_pod_deleted_while_its_gang_is_bound_and_made_anew_completes_it(
    interrupted: Interrupted, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 4)])
    stage = Stage(interrupted, kubectl)
    stage.run_until(lambda: len(kubectl.list("Pod")) == 3)
    kubectl.create(pod("train-2", group="train"))
    stage.run_until(lambda: is_running(kubectl, "train-", 4))
    run_cycles(stage, 15)  # longer than half a gang would have been left alone
    assert is_running(kubectl, "train-", 4)
    assert evicted(stage) == []


def start_of(kubectl: Kubectl, name: str) -> str:
    """When a gang became complete, as its PodGroup says; "" before it is written."""
    marks: Json = kubectl.get("PodGroup", name)["metadata"].get("annotations", {})
    return str(marks.get(START_STAMP, ""))


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_jumps_evicts_nobody_and_stops_nothing(jump: float, connect: Connect, kubectl: Kubectl) -> None:
    with connect() as cluster:
        kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=4), *gang("first", 2)])
        stage = Stage(cluster, kubectl, CONFIG)
        stage.run_until(lambda: is_running(kubectl, "first-", 2) and start_of(kubectl, "first"))
        started = start_of(kubectl, "first")
        cluster.clock.jump(jump)
        kubectl.create_all(gang("second", 2))
        stage.run_until(lambda: is_running(kubectl, "second-", 2))
        cluster.clock.jump(-jump)
        run_cycles(stage, 5)
        assert evicted(stage) == []
        assert start_of(kubectl, "first") == started
        kubectl.create_all(ranked_gang("urgent", 2, "high"))
        stage.run_until(lambda: is_running(kubectl, "urgent-", 2))
    invariants.check(kubectl)


@pytest.fixture
def impatient(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[KubernetesCluster]:
    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig, eviction_patience_s=0.3) as connected:
        yield connected


def guard(kubectl: Kubectl, name: str) -> None:
    """A budget that claims to allow disruptions, and of which the server says that its count is out of date."""
    kubectl.create(budget(name, {"gang": name}))
    counted = {"disruptionsAllowed": 5, "currentHealthy": 5, "desiredHealthy": 0, "expectedPods": 5}
    kubectl.patch("PodDisruptionBudget", name, {"status": {**counted, "observedGeneration": 0}}, status=True)


def test_a_budget_that_never_yields_keeps_its_pods_and_nobody_else_leaves_for_nothing(
    impatient: KubernetesCluster, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=2), *ranked_gang("a", 1, "low")])
    kubectl.create_all(ranked_gang("b", 1, "low"))
    guard(kubectl, "a")
    stage = Stage(impatient, kubectl, CONFIG)
    stage.run_until(lambda: is_running(kubectl, "a-", 1) and is_running(kubectl, "b-", 1))
    before = {each["metadata"]["uid"] for each in kubectl.list("Pod")}
    kubectl.create_all(ranked_gang("new", 2, "high"))  # needs the room of both
    run_cycles(stage, BOUND)
    after = [each for each in kubectl.list("Pod") if each["metadata"]["uid"] in before]
    assert "default/a" in evicted(stage)  # it was tried
    assert len(after) == 2
    assert not any("deletionTimestamp" in each["metadata"] for each in after)
    kubectl.delete("PodDisruptionBudget", "a")
    stage.run_until(lambda: is_running(kubectl, "new-", 2))
    invariants.check(kubectl)
