"""Pods that have just started are not evicted."""

from __future__ import annotations

import logging

import msgspec
import pytest

from muster.api import Condition, Pod
from muster.engine.evictions.candidates import Pool
from muster.framework import Eviction
from muster.testing.builders import moment, node, pod, pod_group
from tests.plugins.queue_stage import Stage

NOW = 1000.0
COOLDOWN = "volcano.sh/cooldown-time"


def started(name: str, ago: float, cooldown: str = "", *, label: str = "", scheduled: bool = True) -> Pod:
    """A running pod that got its node, or just started, some seconds ago."""
    made = pod(
        name,
        group="g",
        node="n1",
        annotations={COOLDOWN: cooldown} if cooldown else {},
        labels={COOLDOWN: label} if label else {},
    )
    when = moment(NOW - ago)
    condition = Condition(type="PodScheduled", status="True", last_transition_time=when)
    status = msgspec.structs.replace(
        made.status, conditions=[condition] if scheduled else [], start_time=None if scheduled else when
    )
    return msgspec.structs.replace(made, status=status)


def stage_of(*pods: Pod) -> Stage:
    return Stage("cdp", [node("n1"), pod_group("g"), *pods, pod("p")], now=NOW)


def victims(stage: Stage, *names: str) -> list[str]:
    """What every kind of eviction by tasks is left with; all must agree."""
    offered, asker = stage.tasks(*names), stage.task("p")
    answers = [
        stage.evictable(Eviction.PREEMPT, asker, offered),
        stage.evictable(Eviction.RECLAIM, asker, offered),
        stage.evictable(Eviction.CONSOLIDATE, asker, offered, breaks_gangs=True),
    ]
    found = [stage.names(answer) for answer in answers]
    assert found[0] == found[1] == found[2]
    return found[0]


@pytest.mark.parametrize(("ago", "gone"), [(0, []), (599, []), (600, ["v"]), (800, ["v"])])
@pytest.mark.parametrize("scheduled", [True, False])
def test_a_pod_is_protected_until_its_cooldown_is_over(ago: float, gone: list[str], scheduled: bool) -> None:
    assert victims(stage_of(started("v", ago, "600s", scheduled=scheduled)), "v") == gone


def test_pods_without_a_cooldown_or_a_start_are_not_protected() -> None:
    never = pod("b", group="g", node="n1", annotations={COOLDOWN: "1h"})
    assert victims(stage_of(started("a", 0), never), "a", "b") == ["a", "b"]


def test_a_pod_that_does_not_run_yet_is_not_protected() -> None:
    waiting = msgspec.structs.replace(started("v", 0, "600s"))
    bound = msgspec.structs.replace(waiting, status=msgspec.structs.replace(waiting.status, phase="Pending"))
    assert victims(stage_of(bound), "v") == ["v"]


def test_the_label_counts_before_the_annotation() -> None:
    assert victims(stage_of(started("v", 100, "600s", label="10s")), "v") == ["v"]


def test_a_cooldown_that_cannot_be_read_protects_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert victims(stage_of(started("odd", 0, "600abcde")), "odd") == ["odd"]
    assert caplog.text.count("default/odd") == 1
    assert COOLDOWN in caplog.text


def test_a_gang_gives_only_what_it_can_spare_while_one_of_its_pods_is_protected() -> None:
    stage = stage_of(started("a", 800, "600s"), started("b", 100, "600s"))
    # Both pods are the minimum.
    stage.snapshot.jobs.min_member[stage.job("g")] = 2
    assert Pool(stage.session, Eviction.CONSOLIDATE).find(stage.job("pod/p")).tasks.tolist() == []


def test_the_session_is_told_when_the_next_protection_ends() -> None:
    stage = stage_of(started("a", 100, "600s"), started("b", 200, "600s"))
    assert stage.session.due is None
    assert victims(stage, "a", "b") == []
    assert stage.session.due == NOW + 400
