"""Pods without a PodGroup say themselves what they wait for."""

from muster.api import KubeObject, Pod, Queue, waits_for
from muster.cluster import MemoryCluster
from muster.framework import parse_config
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import node, pod

CONFIG = parse_config('actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]', "test")


def scheduler_of(*objects: KubeObject) -> tuple[Scheduler, MemoryCluster]:
    cluster = MemoryCluster(objects, start=100.0)
    return Scheduler(cluster, CONFIG, builtin_registry()), cluster


def test_a_lone_pod_that_waits_is_told_why_once() -> None:
    scheduler, cluster = scheduler_of(node("n1", gpu=1), pod("large", gpu=2), pod("small", gpu=1))
    first = scheduler.run_once()
    assert [(update.job, update.has_group, update.unschedulable) for update in first.updates] == [
        ("default/pod/large", False, "node-too-small")
    ]
    large = cluster.store.get(Pod, "default/large")
    assert large is not None
    assert waits_for(large, "node-too-small")
    assert not waits_for(large, "node-too")
    assert scheduler.run_once().updates == ()


def test_pods_whose_group_is_missing_are_all_told() -> None:
    scheduler, cluster = scheduler_of(node("n1", gpu=8), pod("a", gpu=1, group="gone"), pod("b", gpu=1, group="gone"))
    [update] = scheduler.run_once().updates
    assert (update.job, update.has_group) == ("default/gone", False)
    assert update.unschedulable is not None
    assert all(waits_for(known, update.unschedulable) for known in cluster.store.all(Pod))
    assert scheduler.run_once().updates == ()


def test_another_reason_is_told_anew() -> None:
    scheduler, cluster = scheduler_of(node("n1", gpu=1), pod("large", gpu=2))
    [first] = scheduler.run_once().updates
    gone = cluster.store.get(Queue, "default")
    assert gone is not None
    cluster.delete(gone)
    [second] = scheduler.run_once().updates
    assert (first.unschedulable, second.unschedulable) == ("node-too-small", "queue-missing")
    large = cluster.store.get(Pod, "default/large")
    assert large is not None
    assert [known.message for known in large.status.conditions] == [second.message]


def test_room_is_only_blamed_where_a_node_would_take_the_pod() -> None:
    nodes = [node("n1", gpu=1), node("n2", gpu=1, labels={"pool": "a"})]
    scheduler, _ = scheduler_of(
        *nodes, pod("p", gpu=2, selector={"pool": "a"}), pod("q", gpu=1, selector={"pool": "b"})
    )
    assert {update.job: update.unschedulable for update in scheduler.run_once().updates} == {
        "default/pod/p": "node-too-small",
        "default/pod/q": "node-selector",
    }
