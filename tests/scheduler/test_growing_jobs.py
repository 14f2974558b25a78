"""Pods beyond a gang's minimum that find no place say so, as autoscalers look for it; their gang runs all the same."""

from __future__ import annotations

import pytest

from muster.api import KubeObject, Pod, PodGroup, waits_for
from muster.cluster import MemoryCluster
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import node, pod, pod_group, queue


def scheduler_of(config: str, *objects: KubeObject) -> tuple[Scheduler, MemoryCluster]:
    cluster = MemoryCluster([queue("default"), *objects], start=100.0)
    return Scheduler(cluster, profile(config), builtin_registry(third_party=False)), cluster


def settled(scheduler: Scheduler) -> list[tuple[str, bool, str | None]]:
    """What was written about jobs, until there is nothing more to say."""
    told: list[tuple[str, bool, str | None]] = []
    for _ in range(6):
        updates = scheduler.run_once().updates
        told += [(update.job, update.has_group, update.unschedulable) for update in updates]
    assert updates == ()
    return told


def waiting(cluster: MemoryCluster) -> list[str]:
    return sorted(each.name for each in cluster.store.all(Pod) if waits_for(each, "insufficient-resources"))


@pytest.mark.parametrize("config", ["muster", "kai", "volcano"])
def test_who_finds_no_place_beyond_the_minimum_says_so_once(config: str) -> None:
    pods = [pod(f"g-{number}", gpu=1, group="g") for number in range(4)]
    scheduler, cluster = scheduler_of(config, node("n", gpu=2), pod_group("g", minimum=1, phase="Inqueue"), *pods)
    told = settled(scheduler)
    assert told.count(("default/g", False, "insufficient-resources")) == 1
    assert waiting(cluster) == ["g-2", "g-3"]
    group = cluster.store.get(PodGroup, "default/g")
    assert group is not None
    assert group.status.phase == "Running"
    assert [known.type for known in group.status.conditions] == ["Scheduled"]


def test_a_pod_that_joins_later_is_told_too_and_one_that_finds_room_is_not() -> None:
    pods = [pod(f"g-{number}", gpu=1, group="g") for number in range(3)]
    scheduler, cluster = scheduler_of("muster", node("n", gpu=2), pod_group("g", minimum=1, phase="Inqueue"), *pods)
    settled(scheduler)
    cluster.add([pod("g-3", gpu=1, group="g")])
    settled(scheduler)
    assert waiting(cluster) == ["g-2", "g-3"]
    cluster.add([node("other", gpu=2), pod("g-4", gpu=1, group="g")])
    settled(scheduler)
    assert [each.name for each in cluster.store.all(Pod) if not each.spec.node_name] == ["g-4"]
