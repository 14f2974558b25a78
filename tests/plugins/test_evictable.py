"""What plugins say about victims for whole gangs: asked once, about many candidates, in the order of taking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.framework import Eviction
from muster.testing.builders import gang, node, pod, pod_group, priority_class, queue
from tests.plugins.queue_stage import Stage, running
from tests.plugins.test_pdb import budget

BOTH = list(Eviction)


def evictable(stage: Stage, kind: Eviction, *names: str) -> list[str] | None:
    answer = stage.evictable(kind, stage.task("new-0"), stage.tasks(*names), breaks_gangs=True)
    return None if answer is None else stage.names(answer)


def objects(*more: KubeObject, **request: Any) -> list[KubeObject]:
    return [node("n1", cpu=100), *gang("new", 1, queue="mine", priority_class="high", **request), *more]


@pytest.mark.parametrize("kind", BOTH)
def test_gangs_may_go_whole(kind: Eviction) -> None:
    stage = Stage("gang", objects(queue("mine"), *running("old", "mine", minimum=1, cpu=1)))
    assert evictable(stage, kind, "old-0") == ["old-0"]


@pytest.mark.parametrize("kind", BOTH)
def test_critical_pods_stay(kind: Eviction) -> None:
    critical = pod("dns", namespace="kube-system", node="n1", cpu=1)
    stage = Stage("conformance", objects(queue("mine"), critical, *running("old", "mine", cpu=1)))
    assert evictable(stage, kind, "kube-system/dns", "old-0") == ["old-0"]


def test_priority_counts_inside_a_queue_only() -> None:
    classes = [priority_class("high", 10), priority_class("low", 1)]
    old = [
        item
        for name in ("low", "high")
        for item in (
            pod_group(f"{name}-old", queue="mine", priority_class=name, phase="Running"),
            pod(f"{name}-0", group=f"{name}-old", node="n1", cpu=1),
        )
    ]
    stage = Stage("priority", objects(queue("mine"), *classes, *old))
    assert evictable(stage, Eviction.PREEMPT, "low-0", "high-0") == ["low-0"]
    assert evictable(stage, Eviction.RECLAIM, "low-0", "high-0") is None


def test_budgets_are_used_up_in_order() -> None:
    web = [pod(f"p{k}", node="n1", cpu=1, labels={"app": "web"}) for k in range(3)]
    stage = Stage("pdb", objects(queue("mine"), budget(allowed=2), *web))
    for kind in BOTH:
        assert evictable(stage, kind, "p2", "p0", "p1") == ["p2", "p0"]


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_shares_have_no_say_inside_a_queue(plugin: str) -> None:
    stage = Stage(plugin, objects(queue("mine"), *running("old", "mine", cpu=1), cpu=1))
    assert evictable(stage, Eviction.PREEMPT, "old-0") is None


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 9)), min_size=1, max_size=12), st.integers(0, 40))
def test_many_at_once_are_judged_like_one_after_the_other(
    plugin: str, held: list[tuple[str, int]], deserved: int
) -> None:
    """Whether gangs may be broken makes no difference to what a queue deserves."""
    queues = [queue("mine", deserved={"cpu": 50}), *(queue(name, deserved={"cpu": deserved}) for name in "ab")]
    old = [item for k, (owner, cpu) in enumerate(held) for item in running(f"j{k}", owner, cpu=cpu)]
    stage = Stage(plugin, objects(*queues, *old, cpu=30))
    candidates = stage.tasks(*(f"j{k}-0" for k in range(len(held))))
    together = stage.evictable(Eviction.RECLAIM, stage.task("new-0"), candidates, breaks_gangs=True)
    one_by_one = stage.evictable(Eviction.RECLAIM, stage.task("new-0"), candidates)
    assert np.array_equal(together, one_by_one)
