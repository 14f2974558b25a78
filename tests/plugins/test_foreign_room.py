"""What pods of other schedulers hold is not shared out among queues: shares, reclaim, and what is said about both."""

from __future__ import annotations

import pytest

from muster.api import KubeObject, Pod
from muster.cluster import MemoryCluster
from muster.explain import explain_job, explanation_lines
from muster.framework import PluginOption, SchedulerConfig, Session, parse_config, points
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot import Mirror
from muster.snapshot.messages import Bind, Decision, Evict
from muster.testing.builders import gang, node, pod, pod_group, queue
from tests.plugins.queue_stage import REGISTRY

OURS = "muster"
CONFIGS = {
    plugin: parse_config(
        f"""
actions: "allocate, reclaim"
tiers:
- plugins: [{{name: priority}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: {plugin}}}]
""",
        plugin,
    )
    for plugin in ("proportion", "capacity", "fairshare")
}


def ours(*objects: KubeObject) -> list[KubeObject]:
    for item in objects:
        if isinstance(item, Pod):
            item.spec.scheduler_name = OURS
    return list(objects)


def foreign(name: str, cpu: int, node_name: str = "n1") -> Pod:
    one = pod(name, cpu=cpu, node=node_name, phase="Running")
    one.spec.scheduler_name = "default-scheduler"
    return one


def running(name: str, queue_name: str, pods: int) -> list[KubeObject]:
    """A gang that may shrink to one pod, all of which runs."""
    members = [pod(f"{name}-{k}", group=name, cpu=1, node="n1", phase="Running") for k in range(pods)]
    return [pod_group(name, minimum=1, queue=queue_name, phase="Running"), *members]


def contested(queues: list[KubeObject], *, held_by_others: int) -> list[KubeObject]:
    """Eight CPUs: queue a has what others leave of them, and queue b wants two."""
    mine = ours(*running("old", "a", 8 - held_by_others), *gang("new", 2, queue="b", cpu=1))
    return [node("n1", cpu=8), *queues, *mine, foreign("system", held_by_others)]


def session(objects: list[KubeObject], plugin: str) -> Session:
    mirror = Mirror([OURS])
    for item in objects:
        mirror.upsert(item)
    return Session(mirror.snapshot(), SchedulerConfig((), ((PluginOption(plugin),),)), REGISTRY)


def test_proportion_divides_what_others_leave() -> None:
    stage = session(contested([queue("a"), queue("b")], held_by_others=4), "proportion")
    column = stage.snapshot.axis.index["cpu"]
    [ask] = stage.asked(points.QUEUE_DESERVED)
    said = {name: ask(row) for name, row in stage.snapshot.queues.index.items()}
    deserved = {name: int(amounts[column]) for name, amounts in said.items() if amounts is not None}
    assert deserved == {"a": 2000, "b": 2000}


def test_capacity_lets_no_queue_have_what_others_hold() -> None:
    stage = session(contested([queue("a"), queue("b")], held_by_others=3), "capacity")
    limits = stage.plugins["capacity"].limits  # type: ignore[attr-defined]
    assert limits[:, stage.snapshot.axis.index["cpu"]].tolist() == [5000, 5000]


@pytest.mark.parametrize("gone", ["elsewhere", "finished", "not ready"])
def test_only_pods_that_hold_something_here_count(gone: str) -> None:
    system = foreign("system", 4)
    if gone == "elsewhere":
        system.spec.node_name = ""
    elif gone == "finished":
        system.status.phase = "Succeeded"
    there = node("n2", cpu=8, ready=gone != "not ready")
    if gone == "not ready":
        system.spec.node_name = "n2"
    stage = session([node("n1", cpu=8), there, system], "proportion")
    assert (stage.shared_total == stage.total).all()


@pytest.mark.parametrize("plugin", ["proportion", "fairshare"])
def test_a_queue_gets_its_part_of_what_others_leave(plugin: str) -> None:
    """Without that, queue a would be entitled to all four CPUs that it holds, and b would wait for good."""
    cluster = MemoryCluster(contested([queue("a"), queue("b")], held_by_others=4))
    scheduler = Scheduler(cluster, CONFIGS[plugin], builtin_registry(third_party=False), scheduler_names=[OURS])
    made: list[Decision] = []
    for _ in range(5):
        made += scheduler.run_once().decisions
        cluster.advance_to(cluster.now() + 60)
    evicted = [decision.pod for decision in made if isinstance(decision, Evict)]
    assert len(evicted) == 2
    assert all(name.startswith("default/old-") for name in evicted)
    assert {decision.pod for decision in made if isinstance(decision, Bind)} == {"default/new-0", "default/new-1"}


def test_who_deserves_what_it_has_keeps_it_and_the_other_is_told() -> None:
    """Amounts that somebody wrote down are promises: they are not cut because others hold part of the cluster."""
    queues: list[KubeObject] = [queue("a", deserved={"cpu": 4}), queue("b", deserved={"cpu": 4})]
    cluster = MemoryCluster(contested(queues, held_by_others=4))
    scheduler = Scheduler(cluster, CONFIGS["capacity"], builtin_registry(third_party=False), scheduler_names=[OURS])
    assert scheduler.run_once().decisions == ()
    last = scheduler.last_session
    assert last is not None
    lines = explanation_lines(explain_job(last, last.snapshot.jobs.index["default/new"]))
    assert "  others    pods of other schedulers hold 4 CPUs, which queues do not share" in lines
    text = " ".join(" ".join(lines).split())
    assert "evictions none: no other queue has more than it is entitled to; reclaim: evicting those who may go" in text


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_job_that_waits_for_what_others_hold_is_let_in(plugin: str) -> None:
    """Others may leave and nodes may come; where nothing but its own queue's limit is in the way, it stays outside."""
    group = pod_group("large", minimum=1, queue="a", phase="Pending", min_resources={"cpu": 6})
    too_large = pod_group("too-large", minimum=1, queue="b", phase="Pending", min_resources={"cpu": 6})
    limited = queue("b", capability={"cpu": 4})
    stage = session([node("n1", cpu=8), queue("a"), limited, foreign("system", 4), group, too_large], plugin)
    row = {record.id: number for number, record in enumerate(stage.snapshot.jobs.records)}
    assert [stage.job_enqueueable(row[f"default/{name}"]) for name in ("large", "too-large")] == [True, False]
