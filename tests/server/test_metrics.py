from __future__ import annotations

from pathlib import Path

from muster.framework import PluginOption, SchedulerConfig, Session
from muster.scheduler import CycleResult
from muster.server.metrics import Metrics
from muster.snapshot import Mirror
from muster.snapshot.decisions import Evict
from muster.testing import gang, node, pod, pod_group, queue
from tests.plugins.queue_stage import REGISTRY

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "how-to" / "install.md", DOCS / "coming-from-volcano.md")


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


def test_every_metric_is_documented() -> None:
    metrics = Metrics()
    metrics.record_leadership(is_leader=True)
    metrics.record_session(session("capacity"))
    names = {line.split()[2] for line in lines(metrics) if line.startswith("# TYPE ")}
    assert {"muster_pods", "volcano_queue_deserved_milli_cpu"} <= names
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in sorted(names) if f"`{name}" not in text] == []
