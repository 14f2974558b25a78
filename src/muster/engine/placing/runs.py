"""Placing runs of equal tasks: in order, each on the best node that they may use.

Tasks that are alike are placed together by one kernel call; the answer is the same as if each were asked for alone.
Nothing is committed here: the caller keeps or rolls back the statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import boards_of
from muster.engine.constraints import placed_nodes
from muster.engine.domains import ROOT
from muster.engine.gangs import Portion, by_subgroup, next_tasks
from muster.engine.placing.contract import DEFAULTS, EVERYWHERE, NOW_OR_LATER, Found, Modes, Options, Scope
from muster.engine.placing.packing import Packer
from muster.framework import FITS, JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, INSUFFICIENT, QUEUE_CLOSED, QUEUE_FULL, Reason
from muster.kernels.placement import FUTURE, MODE, fits
from muster.snapshot import NEEDS_LIVE_CHECK, NO_ROW, Board, Mask, Rows, Statement, TaskStatus

#: Members of an enum are slow to compare with.
_RELEASING = int(TaskStatus.RELEASING)
#: Node rows lo..hi; with a mask over all nodes, only those of them that it marks.
_Stretch = tuple[int, int, Mask | None]


@dataclass(slots=True)
class Work:
    """One call of the door: tasks of a job, by sub-group, on their way into a statement; and the last trouble."""

    session: Session
    job: int
    tasks: Rows
    statement: Statement
    modes: Modes = NOW_OR_LATER
    #: All of them or none; else as many as it takes to be ready.
    whole: bool = False
    parts: list[Portion] = field(init=False)
    verdict: JobVerdict | None = None
    #: Whether the queue may not hold some of them: other places do not help.
    refused: bool = False
    #: How many of them found room together where that was not enough: in the trial that runs, and by domain.
    together: int = 0
    most: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts = by_subgroup(self.session, self.job, self.tasks)

    @property
    def is_divided(self) -> bool:
        return self.parts[0].subgroup != NO_ROW


class Runs:
    """Places runs of tasks of one session."""

    def __init__(self, session: Session, options: Options = DEFAULTS) -> None:
        self.session = session
        self.options = options
        self.boards = boards_of(session)
        #: Tasks for which other pods matter.
        self.live = session.live_tasks()
        #: Whether a queue holds all of a cluster that is full for a class, by the length of the touch log.
        self._alone: dict[tuple[int, int, int], bool] = {}

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        """Numbers that are equal for tasks of one batch: same class, role and sub-group, and no node of their own."""
        snapshot, tasks = self.session.snapshot, self.session.snapshot.tasks
        keys = (tasks.cls.astype(np.int64) * (len(snapshot.roles) + 1) + tasks.role) * (len(snapshot.subgroups) + 1)
        keys += tasks.subgroup
        # Tasks that hold a place may be moved, and are then checked one by one too.
        checked = (tasks.status != TaskStatus.PENDING) & ((tasks.flags & NEEDS_LIVE_CHECK) != 0)
        checked[list(self.live)] = True
        alone = np.flatnonzero((tasks.nominated != NO_ROW) | checked)
        keys[alone] = -1 - alone
        return keys

    # -- until a job is ready ----------------------------------------------------------------------------------

    def until_ready(self, work: Work, part: Portion, scope: Scope = EVERYWHERE) -> Found:
        """Place tasks until the job (or sub-group) is ready or nothing more fits: in order, else what it lacks first.

        Where nothing is found, the statement is as it was.
        """
        found = self._in_order_until_ready(work, part, scope)
        if found or work.is_divided or not self.session.snapshot.jobs.has_pod_sets(work.job):
            return found
        # Pods of roles that need no more may have taken the room, or the share, of those that do.
        lacking = next_tasks(self.session, work.job, part.tasks)
        ordered = np.concatenate((lacking, part.tasks[~np.isin(part.tasks, lacking)]))
        if np.array_equal(ordered, part.tasks):
            return found
        return self._in_order_until_ready(work, Portion(part.subgroup, ordered), scope)

    def _in_order_until_ready(self, work: Work, part: Portion, scope: Scope) -> Found:
        mark = work.statement.mark()
        tasks, start, total = part.tasks, 0, 0
        missing = self.deficit(work.job, part)
        failed_roles: set[int] = set()
        while start < len(tasks):
            end = self._run_end(tasks, start)
            role = int(self.session.snapshot.tasks.role[tasks[start]])
            wanted = 0 if role in failed_roles else self._wanted(work, tasks[start:end], missing)
            placed = self._place_alike(work, tasks[start : start + wanted], scope) if wanted else 0
            total += placed
            if placed < wanted:
                work.verdict = self._no_node(int(tasks[start + placed]))
                if self.session.snapshot.roles.names[role]:
                    failed_roles.add(role)  # others of it will not find a node either
            start = start + wanted if 0 < wanted == placed else end
            missing = self.deficit(work.job, part) if placed else missing
            if placed and missing == 0:
                break
            if placed < wanted and self.deficit(work.job, part, promised=True) > len(tasks) - start:
                break  # the others are too few
        if missing == 0:
            return Found.READY
        if self.deficit(work.job, part, promised=True) == 0:
            return Found.PROMISED
        work.statement.rollback(mark)
        work.together = max(work.together, total)
        work.verdict = work.verdict or JobVerdict(GANG_INCOMPLETE, placed=total)
        return Found.NOTHING

    def deficit(self, job: int, part: Portion, *, promised: bool = False) -> int:
        """How many more tasks at least must be placed; 0 = ready. `promised`: those with a promise need no more."""
        session, subgroup = self.session, part.subgroup
        if subgroup == NO_ROW:
            return session.job_pipelined_deficit(job) if promised else session.job_deficit(job)
        return session.subgroup_pipelined_deficit(subgroup) if promised else session.subgroup_deficit(subgroup)

    def _wanted(self, work: Work, run: Rows, missing: int) -> int:
        """How many tasks of a run to place: what is missing, as far as the queue may hold them."""
        session, task = self.session, int(run[0])
        cls = int(session.snapshot.tasks.cls[task])
        queue = int(session.snapshot.jobs.queue[work.job])
        slots = session.queue_slots(queue, session.snapshot.classes.requests[cls, 0])
        if slots <= 0:
            work.verdict = JobVerdict(self._why_no_slots(queue, cls), cls=cls, task=task)
            work.refused = work.verdict.reason is not INSUFFICIENT
            return 0
        return min(len(run), max(1, missing), slots)

    def _why_no_slots(self, queue: int, cls: int) -> Reason:
        """Why a queue may not hold one more task, as far as its user can do something about it.

        Where the cluster is full and all of it is the queue's, its share is not what it lacks.
        """
        snapshot = self.session.snapshot
        if not snapshot.queues.records[queue].open:
            return QUEUE_CLOSED
        key = queue, cls, snapshot.touched
        if key not in self._alone:
            held, asked = snapshot.queues.own_allocated, snapshot.classes.requests[cls, 0] > 0
            alone = bool((held.sum(axis=0) == held[queue])[asked].all())
            self._alone[key] = alone and not self.boards.get(cls, FUTURE).has_room(snapshot)
        return INSUFFICIENT if self._alone[key] else QUEUE_FULL

    # -- exactly these -----------------------------------------------------------------------------------------

    def all_of(self, work: Work, tasks: Rows, scope: Scope = EVERYWHERE) -> bool:
        """Place all of the tasks in order, or none; the verdict names the first that has no place."""
        mark = work.statement.mark()
        placed = self.in_order(work, tasks, scope)
        if placed == len(tasks):
            return True
        work.statement.rollback(mark)
        work.together = max(work.together, placed)
        work.verdict = self._no_node(int(tasks[placed]), placed)
        return False

    def _no_node(self, task: int, placed: int = 0) -> JobVerdict:
        return JobVerdict(INSUFFICIENT, cls=int(self.session.snapshot.tasks.cls[task]), task=task, placed=placed)

    def in_order(self, work: Work, tasks: Rows, scope: Scope = EVERYWHERE) -> int:
        """Place tasks one run after the other, whatever queue and gang say; stop at the first that does not fit.

        Tasks that the statement has evicted are moved.
        """
        start = 0
        status = self.session.snapshot.tasks.status
        while start < len(tasks):
            end = self._run_end(tasks, start)
            if end - start > 1:
                other = np.flatnonzero(status[tasks[start:end]] != status[tasks[start]])
                end = start + int(other[0]) if len(other) else end
            start += self._place_alike(work, tasks[start:end], scope)
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

    def _place_alike(self, work: Work, tasks: Rows, scope: Scope) -> int:
        """Place as many of a run as fit, on one kind of room after the other; return how many."""
        if scope.places is not None:  # as far as they still fit there
            planned = zip(tasks.tolist(), scope.places[tasks].tolist(), strict=True)
            return sum(1 for _ in takewhile(lambda pair: self._place_on(work, *pair), planned))
        task = int(tasks[0])
        table = self.session.snapshot.tasks
        stretches = self._stretches(scope)
        if len(tasks) == 1 and self._place_nominated(work, task, stretches):
            return 1
        is_moved = int(table.status[task]) == _RELEASING
        live = task in self.live or (is_moved and bool(table.flags[task] & NEEDS_LIVE_CHECK))
        cls = int(table.cls[task])
        placed = 0
        for lo, hi, mask in stretches:
            for mode in work.modes:
                board = self.boards.for_task(task, mode) if live else self.boards.get(cls, mode)
                board = board if mask is None else board.within(mask)
                if scope.packed and scope.domain is not None and not is_moved:
                    placed += self._pack(tasks[placed:], board, work.statement, scope.domain)
                else:
                    placed += work.statement.fill(tasks[placed:], board, lo, hi)
                if placed == len(tasks):
                    return placed
        return placed

    def _stretches(self, scope: Scope) -> list[_Stretch]:
        """The nodes of a scope, the preferred ones first."""
        if scope.mask is None:
            topology, domain = self.session.snapshot.topology, scope.domain or ROOT
            return [(int(topology.lo[domain]), int(topology.hi[domain]), None)]
        if scope.preference is None:
            return [_stretch(scope.mask)]
        steps = np.unique(scope.preference[scope.mask])[::-1]
        return [_stretch(scope.mask & (scope.preference == step)) for step in steps]

    def _pack(self, tasks: Rows, board: Board, statement: Statement, domain: int) -> int:
        """Fill the parts of a domain that the packing names, then deal the nodes out by rank."""
        snapshot = self.session.snapshot
        own = placed_nodes(snapshot, int(snapshot.tasks.job[tasks[0]]))
        base, end = int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain])
        slots, mark, placed = board.slots(snapshot, base, end), statement.mark(), 0
        shares = Packer(snapshot.topology, base, slots, own).plan(domain, len(tasks))
        filled = [np.arange(share.lo, share.hi, dtype=np.intp) for share in shares if share.full]
        if filled:
            nodes = np.concatenate(filled)
            nodes = np.repeat(nodes, slots[nodes - base])
            placed = len(nodes)
            statement.place_batch(tasks[:placed], nodes, int(board.span[MODE]))
        for share in shares:
            if not share.full:
                placed += statement.fill(tasks[placed : placed + share.tasks], board, share.lo, share.hi)
        if self.options.rank_order:
            statement.sort_nodes(mark)
        return placed

    # -- one node ----------------------------------------------------------------------------------------------

    def _place_nominated(self, work: Work, task: int, stretches: list[_Stretch]) -> bool:
        """Use the node that an earlier cycle set aside for the task, if it still fits."""
        table = self.session.snapshot.tasks
        node = int(table.nominated[task])
        inside = any(lo <= node < hi and (mask is None or mask[node]) for lo, hi, mask in stretches)
        return inside and table.status[task] == TaskStatus.PENDING and self._place_on(work, task, node)

    def _place_on(self, work: Work, task: int, node: int) -> bool:
        """Place a task on one node, if there is one and it fits there."""
        snapshot = self.session.snapshot
        cls = int(snapshot.tasks.cls[task])
        if node == NO_ROW or self.boards.verdicts(cls)[node] != FITS:
            return False
        if task in self.live:
            verdicts = self.session.task_verdicts(task)
            if verdicts is not None and verdicts[node] != FITS:
                return False
        request = snapshot.classes.requests[cls, 0]
        for mode in work.modes:
            if fits(snapshot.nodes.state, request, node, mode):
                work.statement.place(task, node, mode)
                return True
        return False


def _stretch(mask: Mask) -> _Stretch:
    """The marked nodes; where they follow each other, without the mask."""
    rows = np.flatnonzero(mask)
    if len(rows) == 0:
        return 0, 0, None
    lo, hi = int(rows[0]), int(rows[-1]) + 1
    return lo, hi, None if hi - lo == len(rows) else mask
