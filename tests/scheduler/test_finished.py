"""Finished pods that nobody has cleaned up cost a cycle nothing, because they are not in its picture."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from muster.api import Pod, PodGroup
from muster.cluster.memory import MemoryCluster
from muster.framework import default_config
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import node, pod, pod_group, queue


def finished(phase: str, n_gangs: int) -> list[Pod | PodGroup]:
    objects: list[Pod | PodGroup] = [pod(f"lone-{i}", cpu=1, node="n1", phase=phase) for i in range(n_gangs)]
    for i in range(n_gangs):
        objects.append(pod_group(f"g{i}", minimum=2))
        objects += [pod(f"g{i}-{k}", group=f"g{i}", cpu=1, node="n1", phase=phase) for k in range(2)]
    objects += [pod(f"orphan-{i}", group=f"lost-{i}", cpu=1, node="n1", phase=phase) for i in range(n_gangs)]
    return objects


def started(*objects: Pod | PodGroup, keeps_finished: bool = False) -> Scheduler:
    cluster = MemoryCluster([queue("default"), node("n1", cpu=8), *objects], as_is=True)
    return Scheduler(cluster, default_config(), builtin_registry(), keeps_finished=keeps_finished)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_cycle_sees_what_has_not_finished(phase: str) -> None:
    running = pod("runs", cpu=1, node="n1")
    scheduler = started(running, *finished(phase, 5))
    for _ in range(4):
        result = scheduler.run_once()
        assert result.error is None
    assert result.is_quiet
    picture = scheduler.observe()
    assert picture.tasks.ids == ["default/runs"]
    assert len(picture.jobs) == 1


def test_the_status_of_a_gang_is_written_before_it_is_put_away() -> None:
    scheduler = started(*finished("Succeeded", 1))
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    for _ in range(4):
        scheduler.run_once()
    group = cluster.store.get(PodGroup, "default/g0")
    assert group is not None
    assert (group.status.phase, group.status.succeeded) == ("Completed", 2)


def test_a_gang_that_changes_afterwards_is_written_again() -> None:
    objects = finished("Succeeded", 1)
    scheduler = started(*objects)
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    for _ in range(4):
        scheduler.run_once()
    one = next(thing for thing in objects if thing.name == "g0-0")
    assert isinstance(one, Pod)
    cluster.store.put(replace(one, status=replace(one.status, phase="Failed")))
    for _ in range(4):
        scheduler.run_once()
    group = cluster.store.get(PodGroup, "default/g0")
    assert group is not None
    assert (group.status.succeeded, group.status.failed) == (1, 1)
    assert len(scheduler.observe().tasks) == 0, "and it is put away again"


def test_who_reports_on_finished_jobs_keeps_them() -> None:
    scheduler = started(*finished("Succeeded", 3), keeps_finished=True)
    for _ in range(3):
        scheduler.run_once()
    assert len(scheduler.observe().jobs) == 9
