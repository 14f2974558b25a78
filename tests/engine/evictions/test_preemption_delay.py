"""A preemption delay: pods that wait for free room for a while before anybody is evicted for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from muster.api import KaiPodGroup, KubeObject, Pod, load_text
from muster.api.names import KAI_PREEMPTION_DELAY
from muster.engine.evictions.restraint import why_wait
from muster.framework import Session
from muster.snapshot import Mirror
from muster.snapshot.records import job_from_pod
from muster.testing import node, pod, queue
from muster.testing.scenario import load_scenario, run_scenario
from tests.engine.evictions.eviction_stage import REGISTRY, configured

SCENARIO = Path(__file__).parents[2] / "scenarios" / "a-preemption-delay-is-waited-for.yaml"


@pytest.mark.parametrize("profile", ["muster", "kai", "volcano"])
def test_every_strategy_waits(profile: str) -> None:
    scenario = load_scenario(SCENARIO)
    assert run_scenario(replace(scenario, config=profile)) == []


def opened(now: float, *pods: Pod) -> tuple[Session, Mirror]:
    mirror = Mirror()
    things: list[KubeObject] = [queue("default"), node("n", gpu=8), *pods]
    for thing in things:
        mirror.upsert(thing)
    return Session(mirror.snapshot(), configured("allocate, preempt"), REGISTRY, now=now), mirror


def test_the_time_begins_with_the_pod_and_a_cycle_comes_when_it_is_over() -> None:
    late = pod("late", gpu=1, created=100.0, annotations={KAI_PREEMPTION_DELAY: "1m"})
    session, _ = opened(110.0, late)
    refusal = why_wait(session, 0, session.snapshot.tasks_of(0))
    assert refusal is not None
    assert (refusal.reason.code, refusal.detail) == ("preemption-delay", "50 of 60 s are left")
    assert session.due == 160.0
    session, _ = opened(160.0, late)
    assert why_wait(session, 0, session.snapshot.tasks_of(0)) is None
    assert session.due is None


@pytest.mark.parametrize("text", ["", "soon", "-5s", "0s"])
def test_what_is_no_time_to_wait_is_none(text: str) -> None:
    assert job_from_pod(pod("p", annotations={KAI_PREEMPTION_DELAY: text})).preemption_delay == 0


def test_a_podgroup_says_it_in_a_field_or_an_annotation() -> None:
    text = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g, namespace: default, annotations: {kai.scheduler/preemption-delay: 30s}}
spec: {minMember: 1, queue: default}
"""
    [annotated] = load_text(text).objects
    [said] = load_text(text.replace("minMember: 1", "minMember: 1, preemptionDelay: 1m")).objects
    delays = []
    for group in (annotated, said):
        assert isinstance(group, KaiPodGroup)
        mirror = Mirror()
        mirror.upsert(group)
        delays.append(mirror.snapshot().jobs.records[0].preemption_delay)
    assert delays == [30, 60]
