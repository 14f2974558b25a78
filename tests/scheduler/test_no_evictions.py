"""What a waiting job says about evictions: in its PodGroup as in explanations, and no more often than needed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from muster.api import KubeObject, LabelSelector, ObjectMeta, PodDisruptionBudget, PodDisruptionBudgetSpec, PodGroup
from muster.cluster import MemoryCluster
from muster.explain import explain_job
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.scheduler.job_updates import NUMBERS_S
from muster.testing import gang, node, pod, pod_group, priority_class, queue

FIRM = {"volcano.sh/preemptable": "false"}


def cluster_of(*objects: KubeObject) -> MemoryCluster:
    given = [priority_class("low", 10), priority_class("high", 1000), *objects]
    return MemoryCluster(given, start=1000.0, delay=lambda _: 0.5)


def high() -> list[KubeObject]:
    return gang("high", 1, gpu=4, priority_class="high")


def after(cluster: MemoryCluster, profile_name: str, cycles: int) -> Scheduler:
    scheduler = Scheduler(cluster, profile(profile_name), builtin_registry(third_party=False))
    run(scheduler, cluster, cycles)
    return scheduler


def run(scheduler: Scheduler, cluster: MemoryCluster, cycles: int) -> None:
    for _ in range(cycles):
        scheduler.run_once()
        cluster.advance_to(cluster.now() + 1)


def runs(name: str, on: str, marks: Mapping[str, str] | None = None) -> list[KubeObject]:
    """A gang of one pod of low priority that holds four GPUs."""
    group = pod_group(name, minimum=1, phase="Running", priority_class="low")
    return [group, pod(f"{name}-0", group=name, gpu=4, node=on, priority=10, annotations=marks, labels={"app": name})]


def said(cluster: MemoryCluster, name: str) -> str:
    group = cluster.store.get(PodGroup, f"default/{name}")
    assert group is not None
    (condition,) = group.status.conditions
    assert condition.type == "Unschedulable"
    return condition.message


def explained(scheduler: Scheduler, name: str) -> str:
    session = scheduler.last_session
    assert session is not None
    return explain_job(session, session.snapshot.jobs.index[f"default/{name}"]).no_evictions


@pytest.mark.parametrize("profile_name", ["muster", "volcano", "kai"])
def test_a_group_says_what_stood_in_the_way_in_the_words_of_explanations(profile_name: str) -> None:
    cluster = cluster_of(node("n1", gpu=4), queue("default"), *runs("low", "n1", FIRM), *high())
    scheduler = after(cluster, profile_name, 3)
    why, _, evictions = said(cluster, "high").partition("; no evictions: ")
    assert why.startswith("insufficient-resources: ")
    assert "preempt: nobody may be evicted for it (default/low is not preemptible (1 pod))" in evictions
    assert explained(scheduler, "high").endswith(evictions)
    assert scheduler.run_once().updates == ()


def test_numbers_alone_are_no_news() -> None:
    halves = [pod(f"half-{k}", group="half", gpu=2, node="n1", priority=10, annotations=FIRM) for k in range(2)]
    half = pod_group("half", minimum=1, phase="Running", priority_class="low")
    cluster = cluster_of(
        node("n1", gpu=4), node("n2", gpu=4), queue("default"), *runs("low", "n2", FIRM), half, *halves, *high()
    )
    scheduler = after(cluster, "muster", 3)
    first = said(cluster, "high")
    assert "default/half, default/low are not preemptible (3 pods)" in first
    cluster.delete(halves[0])
    cluster.advance_to(cluster.now() + 60)
    updates = scheduler.run_once().updates
    assert "default/half, default/low are not preemptible (2 pods)" in explained(scheduler, "high")
    assert "default/high" not in [update.job for update in updates]
    assert said(cluster, "high") == first
    cluster.advance_to(cluster.now() + NUMBERS_S)
    assert [update.job for update in scheduler.run_once().updates] == ["default/high"], "old numbers are no numbers"
    assert "default/half, default/low are not preemptible (2 pods)" in said(cluster, "high")
    assert scheduler.run_once().updates == ()


@pytest.mark.parametrize("profile_name", ["muster", "volcano", "kai"])
def test_the_budget_that_stood_in_the_way_is_named(profile_name: str) -> None:
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="keep", namespace="default"),
        spec=PodDisruptionBudgetSpec(min_available=1, selector=LabelSelector(match_labels={"app": "low"})),
    )
    cluster = cluster_of(node("n1", gpu=4), queue("default"), *runs("low", "n1"), budget, *high())
    scheduler = after(cluster, profile_name, 3)
    assert "kept by PodDisruptionBudget default/keep" in explained(scheduler, "high")
    assert "kept by PodDisruptionBudget default/keep" in said(cluster, "high")


@pytest.mark.parametrize("profile_name", ["muster", "kai"])
def test_a_minimum_runtime_says_until_when(profile_name: str) -> None:
    safe = queue("default")
    safe = msgspec.structs.replace(
        safe,
        metadata=msgspec.structs.replace(safe.metadata, annotations={"muster.sh/preempt-min-runtime": "10m"}),
    )
    cluster = cluster_of(node("n1", gpu=4), safe, *gang("low", 1, gpu=4, priority_class="low"))
    scheduler = after(cluster, profile_name, 3)
    cluster.add(high())
    run(scheduler, cluster, 2)
    assert "default/low is kept by minruntime until 1970-01-01T00:26:4" in explained(scheduler, "high")
    assert "default/low is kept by minruntime until 1970-01-01T00:26:4" in said(cluster, "high")
    assert scheduler.run_once().updates == ()


def test_kai_s_way_says_it_of_those_too_whom_an_easier_job_s_failure_rules_out() -> None:
    """And of moving others, that there is not room enough in all."""
    both = [*high(), *gang("higher", 1, gpu=4, priority_class="high")]
    cluster = cluster_of(node("n1", gpu=4), queue("default"), *runs("low", "n1", FIRM), *both)
    scheduler = after(cluster, "kai", 2)
    told = [explained(scheduler, name) for name in ("high", "higher")]
    assert all(
        "consolidation: moving others would not make room for it (4 nvidia.com/gpu asked for, 0 free" in one
        for one in told
    )
    assert sum("preempt: nobody may be evicted for it (as for default/high" in one for one in told) == 1
