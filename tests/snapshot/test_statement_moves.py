"""Evictions that are taken back or end elsewhere: tasks moved, restored, recalled and renewed, and all their books."""

from __future__ import annotations

import copy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.api.names import PREEMPTABLE
from muster.kernels.placement import FUTURE, IDLE
from muster.kernels.planes import PIPELINED, RELEASING, SCORED, USED
from muster.snapshot import NO_ROW, Board, Mirror, OperationKind, Rows, Snapshot, Statement, TaskStatus
from muster.snapshot.columns import ACTIVE_STATUSES, BEST_EFFORT_PENDING
from muster.testing import fingerprint, node, pod, pod_group, queue

NODES = 3
RUNNING, WAITING = 8, 4
TASKS = 2 * RUNNING + 2 * WAITING


def cluster() -> Snapshot:
    """Two gangs in a tree of queues, one of them not preemptible, each with tasks that run and tasks that wait."""
    mirror = Mirror()
    objects = [queue("root"), queue("a", parent="root"), queue("b", parent="root")]
    for item in [*objects, *(node(f"n{k}", gpu=8, cpu=64) for k in range(NODES))]:
        mirror.upsert(item)
    for job, home, firm in (("soft", "a", False), ("firm", "b", True)):
        mirror.upsert(pod_group(job, minimum=2, roles={"worker": 1}, queue=home))
        marks = {PREEMPTABLE: "false"} if firm else {}
        for k in range(RUNNING + WAITING):
            on = f"n{k % NODES}" if k < RUNNING else ""
            role = "worker" if k % 2 else "lead"
            mirror.upsert(pod(f"{job}-{k:02}", group=job, role=role, node=on, gpu=1, cpu=1 + k % 2, annotations=marks))
    return mirror.snapshot()


def row(snapshot: Snapshot, name: str) -> int:
    return snapshot.tasks.ids.index(f"default/{name}")


def rows(snapshot: Snapshot, *names: str) -> Rows:
    return np.array([row(snapshot, name) for name in names], np.intp)


def board(snapshot: Snapshot, task: int, only: int | None = None) -> Board:
    """Promises for a task, best on the first nodes; `only`: on that node alone."""
    scores = -np.arange(len(snapshot.nodes), dtype=np.float64)
    if only is not None:
        scores = np.where(np.arange(len(snapshot.nodes)) == only, 0.0, -np.inf)
    requests = snapshot.classes.requests[snapshot.tasks.cls[task]]
    return Board.make(requests, np.empty((0, 2 + len(snapshot.axis))), scores, FUTURE)


def alike(snapshot: Snapshot, task: int, limit: int) -> Rows:
    """Tasks that can be placed together with one: same job, class, role and state."""
    tasks = snapshot.tasks
    same = np.flatnonzero(
        (tasks.status == tasks.status[task])
        & (tasks.job == tasks.job[task])
        & (tasks.cls == tasks.cls[task])
        & (tasks.role == tasks.role[task])
    )
    return same[:limit].astype(np.intp)


def prints(snapshot: Snapshot) -> str:
    """The bytes of all books; the touch log only ever grows, so it is left out."""
    plain = copy.copy(snapshot)
    plain.touched = 0
    return fingerprint(plain)


def recount(snapshot: Snapshot) -> None:
    """Check every book against the task columns and the nodes that pods are on in the cluster."""
    tasks = snapshot.tasks
    used, releasing, pipelined, scored = (np.zeros_like(snapshot.nodes.state[USED]) for _ in range(4))
    allocated = np.zeros_like(snapshot.jobs.allocated)
    counts = {"jobs": np.zeros_like(snapshot.jobs.counts), "roles": np.zeros_like(snapshot.roles.counts)}
    for task in range(len(tasks)):
        status = TaskStatus(int(tasks.status[task]))
        request, scoring = snapshot.classes.requests[tasks.cls[task]]
        at_home = snapshot.nodes.index.get(tasks.pods[task].spec.node_name, NO_ROW)
        counts["jobs"][tasks.job[task], status] += 1
        counts["roles"][tasks.role[task], status] += 1
        if status in ACTIVE_STATUSES:
            allocated[tasks.job[task]] += request
        if status == TaskStatus.PIPELINED:
            pipelined[tasks.node[task]] += request
        if at_home != NO_ROW:
            used[at_home] += request
            if status != TaskStatus.RUNNING:
                releasing[at_home] += request
        if status in (TaskStatus.RUNNING, TaskStatus.PIPELINED):
            scored[tasks.node[task]] += scoring
    for plane, expected in ((USED, used), (RELEASING, releasing), (PIPELINED, pipelined), (SCORED, scored)):
        np.testing.assert_array_equal(snapshot.nodes.state[plane], expected)
    np.testing.assert_array_equal(snapshot.jobs.allocated, allocated)
    np.testing.assert_array_equal(
        snapshot.jobs.counts[:, :BEST_EFFORT_PENDING], counts["jobs"][:, :BEST_EFFORT_PENDING]
    )
    np.testing.assert_array_equal(
        snapshot.roles.counts[:, :BEST_EFFORT_PENDING], counts["roles"][:, :BEST_EFFORT_PENDING]
    )
    check_queues(snapshot, allocated)


def check_queues(snapshot: Snapshot, allocated: NDArray[np.int64]) -> None:
    queues, jobs = snapshot.queues, snapshot.jobs
    for queue_row in range(len(queues)):
        below = [other for other, path in enumerate(queues.paths) if queue_row in path]
        mine = np.isin(jobs.queue, below)
        np.testing.assert_array_equal(queues.own_allocated[queue_row], allocated[jobs.queue == queue_row].sum(axis=0))
        np.testing.assert_array_equal(queues.tree_allocated[queue_row], allocated[mine].sum(axis=0))
        np.testing.assert_array_equal(queues.tree_firm[queue_row], allocated[mine & ~jobs.preemptible].sum(axis=0))


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(("evict", "promise", "move", "restore")), st.integers(0, TASKS - 1), st.integers(1, 4)
        ),
        st.tuples(st.sampled_from(("mark", "rollback", "redo")), st.just(0), st.just(0)),
    ),
    max_size=16,
)
_FROM = {
    "evict": (TaskStatus.RUNNING, TaskStatus.PIPELINED),
    "promise": (TaskStatus.PENDING,),
    "move": (TaskStatus.RELEASING,),
    "restore": (TaskStatus.RELEASING,),
}


def apply(statement: Statement, step: str, task: int, number: int) -> None:
    """Do a step to a task and others like it, unless the state of the task does not allow it."""
    snapshot = statement.snapshot
    if snapshot.tasks.status[task] not in _FROM[step]:
        return
    together = alike(snapshot, task, number)
    if step == "evict":
        statement.evict(together)
    elif step == "restore":
        statement.restore(together)
    else:
        statement.fill(together, board(snapshot, task, only=number if number < NODES else None))


@given(STEPS)
def test_every_book_follows_the_tasks_and_rollback_restores_every_bit(steps: list[tuple[str, int, int]]) -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    before = prints(snapshot)
    marks: list[tuple[int, str]] = []
    for step, task, number in steps:
        if step == "mark":
            marks.append((statement.mark(), prints(snapshot)))
        elif step == "rollback" and marks:
            mark, then = marks.pop()
            statement.rollback(mark)
            assert prints(snapshot) == then
        elif step == "redo":
            now, done = prints(snapshot), statement.operations[:]
            statement.rollback()
            statement.redo(done)
            assert prints(snapshot) == now
        elif step in _FROM:
            apply(statement, step, task, number)
        recount(snapshot)
    statement.rollback()
    assert prints(snapshot) == before


@given(STEPS)
def test_what_is_committed_leads_to_the_same_cluster_as_what_was_done(steps: list[tuple[str, int, int]]) -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    for step, task, number in steps:
        if step in _FROM:
            apply(statement, step, task, number)
    tasks = snapshot.tasks
    leaves = {task for task in range(len(tasks)) if tasks.pods[task].spec.node_name and tasks.status[task] != 5}
    promised = {task: int(tasks.node[task]) for task in range(len(tasks)) if tasks.status[task] == TaskStatus.PIPELINED}

    told, places = replay(statement)

    assert told == leaves
    assert places == promised


def replay(statement: Statement) -> tuple[set[int], dict[int, int]]:
    """Who is told to leave, and who is promised what, by the operations that a statement hands over."""
    told: set[int] = set()
    places: dict[int, int] = {}
    for operation in statement.commit():
        assert operation.kind not in (OperationKind.RESTORE, OperationKind.RENEW)
        pairs = list(zip(operation.tasks.tolist(), operation.nodes.tolist(), strict=True))
        if operation.kind is OperationKind.EVICT:
            assert told.isdisjoint(operation.tasks.tolist()), "told twice"
            told.update(operation.tasks.tolist())
        elif operation.kind is OperationKind.RECALL:
            for task, _ in pairs:
                del places[task]
        else:
            places.update(pairs)
    return told, places


# -- one by one --------------------------------------------------------------------------------------------


def test_an_evicted_task_that_fits_best_elsewhere_moves_there_and_leaves_its_node() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    task = row(snapshot, "soft-00")
    statement.evict(np.array([task], np.intp))

    assert statement.fill(np.array([task], np.intp), board(snapshot, task, only=2)) == 1

    assert snapshot.tasks.status[task] == TaskStatus.PIPELINED
    assert snapshot.tasks.node[task] == 2
    gpu = snapshot.axis.index["nvidia.com/gpu"]
    assert snapshot.nodes.state[RELEASING, 0, gpu] == 1000
    assert snapshot.nodes.state[PIPELINED, 2, gpu] == 1000
    moved = statement.commit()[-1]
    assert (moved.kind, moved.nodes.tolist()) == (OperationKind.MOVE, [2])
    assert moved.origins is not None
    assert moved.origins.tolist() == [0]


def test_an_evicted_task_whose_own_node_is_the_best_stays_as_if_nothing_had_happened() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    before = prints(snapshot)
    task = row(snapshot, "firm-01")
    statement.evict(np.array([task], np.intp))

    assert statement.fill(np.array([task], np.intp), board(snapshot, task, only=1)) == 1

    assert prints(snapshot) == before
    assert statement.commit() == []


def test_of_tasks_that_are_placed_together_some_may_stay_and_others_move() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    tasks = rows(snapshot, "soft-00", "soft-02", "soft-04")  # on n0, n2 and n1
    statement.evict(tasks)

    statement.fill(tasks, board(snapshot, int(tasks[0]), only=2))

    assert snapshot.tasks.status[tasks].tolist() == [TaskStatus.PIPELINED, TaskStatus.RUNNING, TaskStatus.PIPELINED]
    done = {operation.kind: operation.tasks.tolist() for operation in statement.commit()}
    assert done == {OperationKind.EVICT: tasks[[0, 2]].tolist(), OperationKind.MOVE: tasks[[0, 2]].tolist()}


def test_a_task_that_was_given_back_and_taken_again_is_evicted() -> None:
    snapshot = cluster()
    statement = Statement(snapshot)
    tasks = rows(snapshot, "soft-00", "soft-01")
    statement.evict(tasks)
    statement.restore(tasks)
    statement.evict(tasks[:1])

    assert [(operation.kind, operation.tasks.tolist()) for operation in statement.commit()] == [
        (OperationKind.EVICT, tasks[:1].tolist())
    ]


def test_a_promise_that_was_taken_back_and_renewed_stands() -> None:
    snapshot = cluster()
    first = Statement(snapshot)
    task = row(snapshot, "soft-08")
    first.fill(np.array([task], np.intp), board(snapshot, task, only=1))
    first.commit()
    before = prints(snapshot)
    second = Statement(snapshot)

    second.evict(np.array([task], np.intp))
    assert snapshot.tasks.status[task] == TaskStatus.RELEASING
    assert not snapshot.nodes.state[PIPELINED].any()
    second.restore(np.array([task], np.intp))

    assert prints(snapshot) == before
    assert second.commit() == []


def test_a_promise_that_was_taken_back_may_be_made_elsewhere() -> None:
    snapshot = cluster()
    first = Statement(snapshot)
    task = row(snapshot, "soft-08")
    first.fill(np.array([task], np.intp), board(snapshot, task, only=1))
    first.commit()
    second = Statement(snapshot)
    second.evict(np.array([task], np.intp))
    second.fill(np.array([task], np.intp), board(snapshot, task, only=2))

    assert [operation.kind for operation in second.operations] == [OperationKind.RECALL, OperationKind.MOVE]
    assert snapshot.tasks.node[task] == 2
    assert not snapshot.nodes.state[RELEASING].any(), "it was nowhere yet, so it leaves nothing"
    recount(snapshot)


def test_what_is_firm_follows_evictions_and_moves_of_jobs_that_are_not_preemptible() -> None:
    snapshot = cluster()
    queues, gpu = snapshot.queues, snapshot.axis.index["nvidia.com/gpu"]
    statement = Statement(snapshot)
    tasks = rows(snapshot, "firm-00", "soft-00")

    def firm() -> list[int]:
        return [int(queues.tree_firm[queues.index[name], gpu]) // 1000 for name in ("root", "a", "b")]

    assert firm() == [8, 0, 8]
    statement.evict(tasks)
    assert firm() == [7, 0, 7]
    for task in tasks.tolist():
        statement.fill(np.array([task], np.intp), board(snapshot, task, only=2))
    assert firm() == [8, 0, 8]
    statement.place(row(snapshot, "firm-08"), 2, IDLE)
    assert firm() == [9, 0, 9]
