from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from muster.api import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from muster.framework import Eviction
from muster.plugins.protection.pdb import disruptions_allowed, victims
from muster.testing.builders import node, pod
from tests.plugins.queue_stage import Stage, leaving


def budget(
    name: str = "b", *, allowed: int | None = None, namespace: str = "default", **spec: Any
) -> PodDisruptionBudget:
    fields = {"selector": LabelSelector(match_labels={"app": "web"}), **spec}
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(**fields),
        status=None if allowed is None else PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def web(number: int, **labels: str) -> Pod:
    return pod(f"p{number}", node="n1", labels={"app": "web", **labels})


@pytest.mark.parametrize(
    ("budgets", "positions"),
    [
        pytest.param([], [0, 1, 2], id="no budget"),
        pytest.param([budget(allowed=0)], [], id="nothing may go"),
        pytest.param([budget(allowed=2)], [0, 1], id="the first ones may go"),
        pytest.param([budget(allowed=0, namespace="other")], [0, 1, 2], id="another namespace"),
        pytest.param([budget(allowed=0, selector=None)], [0, 1, 2], id="no selector selects nothing"),
        pytest.param([budget(allowed=1, selector=LabelSelector())], [0], id="an empty one selects all"),
        pytest.param([budget("b", allowed=2), budget("c", allowed=1)], [], id="the eviction API refuses pods of two"),
    ],
)
def test_victims_stay_within_the_budgets(budgets: list[PodDisruptionBudget], positions: list[int]) -> None:
    assert victims(budgets, [web(0), web(1), web(2)]) == positions


def test_a_pod_without_labels_is_protected_by_nobody() -> None:
    assert victims([budget(allowed=0)], [pod("p", node="n1")]) == [0]


def test_a_budget_is_not_charged_for_a_pod_that_another_one_protects() -> None:
    strict = budget("strict", allowed=0, selector=LabelSelector(match_labels={"tier": "gold"}))
    pods = [web(0, tier="gold"), web(1)]
    assert victims([budget(allowed=1), strict], pods) == [1]


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"min_available": 3}, 1),
        ({"min_available": "50%"}, 1),
        ({"max_unavailable": 2}, 1),
        ({"max_unavailable": "0%"}, -1),
        ({"min_available": "all"}, -1),
        ({}, 3),
    ],
)
def test_without_a_status_the_allowance_follows_from_the_pods(spec: dict[str, Any], allowed: int) -> None:
    # Five pods are meant to run: four do, one is pending; one that is done does not count.
    pods = [web(0), web(1), web(2), web(3), pod("p4", labels={"app": "web"})]
    pods.append(pod("p5", node="n1", phase="Succeeded", labels={"app": "web"}))
    assert disruptions_allowed(budget(**spec), pods) == allowed


def test_what_was_evicted_in_the_session_is_charged() -> None:
    stage = Stage("pdb", [node("n1"), web(0), web(1), web(2), pod("x"), budget(allowed=2)])
    offered = stage.tasks("p1", "p2")
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("x"), offered)) == ["p1", "p2"]
    stage.session.statement().evict(stage.tasks("p0"))
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("x"), offered)) == ["p1"]


def test_pods_that_were_leaving_before_are_not_charged() -> None:
    stage = Stage("pdb", [node("n1"), leaving(web(0)), web(1), pod("x"), budget(allowed=1)])
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("x"), stage.tasks("p1"))) == ["p1"]


def test_without_budgets_everybody_may_go() -> None:
    stage = Stage("pdb", [node("n1"), web(0), pod("x")])
    offered = stage.tasks("p0")
    assert np.array_equal(stage.evictable(Eviction.PREEMPT, stage.task("x"), offered), offered)
