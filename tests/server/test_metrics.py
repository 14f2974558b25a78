from __future__ import annotations

import re

import pytest

from muster.api import KubeObject
from muster.cluster import MemoryCluster
from muster.explain import QueueOverview, queue_overview
from muster.framework import PluginOption, SchedulerConfig, Session, profile
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from muster.server.metric_table import FAMILIES
from muster.server.metrics import Metrics
from muster.snapshot import Mirror
from muster.snapshot.messages import Evict
from muster.testing import gang, node, pod, pod_group, priority_class, queue
from tests.plugins.queue_stage import REGISTRY


def lines(metrics: Metrics) -> list[str]:
    return metrics.text().splitlines()


def test_what_the_api_server_refused_is_counted_by_kind_from_zero() -> None:
    metrics = Metrics()
    assert 'muster_api_refusals_total{kind="bind"} 0' in lines(metrics)
    metrics.record_refusals({"bind": 3, "status": 1})
    assert 'muster_api_refusals_total{kind="bind"} 3' in lines(metrics)
    assert 'muster_api_refusals_total{kind="status"} 1' in lines(metrics)
    assert 'muster_api_refusals_total{kind="evict"} 0' in lines(metrics)


def evicting(*pairs: tuple[str, str]) -> CycleResult:
    """A cycle in which actions evicted for jobs."""
    made = [Evict(f"default/p{k}", "n", "default/j", job, f"{action}: x") for k, (action, job) in enumerate(pairs)]
    return CycleResult(1, 0.0, tuple(made), (), ())


def session(plugin: str) -> Session:
    """Two CPUs: queue a holds one and asks for two more, queue b is idle and may hold one GPU."""
    mirror = Mirror()
    for item in (
        node("n1", cpu=2, gpu=4),
        queue("a", weight=3),
        queue("b", capability={"gpu": 1}),
        pod_group("old", queue="a", phase="Running"),
        pod("old-0", group="old", cpu=1, gpu=2, node="n1", phase="Running"),
        *gang("new", 2, queue="a", cpu=1),
    ):
        mirror.upsert(item)
    return Session(mirror.snapshot(), SchedulerConfig((), ((PluginOption("gang"), PluginOption(plugin)),)), REGISTRY)


def test_volcanos_names_tell_the_same_as_ours() -> None:
    metrics = Metrics()
    metrics.record_cycle(evicting(("preempt", "x"), ("preempt", "x"), ("preempt", "y"), ("reclaim", "x")), 0.03)
    metrics.record_session(session("proportion"))
    found = lines(metrics)
    assert 'volcano_e2e_scheduling_latency_milliseconds_bucket{le="25"} 0' in found
    assert 'volcano_e2e_scheduling_latency_milliseconds_bucket{le="50"} 1' in found
    assert "volcano_e2e_scheduling_latency_milliseconds_sum 30.000000" in found
    assert 'volcano_eviction_transactions_total{action="preempt"} 2' in found
    assert 'volcano_eviction_transactions_total{action="reclaim"} 1' in found
    assert "volcano_unschedule_job_count 1" in found
    assert 'volcano_queue_allocated_milli_cpu{queue_name="a"} 1000' in found
    assert 'volcano_queue_allocated_scalar_resources{queue_name="a",resource="nvidia.com/gpu"} 2000' in found
    assert 'volcano_queue_request_milli_cpu{queue_name="a"} 3000' in found
    assert 'volcano_queue_deserved_milli_cpu{queue_name="a"} 2000' in found
    assert 'volcano_queue_capacity_scalar_resources{queue_name="b",resource="nvidia.com/gpu"} 1000' in found
    assert not any(line.startswith("volcano_queue_capacity_milli_cpu{") for line in found)
    assert 'volcano_queue_share{queue_name="a"} 1' in found
    assert 'volcano_queue_weight{queue_name="a"} 3' in found
    assert 'volcano_queue_overused{queue_name="b"} 1' in found


def test_every_metric_has_one_head() -> None:
    metrics = Metrics()
    metrics.record_session(session("fairshare"))
    heads = [line for line in lines(metrics) if line.startswith("# TYPE ")]
    assert len(heads) == len(set(heads))


def test_the_table_has_every_metric_that_is_served_and_no_other() -> None:
    metrics = Metrics()
    metrics.record_leadership(is_leader=True)
    metrics.record_waiting(1.0)
    metrics.record_session(session("capacity"))
    served = {line.split()[2] for line in lines(metrics) if line.startswith("# TYPE ")}
    assert served == set(FAMILIES)
    for name, labels in re.findall(r"^(\w+)\{(.*)\} \S+$", metrics.text(), re.MULTILINE):
        family = FAMILIES.get(name) or FAMILIES[re.sub("_(bucket|sum|count)$", "", name)]
        found = tuple(re.findall(r'(\w+)="', labels))
        assert found == (*family.labels, *(("le",) if name.endswith("_bucket") else ())), name


def test_how_queues_stand_is_told_in_units_that_people_use() -> None:
    metrics = Metrics()
    metrics.record_session(session("proportion"))
    found = lines(metrics)
    assert 'muster_queue_held{queue="a",resource="cpu"} 1' in found
    assert 'muster_queue_asked{queue="a",resource="cpu"} 3' in found
    assert 'muster_queue_held{queue="a",resource="nvidia.com/gpu"} 2' in found
    assert 'muster_queue_limit{queue="b",resource="nvidia.com/gpu"} 1' in found
    assert 'muster_queue_fair_share{queue="a",resource="cpu"} 2' in found
    assert not any(line.startswith("muster_queue_quota{") for line in found), "nobody was promised anything"
    assert [line for line in found if line.startswith("muster_waiting_jobs{")] == [
        'muster_waiting_jobs{queue="a",reason="not-admitted"} 1'
    ]


def test_queues_are_looked_at_once_for_each_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Session] = []

    def look(seen: Session) -> QueueOverview:
        looks.append(seen)
        return queue_overview(seen)

    monkeypatch.setattr("muster.server.metrics.queue_overview", look)
    metrics = Metrics()
    for _ in range(2):
        metrics.record_session(last := session("proportion"))
    assert looks == [], "nobody has asked"
    for _ in range(2):
        metrics.text()
    assert looks == [last], "as they were at the end of the last cycle, however long ago that is"


def test_queues_that_cannot_be_told_cost_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Session) -> QueueOverview:
        raise RuntimeError("no")

    monkeypatch.setattr("muster.server.metrics.queue_overview", fail)
    metrics = Metrics()
    metrics.record_session(session("proportion"))
    assert "muster_nodes 1" in lines(metrics)


def test_requests_are_timed_by_method() -> None:
    metrics = Metrics()
    metrics.record_request("POST", 0.03)
    metrics.record_request("GET", 0.3)
    found = lines(metrics)
    assert 'muster_api_request_seconds_bucket{method="POST",le="0.025"} 0' in found
    assert 'muster_api_request_seconds_bucket{method="POST",le="0.05"} 1' in found
    assert 'muster_api_request_seconds_count{method="GET"} 1' in found
    assert 'muster_api_request_seconds_sum{method="GET"} 0.300000' in found


def scheduling(profile_name: str, *objects: KubeObject) -> tuple[Scheduler, MemoryCluster]:
    cluster = MemoryCluster(objects, start=100.0, delay=lambda _: 0.5)
    return Scheduler(cluster, profile(profile_name), builtin_registry(third_party=False)), cluster


def full_node(minimum: int = 2) -> list[KubeObject]:
    """A node that a gang of low priority fills, and one of high priority that waits."""
    low = pod_group("low", minimum=minimum, phase="Running", priority_class="low")
    return [
        priority_class("low", 10),
        priority_class("high", 1000),
        node("n1", cpu=64, gpu=8),
        queue("default"),
        low,
        *(pod(f"low-{k}", group="low", cpu=1, gpu=4, node="n1", phase="Running", priority=10) for k in range(2)),
        *gang("high", 1, cpu=1, gpu=4, priority_class="high"),
    ]


def cycles(metrics: Metrics, scheduler: Scheduler, cluster: MemoryCluster, count: int) -> None:
    for _ in range(count):
        metrics.record_cycle(scheduler.run_once(), 0.01)
        assert scheduler.last_session is not None
        metrics.record_session(scheduler.last_session)
        cluster.advance_to(cluster.now() + 1)


@pytest.mark.parametrize(
    ("profile_name", "action", "reason"),
    [("muster", "gangpreempt", "safe"), ("volcano", "preempt", "node"), ("kai", "preempt", "scenario")],
)
def test_what_evicting_came_to_is_counted(profile_name: str, action: str, reason: str) -> None:
    metrics = Metrics()
    cycles(metrics, *scheduling(profile_name, *full_node(minimum=1)), 5)
    found = lines(metrics)
    assert f'muster_eviction_attempts_total{{action="{action}",outcome="made-room"}} 1' in found
    assert f'muster_eviction_victims_total{{action="{action}",reason="{reason}"}} 1' in found
    assert "muster_evictions_in_vain_total 0" in found
    tried = [line for line in found if line.startswith(f'muster_eviction_dry_runs_total{{action="{action}"}}')]
    assert len(tried) == 1
    assert int(tried[0].split()[-1]) >= 1
    assert f'muster_eviction_searches_cut_short_total{{action="{action}"}} 0' in found
    took = [float(line.split()[-1]) for line in found if line.startswith("muster_action_seconds_total{")]
    assert len(took) == len(profile(profile_name).actions)
    assert min(took) > 0


@pytest.mark.parametrize("profile_name", ["muster", "volcano", "kai"])
def test_who_went_for_a_job_that_lost_its_promise_went_in_vain(profile_name: str) -> None:
    metrics = Metrics()
    scheduler, cluster = scheduling(profile_name, *full_node(minimum=1))
    cycles(metrics, scheduler, cluster, 1)
    cluster.replace_object(node("n1", cpu=64, gpu=8, unschedulable=True))
    cycles(metrics, scheduler, cluster, 3)
    assert "muster_evictions_in_vain_total 1" in lines(metrics)


def test_nobody_went_in_vain_who_stayed_or_whose_beneficiary_was_deleted() -> None:
    metrics = Metrics()
    metrics.record_cycle(
        CycleResult(1, 0.0, (Evict("default/old-0", "n1", "default/old", "default/new", "x: y"),), (), ()), 0
    )
    metrics.record_cycle(
        CycleResult(2, 0.0, (Evict("default/z", "n1", "default/old", "default/gone", "x: y"),), (), ()), 0
    )
    metrics.record_session(session("proportion"))
    assert "muster_evictions_in_vain_total 0" in lines(metrics)
