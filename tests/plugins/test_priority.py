from __future__ import annotations

import pytest

from muster.api import SubGroupPolicy
from muster.framework import Eviction
from muster.testing.builders import gang, node, pod, pod_group, priority_class
from tests.plugins.queue_stage import Stage, running

CLASSES = [priority_class("high", 100), priority_class("low", 1)]


def test_jobs_with_higher_priority_go_first() -> None:
    stage = Stage("priority", [*CLASSES, *gang("a", 1), *gang("b", 1, priority_class="high")])
    assert stage.plugin.job_order(stage.job("b")) < stage.plugin.job_order(stage.job("a"))


def test_tasks_with_higher_priority_go_first() -> None:
    members = [pod(f"j-{number}", group="j", priority=value) for number, value in enumerate((5, 9, 7))]
    stage = Stage("priority", [pod_group("j"), *members])
    ordered = stage.session.sort_tasks(stage.tasks("j-0", "j-1", "j-2"))
    assert stage.names(ordered) == ["j-1", "j-2", "j-0"]


def test_sub_groups_go_by_the_highest_priority_of_their_tasks() -> None:
    policy = SubGroupPolicy(name="w", match_label_keys=["part"])
    group = pod_group("j")
    group.spec.sub_group_policy = [policy]
    members = [
        pod(f"j-{number}", group="j", priority=value, labels={"part": part})
        for number, (part, value) in enumerate([("2", 5), ("10", 1), ("10", 9)])
    ]
    stage = Stage("priority", [group, *members])
    table = stage.session.snapshot.subgroups
    ordered = sorted(range(len(table)), key=stage.session.subgroup_key)
    assert [table.names[row] for row in ordered] == ["default/j/w-10", "default/j/w-2"]


def test_extreme_priorities_keep_their_order() -> None:
    lowest, highest = -(2**31), 2**31 - 1
    members = [pod("j-0", group="j", priority=lowest), pod("j-1", group="j", priority=highest)]
    stage = Stage("priority", [pod_group("j"), *members])
    assert stage.names(stage.session.sort_tasks(stage.tasks("j-0", "j-1"))) == ["j-1", "j-0"]


@pytest.mark.parametrize(("node_of_second", "starving"), [("", True), ("n1", False)])
def test_a_job_starves_while_tasks_have_no_place(node_of_second: str, starving: bool) -> None:
    members = [pod("j-0", group="j", node="n1"), pod("j-1", group="j", node=node_of_second)]
    stage = Stage("priority", [node("n1"), pod_group("j"), *members])
    assert stage.session.job_starving(stage.job("j")) is starving


def test_only_lower_priority_can_be_preempted() -> None:
    groups = [pod_group(name, priority_class=name) for name in ("high", "low")]
    members = [
        pod("high-0", group="high", priority=5),
        pod("high-1", group="high", node="n1", priority=4),
        pod("high-2", group="high", node="n1", priority=5),
        # A task's own priority does not protect it from another job.
        pod("low-0", group="low", node="n1", priority=9),
    ]
    stage = Stage("priority", [node("n1"), *CLASSES, *groups, *members])
    offered = stage.tasks("high-1", "high-2", "low-0")
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("high-0"), offered)) == ["high-1", "low-0"]


def test_equal_priority_is_safe() -> None:
    stage = Stage("priority", [node("n1"), *running("a", "default"), *gang("b", 1)])
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("b-0"), stage.tasks("a-0"))) == []
