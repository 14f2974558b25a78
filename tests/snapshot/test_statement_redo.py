"""What was undone can be done again exactly, and equal tasks may change nodes without changing any sum."""

from __future__ import annotations

import copy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.kernels.placement import FUTURE, IDLE
from muster.kernels.planes import ALLOCATABLE
from muster.snapshot import Board, Mirror, Operation, OperationKind, Rows, Snapshot, Statement, TaskStatus
from muster.testing import fingerprint, node, queue
from tests.snapshot.networks import group, members, racks


def cluster(n_pending: int = 6) -> Snapshot:
    mirror = Mirror()
    objects = [
        queue("default"),
        *racks({"s0": [2, 2], "s1": [3]}, gpu=4),
        node("outside", gpu=4),
        group("one", 2),
        *members("one", n_pending, gpu=1, cpu=1),
        group("two", 2),
        *members("two", 3, on=["s0-r0-n0", "s1-r0-n1", "s1-r0-n1"], gpu=2),
    ]
    for item in objects:
        mirror.upsert(item)
    return mirror.snapshot()


def waiting(snapshot: Snapshot) -> Rows:
    ids = snapshot.tasks.ids
    return np.array([row for row in sorted(range(len(ids)), key=ids.__getitem__) if "one" in ids[row]], np.intp)


def running(snapshot: Snapshot) -> Rows:
    return np.flatnonzero(snapshot.tasks.status == TaskStatus.RUNNING).astype(np.intp)


def board(snapshot: Snapshot, mode: int, fixed: np.ndarray[tuple[int], np.dtype[np.float64]] | None = None) -> Board:
    requests = snapshot.classes.requests[snapshot.tasks.cls[waiting(snapshot)[0]]]
    scores = np.zeros(len(snapshot.nodes)) if fixed is None else fixed
    return Board.make(requests, np.empty((0, 2 + len(snapshot.axis))), scores, mode)


def prints(snapshot: Snapshot) -> str:
    """The bytes of all books; the touch log only ever grows, so it is left out."""
    plain = copy.copy(snapshot)
    plain.touched = 0
    return fingerprint(plain)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fill"), st.integers(1, 3), st.sampled_from((IDLE, FUTURE))),
        st.tuples(st.just("batch"), st.integers(1, 3), st.sampled_from((IDLE, FUTURE))),
        st.tuples(st.just("evict"), st.integers(1, 2), st.just(IDLE)),
    ),
    min_size=1,
    max_size=6,
)


def apply(statement: Statement, step: tuple[str, int, int]) -> None:
    snapshot = statement.snapshot
    kind, count, mode = step
    left = waiting(snapshot)
    left = left[snapshot.tasks.status[left] == TaskStatus.PENDING][:count]
    if kind == "evict":
        statement.evict(running(snapshot)[:count])
    elif kind == "fill" and len(left):
        statement.fill(left, board(snapshot, mode), 0, 5)
    elif len(left):
        statement.place_batch(left, np.arange(len(left), dtype=np.intp)[::-1].copy(), mode)


@given(STEPS, st.data())
def test_redo_after_rollback_restores_exactly_what_was_done(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    before = prints(snapshot)
    marks, pictures = [0], [before]
    for step in steps:
        apply(statement, step)
        marks.append(statement.mark())
        pictures.append(prints(snapshot))
    cut = data.draw(st.integers(0, len(steps)))
    undone = statement.operations[marks[cut] :]

    statement.rollback(marks[cut])
    assert prints(snapshot) == pictures[cut]
    statement.redo(undone)
    assert prints(snapshot) == pictures[-1]
    assert statement.mark() == marks[-1]
    statement.rollback()
    assert prints(snapshot) == before


def test_a_board_is_up_to_date_after_redo() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    tasks = waiting(snapshot)
    seen = board(snapshot, IDLE)
    seen.current(snapshot)
    statement.place_batch(tasks[:4], np.zeros(4, np.intp))
    done = statement.operations[:]
    statement.rollback()
    seen.current(snapshot)
    statement.redo(done)
    np.testing.assert_array_equal(seen.current(snapshot), board(snapshot, IDLE).current(snapshot))


@given(st.lists(st.integers(0, 7), min_size=6, max_size=6), st.integers(1, 5), st.sampled_from((IDLE, FUTURE)))
def test_sorting_nodes_deals_rows_out_in_task_order_and_keeps_every_sum(nodes: list[int], cut: int, mode: int) -> None:
    snapshot = cluster()
    snapshot.nodes.state[ALLOCATABLE] *= 4
    statement = Statement(snapshot)
    before = prints(snapshot)
    tasks, rows = waiting(snapshot), np.array(nodes, np.intp)
    mark = statement.mark()
    statement.place_batch(tasks[:cut], rows[:cut], mode)
    statement.place_batch(tasks[cut:], rows[cut:], mode)
    state, counts = snapshot.nodes.state.copy(), snapshot.jobs.counts.copy()

    statement.sort_nodes(mark)

    assert snapshot.tasks.node[tasks].tolist() == sorted(nodes)
    np.testing.assert_array_equal(snapshot.nodes.state, state)
    np.testing.assert_array_equal(snapshot.jobs.counts, counts)
    assert len(statement) == 1
    done = prints(snapshot)
    operations = statement.operations[:]
    statement.rollback()
    assert prints(snapshot) == before
    statement.redo(operations)
    assert prints(snapshot) == done


def test_sorting_leaves_what_came_before_the_mark_alone() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    tasks = waiting(snapshot)
    statement.place_batch(tasks[:2], np.array([5, 4], np.intp))
    mark = statement.mark()
    statement.sort_nodes(mark)
    assert len(statement) == 1
    statement.place_batch(tasks[2:4], np.array([3, 1], np.intp))
    statement.sort_nodes(mark)
    assert snapshot.tasks.node[tasks[:4]].tolist() == [5, 4, 1, 3]


@given(st.integers(1, 6), st.sampled_from((IDLE, FUTURE)))
def test_a_batch_equals_its_tasks_one_by_one(count: int, mode: int) -> None:
    together, alone = cluster(), cluster()
    tasks = waiting(together)[:count]
    nodes = np.arange(count, dtype=np.intp) % 3

    Statement(together).place_batch(tasks, nodes, mode)
    single = Statement(alone)
    for task, row in zip(tasks.tolist(), nodes.tolist(), strict=True):
        single.place(task, row, mode)

    assert prints(together) == prints(alone)
    status = TaskStatus.ALLOCATED if mode == IDLE else TaskStatus.PIPELINED
    assert (together.tasks.status[tasks] == status).all()


def test_the_log_grows_with_what_is_done() -> None:
    snapshot = cluster(n_pending=600)
    snapshot.nodes.state[ALLOCATABLE] *= 1000
    statement = Statement(snapshot)
    tasks = waiting(snapshot)
    for _ in range(2):
        statement.place_batch(tasks, np.zeros(len(tasks), np.intp))
        statement.rollback()
    assert snapshot.touched == 4 * len(tasks)
    assert (snapshot.touch_log[: snapshot.touched] == 0).all()


def test_fill_stays_inside_the_rows_it_was_given_and_takes_the_best_of_them() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    scores = np.arange(len(snapshot.nodes), dtype=np.float64)
    tasks = waiting(snapshot)

    count = statement.fill(tasks, board(snapshot, IDLE, scores), 1, 3)

    assert count == 6
    assert sorted(snapshot.tasks.node[tasks].tolist()) == [1, 1, 2, 2, 2, 2]
    assert statement.fill(tasks[:0], board(snapshot, IDLE), 1, 3) == 0


def test_nothing_evicted_is_no_operation() -> None:
    statement = Statement(cluster())
    statement.evict(np.empty(0, np.intp))
    assert statement.operations == []


def test_operations_say_what_was_done() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    tasks, victims = waiting(snapshot), running(snapshot)[:1]
    statement.place(int(tasks[0]), 1, FUTURE)
    statement.fill(tasks[1:3], board(snapshot, IDLE), 4, 5)
    statement.evict(victims, beneficiary=3, note="why")

    def said(operation: Operation) -> tuple[OperationKind, list[int], list[int], str, int]:
        return operation.kind, operation.tasks.tolist(), operation.nodes.tolist(), operation.note, operation.beneficiary

    assert [said(operation) for operation in statement.commit()] == [
        (OperationKind.PIPELINE, tasks[:1].tolist(), [1], "", -1),
        (OperationKind.ALLOCATE, tasks[1:3].tolist(), [4, 4], "", -1),
        (OperationKind.EVICT, victims.tolist(), snapshot.tasks.node[victims].tolist(), "why", 3),
    ]
