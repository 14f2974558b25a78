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

from muster.kernels.placement import FUTURE, IDLE, MODE, WRITTEN, place_run
from muster.kernels.planes import PIPELINED, RELEASING, SCORED, USED
from muster.snapshot.board import Board
from muster.snapshot.status import BEST_EFFORT_PENDING, TaskStatus
from muster.snapshot.tables import BEST_EFFORT, NO_ROW, Rows, Snapshot


class OperationKind(IntEnum):
    """What an operation does to its tasks."""

    ALLOCATE = 0
    PIPELINE = 1
    EVICT = 2


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


#: (from status, to status) of placements.
_TARGET = {OperationKind.ALLOCATE: TaskStatus.ALLOCATED, OperationKind.PIPELINE: TaskStatus.PIPELINED}


class Statement:
    """A log of changes to one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.operations: list[Operation] = []

    def __len__(self) -> int:
        return len(self.operations)

    # -- placing -----------------------------------------------------------------------------------------

    def fill(self, tasks: Rows, board: Board) -> int:
        """Place as many of `tasks` (pending, one batch) as fit, in order, on the board's best nodes.

        The board decides between what is free now (the tasks become Allocated) and what will be free
        (Pipelined). Return how many were placed: always the first ones of `tasks`.
        """
        snapshot = self.snapshot
        self._reserve_log(len(tasks))
        board.span[WRITTEN] = snapshot.touched
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
        kind = OperationKind.PIPELINE if mode == FUTURE else OperationKind.ALLOCATE
        operation = Operation(kind, np.array([task], np.int32), np.array([node], np.int32))
        self._move_on_nodes(operation, +1)
        self._book(operation, +1)
        self.operations.append(operation)

    def evict(self, tasks: Rows, beneficiary: int = NO_ROW, note: str = "") -> None:
        """Mark running or bound tasks as leaving; tasks may be of different jobs and classes."""
        for task in tasks:
            self._evict_one(int(task), beneficiary, note)

    def _evict_one(self, task: int, beneficiary: int, note: str) -> None:
        table = self.snapshot.tasks
        operation = Operation(
            OperationKind.EVICT,
            np.array([task], np.int32),
            table.node[[task]].copy(),
            note,
            beneficiary,
            table.status[[task]].copy(),
        )
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

    def commit(self) -> list[Operation]:
        """Hand over all changes; the statement is empty afterwards and they can no longer be undone."""
        done, self.operations = self.operations, []
        return done

    # -- books -------------------------------------------------------------------------------------------

    def _move_on_nodes(self, operation: Operation, sign: int) -> None:
        """Change the node state for the tasks of an operation, and log the rows for the boards."""
        snapshot = self.snapshot
        state = snapshot.nodes.state
        requests = snapshot.classes.requests
        self._reserve_log(len(operation.tasks))
        for task, node in zip(operation.tasks, operation.nodes, strict=True):
            if node == NO_ROW:
                continue
            request, scored = requests[snapshot.tasks.cls[task]]
            if operation.kind is OperationKind.EVICT:
                state[RELEASING, node] += sign * request
                state[SCORED, node] -= sign * scored
            else:
                plane = USED if operation.kind is OperationKind.ALLOCATE else PIPELINED
                state[plane, node] += sign * request
                state[SCORED, node] += sign * scored
            snapshot.touch_log[snapshot.touched] = node
            snapshot.touched += 1

    def _book(self, operation: Operation, sign: int) -> None:
        """Change task columns, counters and totals for an operation (sign +1) or its undoing (-1)."""
        snapshot = self.snapshot
        tasks = operation.tasks
        if operation.kind is OperationKind.EVICT:
            assert operation.previous is not None
            before, after = TaskStatus(int(operation.previous[0])), TaskStatus.RELEASING
            weight = -sign * len(tasks)
            snapshot.tasks.status[tasks] = after if sign > 0 else before
        else:
            before, after = TaskStatus.PENDING, _TARGET[operation.kind]
            weight = sign * len(tasks)
            snapshot.tasks.status[tasks] = after if sign > 0 else before
            snapshot.tasks.node[tasks] = operation.nodes if sign > 0 else NO_ROW
        first = int(tasks[0])
        self._count(first, before, after, sign * len(tasks))
        self._total(first, weight)

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
            snapshot.queues.tree_allocated[snapshot.queues.paths[queue]] += amount

    def _reserve_log(self, more: int) -> None:
        snapshot = self.snapshot
        needed = snapshot.touched + more
        if needed > len(snapshot.touch_log):
            grown = np.empty(max(2 * len(snapshot.touch_log), needed, 1024), np.int32)
            grown[: snapshot.touched] = snapshot.touch_log[: snapshot.touched]
            snapshot.touch_log = grown
