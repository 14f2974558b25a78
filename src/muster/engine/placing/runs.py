"""Placing runs of equal tasks: in order, each on the best node that they may use.

Tasks that are alike are placed together by one kernel call; the answer is the same as if each were asked for alone.
Nothing is committed here: the caller keeps or rolls back the statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import Boards
from muster.engine.constraints import placed_nodes
from muster.engine.placing.contract import EVERYWHERE, NOW_OR_LATER, Found, Modes, Scope
from muster.engine.placing.packing import Packer
from muster.framework import FITS, JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, INSUFFICIENT, QUEUE_CLOSED, QUEUE_FULL, Reason
from muster.kernels.placement import FUTURE, MODE, fits
from muster.snapshot import (
    NEEDS_LIVE_CHECK,
    NO_ROW,
    Board,
    Mask,
    Rows,
    Snapshot,
    Statement,
    TaskStatus,
)

#: Node rows lo..hi; with a mask over all nodes, only those of them that it marks.
_Stretch = tuple[int, int, Mask | None]


@dataclass(slots=True)
class Attempt:
    """Tasks of a job, or of one of its sub-groups, on their way.

    Those left to try, roles that found no node, and the last trouble.
    """

    job: int
    tasks: Rows
    #: NO_ROW: the job as a whole.
    subgroup: int = NO_ROW
    failed_roles: set[int] = field(default_factory=set)
    verdict: JobVerdict | None = None
    #: Whether the queue may not hold some of them: other places do not help.
    refused: bool = False
    #: How many of them found room together where that was not enough.
    most: int = 0

    def __bool__(self) -> bool:
        """Are there tasks left to try?"""
        return len(self.tasks) > 0

    @property
    def is_part(self) -> bool:
        """Is it a sub-group of a job that has some?"""
        return self.subgroup != NO_ROW

    def copy(self) -> Attempt:
        """The same attempt, to be tried elsewhere: what failed there may fit here."""
        return Attempt(self.job, self.tasks, self.subgroup)


class Runs:
    """Places runs of tasks of one session."""

    def __init__(self, session: Session, boards: Boards, *, rank_order: bool = True) -> None:
        """`rank_order`: equal tasks that are packed get nodes in topology order, by their index."""
        self._session = session
        self._boards = boards
        self._rank_order = rank_order
        self._live = session.live_tasks()
        self._runs = _run_keys(session.snapshot, self._live)
        self._everywhere: list[_Stretch] = [(0, len(session.snapshot.nodes), None)]
        #: Whether a queue holds all of a cluster that is full for a class, as of a length of the touch log.
        self._alone: dict[tuple[int, int], tuple[int, bool]] = {}

    # -- until a job is ready ----------------------------------------------------------------------------------

    def until_ready(
        self, attempt: Attempt, statement: Statement, scope: Scope = EVERYWHERE, modes: Modes = NOW_OR_LATER
    ) -> Found:
        """Place tasks until the job (or sub-group) is ready or nothing more fits.

        Tasks that were tried leave the attempt, placed or not. Where nothing is found, the statement is as it was.
        """
        mark = statement.mark()
        tasks, start, total = attempt.tasks, 0, 0
        missing = self.deficit(attempt)
        while start < len(tasks):
            end = self._run_end(tasks, start)
            wanted = self._wanted(attempt, tasks[start:end], missing)
            placed = self._place_alike(tasks[start : start + wanted], statement, scope, modes) if wanted else 0
            total += placed
            if placed < wanted:
                self._note_failure(attempt, int(tasks[start + placed]))
            start = start + wanted if 0 < wanted == placed else end
            missing = self.deficit(attempt) if placed else missing
            if placed and missing == 0:
                break
            if placed < wanted and self._pipelined_deficit(attempt) > len(tasks) - start:
                break  # the others are too few
        attempt.tasks = self._worthwhile(attempt, tasks[start:])
        if missing == 0:
            return Found.READY
        if self._pipelined_deficit(attempt) == 0:
            return Found.PROMISED
        statement.rollback(mark)
        attempt.most = max(attempt.most, total)
        if attempt.verdict is None:
            attempt.verdict = JobVerdict(GANG_INCOMPLETE, placed=total)
        return Found.NOTHING

    def deficit(self, attempt: Attempt) -> int:
        """How many more tasks at least must be placed; 0 = ready."""
        if attempt.is_part:
            return self._session.subgroup_deficit(attempt.subgroup)
        return self._session.job_deficit(attempt.job)

    def _pipelined_deficit(self, attempt: Attempt) -> int:
        if attempt.is_part:
            return self._session.subgroup_pipelined_deficit(attempt.subgroup)
        return self._session.job_pipelined_deficit(attempt.job)

    def _wanted(self, attempt: Attempt, run: Rows, missing: int) -> int:
        """How many tasks of a run to place: what is missing, as far as the queue may hold them."""
        session, table = self._session, self._session.snapshot.tasks
        task = int(run[0])
        if int(table.role[task]) in attempt.failed_roles:
            return 0
        cls = int(table.cls[task])
        queue = int(session.snapshot.jobs.queue[attempt.job])
        slots = session.queue_slots(queue, session.snapshot.classes.requests[cls, 0])
        if slots <= 0:
            attempt.verdict = JobVerdict(self._why_no_slots(queue, cls), cls=cls, task=task)
            attempt.refused = True
            return 0
        return min(len(run), max(1, missing), slots)

    def _note_failure(self, attempt: Attempt, task: int) -> None:
        """A task found no node: neither will others of its role."""
        snapshot = self._session.snapshot
        attempt.verdict = JobVerdict(INSUFFICIENT, cls=int(snapshot.tasks.cls[task]), task=task)
        role = int(snapshot.tasks.role[task])
        if snapshot.roles.names[role]:
            attempt.failed_roles.add(role)

    def _worthwhile(self, attempt: Attempt, tasks: Rows) -> Rows:
        """Without the tasks of roles that found no node."""
        if not attempt.failed_roles or len(tasks) == 0:
            return tasks
        kept: Rows = tasks[~np.isin(self._session.snapshot.tasks.role[tasks], list(attempt.failed_roles))]
        return kept

    def _why_no_slots(self, queue: int, cls: int) -> Reason:
        """Why a queue may not hold one more task, as far as its user can do something about it."""
        snapshot = self._session.snapshot
        if not snapshot.queues.records[queue].open:
            return QUEUE_CLOSED
        known = self._alone.get((queue, cls))
        if known is None or known[0] != snapshot.touched:
            known = self._alone[queue, cls] = (snapshot.touched, self._queue_has_it_all(queue, cls))
        return INSUFFICIENT if known[1] else QUEUE_FULL

    def _queue_has_it_all(self, queue: int, cls: int) -> bool:
        """Whether the cluster is full and all of it is the queue's: then its share is not what it lacks."""
        snapshot = self._session.snapshot
        held = snapshot.queues.own_allocated
        asked = snapshot.classes.requests[cls, 0] > 0
        alone = (held.sum(axis=0) == held[queue])[asked].all()
        return bool(alone) and not self._boards.get(cls, FUTURE).has_room(snapshot)

    # -- exactly these -----------------------------------------------------------------------------------------

    def in_order(
        self, tasks: Rows, statement: Statement, scope: Scope = EVERYWHERE, modes: Modes = NOW_OR_LATER
    ) -> int:
        """Place tasks one run after the other, whatever queue and gang say; stop at the first that does not fit.

        Tasks that the statement has evicted are moved.
        """
        start = 0
        status = self._session.snapshot.tasks.status
        while start < len(tasks):
            end = self._run_end(tasks, start)
            if end - start > 1:
                other = np.flatnonzero(status[tasks[start:end]] != status[tasks[start]])
                end = start + int(other[0]) if len(other) else end
            start += self._place_alike(tasks[start:end], statement, scope, modes)
            if start < end:
                break
        return start

    # -- one run -----------------------------------------------------------------------------------------------

    def _run_end(self, tasks: Rows, start: int) -> int:
        """End of the run of tasks that can be placed by one call."""
        if start + 1 == len(tasks):
            return start + 1
        keys = self._runs[tasks[start:]]
        different = keys != keys[0]
        first = int(different.argmax())
        return start + first if different[first] else len(tasks)

    def _place_alike(self, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> int:
        """Place as many of a run as fit, on one kind of room after the other; return how many."""
        if scope.places is not None:
            return self._place_planned(tasks, scope.places[tasks], statement, modes)
        task = int(tasks[0])
        table = self._session.snapshot.tasks
        stretches = self._stretches(scope)
        if len(tasks) == 1 and self._place_nominated(task, statement, stretches, modes):
            return 1
        live = task in self._live or (
            bool(table.flags[task] & NEEDS_LIVE_CHECK) and table.status[task] == TaskStatus.RELEASING
        )
        cls = int(table.cls[task])
        placed = 0
        for lo, hi, mask in stretches:
            for mode in modes:
                board = self._boards.for_task(task, mode) if live else self._boards.get(cls, mode)
                board = board if mask is None else board.within(mask)
                if scope.packed and scope.domain is not None:
                    placed += self._pack(tasks[placed:], board, statement, scope.domain)
                else:
                    placed += statement.fill(tasks[placed:], board, lo, hi)
                if placed == len(tasks):
                    return placed
        return placed

    def _stretches(self, scope: Scope) -> list[_Stretch]:
        """The nodes of a scope, the preferred ones first."""
        if scope.mask is None:
            if scope.domain is None:
                return self._everywhere
            topology = self._session.snapshot.topology
            return [(int(topology.lo[scope.domain]), int(topology.hi[scope.domain]), None)]
        if scope.preference is None:
            return [_stretch(scope.mask)]
        steps = np.unique(scope.preference[scope.mask])[::-1]
        return [_stretch(scope.mask & (scope.preference == step)) for step in steps]

    def _pack(self, tasks: Rows, board: Board, statement: Statement, domain: int) -> int:
        """Fill the parts of a domain that the packing names, then deal the nodes out by rank."""
        snapshot = self._session.snapshot
        own = placed_nodes(snapshot, int(snapshot.tasks.job[tasks[0]]))
        base, end = int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain])
        slots = board.slots(snapshot, base, end)
        shares = Packer(snapshot.topology, base, slots, own).plan(domain, len(tasks))
        mark = statement.mark()
        filled = [
            np.repeat(np.arange(share.lo, share.hi, dtype=np.int32), slots[share.lo - base : share.hi - base])
            for share in shares
            if share.full
        ]
        placed = 0
        if filled:
            nodes = np.concatenate(filled)
            placed = len(nodes)
            statement.place_batch(tasks[:placed], nodes, int(board.span[MODE]))
        for share in shares:
            if not share.full:
                placed += statement.fill(tasks[placed : placed + share.tasks], board, share.lo, share.hi)
        if self._rank_order:
            statement.sort_nodes(mark)
        return placed

    # -- one node ----------------------------------------------------------------------------------------------

    def _place_planned(self, tasks: Rows, nodes: Rows, statement: Statement, modes: Modes) -> int:
        """Place the first tasks of a run on the nodes that a plan names, as far as they still fit there."""
        for count, (task, node) in enumerate(zip(tasks.tolist(), nodes.tolist(), strict=True)):
            if node == NO_ROW or not self._place_on(task, node, statement, modes):
                return count
        return len(tasks)

    def _place_nominated(self, task: int, statement: Statement, stretches: list[_Stretch], modes: Modes) -> bool:
        """Use the node that an earlier cycle set aside for the task, if it still fits."""
        table = self._session.snapshot.tasks
        node = int(table.nominated[task])
        if node == NO_ROW or table.status[task] != TaskStatus.PENDING:
            return False
        inside = any(lo <= node < hi and (mask is None or mask[node]) for lo, hi, mask in stretches)
        return inside and self._place_on(task, node, statement, modes)

    def _place_on(self, task: int, node: int, statement: Statement, modes: Modes) -> bool:
        """Place a task on one node, if it fits there."""
        snapshot = self._session.snapshot
        cls = int(snapshot.tasks.cls[task])
        if self._boards.verdicts(cls)[node] != FITS:
            return False
        if task in self._live:
            verdicts = self._session.task_verdicts(task)
            if verdicts is not None and verdicts[node] != FITS:
                return False
        request = snapshot.classes.requests[cls, 0]
        for mode in modes:
            if fits(snapshot.nodes.state, request, node, mode):
                statement.place(task, node, mode)
                return True
        return False


def _stretch(mask: Mask) -> _Stretch:
    """The marked nodes; where they follow each other, without the mask."""
    rows = np.flatnonzero(mask)
    if len(rows) == 0:
        return 0, 0, None
    lo, hi = int(rows[0]), int(rows[-1]) + 1
    return lo, hi, None if hi - lo == len(rows) else mask


def _run_keys(snapshot: Snapshot, live: frozenset[int]) -> NDArray[np.int64]:
    """Numbers that are equal for tasks of one batch: same class, role and sub-group, and no node of their own."""
    tasks = snapshot.tasks
    keys = (tasks.cls.astype(np.int64) * (len(snapshot.roles) + 1) + tasks.role) * (len(snapshot.subgroups) + 1)
    keys += tasks.subgroup
    # Tasks that hold a place may be moved, and are then checked one by one too.
    checked = (tasks.status != TaskStatus.PENDING) & ((tasks.flags & NEEDS_LIVE_CHECK) != 0)
    alone = np.flatnonzero((tasks.nominated != NO_ROW) | checked)
    keys[alone] = -1 - alone
    for task in live:
        keys[task] = -1 - task
    return keys
