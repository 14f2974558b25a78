"""Consolidation moves gangs so that a waiting one fits, and only if every one of them lands."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import KubeObject, OwnerReference, Pod
from muster.framework import Session
from muster.scheduler.decisions import decisions_of
from muster.snapshot.messages import Evict, Nominate
from muster.testing import pod
from muster.testing.builders import moment
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
)
from tests.plugins.test_pdb import budget

QUEUES: list[KubeObject] = [kai_queue("q"), kai_queue("other")]


def consolidate(*objects: KubeObject, plugins: Any = None, **arguments: Any) -> Session:
    return act([*QUEUES, *objects], kai("consolidation", plugins=plugins, consolidation=arguments))


def halves(**options: Any) -> list[KubeObject]:
    """Two nodes, half full each."""
    return [*nodes(2, gpu=4), *gang("a", on=["n0"], gpu=2, **options), *gang("b", on=["n1"], gpu=2, **options)]


def test_a_gang_moves_so_that_a_larger_one_has_a_whole_node() -> None:
    session = consolidate(*halves(), *gang("new", pending=1, gpu=4))
    assert len(moved(session)) == 1
    (victim,) = moved(session)
    left = {"a-0": "n0", "b-0": "n1"}[victim]
    assert moved(session)[victim] != left
    assert promised(session) == {"new-0": left}
    assert gone(session) == []


def test_nobody_moves_for_pods_that_never_preempt() -> None:
    new = [never_preempting(item) if isinstance(item, Pod) else item for item in gang("new", pending=1, gpu=4)]
    assert moved(consolidate(*halves(), *new)) == {}


def test_the_moved_pod_is_evicted_and_the_beneficiary_is_promised_its_place() -> None:
    session = consolidate(*halves(), *gang("new", pending=1, gpu=4))
    made = decisions_of(session)
    assert [type(decision) for decision in made] == [Evict, Nominate]
    assert isinstance(made[0], Evict)
    assert made[0].beneficiary == "default/new"
    assert made[0].record is not None
    assert (made[0].record["victims"], made[0].record["moved"]) == (1, 1)
    assert made[0].record["movesTo"] == moved(session)[made[0].pod.removeprefix("default/")]


def test_nobody_moves_when_not_everybody_lands() -> None:
    full = [*nodes(2, gpu=4), *gang("a", on=["n0"], gpu=3), *gang("b", on=["n1"], gpu=3)]
    session = consolidate(*full, *gang("new", pending=1, gpu=2))
    assert session.committed == []


def test_gangs_of_other_queues_and_priorities_move_too() -> None:
    objects = [
        *nodes(2, gpu=4),
        *gang("a", "other", on=["n0"], gpu=2, priority="high"),
        *gang("b", "other", on=["n1"], gpu=2, priority="high"),
    ]
    session = consolidate(*objects, *gang("new", pending=1, gpu=4, priority="low"))
    assert len(moved(session)) == 1
    assert promised(session).keys() == {"new-0"}


def test_a_gang_that_is_not_preemptible_neither_moves_nor_has_others_moved() -> None:
    assert consolidate(*halves(firm=True), *gang("new", pending=1, gpu=4)).committed == []
    assert consolidate(*halves(), *gang("new", pending=1, gpu=4, firm=True)).committed == []


def test_there_is_nothing_to_gain_when_the_whole_cluster_has_too_little() -> None:
    assert consolidate(*halves(), *gang("new", pending=1, gpu=5)).committed == []


def test_a_whole_gang_moves_together() -> None:
    objects = [
        *nodes(3, gpu=4),
        *gang("pair", on=["n0", "n1"], gpu=2),
        *gang("c", on=["n2"], gpu=1),
        *gang("big", pending=1, gpu=4),
    ]
    session = consolidate(*objects)
    assert promised(session).keys() == {"big-0"}
    assert gone(session) == []


@pytest.mark.parametrize(("limit", "served"), [(0, False), (1, False), (2, True), (-1, True)])
def test_the_number_of_gangs_that_move_is_limited(limit: int, served: bool) -> None:
    four = [item for k in range(4) for item in gang(f"g{k}", on=[f"n{k // 2}"], gpu=1)]
    objects = [*nodes(2, gpu=4), *four, *gang("new", pending=1, gpu=4)]
    session = consolidate(*objects, maxConsolidationPreemptees=limit)
    assert bool(session.committed) == served
    assert len(moved(session)) == (2 if served else 0)


def test_budgets_are_respected_unless_told_otherwise() -> None:
    objects = [*halves(labels={"app": "web"}), budget(allowed=0), *gang("new", pending=1, gpu=4)]
    assert consolidate(*objects).committed == []
    assert len(moved(consolidate(*objects, ignorePDB=True))) == 1


def test_a_budget_that_has_enough_left_lets_pods_move() -> None:
    objects = [*halves(labels={"app": "web"}), budget(allowed=1), *gang("new", pending=1, gpu=4)]
    assert len(moved(consolidate(*objects))) == 1


def test_the_disruption_is_limited_by_what_is_requested() -> None:
    objects = [*halves(), *gang("new", pending=1, gpu=4)]
    assert consolidate(*objects, maxDisruptionRatio=0.4).committed == []
    assert len(moved(consolidate(*objects, maxDisruptionRatio=0.5))) == 1


@pytest.mark.parametrize(
    ("age", "arguments", "served"), [(5, {}, False), (5, {"protectFromConsolidation": False}, True), (60, {}, True)]
)
def test_gangs_with_a_guaranteed_runtime_stay_where_they_are(age: float, arguments: Any, served: bool) -> None:
    times = {"defaultReclaimMinRuntime": 60, "defaultPreemptMinRuntime": 60}
    session = consolidate(
        *halves(age=age), *gang("new", pending=1, gpu=4), plugins={"minruntime": {**times, **arguments}}
    )
    assert bool(session.committed) == served


def test_an_elastic_gang_moves_no_more_pods_than_it_must() -> None:
    objects = [
        *nodes(2, gpu=4),
        *gang("wide", on=["n0", "n0", "n1"], minimum=1, gpu=1),
        *gang("new", pending=1, gpu=4),
    ]
    session = consolidate(*objects)
    assert moved(session) == {"wide-2": "n0"}
    assert evicted(session) == ["wide-2"]


def test_one_gang_after_another_is_served() -> None:
    pairs = [item for k in range(4) for item in gang(f"g{k}", on=[f"n{k}"], gpu=2)]
    objects = [*nodes(4, gpu=4), *pairs, *gang("new0", pending=1, gpu=4), *gang("new1", pending=1, gpu=4)]
    session = consolidate(*objects)
    assert promised(session).keys() == {"new0-0", "new1-0"}
    assert len(moved(session)) == 2
    assert gone(session) == []


@pytest.mark.parametrize("is_promised", [True, False])
def test_nobody_moves_for_growth_while_those_who_went_for_it_have_not_left(*, is_promised: bool) -> None:
    place: Any = {"pending": 2} if is_promised else {"on": ["n2"], "pending": 1}
    wide = gang("wide", on=["n0", "n1"], minimum=1, gpu=2)
    objects = [*nodes(3, gpu=4), *wide, *gang("new", minimum=1, gpu=4, **place)]
    if is_promised:
        leaving = pod("old", gpu=4, node="n2")
        leaving.metadata.deletion_timestamp = moment(10_005.0)
        objects.append(leaving)
        first = next(thing for thing in objects if isinstance(thing, Pod) and thing.name == "new-0")
        first.status.nominated_node_name = "n2"
    spares = {"growthBreaksGangs": False, "trim": True}
    session = act([*QUEUES, *objects], kai("allocate", "consolidation", consolidation=spares))
    assert ("new-1" in promised(session)) == (not is_promised)


def test_a_pod_that_nobody_makes_anew_is_not_moved() -> None:
    alone, owned = (
        pod(name, gpu=2, node=on, priority=50, annotations={"scheduling.volcano.sh/queue-name": "q"})
        for name, on in (("alone", "n0"), ("owned", "n1"))
    )
    owned.metadata.owner_references = [OwnerReference(kind="ReplicaSet", name="web", uid="1", controller=True)]
    session = consolidate(*nodes(2, gpu=4), alone, owned, *gang("new", pending=1, gpu=4))
    assert moved(session) == {"owned": "n0"}
    fixed = gang("fixed", on=["n1"], gpu=2, firm=True)
    session = consolidate(*nodes(2, gpu=4), alone, *fixed, *gang("new", pending=1, gpu=4))
    assert moved(session) == {}
