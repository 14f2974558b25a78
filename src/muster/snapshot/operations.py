"""Operations: what can be done to a snapshot, and how each changes its columns, forwards and backwards.

A batch (tasks of one job, class, role and sub-group) is one operation. Doing it and undoing it run through the same
lines with another sign, so that every array is restored bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from muster.kernels.placement import move_tasks
from muster.kernels.planes import PIPELINED, RELEASING, USED
from muster.kernels.totals import move_counts, move_requests
from muster.snapshot.columns import BEST_EFFORT_PENDING, NO_ROW, Rows, TaskStatus, quick_to_name
from muster.snapshot.tables import BEST_EFFORT, Snapshot


@quick_to_name
class OperationKind(IntEnum):
    """What an operation does to its tasks."""

    ALLOCATE = 0
    PIPELINE = 1
    EVICT = 2
    #: Give up the places that earlier cycles promised to pending tasks.
    RELEASE = 3
    #: Promise a task that leaves its node a place on another one: it is evicted there and started here.
    MOVE = 4
    #: Leave a task that was evicted in this statement where it is after all.
    RESTORE = 5
    #: Take back a place that was promised earlier in the cycle, and: let it stand after all.
    RECALL = 6
    RENEW = 7


@dataclass(slots=True)
class Operation:
    """One change: tasks of one job, class, role and sub-group, and their nodes."""

    kind: OperationKind
    tasks: Rows
    nodes: Rows
    #: Why; for evictions also for whom. Filled by the caller, kept for the record.
    note: str = ""
    #: Job that profits from an eviction, NO_ROW if none.
    beneficiary: int = NO_ROW
    #: EVICT: the states that tasks came from, as they may differ; RESTORE: those that they return to.
    previous: NDArray[np.int8] | None = None
    #: MOVE: the nodes that the tasks leave.
    origins: Rows | None = None
    #: EVICT: why these tasks were chosen, in a form that the reports know; see `VictimRecord`.
    record: object | None = None


#: The plane of an operation, how often its requests are added to it, and to what scores count.
_PLANES = {
    OperationKind.ALLOCATE: (USED, +1, +1),
    OperationKind.PIPELINE: (PIPELINED, +1, +1),
    OperationKind.EVICT: (RELEASING, +1, -1),
    OperationKind.RELEASE: (PIPELINED, -1, -1),
    OperationKind.MOVE: (PIPELINED, +1, +1),
    OperationKind.RESTORE: (RELEASING, -1, +1),
    OperationKind.RECALL: (PIPELINED, -1, -1),
    OperationKind.RENEW: (PIPELINED, +1, +1),
}
#: The same for the kernel: by kind, for an operation and for its undoing.
_CHANGES = [
    [np.array([plane, sign * times, sign * scored], np.int64) for sign in (+1, -1)]
    for _, (plane, times, scored) in sorted(_PLANES.items())
]
TAKES = (OperationKind.EVICT, OperationKind.RECALL)
GIVES_BACK = (OperationKind.RESTORE, OperationKind.RENEW)
#: Members of an enum are slow to look up and kernels are slow to recognise them; statements are written all the time.
_ALLOCATE, _MOVE, _RELEASE = OperationKind.ALLOCATE, OperationKind.MOVE, OperationKind.RELEASE
_WAITING, _ALLOCATED = int(TaskStatus.PENDING), int(TaskStatus.ALLOCATED)
_LEAVING, _PROMISED = int(TaskStatus.RELEASING), int(TaskStatus.PIPELINED)


def move_on_nodes(snapshot: Snapshot, operation: Operation, sign: int) -> None:
    """Change the node state for the tasks of an operation, and log the rows for the boards."""
    reserve_log(snapshot, len(operation.tasks))
    snapshot.touched = move_tasks(
        snapshot.nodes.state,
        snapshot.classes.requests,
        snapshot.tasks.cls[operation.tasks],
        operation.nodes,
        _CHANGES[operation.kind][sign < 0],
        snapshot.touch_log,
        snapshot.touched,
    )


def book(snapshot: Snapshot, operation: Operation, sign: int) -> None:
    """Change task columns, counters and totals for an operation (sign +1) or its undoing (-1)."""
    tasks = operation.tasks
    if operation.kind is _RELEASE:
        snapshot.tasks.reserved[tasks] = sign < 0
        return
    if operation.kind is _MOVE:
        _book_moved(snapshot, operation, sign)
        return
    if operation.previous is not None:
        _book_evicted(snapshot, operation, sign if operation.kind in TAKES else -sign)
        return
    target = _ALLOCATED if operation.kind is _ALLOCATE else _PROMISED
    snapshot.tasks.status[tasks] = target if sign > 0 else _WAITING
    snapshot.tasks.node[tasks] = operation.nodes if sign > 0 else NO_ROW
    _move_counts(snapshot, tasks, np.full(len(tasks), _WAITING, np.int8), target, sign)
    if snapshot.tasks.flags[tasks[0]] & BEST_EFFORT:
        _count_best_effort(snapshot, int(tasks[0]), -sign * len(tasks))
    _move_totals(snapshot, tasks, sign)


def _book_evicted(snapshot: Snapshot, operation: Operation, sign: int) -> None:
    """As `book`, for tasks of any jobs and classes."""
    tasks = operation.tasks
    previous = np.asarray(operation.previous, np.int8)
    snapshot.tasks.status[tasks] = _LEAVING if sign > 0 else previous
    _move_counts(snapshot, tasks, previous, _LEAVING, sign)
    _move_totals(snapshot, tasks, -sign)


def _book_moved(snapshot: Snapshot, operation: Operation, sign: int) -> None:
    """Book tasks that leave one node for another: they count as placed again."""
    tasks, table = operation.tasks, snapshot.tasks
    table.status[tasks] = _PROMISED if sign > 0 else _LEAVING
    table.node[tasks] = operation.nodes if sign > 0 else np.asarray(operation.origins, np.intp)
    _move_counts(snapshot, tasks, np.full(len(tasks), _LEAVING, np.int8), _PROMISED, sign)
    _move_totals(snapshot, tasks, sign)


def _move_counts(snapshot: Snapshot, tasks: Rows, before: NDArray[np.int8], after: int, sign: int) -> None:
    """Count tasks of any jobs in another state than before."""
    table = snapshot.tasks
    move_counts(snapshot.jobs.counts, table.job, tasks, before, after, sign)
    move_counts(snapshot.roles.counts, table.role, tasks, before, after, sign)
    move_counts(snapshot.subgroups.counts, table.subgroup, tasks, before, after, sign)


def _count_best_effort(snapshot: Snapshot, task: int, amount: int) -> None:
    """Count so many more tasks like this one as pending that ask for nothing."""
    table = snapshot.tasks
    snapshot.jobs.counts[table.job[task], BEST_EFFORT_PENDING] += amount
    snapshot.roles.counts[table.role[task], BEST_EFFORT_PENDING] += amount
    snapshot.subgroups.counts[table.subgroup[task], BEST_EFFORT_PENDING] += amount


def _move_totals(snapshot: Snapshot, tasks: Rows, sign: int) -> None:
    """Add the requests of tasks of any jobs to the totals of the jobs and their queues."""
    jobs, queues = snapshot.jobs, snapshot.queues
    move_requests(
        snapshot.classes.requests,
        tasks,
        snapshot.tasks.cls,
        snapshot.tasks.job,
        jobs.queue,
        jobs.preemptible,
        queues.upward,
        jobs.allocated,
        queues.own_allocated,
        queues.tree_allocated,
        queues.tree_firm,
        sign,
    )


def reserve_log(snapshot: Snapshot, more: int) -> None:
    """Have room in the log of touched rows for so many more."""
    needed = snapshot.touched + more
    if needed > len(snapshot.touch_log):
        grown = np.empty(max(2 * len(snapshot.touch_log), needed, 1024), np.intp)
        grown[: snapshot.touched] = snapshot.touch_log[: snapshot.touched]
        snapshot.touch_log = grown


def without_restored(operations: Sequence[Operation]) -> Iterator[Operation]:
    """The operations, last one first, as if what was given back had never been taken: each time the last taking."""
    restored: set[int] = set()
    for operation in reversed(operations):
        if operation.kind in GIVES_BACK:
            restored.update(operation.tasks.tolist())
        elif operation.kind in TAKES:
            gone = np.array([task not in restored for task in operation.tasks.tolist()], np.bool_)
            restored.difference_update(operation.tasks.tolist())
            previous = None if operation.previous is None else operation.previous[gone]
            if gone.any():
                yield replace(operation, tasks=operation.tasks[gone], nodes=operation.nodes[gone], previous=previous)
        else:
            yield operation
