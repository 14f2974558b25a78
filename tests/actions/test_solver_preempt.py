"""Preempt by scenarios: inside a queue, gangs of higher priority take from those of lower priority, unit by unit."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import KubeObject, Pod, SubGroupPolicy
from muster.framework import Session
from muster.framework.reasons import NO_ROOM_BY_EVICTION
from muster.scheduler.decisions import decisions_of
from muster.testing import node, pod, pod_group
from tests.engine.evictions.eviction_stage import never_preempting
from tests.engine.evictions.solver.solver_stage import (
    act,
    evicted,
    gang,
    gone,
    kai,
    kai_queue,
    moved,
    nodes,
    promised,
    reason,
)
from tests.plugins.test_pdb import budget

QUEUES: list[KubeObject] = [kai_queue("q", gpu=(4, -1, 1)), kai_queue("other", gpu=(4, -1, 1))]


def preempt(*objects: KubeObject, plugins: Any = None, **arguments: Any) -> Session:
    return act([*QUEUES, *objects], kai("preempt", plugins=plugins, preempt=arguments))


def test_a_gang_of_higher_priority_takes_the_place_of_a_lower_one() -> None:
    session = preempt(
        *nodes(1, gpu=2), *gang("old", on=["n0", "n0"], priority="low"), *gang("new", pending=2, priority="high")
    )
    assert evicted(session) == ["old-0", "old-1"]
    assert promised(session) == {"new-0": "n0", "new-1": "n0"}


@pytest.mark.parametrize("old", [{"priority": "high"}, {"queue": "other"}, {"firm": True}])
def test_equals_other_queues_and_jobs_that_are_not_preemptible_are_left_alone(old: dict[str, Any]) -> None:
    standing = {"priority": "low", **old}
    session = preempt(*nodes(1, gpu=1), *gang("old", on=["n0"], **standing), *gang("new", pending=1, priority="high"))
    assert session.committed == []


def test_the_lowest_priority_goes_first_and_the_youngest_of_equals() -> None:
    objects = [
        *nodes(1, gpu=4),
        *gang("mid", on=["n0"], priority="mid", created=9),
        *gang("older", on=["n0"], priority="low", created=1),
        *gang("younger", on=["n0"], priority="low", created=2),
        *gang("high", on=["n0"], priority="high"),
    ]
    assert evicted(preempt(*objects, *gang("new", pending=1, priority="high"))) == ["younger-0"]
    assert evicted(preempt(*objects, *gang("new", pending=2, priority="high"))) == ["older-0", "younger-0"]
    assert evicted(preempt(*objects, *gang("new", pending=3, priority="high"))) == ["mid-0", "older-0", "younger-0"]
    assert preempt(*objects, *gang("new", pending=4, priority="high")).committed == []


def test_an_elastic_gang_shrinks_to_its_minimum_before_it_goes_whole() -> None:
    wide = gang("wide", on=["n0"] * 4, minimum=2, priority="low")

    def taken(pods: int) -> list[str]:
        return evicted(preempt(*nodes(1, gpu=4), *wide, *gang("new", pending=pods, priority="high")))

    assert taken(1) == ["wide-3"]
    assert taken(2) == ["wide-2", "wide-3"]
    assert taken(3) == ["wide-0", "wide-1", "wide-2", "wide-3"]


def test_pod_sets_shrink_to_their_own_minimums() -> None:
    wide = gang("wide", sets={"a": (1, ["n0", "n0"], 0), "b": (2, ["n0", "n0", "n0"], 0)}, priority="low")
    objects = [*nodes(1, gpu=5), *wide]
    assert evicted(preempt(*objects, *gang("new", pending=2, priority="high"))) == ["wide-a-1", "wide-b-2"]
    assert len(evicted(preempt(*objects, *gang("new", pending=3, priority="high")))) == 5


def test_a_gang_that_has_its_minimum_grows_by_one_pod_at_the_cost_of_others() -> None:
    objects = [
        *nodes(1, gpu=3),
        *gang("wide", on=["n0"], pending=2, minimum=1, priority="high"),
        *gang("a", on=["n0"], priority="low"),
        *gang("b", on=["n0"], priority="low"),
    ]
    assert evicted(preempt(*objects)) == ["b-0"]


def test_a_gang_below_its_minimum_gets_all_that_is_missing_or_nothing() -> None:
    pair = gang("pair", pending=4, minimum=2, priority="high")
    assert len(evicted(preempt(*nodes(1, gpu=2), *gang("old", on=["n0"] * 2, priority="low"), *pair))) == 2
    assert preempt(*nodes(1, gpu=1), *gang("old", on=["n0"], priority="low"), *pair).committed == []


def test_pod_sets_get_their_minimums_together() -> None:
    new = gang("new", sets={"a": (1, [], 2), "b": (2, [], 2)}, priority="high")
    old = [item for k in range(4) for item in gang(f"old{k}", on=["n0"], priority="low")]
    session = preempt(*nodes(1, gpu=4), *old, *new)
    assert promised(session).keys() == {"new-a-0", "new-b-0", "new-b-1"}
    assert len(evicted(session)) == 3


def test_a_victim_that_fits_elsewhere_moves_instead_of_losing_its_place() -> None:
    objects = [
        *nodes(2, gpu=4),
        *gang("a", on=["n0"], gpu=2, priority="low"),
        *gang("b", on=["n1"], gpu=2, priority="low"),
    ]
    session = preempt(*objects, *gang("new", pending=1, gpu=4, priority="high"))
    assert len(moved(session)) == 1
    assert gone(session) == []
    assert promised(session).keys() == {"new-0"}


@pytest.mark.parametrize(("quota", "served"), [(2, True), (1, False)])
def test_jobs_that_are_not_preemptible_take_no_more_than_the_quota(quota: float, served: bool) -> None:
    queue = kai_queue("q", gpu=(quota, -1, 1))
    objects = [*nodes(1, gpu=2), *gang("old", on=["n0"] * 2, priority="low")]
    new = gang("new", pending=2, priority="high", firm=True)
    session = act([queue, *objects, *new], kai("preempt"))
    assert bool(evicted(session)) == served


def test_the_limit_of_the_queue_holds_with_the_victims_gone() -> None:
    queue = kai_queue("q", gpu=(0, 2, 1))
    objects = [*nodes(1, gpu=4), *gang("old", on=["n0"] * 2, priority="low")]
    assert len(evicted(act([queue, *objects, *gang("new", pending=2, priority="high")], kai("preempt")))) == 2
    assert act([queue, *objects, *gang("new", pending=3, priority="high")], kai("preempt")).committed == []


def test_pods_that_never_preempt_wait() -> None:
    objects = [*nodes(1, gpu=1), *gang("old", on=["n0"], priority="low")]
    new = [
        never_preempting(item) if isinstance(item, Pod) else item for item in gang("new", pending=1, priority="high")
    ]
    assert preempt(*objects, *new).committed == []


def test_budgets_are_respected_unless_told_otherwise() -> None:
    old = gang("old", on=["n0"] * 2, priority="low", labels={"app": "web"})
    objects = [*nodes(1, gpu=2), *old, budget(allowed=1), *gang("new", pending=2, priority="high")]
    assert preempt(*objects).committed == []
    assert evicted(preempt(*objects, ignorePDB=True)) == ["old-0", "old-1"]


def test_with_a_budget_used_up_the_next_gang_goes() -> None:
    objects = [
        *nodes(2, gpu=1),
        *gang("kept", on=["n0"], priority="low", labels={"app": "web"}),
        *gang("old", on=["n1"], priority="mid"),
        budget(allowed=0),
        *gang("new", pending=1, priority="high"),
    ]
    assert evicted(preempt(*objects)) == ["old-0"]


@pytest.mark.parametrize(("age", "gangs"), [(30, []), (90, ["wide-0", "wide-1", "wide-2"])])
def test_a_gang_with_a_guaranteed_runtime_gives_only_what_it_can_spare(age: float, gangs: list[str]) -> None:
    times = {"minruntime": {"defaultPreemptMinRuntime": 60}}
    objects = [*nodes(1, gpu=3), *gang("wide", on=["n0"] * 3, minimum=2, priority="low", age=age)]
    assert evicted(preempt(*objects, *gang("new", pending=1, priority="high"), plugins=times)) == ["wide-2"]
    assert evicted(preempt(*objects, *gang("new", pending=1, gpu=3, priority="high"), plugins=times)) == gangs


def test_the_disruption_is_limited_by_what_is_requested() -> None:
    objects = [*nodes(1, gpu=4), *gang("old", on=["n0"] * 4, priority="low"), *gang("new", pending=1, priority="high")]
    assert preempt(*objects, maxDisruptionRatio=3).committed == []
    assert len(evicted(preempt(*objects, maxDisruptionRatio=4))) == 4


def test_a_search_that_is_ended_says_so_and_evicts_nobody() -> None:
    old = [item for k in range(4) for item in gang(f"old{k}", on=["n0"], priority="low")]
    new = [*gang("new", pending=2, minimum=3, priority="high"), pod("new-big", group="new", gpu=2, priority=90)]
    objects = [*nodes(1, gpu=4), *old, *new]
    session = preempt(*objects, maxTrialsPerJob=1)
    assert session.committed == []
    assert reason(session, "new") == "search-ended"
    assert (session.tally.dry_runs, session.tally.cut_short) == (1, 1)
    assert len(evicted(preempt(*objects, maxTrialsPerJob=10))) == 4


def test_trim_gives_back_whom_the_beneficiary_does_not_need() -> None:
    objects = [
        *nodes(1, gpu=4),
        *gang("small", on=["n0"], gpu=1, priority="low", created=9),
        *gang("large", on=["n0"], gpu=3, priority="low", created=1),
        *gang("new", pending=1, gpu=3, priority="high"),
    ]
    assert evicted(preempt(*objects, trim=True)) == ["large-0"]
    assert evicted(preempt(*objects, trim=False)) == ["large-0"], "small-0 finds room on its own node again"


@pytest.mark.parametrize(("arguments", "goes"), [({}, []), ({"passOverProtected": True}, ["old-0"])])
def test_a_protected_gang_in_front_ends_the_search_unless_it_is_to_be_passed_over(
    arguments: dict[str, Any], goes: list[str]
) -> None:
    session = preempt(
        *nodes(1, gpu=2),
        *gang("young", on=["n0"], pending=1, minimum=1, priority="low", created=9, age=10),
        *gang("old", on=["n0"], priority="low", age=100),
        *gang("new", pending=1, priority="high"),
        plugins={"minruntime": {"defaultPreemptMinRuntime": 60}},
        **arguments,
    )
    assert evicted(session) == goes


@pytest.mark.parametrize("taken_back", [True, False])
def test_a_pod_that_the_cycle_has_placed_waits_again_and_nobody_is_told(taken_back: bool) -> None:
    session = act(
        [
            *QUEUES,
            *nodes(1, gpu=2),
            *gang("old", on=["n0"], priority="low", created=1),
            *gang("small", pending=1, priority="low", created=2),
            *gang("new", pending=1, gpu=2, priority="high"),
        ],
        kai("allocate", "preempt", preempt={"takeBackBinds": taken_back}),
    )
    told = [(type(decision).__name__, decision.pod.removeprefix("default/")) for decision in decisions_of(session)]
    assert told == ([("Evict", "old-0"), ("Nominate", "new-0")] if taken_back else [("Bind", "small-0")])


@pytest.mark.parametrize("trim", [True, False])
def test_a_gang_of_which_some_can_stay_moves_the_others_or_goes_whole(*, trim: bool) -> None:
    """The pod that has to leave n0 has a place on n1, where no GPU is free: nodes of all its gang stay open to it."""
    session = preempt(
        *[node("n0", gpu=1, cpu=4), node("n1", gpu=1, cpu=6)],
        *gang("rigid", on=["n0", "n0", "n1", "n1"], gpu=0, cpu=2, priority="low"),
        *gang("firm", on=["n1"], priority="low", firm=True),
        *gang("new", pending=1, cpu=1),
        trim=trim,
    )
    assert promised(session)["new-0"] == "n0"
    assert moved(session) == {"rigid-1": "n1"}
    assert gone(session) == []


def test_whose_victims_would_not_do_is_not_told_that_there_are_none() -> None:
    session = preempt(*nodes(2, gpu=1), *gang("old", on=["n0"], priority="low"), *gang("new", pending=1, gpu=2))
    why = session.no_evictions[session.snapshot.jobs.index["default/new"]]["preempt"]
    assert why.reason is NO_ROOM_BY_EVICTION


@pytest.mark.parametrize(("parts", "asked", "going"), [(1, 1, "210"), (2, 2, "54"), (2, 3, "543"), (2, 4, "543210")])
def test_sub_groups_give_what_the_gang_can_spare_or_it_goes_whole(parts: int, asked: int, going: str) -> None:
    """Sub-groups of three pods, of which one has to be whole, whatever number of pods the gang needs."""
    divided = pod_group("divided", minimum=1, queue="q", priority_class="low")
    divided.spec.sub_group_policy = [
        SubGroupPolicy(name="parts", match_label_keys=["part"], sub_group_size=3, min_sub_groups=1)
    ]
    members = [
        pod(f"divided-{k}", group="divided", node="n0", gpu=1, priority=10, labels={"part": str(k // 3)})
        for k in range(3 * parts)
    ]
    queue = kai_queue("q", gpu=(8, -1, 1))
    new = gang("new", pending=asked, priority="high")
    session = act([queue, *nodes(1, gpu=3 * parts), divided, *members, *new], kai("preempt"))
    assert sorted(evicted(session)) == sorted(f"divided-{k}" for k in going)


@pytest.mark.parametrize(("allowed", "going"), [(0, ["plain-0"]), (1, ["web1-0"]), (2, ["web1-0"])])
def test_pods_that_a_budget_keeps_do_not_keep_others_on_their_node(allowed: int, going: list[str]) -> None:
    """The youngest would go first; those of the budget are passed over as far as it keeps them."""
    objects = [
        *nodes(1, gpu=6),
        *gang("plain", on=["n0"], gpu=2, priority="low", created=1.0),
        *gang("web0", on=["n0"], gpu=2, priority="low", created=2.0, labels={"app": "web"}),
        *gang("web1", on=["n0"], gpu=2, priority="low", created=3.0, labels={"app": "web"}),
    ]
    session = preempt(*objects, budget(allowed=allowed), *gang("new", pending=1, gpu=2, priority="high"))
    assert evicted(session) == going
    session = preempt(*objects, budget(allowed=allowed), *gang("new", pending=1, gpu=4, priority="high"))
    assert evicted(session) == {0: [], 1: ["plain-0", "web1-0"], 2: ["web0-0", "web1-0"]}[allowed]
