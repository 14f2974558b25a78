from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.framework import Eviction, Vote
from muster.testing.builders import gang, node, pod_group, queue
from tests.plugins.queue_stage import GPU, Stage, closed, prioritised, running


def sharing(*objects: KubeObject, cpu: float = 12, gpu: int = 0) -> Stage:
    return Stage("proportion", [node("n1", cpu=cpu, gpu=gpu), *objects])


def demand(queue_name: str, cpu: int, *, gpu: int = 0) -> list[KubeObject]:
    return gang(f"{queue_name}-job", 1, queue=queue_name, cpu=cpu, gpu=gpu)


# -- what queues deserve -------------------------------------------------------------------------------------


def test_queues_deserve_by_weight() -> None:
    stage = sharing(queue("a", weight=1), queue("b", weight=3), *demand("a", 99), *demand("b", 99))
    assert [stage.of(stage.plugin.deserved, name) for name in "ab"] == [3000, 9000]


def test_a_queue_deserves_no_more_than_it_asks_for() -> None:
    stage = sharing(queue("a"), queue("b"), *demand("a", 2), *demand("b", 99))
    assert [stage.of(stage.plugin.deserved, name) for name in "ab"] == [2000, 10000]


def test_a_queue_deserves_no_more_than_it_may_have() -> None:
    stage = sharing(queue("a", capability={"cpu": 1}), queue("b"), *demand("a", 99), *demand("b", 99))
    assert [stage.of(stage.plugin.deserved, name) for name in "ab"] == [1000, 11000]


def test_a_queue_deserves_at_least_its_guarantee_and_others_may_not_have_it() -> None:
    stage = sharing(queue("a", guarantee={"cpu": 8}), queue("b"), *demand("a", 1), *demand("b", 99))
    assert [stage.of(stage.plugin.deserved, name) for name in "ab"] == [8000, 4000]


def test_queues_without_jobs_take_no_part() -> None:
    stage = sharing(queue("a"), queue("b"), queue("idle", weight=100), *demand("a", 99), *demand("b", 99))
    assert [stage.of(stage.plugin.deserved, name) for name in ("a", "b", "idle")] == [6000, 6000, 0]


def test_what_runs_is_part_of_the_demand() -> None:
    stage = sharing(queue("a"), queue("b"), *running("r", "a", cpu=4), *demand("a", 1), *demand("b", 99))
    assert [stage.of(stage.plugin.deserved, name) for name in "ab"] == [5000, 7000]


def test_every_resource_is_divided_for_itself() -> None:
    stage = sharing(queue("a"), queue("b"), *demand("a", 2, gpu=8), *demand("b", 99, gpu=1), gpu=8)
    assert [stage.of(stage.plugin.deserved, name, GPU) for name in "ab"] == [7000, 1000]
    assert [stage.of(stage.plugin.deserved, name) for name in "ab"] == [2000, 10000]


def test_nodes_that_are_not_ready_do_not_count() -> None:
    stage = Stage("proportion", [node("n1", cpu=4), node("n2", cpu=4, ready=False), queue("a"), *demand("a", 99)])
    assert stage.of(stage.plugin.deserved, "a") == 4000


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(0, 3), st.integers(1, 30)),
        min_size=1,
        max_size=5,
    )
)
def test_queues_together_never_deserve_more_than_the_cluster(queues: list[tuple[int, int, int, int]]) -> None:
    objects: list[KubeObject] = []
    for number, (weight, cpu, guarantee, limit) in enumerate(queues):
        limits: dict[str, Any] = {"guarantee": {"cpu": guarantee}, "capability": {"cpu": limit}}
        objects += [queue(f"q{number}", weight=weight, **limits), *demand(f"q{number}", cpu)]
    stage = sharing(*objects, cpu=17)
    assert (stage.plugin.deserved.sum(axis=0) <= stage.session.total).all()


# -- order and limits ----------------------------------------------------------------------------------------


def test_the_queue_with_the_smallest_share_goes_first_and_shares_follow_placements() -> None:
    stage = sharing(queue("a"), queue("b", weight=2), *demand("a", 4), *demand("b", 4))
    first, second = stage.queue("a"), stage.queue("b")
    assert stage.plugin.queue_order(first) == stage.plugin.queue_order(second)
    stage.place("a-job-0")
    assert stage.plugin.queue_order(second) < stage.plugin.queue_order(first)


def test_priority_of_a_queue_comes_before_its_share() -> None:
    stage = sharing(prioritised(queue("a"), 5), queue("b"), *demand("a", 4), *demand("b", 4))
    stage.place("a-job-0")
    assert stage.plugin.queue_order(stage.queue("a")) < stage.plugin.queue_order(stage.queue("b"))


def test_a_queue_is_overused_once_it_has_all_it_deserves() -> None:
    stage = sharing(queue("a"), *demand("a", 4), *gang("more", 1, queue="a", cpu=4))
    row = stage.queue("a")
    assert not stage.session.overused(row)
    stage.place("a-job-0")
    assert not stage.session.overused(row)
    stage.place("more-0")
    assert stage.session.overused(row)


@pytest.mark.parametrize(
    ("request_", "slots"),
    [({"cpu": 1}, 6), ({"cpu": 4}, 1), ({"cpu": 7}, 0), ({"cpu": 1, "gpu": 1}, 2), ({"pods": 1}, 2**31 - 1)],
)
def test_slots_of_a_queue(request_: dict[str, int], slots: int) -> None:
    stage = sharing(queue("a"), queue("b"), *demand("a", 99, gpu=8), *demand("b", 99, gpu=8), cpu=12, gpu=4)
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(**request_)) == slots


def test_a_queue_over_its_share_of_one_resource_still_serves_tasks_that_do_without_it() -> None:
    stage = sharing(queue("a"), *running("r", "a", cpu=20), *demand("a", 1, gpu=1), gpu=8)
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=1)) == 0
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(gpu=1)) == 1


def test_a_closed_queue_holds_nothing_more() -> None:
    stage = sharing(closed(queue("a")), *demand("a", 1))
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=1)) == 0


@pytest.mark.parametrize(("cpu", "may"), [(6, True), (7, False)])
def test_a_queue_may_take_from_others_within_what_it_deserves(cpu: int, may: bool) -> None:
    stage = sharing(
        queue("a"), queue("b"), *running("r", "b", cpu=12), *gang("w", 1, queue="a", cpu=cpu), *demand("a", 50)
    )
    assert stage.session.preemptive(stage.queue("a"), stage.tasks("w-0")) is may


# -- admission -----------------------------------------------------------------------------------------------


def admitting(cpu: float, *others: KubeObject, **limits: Any) -> Stage:
    waiting = pod_group("w", queue="a", min_resources={"cpu": cpu})
    return sharing(queue("a", **limits), waiting, *others)


@pytest.mark.parametrize(("cpu", "vote"), [(5, Vote.PERMIT), (5.001, Vote.REJECT), (0, Vote.PERMIT)])
def test_a_job_is_admitted_within_the_limit_of_its_queue(cpu: float, vote: Vote) -> None:
    stage = admitting(cpu, *running("r", "a", cpu=2), capability={"cpu": 5})
    # What a job without a minimum runs is elastic: it can be taken back.
    assert stage.vote("w") is vote


def test_admitted_jobs_hold_their_minimum_and_running_ones_what_is_within_theirs() -> None:
    admitted = pod_group("b", queue="a", min_resources={"cpu": 2}, phase="Inqueue")
    busy = running("r", "a", cpu=3)
    busy[0] = pod_group("r", queue="a", min_resources={"cpu": 1}, phase="Running")
    fits, too_much = admitting(9, admitted, *busy), admitting(9.001, admitted, *busy)
    assert fits.vote("w") is Vote.PERMIT
    assert too_much.vote("w") is Vote.REJECT


def test_an_admitted_job_counts_from_then_on() -> None:
    stage = admitting(7, pod_group("b", queue="a", min_resources={"cpu": 6}))
    stage.plugin.job_enqueued(stage.job("b"))
    assert stage.vote("w") is Vote.REJECT


def test_what_an_admitted_job_has_taken_is_not_counted_twice() -> None:
    half = [pod_group("b", queue="a", min_resources={"cpu": 6}, phase="Inqueue"), *running("b", "a", cpu=4)[1:]]
    stage = admitting(6, *half)
    assert stage.vote("w") is Vote.PERMIT


def test_a_running_job_that_lost_its_minimum_reserves_nothing() -> None:
    # Its driver is done: the rest of its minimum will not be taken.
    rest = running("b", "a", cpu=1)[1:]
    done = pod_group("b", queue="a", minimum=2, min_resources={"cpu": 9}, phase="Running")
    busy = pod_group("b", queue="a", minimum=1, min_resources={"cpu": 9}, phase="Running")
    alone, held = admitting(11, done, *rest), admitting(11, busy, *rest)
    assert alone.vote("w") is Vote.PERMIT
    assert held.vote("w") is Vote.REJECT


def test_a_closed_queue_admits_nobody() -> None:
    stage = sharing(closed(queue("a")), pod_group("w", queue="a"))
    assert stage.vote("w") is Vote.REJECT


def test_a_job_without_a_queue_is_not_admitted() -> None:
    stage = sharing(pod_group("w", queue="nowhere"))
    assert stage.vote("w") is Vote.REJECT
    stage.plugin.job_enqueued(stage.job("w"))


# -- evictions -----------------------------------------------------------------------------------------------


def test_a_queue_gives_back_while_it_holds_more_than_it_deserves() -> None:
    busy = [item for number in range(3) for item in running(f"r{number}", "b", cpu=4)]
    stage = sharing(queue("a"), queue("b"), *busy, *demand("a", 99))
    offered = stage.tasks("r0-0", "r1-0", "r2-0")
    # Twelve held, six deserved: after two victims four are left.
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("a-job-0"), offered)) == ["r0-0", "r1-0"]


def test_a_queue_within_what_it_deserves_gives_nothing() -> None:
    stage = sharing(queue("a"), queue("b"), *running("r", "b", cpu=6), *demand("a", 99))
    assert stage.evictable(Eviction.RECLAIM, stage.task("a-job-0"), stage.tasks("r-0")).tolist() == []


def test_asking_changes_nothing() -> None:
    stage = sharing(queue("a"), queue("b"), *running("r", "b", cpu=9), *demand("a", 99))
    before = stage.snapshot.queues.own_allocated.copy()
    stage.evictable(Eviction.RECLAIM, stage.task("a-job-0"), stage.tasks("r-0"))
    assert np.array_equal(stage.snapshot.queues.own_allocated, before)
