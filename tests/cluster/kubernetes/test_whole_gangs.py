"""Which gangs have enough pods on nodes, and which were left half bound by a scheduler that died."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.api import (
    Condition,
    KaiPodGroup,
    KaiPodGroupSpec,
    KaiSubGroup,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
)
from muster.api.names import KAI_SUBGROUP
from muster.cluster.kubernetes.verbs.evictions import DisruptionBudgets
from muster.cluster.kubernetes.verbs.partial_gangs import RECENT_SECONDS, is_whole, left_behind
from muster.snapshot.messages import Event
from muster.testing import pod, pod_group

#: When pods were bound.
BOUND = 1000.0
GROUP = pod_group("g", minimum=3)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def bound(name: str, *, at: float = BOUND, phase: str = "Running", role: str = "") -> Pod:
    plain = pod(name, group="g", node="n", phase=phase, role=role, created=at - 50)
    told = Condition(type="PodScheduled", status="True", last_transition_time=moment(at))
    return replace(
        plain, metadata=replace(plain.metadata, uid=f"u-{name}"), status=replace(plain.status, conditions=[told])
    )


def waiting(name: str, *, created: float = BOUND - 50) -> Pod:
    return pod(name, group="g", created=created)


def test_a_gang_that_was_being_bound_is_left_behind() -> None:
    members = [bound("a"), bound("b"), waiting("c")]
    assert left_behind(GROUP, members, BOUND + 60) == {"default/a": "u-a", "default/b": "u-b"}


@pytest.mark.parametrize(
    "members",
    [
        [bound("a"), bound("b"), bound("c")],
        [waiting("a"), waiting("b"), waiting("c")],
        [bound("a"), bound("b"), waiting("c", created=BOUND + 1)],
        [bound("a"), bound("b")],
        [bound("a"), bound("b"), bound("c", phase="Succeeded"), waiting("d")],
    ],
    ids=["whole", "not begun", "lost a pod, made anew since", "lost a pod for good", "finishing"],
)
def test_other_gangs_are_not(members: list[Pod]) -> None:
    assert left_behind(GROUP, members, BOUND + 60) == {}


def test_what_happened_long_ago_is_nobodys_fault_any_more() -> None:
    members = [bound("a"), waiting("b"), waiting("c")]
    assert left_behind(GROUP, members, BOUND + RECENT_SECONDS)
    assert left_behind(GROUP, members, BOUND + RECENT_SECONDS + 1) == {}


def test_a_gang_needs_the_minimum_of_every_role() -> None:
    group = pod_group("g", minimum=2, roles={"lead": 1, "work": 1})
    assert not is_whole(group, [bound("a", role="work"), bound("b", role="work")])
    assert is_whole(group, [bound("a", role="work"), bound("b", role="lead")])


def test_a_gang_of_kai_needs_the_minimum_of_every_pod_set() -> None:
    parts = [KaiSubGroup(name="all"), KaiSubGroup(name="work", min_member=2, parent="all")]
    group = KaiPodGroup(metadata=ObjectMeta(name="g"), spec=KaiPodGroupSpec(min_member=2, sub_groups=parts))
    workers = [pod(f"w-{k}", node="n", labels={KAI_SUBGROUP: "work"}) for k in range(2)]
    assert is_whole(group, workers)
    assert not is_whole(group, [workers[0], pod("other", node="n")])


def test_pods_that_leave_or_failed_do_not_count() -> None:
    leaving = bound("a")
    leaving = replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp=moment(BOUND)))
    assert not is_whole(GROUP, [leaving, bound("b"), bound("c")])
    assert not is_whole(GROUP, [bound("a", phase="Failed"), bound("b"), bound("c")])


def test_pods_are_guarded_by_budgets_of_their_namespace_while_they_exist() -> None:
    budgets = DisruptionBudgets()
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "x"})),
    )
    budgets.observe(Event("ADDED", budget))
    assert budgets.of(pod("p", labels={"app": "x"})) == ["default/b"]
    assert budgets.of(pod("p", labels={"app": "y"})) == []
    assert budgets.of(pod("p", namespace="other", labels={"app": "x"})) == []
    budgets.observe(Event("DELETED", budget))
    assert budgets.of(pod("p", labels={"app": "x"})) == []
