from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import invariants
from tests.kubernetes.kubectl import Kubectl, gang, node, pod, queue
from tests.kubernetes.proxy import RESET, SWALLOW, FaultyProxy, Rule, let_through
from tests.kubernetes.stage import Stage

Faulty = Callable[[Rule | None], AbstractContextManager[tuple[FaultyProxy, KubernetesCluster]]]


@pytest.fixture
def through_a_proxy(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> Faulty:
    @contextmanager
    def connect(rule: Rule | None) -> Iterator[tuple[FaultyProxy, KubernetesCluster]]:
        kubectl.close()
        with (
            FaultyProxy(control_plane, tmp_path, rule) as proxy,
            KubernetesCluster(proxy.kubeconfig, confirm_s=1.0, half_bound_s=1.0) as cluster,
        ):
            yield proxy, cluster

    return connect


def fill(kubectl: Kubectl, n_gangs: int, size: int) -> None:
    kubectl.create_all([queue("default"), *(node(f"n{number}", gpu=8) for number in range(4))])
    for number in range(n_gangs):
        kubectl.create_all(gang(f"g{number}", size))


def test_the_api_server_is_killed_in_mid_bind(
    cluster: KubernetesCluster, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    fill(kubectl, 8, 4)
    stage = Stage(cluster, kubectl)
    kubectl.wait(lambda: stage.run_once().decisions)
    control_plane.api_server.kill()
    stage.run_once()
    control_plane.start_api_server()
    kubectl.close()
    stage.run_until(lambda: all(kubectl.nodes_of_pods().values()), seconds=40)
    invariants.check(kubectl)


def test_watches_that_are_cut_are_taken_up_where_they_stopped(through_a_proxy: Faulty, kubectl: Kubectl) -> None:
    with through_a_proxy(None) as (proxy, cluster):
        stage = Stage(cluster, kubectl)
        fill(kubectl, 0, 0)
        for number in range(3):
            proxy.cut_watches()
            kubectl.create_all(gang(f"g{number}", 2))
            stage.run_until(lambda: all(kubectl.nodes_of_pods().values()))
        invariants.check(kubectl)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_server_that_fails_at_random_costs_time_only(through_a_proxy: Faulty, kubectl: Kubectl, seed: int) -> None:
    chance = random.Random(seed)

    def rule(method: str, _path: str) -> int:
        if method == "GET" and chance.random() < 0.9:
            return 0
        return chance.choice([0, 0, 409, 429, 500, RESET, SWALLOW])

    with through_a_proxy(rule) as (_, cluster):
        stage = Stage(cluster, kubectl)
        fill(kubectl, 6, 4)
        stage.run_until(lambda: all(kubectl.nodes_of_pods().values()), seconds=60)
        invariants.check(kubectl)


def test_a_gang_that_cannot_be_completed_is_undone(through_a_proxy: Faulty, kubectl: Kubectl) -> None:
    def rule(_method: str, path: str) -> int:
        return 403 if path.endswith("/pods/train-3/binding") else 0

    with through_a_proxy(rule) as (proxy, cluster):
        stage = Stage(cluster, kubectl)
        kubectl.create_all([queue("default"), node("n1"), *gang("train", 4)])
        stage.run_until(lambda: len(kubectl.list("Pod")) == 1)
        proxy.refuse = let_through
        assert kubectl.nodes_of_pods() == {"train-3": ""}
        kubectl.create_all(gang("train", 3)[1:])
        stage.run_until(lambda: all(kubectl.nodes_of_pods().values()))


def test_pods_deleted_in_mid_cycle_do_no_harm(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    fill(kubectl, 2, 4)
    stage = Stage(cluster, kubectl)
    kubectl.wait(lambda: len(stage.scheduler.observe().tasks.ids) == 8)
    kubectl.delete("Pod", "g0-1", grace=0)
    stage.run_until(lambda: stage.is_bound("g1-0", "g1-1", "g1-2", "g1-3"))
    kubectl.create(pod("g0-1", group="g0"))
    stage.run_until(lambda: all(kubectl.nodes_of_pods().values()))
    invariants.check(kubectl)


def test_a_thousand_invalid_objects_hide_nobody(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    for number in range(1000):
        # Of the right form, so that the server takes it, and yet impossible to read.
        kubectl.create(gang(f"bad{number}", 1, group={"minResources": {"cpu": "1e999"}})[0])
    kubectl.create_all(gang("good", 2))
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: stage.is_bound("good-0", "good-1"))
