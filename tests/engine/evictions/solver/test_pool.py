"""Victims unit by unit: who goes first, what a gang can spare, and what is left after a commit."""

from __future__ import annotations

import pytest

from muster.api import KubeObject
from muster.engine.evictions.options import SolverOptions
from muster.engine.evictions.solver.pool import Unit, VictimPool
from muster.framework import Eviction, Session
from muster.kernels.placement import FUTURE
from muster.snapshot import TaskStatus
from tests.engine.evictions.solver.solver_stage import (
    gang,
    job_row,
    kai,
    kai_queue,
    nodes,
    open_session,
    task_names,
    task_row,
    task_rows,
)

Q: list[KubeObject] = [kai_queue("q"), kai_queue("other")]
NEW = gang("new", pending=1, priority="high", created=99)


def stage(*objects: KubeObject) -> Session:
    return open_session([*Q, *nodes(3, gpu=8), *objects, *NEW], kai("preempt"))


def units(session: Session, kind: Eviction = Eviction.PREEMPT, evictor: str = "new") -> list[Unit]:
    line = VictimPool(session, kind, SolverOptions()).line(job_row(session, evictor))
    found = []
    while (unit := line.pop()) is not None:
        found.append(unit)
    return found


def names(session: Session, kind: Eviction = Eviction.PREEMPT, evictor: str = "new") -> list[list[str]]:
    return [task_names(session, unit.tasks) for unit in units(session, kind, evictor)]


def test_what_a_gang_can_spare_goes_pod_by_pod_from_the_last_then_the_rest_at_once() -> None:
    session = stage(*gang("old", on=["n0"] * 4, minimum=2, priority="low"))
    assert names(session) == [["old-3"], ["old-2"], ["old-1", "old-0"]]


def test_a_gang_without_anything_to_spare_is_one_unit() -> None:
    assert names(stage(*gang("old", on=["n0"] * 3, priority="low"))) == [["old-2", "old-1", "old-0"]]


def test_gangs_go_from_the_lowest_priority_and_the_youngest_up() -> None:
    session = stage(
        *gang("mid", on=["n0"], priority="mid", created=9),
        *gang("older", on=["n0"], priority="low", created=1),
        *gang("younger", on=["n0"], priority="low", created=2),
    )
    assert names(session) == [["younger-0"], ["older-0"], ["mid-0"]]


def test_what_gangs_can_spare_goes_before_the_cores_of_their_equals() -> None:
    session = stage(
        *gang("a", on=["n0"] * 2, minimum=1, priority="low", created=1),
        *gang("b", on=["n0"] * 2, minimum=1, priority="low", created=2),
    )
    assert names(session) == [["b-1"], ["a-1"], ["b-0"], ["a-0"]]


def test_the_core_of_a_lower_priority_goes_before_the_surplus_of_a_higher_one() -> None:
    session = stage(
        *gang("low", on=["n0"] * 2, minimum=1, priority="low"),
        *gang("mid", on=["n0"] * 2, minimum=1, priority="mid"),
    )
    assert names(session) == [["low-1"], ["low-0"], ["mid-1"], ["mid-0"]]


def test_pod_sets_give_what_they_can_spare_in_turn_and_their_cores_together() -> None:
    session = stage(*gang("old", sets={"a": (1, ["n0"] * 2, 0), "b": (1, ["n0"] * 3, 0)}, priority="low"))
    assert names(session) == [["old-b-2"], ["old-b-1"], ["old-a-1"], ["old-b-0", "old-a-0"]]


def test_a_unit_knows_what_goes_free_where() -> None:
    session = stage(*gang("old", on=["n2", "n0", "n2"], gpu=2, priority="low"))
    (unit,) = units(session)
    gpu = session.snapshot.axis.index["nvidia.com/gpu"]
    assert unit.nodes == (0, 2)
    assert [freed[gpu] for freed in unit.freed] == [2000, 4000]


def test_preempt_offers_lower_priorities_of_the_own_queue_only() -> None:
    session = stage(
        *gang("equal", on=["n0"], priority="high"),
        *gang("foreign", "other", on=["n0"], priority="low"),
        *gang("firm", on=["n0"], priority="low", firm=True),
        *gang("low", on=["n0"], priority="low"),
    )
    assert names(session) == [["low-0"]]


def test_reclaim_offers_other_queues_only_and_consolidation_everybody() -> None:
    session = stage(*gang("own", on=["n0"], priority="low"), *gang("foreign", "other", on=["n0"], priority="high"))
    assert names(session, Eviction.RECLAIM) == [["foreign-0"]]
    assert sorted(names(session, Eviction.CONSOLIDATE)) == [["foreign-0"], ["own-0"]]


def test_a_beneficiary_is_never_its_own_victim() -> None:
    session = stage(*gang("wide", on=["n0"] * 2, pending=1, minimum=1))
    assert names(session, Eviction.CONSOLIDATE, "wide") == []


def test_the_queue_with_most_beyond_its_share_gives_first_and_as_it_shrinks_others_follow() -> None:
    tree = [kai_queue(name, gpu=(1, -1, 1)) for name in ("q", "much", "little")]
    old = [item for k in range(4) for item in gang(f"much{k}", "much", on=["n0"], created=k)]
    old += [item for k in range(2) for item in gang(f"little{k}", "little", on=["n0"], created=k)]
    session = open_session([*tree, *nodes(1, gpu=6), *old, *NEW], kai("reclaim"))
    taken = [name for (name,) in names(session, Eviction.RECLAIM)]
    assert taken[:2] == ["much3-0", "much2-0"]
    assert sorted(taken) == sorted(f"{name}-0" for name in ("much0", "much1", "much2", "much3", "little0", "little1"))
    assert taken.index("little1-0") < taken.index("much0-0")


@pytest.mark.parametrize("status", [TaskStatus.RUNNING, TaskStatus.RELEASING])
def test_after_a_commit_the_pool_offers_what_is_left(status: TaskStatus) -> None:
    session = stage(*gang("old", on=["n0"] * 3, minimum=1, priority="low"), *gang("b", on=["n1"], priority="low"))
    pool = VictimPool(session, Eviction.PREEMPT, SolverOptions())
    if status == TaskStatus.RELEASING:
        statement = session.statement("test")
        statement.evict(task_rows(session, "old-2", "b-0"))
        statement.commit()
        pool.refresh([job_row(session, "old"), job_row(session, "b")])
    line = pool.line(job_row(session, "new"))
    found = []
    while (unit := line.pop()) is not None:
        found.append(task_names(session, unit.tasks))
    expected = [["old-2"], ["old-1"], ["old-0"]] if status == TaskStatus.RUNNING else [["old-1"], ["old-0"]]
    assert [unit for unit in found if unit != ["b-0"]] == expected
    assert (["b-0"] in found) == (status == TaskStatus.RUNNING)


def test_who_was_promised_a_place_meanwhile_may_be_dealt_another_one() -> None:
    session = stage(*gang("first", pending=1, priority="low"), *gang("old", on=["n1"], priority="low", created=-1))
    pool = VictimPool(session, Eviction.PREEMPT, SolverOptions())
    before = pool.line(job_row(session, "new"))
    statement = session.statement("test")
    statement.place(task_row(session, "first-0"), 0, FUTURE)
    statement.commit()
    pool.refresh([job_row(session, "first")])
    after = pool.line(job_row(session, "new"))
    assert [task_names(session, unit.tasks) for unit in iter(before.pop, None)] == [["old-0"]]
    assert [task_names(session, unit.tasks) for unit in iter(after.pop, None)] == [["first-0"], ["old-0"]]


@pytest.mark.parametrize("taken_back", [True, False])
def test_who_was_placed_in_the_same_cycle_is_offered_if_told_so(taken_back: bool) -> None:
    session = stage(*gang("first", pending=1, priority="low"))
    statement = session.statement("test")
    statement.place(task_row(session, "first-0"), 0)
    statement.commit()
    line = VictimPool(session, Eviction.PREEMPT, SolverOptions(take_back_binds=taken_back)).line(
        job_row(session, "new")
    )
    assert [task_names(session, unit.tasks) for unit in iter(line.pop, None)] == [["first-0"]] * taken_back


def test_a_promise_that_is_given_up_gives_its_queue_nothing_back() -> None:
    """Both queues have the same; what one of them was only promised still counts when victims are put in order."""
    tree = [kai_queue(name, gpu=(2, -1, 1)) for name in ("q", "a", "b")]
    old = [*gang("a1", "a", pending=1), *gang("b1", "b", on=["n0"])]
    session = open_session([*tree, *nodes(1, gpu=4), *old, *NEW], kai("reclaim"))
    statement = session.statement("test")
    statement.place(task_row(session, "a1-0"), 0, FUTURE)
    statement.commit()
    assert names(session, Eviction.RECLAIM) == [["a1-0"], ["b1-0"]]


def test_lines_of_one_pool_do_not_disturb_each_other() -> None:
    session = stage(*gang("old", on=["n0"] * 3, minimum=1, priority="low"))
    pool = VictimPool(session, Eviction.PREEMPT, SolverOptions())
    first, second = pool.line(job_row(session, "new")), pool.line(job_row(session, "new"))
    assert first.pop() is not None
    assert first.pop() is not None
    unit = second.pop()
    assert unit is not None
    assert unit.tasks.tolist() == [task_row(session, "old-2")]


def test_a_protected_gang_offers_what_it_can_spare_and_no_more() -> None:
    times = {"minruntime": {"defaultPreemptMinRuntime": 60}}
    old = gang("old", on=["n0"] * 3, minimum=2, priority="low", age=10)
    rigid = gang("rigid", on=["n0"] * 2, priority="low", age=10)
    session = open_session([*Q, *nodes(1, gpu=8), *old, *rigid, *NEW], kai("preempt", plugins=times))
    assert names(session) == [["old-2"]]


@pytest.mark.parametrize("spare", [1, 0])
@pytest.mark.parametrize("passed_over", [True, False])
def test_a_protected_gang_is_passed_over_or_ends_the_line_as_told(spare: int, passed_over: bool) -> None:
    times = {"minruntime": {"defaultPreemptMinRuntime": 60}}
    young = gang("young", on=["n0"] * (1 + spare), pending=1, minimum=1, priority="low", created=9, age=10)
    old = gang("old", on=["n0"], priority="low", age=100)
    session = open_session([*Q, *nodes(1, gpu=8), *young, *old, *NEW], kai("preempt", plugins=times))
    line = VictimPool(session, Eviction.PREEMPT, SolverOptions(pass_over_protected=passed_over)).line(
        job_row(session, "new")
    )
    found = [task_names(session, unit.tasks) for unit in iter(line.pop, None)]
    # What can be spared comes first; the cores are equal then, and that of the youngest gang stands in front.
    assert found == [["young-1"]] * spare + ([["old-0"]] if passed_over else [])
    assert line.pop() is None
