"""The only way to change a snapshot: every change is logged, and can be undone bit for bit.

Actions open a statement, try things, and end it: `commit` hands the changes over, `hold` lets them stand for this
cycle without telling anybody, `rollback` takes them back. `mark` and `rollback(mark)` nest; both cost what was done
since, not what exists. A batch (tasks of one job, class, role and sub-group) is one log entry.
What is committed is handed to the session as operations; decisions for the cluster are made from them.
Invariant: after `rollback(mark)` every array of the snapshot equals what it was at `mark()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from muster.kernels.placement import HI, IDLE, LO, MODE, WRITTEN, move_tasks, place_run
from muster.kernels.planes import PIPELINED, RELEASING, USED
from muster.kernels.totals import move_counts, move_requests
from muster.snapshot.board import Board
from muster.snapshot.columns import BEST_EFFORT_PENDING, NO_ROW, Rows, TaskStatus
from muster.snapshot.tables import BEST_EFFORT, Snapshot


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
    #: EVICT: why these tasks were chosen, in a form that the reports know; see `muster.engine.evictions.records`.
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
_TAKES = (OperationKind.EVICT, OperationKind.RECALL)
_GIVES_BACK = (OperationKind.RESTORE, OperationKind.RENEW)
#: Members of an enum are slow to look up and kernels are slow to recognise them; statements are written all the time.
_ALLOCATE, _PIPELINE, _MOVE = OperationKind.ALLOCATE, OperationKind.PIPELINE, OperationKind.MOVE
_EVICT, _RECALL, _RELEASE = OperationKind.EVICT, OperationKind.RECALL, OperationKind.RELEASE
_WAITING, _ALLOCATED = int(TaskStatus.PENDING), int(TaskStatus.ALLOCATED)
_LEAVING, _PROMISED = int(TaskStatus.RELEASING), int(TaskStatus.PIPELINED)


class Statement:
    """A log of changes to one snapshot."""

    def __init__(self, snapshot: Snapshot, keep: Callable[[list[Operation]], None] | None = None) -> None:
        """`keep` gets what is committed."""
        self.snapshot = snapshot
        self.operations: list[Operation] = []
        self._keep = keep
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.rollback()
        elif self._is_open:
            raise RuntimeError("a statement ends with commit, hold or rollback; this one was left open")

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def is_open(self) -> bool:
        """Whether nobody has said yet what is to become of the changes."""
        return self._is_open

    # -- placing -----------------------------------------------------------------------------------------

    def fill(self, tasks: Rows, board: Board, lo: int = 0, hi: int | None = None) -> int:
        """Place as many of `tasks` (pending, one batch) as fit, in order, on the board's best nodes of lo..hi.

        The board decides between what is free now (the tasks become Allocated) and what will be free
        (Pipelined). Tasks that this statement evicted are moved, or stay where they are if their own node is
        the best one. Return how many were placed: always the first ones of `tasks`.
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
        if count and snapshot.tasks.status[tasks[0]] == _LEAVING:
            self._move_or_restore(tasks[:count], placed[:count])
        elif count:
            kind = _ALLOCATE if board.span[MODE] == IDLE else _PIPELINE
            operation = Operation(kind, tasks[:count], placed[:count])
            self._book(operation, +1)
            self.operations.append(operation)
        return count

    def _move_or_restore(self, tasks: Rows, nodes: Rows) -> None:
        """Book tasks that leave their nodes and for which room was taken on `nodes`; some of these may be their own."""
        origins = self.snapshot.tasks.node[tasks]
        moved = Operation(_MOVE, tasks, nodes, origins=origins)
        stays = origins == nodes
        if stays.any():
            self._move_on_nodes(moved, -1)
            self.restore(tasks[stays])
            leaves = ~stays
            moved = Operation(_MOVE, tasks[leaves], nodes[leaves], origins=origins[leaves])
            if len(moved.tasks) == 0:
                return
            self._move_on_nodes(moved, +1)
        self._book(moved, +1)
        self.operations.append(moved)

    def restore(self, tasks: Rows) -> None:
        """Leave tasks that this statement evicted where they are."""
        before = {
            task: status
            for operation in self.operations
            if operation.kind in _TAKES and operation.previous is not None
            for task, status in zip(operation.tasks.tolist(), operation.previous.tolist(), strict=True)
        }
        previous = np.array([before[task] for task in tasks.tolist()], np.int8)
        promised = previous == _PROMISED
        for kind, mine in ((OperationKind.RESTORE, ~promised), (OperationKind.RENEW, promised)):
            if mine.any():
                chosen = tasks[mine]
                nodes = self.snapshot.tasks.node[chosen]
                operation = Operation(kind, chosen, nodes, previous=previous[mine])
                self._move_on_nodes(operation, +1)
                self._book(operation, +1)
                self.operations.append(operation)

    def place(self, task: int, node: int, mode: int = IDLE) -> None:
        """Put one pending task on one node: on what is free now, or on what will be."""
        self.place_batch(np.array([task], np.int32), np.array([node], np.int32), mode)

    def place_batch(self, tasks: Rows, nodes: Rows, mode: int = IDLE) -> None:
        """Put pending tasks of one batch on the given nodes."""
        kind = _ALLOCATE if mode == IDLE else _PIPELINE
        operation = Operation(kind, tasks, nodes)
        self._move_on_nodes(operation, +1)
        self._book(operation, +1)
        self.operations.append(operation)

    def evict(self, tasks: Rows, beneficiary: int = NO_ROW, note: str = "", record: object | None = None) -> None:
        """Mark tasks as leaving, all at once; they may be of different jobs and classes.

        Tasks that run or are bound leave their nodes, those that were promised a place in this cycle give it up.
        """
        table = self.snapshot.tasks
        states = table.status[tasks]
        parts: Sequence[tuple[OperationKind, Rows, NDArray[np.int8]]] = ((_EVICT, tasks, states),)
        if _PROMISED in states.tolist():
            runs, promised = states != _PROMISED, states == _PROMISED
            parts = ((_EVICT, tasks[runs], states[runs]), (_RECALL, tasks[promised], states[promised]))
        for kind, chosen, previous in parts:
            if len(chosen):
                operation = Operation(kind, chosen, table.node[chosen], note, beneficiary, previous, record=record)
                self._move_on_nodes(operation, +1)
                self._book(operation, +1)
                self.operations.append(operation)

    def release(self, tasks: Rows) -> None:
        """Give up what is reserved for those of the tasks that were nominated to a node; they may go elsewhere."""
        table = self.snapshot.tasks
        reserved = tasks[table.reserved[tasks]]
        if len(reserved):
            operation = Operation(_RELEASE, reserved, table.nominated[reserved])
            self._move_on_nodes(operation, +1)
            self._book(operation, +1)
            self.operations.append(operation)

    # -- undoing and keeping -----------------------------------------------------------------------------

    def mark(self) -> int:
        """Name the present moment, for `rollback`."""
        return len(self.operations)

    def rollback(self, mark: int | None = None) -> None:
        """Undo everything since `mark`, last change first; without a mark all of it, and that ends the statement."""
        self._is_open = self._is_open and mark is not None
        while len(self.operations) > (mark or 0):
            operation = self.operations.pop()
            self._book(operation, -1)
            self._move_on_nodes(operation, -1)

    def hold(self) -> None:
        """Let the changes stand for this cycle; nobody outside hears of them."""
        self._is_open = False

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
        """Hand over all changes; the statement is empty afterwards and they can no longer be undone.

        An eviction that was taken back again is not among them.
        """
        done, self.operations = self.operations, []
        self._is_open = False
        if any(operation.kind in _GIVES_BACK for operation in done):
            done = list(_without_restored(done))[::-1]
        if self._keep is not None and done:
            self._keep(done)
        return done

    # -- books -------------------------------------------------------------------------------------------

    def _move_on_nodes(self, operation: Operation, sign: int) -> None:
        """Change the node state for the tasks of an operation, and log the rows for the boards."""
        snapshot = self.snapshot
        self._reserve_log(len(operation.tasks))
        snapshot.touched = move_tasks(
            snapshot.nodes.state,
            snapshot.classes.requests,
            snapshot.tasks.cls[operation.tasks],
            operation.nodes,
            _CHANGES[operation.kind][sign < 0],
            snapshot.touch_log,
            snapshot.touched,
        )

    def _book(self, operation: Operation, sign: int) -> None:
        """Change task columns, counters and totals for an operation (sign +1) or its undoing (-1)."""
        snapshot = self.snapshot
        tasks = operation.tasks
        if operation.kind is _RELEASE:
            snapshot.tasks.reserved[tasks] = sign < 0
            return
        if operation.kind is _MOVE:
            self._book_moved(operation, sign)
            return
        if operation.previous is not None:
            self._book_evicted(operation, sign if operation.kind in _TAKES else -sign)
            return
        target = _ALLOCATED if operation.kind is _ALLOCATE else _PROMISED
        snapshot.tasks.status[tasks] = target if sign > 0 else _WAITING
        snapshot.tasks.node[tasks] = operation.nodes if sign > 0 else NO_ROW
        first = int(tasks[0])
        self._count(first, target, sign * len(tasks))
        self._total(first, sign * len(tasks))

    def _book_evicted(self, operation: Operation, sign: int) -> None:
        """As `_book`, for tasks of any jobs and classes."""
        snapshot, tasks = self.snapshot, operation.tasks
        previous = np.asarray(operation.previous, np.int8)
        table = snapshot.tasks
        table.status[tasks] = _LEAVING if sign > 0 else previous
        jobs = table.job[tasks]
        move_counts(snapshot.jobs.counts, jobs, previous, _LEAVING, sign)
        move_counts(snapshot.roles.counts, table.role[tasks], previous, _LEAVING, sign)
        move_counts(snapshot.subgroups.counts, table.subgroup[tasks], previous, _LEAVING, sign)
        self._move_totals(tasks, jobs, -sign)

    def _book_moved(self, operation: Operation, sign: int) -> None:
        """Book tasks that leave one node for another: they count as placed again."""
        snapshot, tasks, table = self.snapshot, operation.tasks, self.snapshot.tasks
        table.status[tasks] = _PROMISED if sign > 0 else _LEAVING
        table.node[tasks] = operation.nodes if sign > 0 else np.asarray(operation.origins, np.int32)
        jobs = table.job[tasks]
        leaving = np.full(len(tasks), _LEAVING, np.int8)
        move_counts(snapshot.jobs.counts, jobs, leaving, _PROMISED, sign)
        move_counts(snapshot.roles.counts, table.role[tasks], leaving, _PROMISED, sign)
        move_counts(snapshot.subgroups.counts, table.subgroup[tasks], leaving, _PROMISED, sign)
        self._move_totals(tasks, jobs, sign)

    def _move_totals(self, tasks: Rows, jobs: Rows, sign: int) -> None:
        """Add the requests of tasks of any jobs to the totals of the jobs and their queues."""
        snapshot = self.snapshot
        if len(tasks) == 1 and jobs[0] != NO_ROW:
            self._total(int(tasks[0]), sign)
            return
        move_requests(snapshot.classes.requests, snapshot.tasks.cls[tasks], jobs, snapshot.jobs.allocated, sign)
        sums = np.zeros_like(snapshot.queues.own_allocated)
        queues = snapshot.jobs.queue[jobs]
        move_requests(snapshot.classes.requests, snapshot.tasks.cls[tasks], queues, sums, sign)
        for queue in np.flatnonzero(sums.any(axis=1)).tolist():
            snapshot.queues.own_allocated[queue] += sums[queue]
            snapshot.queues.tree_allocated[snapshot.queues.paths[queue]] += sums[queue]
        firm = ~snapshot.jobs.preemptible[jobs]
        if firm.any():
            sums[:] = 0
            move_requests(snapshot.classes.requests, snapshot.tasks.cls[tasks[firm]], queues[firm], sums, sign)
            for queue in np.flatnonzero(sums.any(axis=1)).tolist():
                snapshot.queues.tree_firm[snapshot.queues.paths[queue]] += sums[queue]

    def _count(self, task: int, target: int, amount: int) -> None:
        """Count so many tasks like this one as placed that were pending."""
        snapshot = self.snapshot
        table = snapshot.tasks
        rows = (
            snapshot.jobs.counts[table.job[task]],
            snapshot.roles.counts[table.role[task]],
            snapshot.subgroups.counts[table.subgroup[task]],
        )
        best_effort = bool(table.flags[task] & BEST_EFFORT)
        for row in rows:
            row[_WAITING] -= amount
            row[target] += amount
            if best_effort:
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
            rows = path if len(path) > 1 else queue
            snapshot.queues.tree_allocated[rows] += amount
            if not snapshot.jobs.preemptible[job]:
                snapshot.queues.tree_firm[rows] += amount

    def _reserve_log(self, more: int) -> None:
        snapshot = self.snapshot
        needed = snapshot.touched + more
        if needed > len(snapshot.touch_log):
            grown = np.empty(max(2 * len(snapshot.touch_log), needed, 1024), np.int32)
            grown[: snapshot.touched] = snapshot.touch_log[: snapshot.touched]
            snapshot.touch_log = grown


def _without_restored(operations: Sequence[Operation]) -> Iterator[Operation]:
    """The operations, last one first, as if what was given back had never been taken: each time the last taking."""
    restored: set[int] = set()
    for operation in reversed(operations):
        if operation.kind in _GIVES_BACK:
            restored.update(operation.tasks.tolist())
        elif operation.kind in _TAKES:
            gone = np.array([task not in restored for task in operation.tasks.tolist()], np.bool_)
            restored.difference_update(operation.tasks.tolist())
            previous = None if operation.previous is None else operation.previous[gone]
            if gone.any():
                yield replace(operation, tasks=operation.tasks[gone], nodes=operation.nodes[gone], previous=previous)
        else:
            yield operation
