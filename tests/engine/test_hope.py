"""Hope: what is told of many jobs at once is what is told of each, and nobody is counted out who has room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.engine.gangs import next_tasks, requests_of
from muster.engine.hope import Crowd, Waiters, beyond_total, without_room
from muster.engine.waiting import schedulable_tasks, why_not_schedulable
from muster.framework import Session
from muster.kernels.placement import IDLE
from muster.lab.policies import find_policy
from muster.snapshot import Rows
from muster.testing import node, pod, pod_group, queue
from tests.engine.stage import open_session

#: Of each job: GPUs of a task, tasks, its minimum, its priority.
JOBS = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


def opened(jobs: list[tuple[int, int, int, int]], held: list[int], policy: str = "policy:skip") -> Session:
    """Nodes of 8 GPUs, of each of which some are held, and jobs that wait."""
    objects: list[KubeObject] = [queue("default")]
    for number, gpus in enumerate(held):
        objects += [node(f"n{number}", gpu=8)]
        if gpus:
            objects += [
                pod_group(f"old{number}"),
                pod(f"old{number}", group=f"old{number}", gpu=gpus, node=f"n{number}"),
            ]
    for number, (gpus, tasks, minimum, priority) in enumerate(jobs):
        objects += [pod_group(f"g{number}", minimum=minimum)]
        objects += [pod(f"g{number}-{k}", group=f"g{number}", gpu=gpus, priority=priority) for k in range(tasks)]
    return open_session(objects, find_policy(policy))


@settings(max_examples=30, deadline=None)
@given(jobs=JOBS, held=st.lists(st.integers(0, 8), min_size=1, max_size=3))
def test_only_those_without_room_are_counted_out(jobs: list[tuple[int, int, int, int]], held: list[int]) -> None:
    session = opened(jobs, held)
    snapshot, waiters = session.snapshot, Waiters.of(session.snapshot, schedulable_tasks(session))
    lost = without_room(session, waiters)
    beyond = beyond_total(snapshot, waiters, snapshot.nodes.future_total())
    for place, job in enumerate(waiters.jobs.tolist()):
        gpus, tasks, minimum, _ = jobs[int(snapshot.jobs.records[job].name[1:])]
        slots = sum((8 - taken) // gpus for taken in held)
        assert lost[place] == (slots < 1 or (slots < tasks and slots < minimum))
        chunk = next_tasks(session, job, waiters.tasks[snapshot.tasks.job[waiters.tasks] == job])
        wanted = requests_of(snapshot, chunk)
        assert beyond[place] == (len(chunk) == 0 or bool((wanted > snapshot.nodes.future_total()).any()))
    kept = waiters.pieces(~lost)
    assert set(snapshot.tasks.job[kept].tolist()) == set(waiters.jobs[~lost].tolist())


def test_a_crowd_loses_more_of_its_jobs_as_room_becomes_less() -> None:
    session = opened([(8, 1, 1, 0), (4, 1, 1, 0), (2, 1, 1, 0), (4, 1, 1, 0)], [2])
    large, middle, small, other = (session.snapshot.jobs.index[f"default/g{number}"] for number in range(4))
    crowd = Crowd(session, schedulable_tasks(session), is_tree=False)
    assert crowd.may_leave
    assert crowd.count_out() == [large]
    assert crowd.count_out() == []
    with session.statement("allocate") as statement:
        statement.place_batch(session.snapshot.tasks_of(middle), np.array([0], np.intp), IDLE)
        statement.commit()
    assert other in crowd.count_out()
    assert small not in crowd.lost
    assert job_names(session, crowd.tasks) == {"g2"}


def job_names(session: Session, tasks: Rows) -> set[str]:
    return {session.snapshot.jobs.records[job].name for job in session.snapshot.tasks.job[tasks].tolist()}


@pytest.mark.parametrize(("policy", "may_leave"), [("policy:skip", True), ("policy:easy", False)])
def test_nobody_leaves_the_line_where_somebody_wants_to_know_who_waits(policy: str, may_leave: bool) -> None:
    session = opened([(8, 1, 1, 0)], [3], policy)
    assert Crowd(session, schedulable_tasks(session), is_tree=False).may_leave == may_leave


@settings(max_examples=20, deadline=None)
@given(jobs=JOBS, policy=st.sampled_from(["policy:skip", "policy:fifo", "policy:easy-shortest"]))
def test_many_jobs_are_told_what_each_is_told(jobs: list[tuple[int, int, int, int]], policy: str) -> None:
    session = opened(jobs, [4], policy)
    rows = np.array(sorted(session.snapshot.jobs.index.values()), np.intp)
    assert session.job_keys(rows) == [session.job_key(job) for job in rows.tolist()]
    for job, sure in zip(rows.tolist(), session.surely_valid(rows).tolist(), strict=True):
        assert sure == (session.job_valid(job) is None)
        assert not sure or why_not_schedulable(session, job) is None
