"""What one scheduler leaves behind, the next one takes up, whatever the first was doing when it died."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from muster.cluster.kubernetes import KubernetesCluster, LeaseOptions
from muster.framework import find_config
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import invariants
from tests.kubernetes.invariants import n_promised
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, priority_class, queue
from tests.kubernetes.proxy import FaultyProxy, Rule
from tests.kubernetes.stage import Stage

CONFIG = find_config("muster")


class Mortal(KubernetesCluster):
    """A backend that can die: from one moment to the next it writes nothing any more."""

    def die(self) -> None:
        self._api.client.write_seconds = lambda: 0.0


Doomed = Callable[[Rule], AbstractContextManager[Mortal]]
Successor = Callable[[], AbstractContextManager[KubernetesCluster]]


@pytest.fixture
def doomed(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> Doomed:
    """A scheduler behind a proxy, dead when the block is left."""

    @contextmanager
    def connect(rule: Rule) -> Iterator[Mortal]:
        kubectl.close()
        with FaultyProxy(control_plane, tmp_path, rule) as proxy, Mortal(proxy.kubeconfig) as cluster:
            yield cluster
            cluster.die()

    return connect


@pytest.fixture
def successor(control_plane: ControlPlane, kubectl: Kubectl) -> Successor:
    """Connects the scheduler that comes next."""

    def connect() -> KubernetesCluster:
        kubectl.close()
        return KubernetesCluster(control_plane.kubeconfig, takes_over_from=["volcano"], half_bound_s=1.0)

    return connect


def only_first(n_allowed: int, ending: str) -> Rule:
    """Lets so many requests of a kind through, and puts the others off."""
    passed: set[str] = set()

    def rule(_method: str, path: str) -> int:
        if not path.endswith(ending):
            return 0
        if len(passed) < n_allowed:
            passed.add(path)
        return 0 if path in passed else 429

    return rule


def uids(kubectl: Kubectl, prefix: str) -> set[str]:
    return {each["metadata"]["uid"] for each in kubectl.list("Pod") if each["metadata"]["name"].startswith(prefix)}


def ranked(name: str, rank: str) -> list[Json]:
    documents = list(gang(name, 2, group={"priorityClassName": rank}))
    for document in documents[1:]:
        document["spec"]["priorityClassName"] = rank
    return documents


# -- evictions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_evicted", [0, 1])
def test_the_leader_dies_between_the_promise_and_the_last_eviction(
    doomed: Doomed, successor: Successor, kubectl: Kubectl, n_evicted: int
) -> None:
    kubectl.create_all([queue("default"), priority_class("low", 1), priority_class("high", 9)])
    kubectl.create_all([node("n1", gpu=2), node("n2", gpu=2), *ranked("a", "low"), *ranked("b", "low")])
    with doomed(only_first(n_evicted, "/eviction")) as cluster:
        stage = Stage(cluster, kubectl, CONFIG)
        stage.run_until(lambda: all(each["status"]["phase"] == "Running" for each in kubectl.list("Pod")))
        before = uids(kubectl, "a-") | uids(kubectl, "b-")
        kubectl.create_all(ranked("new", "high"))
        stage.run_until(lambda: len(kubectl.list("Pod")) == 6 - n_evicted and n_promised(kubectl) == 2)
    with successor() as cluster:
        stage = Stage(cluster, kubectl, CONFIG)
        stage.run_until(lambda: stage.is_bound("new-0", "new-1"))
        stage.run_until(lambda: not n_promised(kubectl))
    assert len(before - (uids(kubectl, "a-") | uids(kubectl, "b-"))) == 2
    invariants.check(kubectl)


# -- gangs that were being bound -------------------------------------------------------------------------------


def leave_half_bound(doomed: Doomed, kubectl: Kubectl) -> None:
    """A gang of four for two nodes, of which only two are bound when the scheduler dies."""
    kubectl.create_all([queue("default"), node("n1", gpu=2), node("n2", gpu=2), *gang("train", 4)])
    with doomed(only_first(2, "/binding")) as cluster:
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: sum(map(bool, kubectl.nodes_of_pods().values())) == 2)


def test_a_gang_left_half_bound_is_completed(doomed: Doomed, successor: Successor, kubectl: Kubectl) -> None:
    leave_half_bound(doomed, kubectl)
    before = uids(kubectl, "train")
    with successor() as cluster:
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: all(kubectl.nodes_of_pods().values()))
        for _ in range(30):
            stage.run_once()
            cluster.wait(0.1)
    assert uids(kubectl, "train") == before
    invariants.check(kubectl)


def test_a_gang_left_half_bound_that_cannot_be_completed_is_undone(
    doomed: Doomed, successor: Successor, kubectl: Kubectl
) -> None:
    leave_half_bound(doomed, kubectl)
    for name in ("n1", "n2"):
        free = 2 - list(kubectl.nodes_of_pods().values()).count(name)
        if free:
            kubectl.create(pod(f"other-{name}", gpu=free, schedulerName="default-scheduler", nodeName=name))
    with successor() as cluster:
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: len(uids(kubectl, "train")) == 2)
    assert {where for name, where in kubectl.nodes_of_pods().items() if name.startswith("train")} == {""}


def test_a_gang_that_lost_a_pod_is_not_undone_by_a_restart(successor: Successor, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), *gang("train", 2)])
    with successor() as cluster:
        Stage(cluster, kubectl).run_until(lambda: all(kubectl.nodes_of_pods().values()))
    kubectl.delete("Pod", "train-1", grace=0)
    kubectl.wait(lambda: len(kubectl.list("Pod")) == 1)
    kubectl.create(pod("other", gpu=1, schedulerName="default-scheduler", nodeName="n1"))
    time.sleep(1.1)  # stamps are whole seconds, and the new pod must be younger than the bond of the other
    kubectl.create(pod("train-1", group="train"))
    with successor() as cluster:
        stage = Stage(cluster, kubectl)
        for _ in range(20):
            stage.run_once()
            cluster.wait(0.1)
    assert kubectl.nodes_of_pods() == {"train-0": "n1", "train-1": "", "other": "n1"}


# -- leases ----------------------------------------------------------------------------------------------------


def test_a_new_leader_decides_nothing_before_it_has_seen_what_the_old_one_did(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    def candidate(name: str) -> LeaseOptions:
        return LeaseOptions("default", "handover", name, duration_s=2, renewal_s=0.4)

    def holder() -> str:
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/handover"
        return str(kubectl.request("GET", path)["spec"].get("holderIdentity", ""))

    kubectl.create_all([queue("default"), node("n1", gpu=2)])
    kubectl.close()
    with (
        FaultyProxy(control_plane, tmp_path) as proxy,
        KubernetesCluster(control_plane.kubeconfig, lease=candidate("first")) as first,
    ):
        kubectl.wait(first.is_leader)
        with KubernetesCluster(proxy.kubeconfig, lease=candidate("second")) as second:
            later = Stage(second, kubectl)
            with proxy.hold_watches():
                kubectl.create_all(gang("train", 2))
                stage = Stage(first, kubectl)
                stage.run_until(lambda: stage.is_bound("train-0", "train-1"))
                first.stop()
                kubectl.wait(lambda: holder() == "second")
                assert later.scheduler.observe().tasks.ids == []
                assert not second.is_leader()
            kubectl.wait(second.is_leader)
            seen = later.scheduler.observe()
            assert sorted(seen.tasks.ids) == ["default/train-0", "default/train-1"]
            assert set(seen.tasks.node.tolist()) == {0}
