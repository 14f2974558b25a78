"""The only way to change a snapshot: every change is logged, and can be undone bit for bit.

Actions open a statement, try things, and commit it or roll it back. `mark` and `rollback` nest; both cost
what was done since, not what exists. A batch (tasks of one job, class, role and sub-group) is one log entry.
What is committed is handed to the session as operations; decisions for the cluster are made from them.
Invariant: after `rollback(mark)` every array of the snapshot equals what it was at `mark()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from muster.kernels.placement import FUTURE, HI, IDLE, LO, MODE, WRITTEN, move_tasks, place_run
from muster.kernels.planes import PIPELINED, RELEASING, USED
from muster.kernels.totals import move_counts, move_requests
from muster.snapshot.board import Board
from muster.snapshot.rows import NO_ROW, Rows
from muster.snapshot.status import BEST_EFFORT_PENDING, TaskStatus
from muster.snapshot.tables import BEST_EFFORT, Snapshot


class OperationKind(IntEnum):
    """What an operation does to its tasks."""

    ALLOCATE = 0
    PIPELINE = 1
    EVICT = 2
    #: Give up the places that earlier cycles promised to pending tasks.
    RELEASE = 3


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
    #: EVICT: the states that tasks came from, as they may differ.
    previous: NDArray[np.int8] | None = None
    #: EVICT: why these tasks were chosen, in a form that the reports know; see `muster.engine.evictions.records`.
    record: object | None = None


#: (from status, to status) of placements.
#: The plane that an operation adds its requests to, and whether scores count the tasks more or less.
_PLANES = {
    OperationKind.ALLOCATE: (USED, +1),
    OperationKind.PIPELINE: (PIPELINED, +1),
    OperationKind.EVICT: (RELEASING, -1),
    OperationKind.RELEASE: (PIPELINED, -1),
}
_TARGET = {OperationKind.ALLOCATE: TaskStatus.ALLOCATED, OperationKind.PIPELINE: TaskStatus.PIPELINED}


class Statement:
    """A log of changes to one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.operations: list[Operation] = []

    def __len__(self) -> int:
        return len(self.operations)

    # -- placing -----------------------------------------------------------------------------------------

    def fill(self, tasks: Rows, board: Board, lo: int = 0, hi: int | None = None) -> int:
        """Place as many of `tasks` (pending, one batch) as fit, in order, on the board's best nodes of lo..hi.

        The board decides between what is free now (the tasks become Allocated) and what will be free
        (Pipelined). Return how many were placed: always the first ones of `tasks`.
        """
        snapshot = self.snapshot
        self._reserve_log(len(tasks))
        board.span[WRITTEN] = snapshot.touched
        board.span[LO] = lo
        board.span[HI] = len(snapshot.nodes) if hi is None else hi
        placed = np.empty(len(tasks), np.int32)
        count = place_run(
            snapshot.nodes.state,
            board.requests,
            board.terms,
            board.scores,
            board.block_max,
            snapshot.touch_log,
            board.span,
            placed,
        )
        snapshot.touched = int(board.span[WRITTEN])
        if count:
            kind = OperationKind.ALLOCATE if board.span[MODE] == IDLE else OperationKind.PIPELINE
            operation = Operation(kind, tasks[:count], placed[:count])
            self._book(operation, +1)
            self.operations.append(operation)
        return count

    def place(self, task: int, node: int, mode: int = IDLE) -> None:
        """Put one pending task on one node: on what is free now, or on what will be."""
        self.place_batch(np.array([task], np.int32), np.array([node], np.int32), mode)

    def place_batch(self, tasks: Rows, nodes: Rows, mode: int = IDLE) -> None:
        """Put pending tasks of one batch on the given nodes."""
        kind = OperationKind.PIPELINE if mode == FUTURE else OperationKind.ALLOCATE
        operation = Operation(kind, tasks, nodes)
        self._move_on_nodes(operation, +1)
        self._book(operation, +1)
        self.operations.append(operation)

    def evict(self, tasks: Rows, beneficiary: int = NO_ROW, note: str = "", record: object | None = None) -> None:
        """Mark running or bound tasks as leaving, all at once; they may be of different jobs and classes."""
        if len(tasks) == 0:
            return
        table = self.snapshot.tasks
        operation = Operation(
            OperationKind.EVICT, tasks, table.node[tasks], note, beneficiary, table.status[tasks], record
        )
        self._move_on_nodes(operation, +1)
        self._book(operation, +1)
        self.operations.append(operation)

    def release(self, tasks: Rows) -> None:
        """Give up what is reserved for those of the tasks that were nominated to a node; they may go elsewhere."""
        table = self.snapshot.tasks
        reserved = tasks[table.reserved[tasks]]
        if len(reserved):
            operation = Operation(OperationKind.RELEASE, reserved, table.nominated[reserved])
            self._move_on_nodes(operation, +1)
            self._book(operation, +1)
            self.operations.append(operation)

    # -- undoing and keeping -----------------------------------------------------------------------------

    def mark(self) -> int:
        """Name the present moment, for `rollback`."""
        return len(self.operations)

    def rollback(self, mark: int = 0) -> None:
        """Undo everything since `mark`, last change first."""
        while len(self.operations) > mark:
            operation = self.operations.pop()
            self._book(operation, -1)
            self._move_on_nodes(operation, -1)

    def redo(self, operations: list[Operation]) -> None:
        """Apply operations that were rolled back earlier, in their order."""
        for operation in operations:
            self._move_on_nodes(operation, +1)
            self._book(operation, +1)
            self.operations.append(operation)

    def sort_nodes(self, mark: int) -> None:
        """Deal the nodes of equal tasks out anew: by row to tasks in the order they were placed.

        All placements since `mark` must be of one batch (see `fill`) and kind; sums stay as they are.
        """
        placed = self.operations[mark:]
        if len(placed) < 1:
            return
        merged = Operation(
            placed[0].kind,
            np.concatenate([operation.tasks for operation in placed]),
            np.sort(np.concatenate([operation.nodes for operation in placed])),
        )
        self.snapshot.tasks.node[merged.tasks] = merged.nodes
        self.operations[mark:] = [merged]

    def commit(self) -> list[Operation]:
        """Hand over all changes; the statement is empty afterwards and they can no longer be undone."""
        done, self.operations = self.operations, []
        return done

    # -- books -------------------------------------------------------------------------------------------

    def _move_on_nodes(self, operation: Operation, sign: int) -> None:
        """Change the node state for the tasks of an operation, and log the rows for the boards."""
        snapshot = self.snapshot
        self._reserve_log(len(operation.tasks))
        plane, scored = _PLANES[operation.kind]
        # A release takes its requests off the plane; everything else adds them.
        times = -sign if operation.kind is OperationKind.RELEASE else sign
        snapshot.touched = move_tasks(
            snapshot.nodes.state,
            snapshot.classes.requests,
            snapshot.tasks.cls[operation.tasks],
            operation.nodes,
            np.array([plane, times, sign * scored], np.int64),
            snapshot.touch_log,
            snapshot.touched,
        )

    def _book(self, operation: Operation, sign: int) -> None:
        """Change task columns, counters and totals for an operation (sign +1) or its undoing (-1)."""
        snapshot = self.snapshot
        tasks = operation.tasks
        if operation.kind is OperationKind.RELEASE:
            snapshot.tasks.reserved[tasks] = sign < 0
            return
        if operation.previous is not None:
            self._book_evicted(operation, sign)
            return
        before, after = TaskStatus.PENDING, _TARGET[operation.kind]
        snapshot.tasks.status[tasks] = after if sign > 0 else before
        snapshot.tasks.node[tasks] = operation.nodes if sign > 0 else NO_ROW
        first = int(tasks[0])
        self._count(first, before, after, sign * len(tasks))
        self._total(first, sign * len(tasks))

    def _book_evicted(self, operation: Operation, sign: int) -> None:
        """As `_book`, for tasks of any jobs and classes."""
        snapshot, tasks = self.snapshot, operation.tasks
        previous = np.asarray(operation.previous, np.int8)
        table = snapshot.tasks
        table.status[tasks] = TaskStatus.RELEASING if sign > 0 else previous
        jobs = table.job[tasks]
        leaving = int(TaskStatus.RELEASING)  # kernels are slow to recognise an enum
        move_counts(snapshot.jobs.counts, jobs, previous, leaving, sign)
        move_counts(snapshot.roles.counts, table.role[tasks], previous, leaving, sign)
        move_counts(snapshot.subgroups.counts, table.subgroup[tasks], previous, leaving, sign)
        move_requests(snapshot.classes.requests, table.cls[tasks], jobs, snapshot.jobs.allocated, -sign)
        self._move_queues(tasks, jobs, -sign)

    def _move_queues(self, tasks: Rows, jobs: Rows, sign: int) -> None:
        """Add the requests of tasks of any jobs to the totals of their queues."""
        snapshot = self.snapshot
        sums = np.zeros_like(snapshot.queues.own_allocated)
        queues = snapshot.jobs.queue[jobs]
        move_requests(snapshot.classes.requests, snapshot.tasks.cls[tasks], queues, sums, sign)
        for queue in np.flatnonzero(sums.any(axis=1)).tolist():
            snapshot.queues.own_allocated[queue] += sums[queue]
            snapshot.queues.tree_allocated[snapshot.queues.paths[queue]] += sums[queue]

    def _count(self, task: int, before: TaskStatus, after: TaskStatus, amount: int) -> None:
        snapshot = self.snapshot
        table = snapshot.tasks
        rows = (
            snapshot.jobs.counts[table.job[task]],
            snapshot.roles.counts[table.role[task]],
            snapshot.subgroups.counts[table.subgroup[task]],
        )
        best_effort = bool(table.flags[task] & BEST_EFFORT)
        for row in rows:
            row[before] -= amount
            row[after] += amount
            if best_effort and before == TaskStatus.PENDING:
                row[BEST_EFFORT_PENDING] -= amount

    def _total(self, task: int, weight: int) -> None:
        snapshot = self.snapshot
        job = snapshot.tasks.job[task]
        amount = snapshot.classes.requests[snapshot.tasks.cls[task], 0] * weight
        snapshot.jobs.allocated[job] += amount
        queue = snapshot.jobs.queue[job]
        if queue != NO_ROW:
            snapshot.queues.own_allocated[queue] += amount
            path = snapshot.queues.paths[queue]
            # One row is several times cheaper than a list of rows, and most queues have no parent.
            snapshot.queues.tree_allocated[path if len(path) > 1 else queue] += amount

    def _reserve_log(self, more: int) -> None:
        snapshot = self.snapshot
        needed = snapshot.touched + more
        if needed > len(snapshot.touch_log):
            grown = np.empty(max(2 * len(snapshot.touch_log), needed, 1024), np.int32)
            grown[: snapshot.touched] = snapshot.touch_log[: snapshot.touched]
            snapshot.touch_log = grown
