"""The only way to change a snapshot: every change is logged, and can be undone bit for bit.

Actions open a statement, try things, and end it: `commit` hands the changes over, `hold` lets them stand for this
cycle without telling anybody, `rollback` takes them back. `mark` and `rollback(mark)` nest; both cost what was done
since, not what exists. What is committed is handed to the session as operations; decisions for the cluster are made
from them. Invariant: after `rollback(mark)` every array of the snapshot equals what it was at `mark()`.

Tasks are placed along a board: the current score of every node for one task class, kept up to date from the log of
touched rows. The engine makes it from what the plugins say; see `muster.kernels.placement` for how it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from muster.kernels.placement import BLOCK, HI, IDLE, LO, MODE, WRITTEN, catch_up, count_slots, place_run, recount_slots
from muster.snapshot.columns import NO_ROW, Amounts, Mask, Rows, TaskStatus
from muster.snapshot.operations import (
    GIVES_BACK,
    TAKES,
    Operation,
    OperationKind,
    book,
    move_on_nodes,
    reserve_log,
    without_restored,
)
from muster.snapshot.tables import Snapshot

#: Members of an enum are slow to look up, and statements are written all the time.
_ALLOCATE, _PIPELINE, _MOVE = OperationKind.ALLOCATE, OperationKind.PIPELINE, OperationKind.MOVE
_EVICT, _RECALL, _RELEASE = OperationKind.EVICT, OperationKind.RECALL, OperationKind.RELEASE
_LEAVING, _PROMISED = int(TaskStatus.RELEASING), int(TaskStatus.PIPELINED)


@dataclass(slots=True)
class Board:
    """Score arrays of one class and one fit mode."""

    #: int64[2, resources]
    requests: Amounts
    #: float64[terms, 2 + resources]
    terms: NDArray[np.float64]
    #: float64[2, nodes]: fixed part (-inf: the class may never go there), current score (-inf: does not fit)
    scores: NDArray[np.float64]
    block_max: NDArray[np.float64]
    #: int64[5]: SEEN, WRITTEN, MODE, LO, HI
    span: NDArray[np.int64]

    @classmethod
    def make(cls, requests: Amounts, terms: NDArray[np.float64], fixed: NDArray[np.float64], mode: int) -> Board:
        """Build a board from the fixed part of the scores; it fills itself on first use."""
        scores = np.empty((2, len(fixed)))
        scores[0] = fixed
        blocks = -(-len(fixed) // BLOCK)
        return cls(requests, terms, scores, np.empty(blocks), np.array([-1, 0, mode, 0, len(fixed)], np.int64))

    def within(self, mask: Mask) -> Board:
        """A board of its own for the nodes of a mask."""
        return Board.make(self.requests, self.terms, np.where(mask, self.scores[0], -np.inf), int(self.span[MODE]))

    def current(self, snapshot: Snapshot) -> NDArray[np.float64]:
        """Scores as of now, -inf where one more task does not fit."""
        self.span[WRITTEN] = snapshot.touched
        catch_up(
            snapshot.nodes.state,
            self.requests,
            self.terms,
            self.scores,
            self.block_max,
            snapshot.touch_log,
            self.span,
        )
        row: NDArray[np.float64] = self.scores[1]
        return row

    def has_room(self, snapshot: Snapshot) -> bool:
        """Whether some node can take one more task."""
        self.current(snapshot)
        return bool(self.block_max.max(initial=-np.inf) > -np.inf)

    def slots(self, snapshot: Snapshot, lo: int, hi: int) -> Rows:
        """How many more tasks of the class each of the nodes lo..hi can take."""
        slots = np.empty(hi - lo, np.intp)
        count_slots(snapshot.nodes.state, self.requests[0], self.scores[0], int(self.span[MODE]), lo, slots)
        return slots

    def recount(self, snapshot: Snapshot, since: int, slots: Rows) -> int:
        """Bring `slots` of all nodes up to date with what was touched `since`; return how many more there are now."""
        rows = snapshot.touch_log[since : snapshot.touched]
        return recount_slots(snapshot.nodes.state, self.requests[0], self.scores[0], int(self.span[MODE]), rows, slots)


class Statement:
    """A log of changes to one snapshot."""

    def __init__(self, snapshot: Snapshot, keep: Callable[[list[Operation]], None] | None = None) -> None:
        """`keep` gets what is committed."""
        self.snapshot = snapshot
        self.operations: list[Operation] = []
        self._keep = keep
        self._is_open = True
        #: Is told of tasks that get a place on nodes (True) or lose it, also by undoing; None: nobody wants to know.
        self.tell: Callable[[Rows, Rows, bool], None] | None = None

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
        reserve_log(snapshot, len(tasks))
        board.span[WRITTEN] = snapshot.touched
        board.span[LO] = lo
        board.span[HI] = len(snapshot.nodes) if hi is None else hi
        placed = np.empty(len(tasks), np.intp)
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
            book(snapshot, operation, +1)
            self._noted(operation)
        return count

    def _move_or_restore(self, tasks: Rows, nodes: Rows) -> None:
        """Book tasks that leave their nodes and for which room was taken on `nodes`; some of these may be their own."""
        origins = self.snapshot.tasks.node[tasks]
        moved = Operation(_MOVE, tasks, nodes, origins=origins)
        stays = origins == nodes
        if stays.any():
            move_on_nodes(self.snapshot, moved, -1)
            self.restore(tasks[stays])
            leaves = ~stays
            moved = Operation(_MOVE, tasks[leaves], nodes[leaves], origins=origins[leaves])
            if len(moved.tasks) == 0:
                return
            move_on_nodes(self.snapshot, moved, +1)
        book(self.snapshot, moved, +1)
        self._noted(moved)

    def restore(self, tasks: Rows) -> None:
        """Leave tasks that this statement evicted where they are."""
        before = {
            task: status
            for operation in self.operations
            if operation.kind in TAKES and operation.previous is not None
            for task, status in zip(operation.tasks.tolist(), operation.previous.tolist(), strict=True)
        }
        previous = np.array([before[task] for task in tasks.tolist()], np.int8)
        promised = previous == _PROMISED
        for kind, mine in ((OperationKind.RESTORE, ~promised), (OperationKind.RENEW, promised)):
            if mine.any():
                chosen = tasks[mine]
                nodes = self.snapshot.tasks.node[chosen]
                self._do(Operation(kind, chosen, nodes, previous=previous[mine]))

    def place(self, task: int, node: int, mode: int = IDLE) -> None:
        """Put one pending task on one node: on what is free now, or on what will be."""
        self.place_batch(np.array([task], np.intp), np.array([node], np.intp), mode)

    def place_batch(self, tasks: Rows, nodes: Rows, mode: int = IDLE) -> None:
        """Put pending tasks of one batch on the given nodes."""
        kind = _ALLOCATE if mode == IDLE else _PIPELINE
        self._do(Operation(kind, tasks, nodes))

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
                self._do(Operation(kind, chosen, table.node[chosen], note, beneficiary, previous, record=record))

    def release(self, tasks: Rows) -> None:
        """Give up what is reserved for those of the tasks that were nominated to a node; they may go elsewhere."""
        table = self.snapshot.tasks
        reserved = tasks[table.reserved[tasks]]
        if len(reserved):
            self._do(Operation(_RELEASE, reserved, table.nominated[reserved]))

    # -- undoing and keeping -----------------------------------------------------------------------------

    def mark(self) -> int:
        """Name the present moment, for `rollback`."""
        return len(self.operations)

    def rollback(self, mark: int | None = None) -> None:
        """Undo everything since `mark`, last change first; without a mark all of it, and that ends the statement."""
        self._is_open = self._is_open and mark is not None
        while len(self.operations) > (mark or 0):
            operation = self.operations.pop()
            book(self.snapshot, operation, -1)
            move_on_nodes(self.snapshot, operation, -1)
            self._tell(operation, undone=True)

    def hold(self) -> None:
        """Let the changes stand for this cycle; nobody outside hears of them."""
        self._is_open = False

    def take_over(self, operations: list[Operation]) -> None:
        """Answer for changes that stand, of an earlier statement of the cycle, so that they can be undone."""
        self.operations.extend(operations)

    def redo(self, operations: list[Operation]) -> None:
        """Apply operations that were rolled back earlier, in their order."""
        for operation in operations:
            self._do(operation)

    def _do(self, operation: Operation) -> None:
        move_on_nodes(self.snapshot, operation, +1)
        book(self.snapshot, operation, +1)
        self._noted(operation)

    def _noted(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._tell(operation)

    def _tell(self, operation: Operation, *, undone: bool = False) -> None:
        # What is reserved is nobody's place yet.
        if self.tell is not None and operation.kind is not _RELEASE:
            self.tell(operation.tasks, operation.nodes, (operation.kind in TAKES) == undone)

    def sort_nodes(self, mark: int) -> None:
        """Deal the nodes of equal tasks out anew: by row to tasks by their rank, in whichever order they were placed.

        All placements since `mark` must be of one batch (see `fill`) and kind; sums stay as they are.
        """
        placed = self.operations[mark:]
        if len(placed) < 1:
            return
        tasks = np.concatenate([operation.tasks for operation in placed])
        merged = Operation(
            placed[0].kind,
            tasks[np.argsort(self.snapshot.tasks.rank[tasks])],
            np.sort(np.concatenate([operation.nodes for operation in placed])),
        )
        self.snapshot.tasks.node[merged.tasks] = merged.nodes
        self.operations[mark:] = [merged]
        for operation in placed:
            self._tell(operation, undone=True)
        self._tell(merged)

    def commit(self) -> list[Operation]:
        """Hand over all changes; the statement is empty afterwards and they can no longer be undone.

        An eviction that was taken back again is not among them.
        """
        done, self.operations = self.operations, []
        self._is_open = False
        if any(operation.kind in GIVES_BACK for operation in done):
            done = list(without_restored(done))[::-1]
        if self._keep is not None and done:
            self._keep(done)
        return done
