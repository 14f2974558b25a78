"""A statement changes every book that it must, and undoes itself bit for bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.kernels.placement import FUTURE, IDLE
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, SCORED, USED
from muster.snapshot import NO_ROW, Board, Mirror, Rows, Snapshot, Statement, TaskStatus
from muster.snapshot.columns import ALLOCATED_STATUSES, BEST_EFFORT_PENDING
from tests.snapshot.objects import group, node, pod, queue


def cluster() -> Snapshot:
    mirror = Mirror()
    mirror.upsert(queue("root"))
    mirror.upsert(queue("a", parent="root"))
    for name in ("n1", "n2", "n3"):
        mirror.upsert(node(name, gpu="4"))
    for job, minimum in (("one", 2), ("two", 3)):
        mirror.upsert(group(job, minimum, "a", min_task_member={"worker": 1}))
        for i in range(4):
            mirror.upsert(pod(f"{job}-{i}", job, role="worker" if i % 2 else "", cpu="1", gpu="1"))
        mirror.upsert(pod(f"{job}-free", job))
        for i in range(2):
            mirror.upsert(pod(f"{job}-run-{i}", job, on=f"n{i + 1}", cpu="2", gpu="1"))
    return mirror.snapshot()


def books(snapshot: Snapshot) -> dict[str, NDArray[Any]]:
    return {
        "state": snapshot.nodes.state,
        "status": snapshot.tasks.status,
        "node": snapshot.tasks.node,
        "job counts": snapshot.jobs.counts,
        "role counts": snapshot.roles.counts,
        "subgroup counts": snapshot.subgroups.counts,
        "job allocated": snapshot.jobs.allocated,
        "queue own": snapshot.queues.own_allocated,
        "queue tree": snapshot.queues.tree_allocated,
    }


def frozen(snapshot: Snapshot) -> dict[str, NDArray[Any]]:
    return copy.deepcopy(books(snapshot))


def assert_same(snapshot: Snapshot, before: dict[str, NDArray[Any]]) -> None:
    for name, array in books(snapshot).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def board(snapshot: Snapshot, task: int, mode: int) -> Board:
    requests = snapshot.classes.requests[snapshot.tasks.cls[task]]
    return Board.make(requests, np.empty((0, 2 + len(snapshot.axis))), np.zeros(len(snapshot.nodes)), mode)


def recount(snapshot: Snapshot) -> None:
    """Check every book against the task columns it is derived from."""
    tasks = snapshot.tasks
    requests = snapshot.classes.requests[tasks.cls]
    used = np.zeros_like(snapshot.nodes.state[USED])
    releasing, pipelined, scored = np.zeros_like(used), np.zeros_like(used), np.zeros_like(used)
    allocated = np.zeros_like(snapshot.jobs.allocated)
    counts = np.zeros_like(snapshot.jobs.counts)
    for task in range(len(tasks)):
        status, where = TaskStatus(int(tasks.status[task])), int(tasks.node[task])
        request, scoring = requests[task]
        counts[tasks.job[task], status] += 1
        if status == TaskStatus.PENDING and tasks.flags[task] & 2:
            counts[tasks.job[task], BEST_EFFORT_PENDING] += 1
        if status in ALLOCATED_STATUSES or status == TaskStatus.PIPELINED:
            allocated[tasks.job[task]] += request
        if where == NO_ROW:
            continue
        if status == TaskStatus.PIPELINED:
            pipelined[where] += request
        else:
            used[where] += request
        if status == TaskStatus.RELEASING:
            releasing[where] += request
        else:
            scored[where] += scoring
    np.testing.assert_array_equal(snapshot.nodes.state[USED], used)
    np.testing.assert_array_equal(snapshot.nodes.state[RELEASING], releasing)
    np.testing.assert_array_equal(snapshot.nodes.state[PIPELINED], pipelined)
    np.testing.assert_array_equal(snapshot.nodes.state[SCORED], scored)
    np.testing.assert_array_equal(snapshot.jobs.allocated, allocated)
    np.testing.assert_array_equal(snapshot.jobs.counts, counts)
    for row, path in enumerate(snapshot.queues.paths):
        own = allocated[snapshot.jobs.queue == row].sum(axis=0)
        np.testing.assert_array_equal(snapshot.queues.own_allocated[row], own)
        below = [q for q, up in enumerate(snapshot.queues.paths) if row in up]
        np.testing.assert_array_equal(
            snapshot.queues.tree_allocated[row], snapshot.queues.own_allocated[below].sum(axis=0)
        )
        assert path[0] == row


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fill"), st.integers(0, 13), st.integers(1, 4), st.sampled_from((IDLE, FUTURE))),
        st.tuples(st.just("place"), st.integers(0, 13), st.integers(0, 2), st.sampled_from((IDLE, FUTURE))),
        st.tuples(st.just("evict"), st.integers(0, 13), st.just(0), st.just(0)),
        st.tuples(st.just("mark"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("rollback"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=14,
)


def alike(snapshot: Snapshot, task: int, limit: int) -> Rows:
    tasks = snapshot.tasks
    same = (
        (tasks.status == TaskStatus.PENDING)
        & (tasks.job == tasks.job[task])
        & (tasks.cls == tasks.cls[task])
        & (tasks.role == tasks.role[task])
    )
    return np.flatnonzero(same)[:limit].astype(np.intp)


@given(STEPS)
def test_books_follow_the_tasks_and_rollback_restores_every_bit(steps: list[tuple[str, int, int, int]]) -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    before = frozen(snapshot)
    marks = []
    for step, task, number, mode in steps:
        status = snapshot.tasks.status[task]
        if step == "fill" and status == TaskStatus.PENDING:
            statement.fill(alike(snapshot, task, number), board(snapshot, task, mode))
        elif step == "place" and status == TaskStatus.PENDING:
            statement.place(task, number, mode)
        elif step == "evict" and status == TaskStatus.RUNNING:
            statement.evict(np.array([task], np.intp))
        elif step == "mark":
            marks.append((statement.mark(), frozen(snapshot)))
        elif step == "rollback" and marks:
            mark, then = marks.pop()
            statement.rollback(mark)
            assert_same(snapshot, then)
        recount(snapshot)
    statement.rollback()
    assert_same(snapshot, before)


def test_a_board_notices_what_another_class_and_a_rollback_did() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    task = snapshot.tasks.ids.index("ns/one-0")
    mine = board(snapshot, task, IDLE)
    free = mine.current(snapshot).copy()
    other = snapshot.tasks.ids.index("ns/two-0")
    mark = statement.mark()
    for _ in range(2):
        statement.fill(alike(snapshot, other, 4), board(snapshot, other, IDLE))
    snapshot_free = np.all(snapshot.nodes.idle() >= snapshot.request(task), axis=1)

    np.testing.assert_array_equal(mine.current(snapshot) > -np.inf, snapshot_free)
    statement.rollback(mark)
    np.testing.assert_array_equal(mine.current(snapshot), free)


def test_commit_hands_over_the_operations_once() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    task = snapshot.tasks.ids.index("ns/one-0")
    statement.place(task, 1)

    done = statement.commit()

    assert [(int(op.tasks[0]), int(op.nodes[0])) for op in done] == [(task, 1)]
    assert statement.commit() == []
    statement.rollback()
    assert snapshot.tasks.status[task] == TaskStatus.ALLOCATED


def test_fill_places_the_first_tasks_and_stops_when_nothing_fits() -> None:
    snapshot = cluster()
    snapshot.nodes.state[ALLOCATABLE, :, snapshot.axis.index["nvidia.com/gpu"]] = [3000, 2000, 0]
    statement = Statement(snapshot)
    task = snapshot.tasks.ids.index("ns/one-0")
    tasks = alike(snapshot, task, 4)

    count = statement.fill(tasks, board(snapshot, task, IDLE))

    assert count == 1
    assert snapshot.tasks.status[tasks].tolist() == [TaskStatus.ALLOCATED, TaskStatus.PENDING]
