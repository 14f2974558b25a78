"""Guaranteed runtimes from the first bind to the eviction: the stamp, the wait, and what explain says meanwhile."""

from __future__ import annotations

import pytest

from muster.cluster import parse_timeline
from muster.explain import explain_job, explanation_lines, find_job
from muster.framework import SchedulerConfig, parse_config
from muster.simulate import SimulationResult, simulate
from muster.snapshot.messages import Evict
from muster.testing import gang, node, priority_class, queue

LATER = """
- at: 10s
  add:
  - {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: new, namespace: default},
     spec: {minMember: 1, queue: default, priorityClassName: high}}
  - {apiVersion: v1, kind: Pod,
     metadata: {name: new-0, namespace: default, annotations: {scheduling.k8s.io/group-name: new}},
     spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {nvidia.com/gpu: 8}}}]}}
"""


def config(action: str, arguments: str = "{}") -> SchedulerConfig:
    return parse_config(
        f"""
actions: "allocate, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}, {{name: predicates}}]
- plugins: [{{name: minruntime, arguments: {{defaultPreemptMinRuntime: 2m, defaultReclaimMinRuntime: 5m}}}}]
configurations: [{{name: {action}, arguments: {arguments}}}]
""",
        "test",
    )


def run(chosen: SchedulerConfig, until: float | None = None) -> SimulationResult:
    """A gang fills the cluster at once; ten seconds later a job of higher priority wants all of it."""
    objects = [queue("default"), queue("other"), priority_class("high", 1000), node("n", gpu=8), *gang("old", 4, gpu=2)]
    return simulate(objects, chosen, timeline=parse_timeline(LATER, "timeline.yaml"), until=until)


def evictions(result: SimulationResult) -> list[tuple[float, str]]:
    return [
        (cycle.time - result.start, made.pod)
        for cycle in result.cycles
        for made in cycle.decisions
        if isinstance(made, Evict)
    ]


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("gangpreempt", "{}"),
        ("preempt", "{gangAwareEnable: true}"),
        ("preempt", "{strategy: solver}"),
        ("preempt", "{}"),
    ],
)
def test_every_strategy_waits_until_the_gang_has_had_its_time(action: str, arguments: str) -> None:
    gone = evictions(run(config(action, arguments)))
    assert sorted(pod for _, pod in gone) == [f"default/old-{k}" for k in range(4)]
    assert {at for at, _ in gone} == {120.0}


def test_explain_says_for_how_long_a_gang_is_protected_and_from_whom() -> None:
    result = run(config("gangpreempt"), until=30.0)
    session = result.last_session
    assert session is not None
    found = explain_job(session, find_job(session.snapshot, "default/old"), result.start + 30)
    assert (
        "  protected from jobs of its own queue for 1m 30s and from jobs of queue other for 4m 30s"
        in explanation_lines(found)
    )
    assert found.to_json()["protected"] == [
        {"ownQueue": True, "queues": [], "secondsLeft": 90.0},
        {"ownQueue": False, "queues": ["other"], "secondsLeft": 270.0},
    ]


def test_a_gang_that_waits_is_not_protected() -> None:
    result = run(config("gangpreempt"), until=30.0)
    session = result.last_session
    assert session is not None
    assert explain_job(session, find_job(session.snapshot, "default/new")).shields == ()
