"""PodGroups come before their pods: controllers make those only when the phase says that the job was let in."""

from __future__ import annotations

import pytest

from muster.api import KubeObject, PodGroup
from muster.cluster import MemoryCluster
from muster.explain import explain_job
from muster.framework import SchedulerConfig, parse_config, profile
from muster.framework.profiles import PROFILES
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import node, pod, pod_group, queue

PLAIN = parse_config('actions: "allocate, backfill"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]', "t")
LIMITED = parse_config('actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}, {name: proportion}]}]', "t")
CONFIGS = [*(pytest.param(profile(name), id=name) for name in PROFILES), pytest.param(PLAIN, id="plain")]


def scheduler_of(config: SchedulerConfig, *objects: KubeObject) -> Scheduler:
    return Scheduler(MemoryCluster(objects, start=100.0), config, builtin_registry())


def cluster_of(scheduler: Scheduler) -> MemoryCluster:
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    return cluster


def group_of(scheduler: Scheduler, name: str) -> PodGroup:
    found = cluster_of(scheduler).store.get(PodGroup, f"default/{name}")
    assert found is not None
    return found


@pytest.mark.parametrize("config", CONFIGS)
def test_a_group_without_pods_is_let_in_and_its_pods_are_placed_when_they_come(config: SchedulerConfig) -> None:
    scheduler = scheduler_of(config, node("n1", gpu=8), pod_group("g", minimum=2))
    scheduler.run_once()
    assert group_of(scheduler, "g").status.phase == "Inqueue"
    assert not any(known.type == "Unschedulable" for known in group_of(scheduler, "g").status.conditions)
    assert scheduler.run_once().is_quiet
    cluster_of(scheduler).add([pod(f"g-{number}", group="g", gpu=1) for number in range(2)])
    assert [made.pod for made in scheduler.run_once().decisions] == ["default/g-0", "default/g-1"]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_group_whose_queue_is_missing_says_so_and_is_let_in_when_it_comes(config: SchedulerConfig) -> None:
    scheduler = scheduler_of(config, node("n1", gpu=8), pod_group("g", minimum=2, queue="nowhere"))
    scheduler.run_once()
    status = group_of(scheduler, "g").status
    said = [(known.type, known.reason) for known in status.conditions]
    assert (status.phase, said) == ("Pending", [("Unschedulable", "queue-missing")])
    assert scheduler.run_once().is_quiet
    cluster_of(scheduler).add([queue("nowhere")])
    scheduler.run_once()
    assert group_of(scheduler, "g").status.phase == "Inqueue"
    assert group_of(scheduler, "g").status.conditions == []


def test_a_group_without_pods_that_enqueue_refuses_says_what_refused_it() -> None:
    full = queue("full", capability={"cpu": 1})
    waits = pod_group("g", minimum=1, queue="full", min_resources={"cpu": 4})
    scheduler = scheduler_of(LIMITED, node("n1", cpu=8), full, waits)
    scheduler.run_once()
    status = group_of(scheduler, "g").status
    (said,) = status.conditions
    assert (status.phase, said.type, said.reason) == ("Pending", "Unschedulable", "NotEnoughResources")
    session = scheduler.last_session
    assert session is not None
    explained = explain_job(session, session.snapshot.jobs.index["default/g"])
    assert explained.code == "not-admitted"
    assert explained.detail in said.message
    assert "queue full: insufficient cpu: 0 of 1 taken, 4 wanted" in explained.detail


def test_a_closed_queue_lets_nobody_in() -> None:
    shut = queue("shut")
    shut.status.state = "Closed"
    scheduler = scheduler_of(profile("muster"), node("n1"), shut, pod_group("g", queue="shut"))
    scheduler.run_once()
    status = group_of(scheduler, "g").status
    assert (status.phase, [known.reason for known in status.conditions]) == ("Pending", ["queue-closed"])


def test_evicting_alone_lets_nobody_in() -> None:
    config = parse_config('actions: "preempt"\ntiers: [{plugins: [{name: gang}]}]', "t")
    scheduler = scheduler_of(config, node("n1"), pod_group("g"))
    scheduler.run_once()
    assert group_of(scheduler, "g").status.phase == "Pending"
