"""Reclaim by scenarios: queues below their share take it back from queues that have more."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import KubeObject
from muster.framework import Session
from muster.testing import node
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
)
from tests.plugins.test_pdb import budget


def reclaim(*objects: KubeObject, plugins: Any = None, **arguments: Any) -> Session:
    return act(objects, kai("reclaim", plugins=plugins, reclaim=arguments))


def queues(mine: float = 2, theirs: float = 2, **options: Any) -> list[KubeObject]:
    return [kai_queue("q", gpu=(mine, -1, 1), **options), kai_queue("other", gpu=(theirs, -1, 1), **options)]


def singles(count: int, queue: str = "other", place: str = "n0", **options: Any) -> list[KubeObject]:
    return [item for k in range(count) for item in gang(f"{queue}{k}", queue, on=[place], created=k, **options)]


def test_a_queue_takes_back_its_quota_from_the_youngest_jobs_of_one_that_has_more() -> None:
    session = reclaim(*queues(), *nodes(1, gpu=4), *singles(4), *gang("new", pending=2))
    assert evicted(session) == ["other2-0", "other3-0"]
    assert promised(session) == {"new-0": "n0", "new-1": "n0"}


def test_nobody_is_taken_below_its_quota() -> None:
    session = reclaim(*queues(), *nodes(1, gpu=4), *singles(4), *gang("new", pending=3))
    assert session.committed == []


def test_without_quotas_the_fair_share_by_weight_is_taken_back() -> None:
    light, heavy = kai_queue("other", gpu=(0, -1, 1)), kai_queue("q", gpu=(0, -1, 3))
    objects = [light, heavy, *nodes(1, gpu=4), *singles(4)]
    assert len(evicted(reclaim(*objects, *gang("new", pending=3)))) == 3
    assert reclaim(*objects, *gang("new", pending=4)).committed == []


def test_jobs_that_are_not_preemptible_are_no_victims() -> None:
    session = reclaim(*queues(), *nodes(1, gpu=4), *singles(4, firm=True), *gang("new", pending=1))
    assert session.committed == []


def test_a_job_that_is_not_preemptible_takes_back_no_more_than_the_quota() -> None:
    objects = [*queues(mine=1, theirs=0), *nodes(1, gpu=4), *singles(4)]
    assert len(evicted(reclaim(*objects, *gang("new", pending=1, firm=True)))) == 1
    assert reclaim(*objects, *gang("new", pending=2, firm=True)).committed == []
    assert len(evicted(reclaim(*objects, *gang("new", pending=2)))) == 2, "fair share is for preemptible jobs"


def test_priority_has_no_say_between_queues_and_orders_the_victims_of_one() -> None:
    objects = [
        *queues(mine=1),
        *nodes(1, gpu=3),
        *gang("a", "other", on=["n0"], priority="high", created=9),
        *gang("b", "other", on=["n0"], priority="low", created=1),
        *gang("c", "other", on=["n0"], priority="mid", created=5),
    ]
    assert evicted(reclaim(*objects, *gang("new", pending=1, priority="low"))) == ["b-0"]


def test_an_elastic_gang_gives_pods_beyond_its_minimum_one_by_one() -> None:
    wide = gang("wide", "other", on=["n0"] * 4, minimum=1)
    session = reclaim(*queues(), *nodes(1, gpu=4), *wide, *gang("new", pending=2))
    assert evicted(session) == ["wide-2", "wide-3"]


def test_a_rigid_gang_goes_whole_even_if_that_takes_its_queue_below_the_quota() -> None:
    session = reclaim(*queues(), *nodes(1, gpu=4), *gang("all", "other", on=["n0"] * 4), *gang("new", pending=1))
    assert evicted(session) == [f"all-{k}" for k in range(4)]


def test_queues_of_one_parent_settle_it_among_themselves() -> None:
    tree = [
        kai_queue("left", gpu=(2, -1, 1)),
        kai_queue("right", gpu=(2, -1, 1)),
        kai_queue("q", gpu=(1, -1, 1), parent="left"),
        kai_queue("sister", gpu=(1, -1, 1), parent="left"),
        kai_queue("other", gpu=(2, -1, 1), parent="right"),
    ]
    objects = [*tree, *nodes(1, gpu=4), *singles(2, "sister"), *singles(2), *gang("new", pending=1)]
    assert evicted(reclaim(*objects)) == ["sister1-0"]


def test_the_parents_settle_it_when_their_children_have_different_ones() -> None:
    tree = [
        kai_queue("left", gpu=(2, -1, 1)),
        kai_queue("right", gpu=(2, -1, 1)),
        kai_queue("q", gpu=(2, -1, 1), parent="left"),
        kai_queue("other", gpu=(4, -1, 1), parent="right"),
    ]
    session = reclaim(*tree, *nodes(1, gpu=4), *singles(4), *gang("new", pending=2))
    assert len(evicted(session)) == 2, "the quota of the parent counts, not that of the child"


def moves(*, charged: bool) -> Session:
    """The other queue has its share and not more; one of its pods could make room by moving."""
    objects = [*queues(mine=4, theirs=4), *nodes(2, gpu=4)]
    objects += [*gang("a", "other", on=["n0"], gpu=2), *gang("b", "other", on=["n1"], gpu=2)]
    objects += gang("new", pending=1, gpu=4)
    return reclaim(*objects, plugins={"fairshare": {"chargeMovedVictims": charged}})


def test_victims_that_move_cost_their_queue_nothing_as_in_kai() -> None:
    session = moves(charged=False)
    assert len(moved(session)) == 1
    assert gone(session) == []
    assert promised(session).keys() == {"new-0"}


def test_where_moves_are_charged_a_queue_within_its_share_is_left_alone() -> None:
    assert moves(charged=True).committed == []


def test_budgets_are_respected() -> None:
    objects = [*queues(), *nodes(1, gpu=4), *singles(4, labels={"app": "web"}), *gang("new", pending=2)]
    assert reclaim(*objects, budget(allowed=1)).committed == []
    assert len(evicted(reclaim(*objects, budget(allowed=2)))) == 2
    assert len(evicted(reclaim(*objects, budget(allowed=0), ignorePDB=True))) == 2


@pytest.mark.parametrize(("age", "pods"), [(30, []), (90, ["other2-0", "other3-0"])])
def test_gangs_with_a_guaranteed_runtime_are_no_victims(age: float, pods: list[str]) -> None:
    objects = [*queues(), *nodes(1, gpu=4), *singles(4, age=age), *gang("new", pending=2)]
    session = reclaim(*objects, plugins={"minruntime": {"defaultReclaimMinRuntime": 60}})
    assert evicted(session) == pods


def test_victims_come_from_nodes_that_the_beneficiary_may_use() -> None:
    special = node("special", gpu=1, labels={"kind": "fast"})
    objects = [*queues(), *nodes(1, gpu=3), special, *singles(3), *gang("fast", "other", on=["special"])]
    session = reclaim(*objects, *gang("new", pending=1, selector={"kind": "fast"}))
    assert evicted(session) == ["fast-0"]


def test_jobs_of_one_queue_are_served_until_its_share_is_used_up() -> None:
    new = [item for k in range(3) for item in gang(f"new{k}", pending=1, created=k)]
    session = reclaim(*queues(), *nodes(1, gpu=4), *singles(4), *new)
    assert promised(session).keys() == {"new0-0", "new1-0"}
    assert evicted(session) == ["other2-0", "other3-0"]


def test_a_queue_with_little_beyond_its_share_gives_less_than_one_with_much() -> None:
    three = [kai_queue(name, gpu=(2, -1, 1)) for name in ("q", "much", "little")]
    objects = [*three, *nodes(1, gpu=8), *singles(5, "much"), *singles(3, "little"), *gang("new", pending=2)]
    assert evicted(reclaim(*objects)) == ["much3-0", "much4-0"]
