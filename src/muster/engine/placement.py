"""Placing the tasks of one job: in order, each on the best node, until the job is ready.

Callers: allocate and backfill. Tasks that are alike are placed together by one kernel call; the answer is the
same as if each were asked for alone. Nothing is committed here: the caller keeps or rolls back the statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from muster.engine.boards import Boards
from muster.framework import FITS, JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, INSUFFICIENT, QUEUE_FULL
from muster.kernels.placement import FUTURE, IDLE, fits
from muster.snapshot import BEST_EFFORT_PENDING, NO_ROW, READY_STATUSES, Rows, Statement, TaskStatus


@dataclass(slots=True)
class Attempt:
    """The tasks of a job on their way: those left to try, roles that found no node, and the last trouble."""

    job: int
    tasks: Rows
    failed_roles: set[int] = field(default_factory=set)
    verdict: JobVerdict | None = None

    def __bool__(self) -> bool:
        """Are there tasks left to try?"""
        return len(self.tasks) > 0


class Placer:
    """Places tasks of one session."""

    def __init__(self, session: Session, boards: Boards) -> None:
        self._session = session
        self._boards = boards
        self._live = session.live_tasks()

    def place(self, attempt: Attempt, statement: Statement) -> bool:
        """Place tasks until the job is ready or nothing more fits.

        Tasks that were tried leave the attempt, placed or not. Return whether the job is ready, or would be once
        what it waits for is released; otherwise the statement is back to where it was.
        """
        session = self._session
        mark = statement.mark()
        start = 0
        while start < len(attempt.tasks):
            start = self._place_run(attempt, start, statement)
            if start < 0:
                start = len(attempt.tasks)
            elif session.job_deficit(attempt.job) == 0:
                break
        placed = sum(len(operation.tasks) for operation in statement.operations[mark:])
        attempt.tasks = attempt.tasks[start:]
        if session.job_deficit(attempt.job) == 0 or session.job_pipelined_deficit(attempt.job) == 0:
            return True
        statement.rollback(mark)
        if attempt.verdict is None:
            attempt.verdict = JobVerdict(GANG_INCOMPLETE, placed=placed)
        return False

    def place_all(self, tasks: Rows, statement: Statement) -> int:
        """Place tasks one run after the other, whatever queue and gang say; stop at the first that does not fit."""
        start = 0
        while start < len(tasks):
            end = self._run_end(tasks, start)
            placed = self._place_alike(tasks[start:end], statement)
            start += placed
            if start < end:
                break
        return start

    def _place_run(self, attempt: Attempt, start: int, statement: Statement) -> int:
        """Place the next tasks that are alike; return where to go on, -1 to give the job up."""
        session, table = self._session, self._session.snapshot.tasks
        task = int(attempt.tasks[start])
        role = int(table.role[task])
        end = self._run_end(attempt.tasks, start)
        if role in attempt.failed_roles:
            return end
        cls = int(table.cls[task])
        queue = int(session.snapshot.jobs.queue[attempt.job])
        slots = session.queue_slots(queue, session.snapshot.classes.requests[cls, 0])
        if slots <= 0:
            attempt.verdict = JobVerdict(QUEUE_FULL, cls=cls, task=task)
            return end
        want = min(end - start, max(1, session.job_deficit(attempt.job)), slots)
        placed = self._place_alike(attempt.tasks[start : start + want], statement)
        if placed == want:
            return start + want
        attempt.verdict = JobVerdict(INSUFFICIENT, cls=cls, task=int(attempt.tasks[start + placed]))
        if session.snapshot.roles.names[role]:
            attempt.failed_roles.add(role)
        return end if may_go_on(session, attempt) else -1

    def _run_end(self, tasks: Rows, start: int) -> int:
        """End of the run of tasks that can be placed by one call."""
        table = self._session.snapshot.tasks
        first = int(tasks[start])
        if first in self._live or table.nominated[first] != NO_ROW:
            return start + 1
        rest = tasks[start:]
        alike = (
            (table.cls[rest] == table.cls[first])
            & (table.role[rest] == table.role[first])
            & (table.subgroup[rest] == table.subgroup[first])
            & (table.nominated[rest] == NO_ROW)
        )
        if self._live:
            alike &= np.fromiter((int(task) not in self._live for task in rest), np.bool_, len(rest))
        different = np.flatnonzero(~alike)
        return start + (int(different[0]) if len(different) else len(rest))

    def _place_alike(self, tasks: Rows, statement: Statement) -> int:
        """Place as many of a run as fit, on what is free now, then on what will be; return how many."""
        task = int(tasks[0])
        if len(tasks) == 1 and self._place_nominated(task, statement):
            return 1
        if task in self._live:
            return statement.fill(tasks, self._boards.for_task(task, IDLE)) or statement.fill(
                tasks, self._boards.for_task(task, FUTURE)
            )
        cls = int(self._session.snapshot.tasks.cls[task])
        placed = statement.fill(tasks, self._boards.get(cls, IDLE))
        if placed < len(tasks):
            placed += statement.fill(tasks[placed:], self._boards.get(cls, FUTURE))
        return placed

    def _place_nominated(self, task: int, statement: Statement) -> bool:
        """Use the node that an earlier cycle set aside for the task, if it still fits."""
        snapshot = self._session.snapshot
        node = int(snapshot.tasks.nominated[task])
        if node == NO_ROW:
            return False
        cls = int(snapshot.tasks.cls[task])
        if self._boards.verdicts(cls)[node] != FITS:
            return False
        if task in self._live:
            verdicts = self._session.task_verdicts(task)
            if verdicts is not None and verdicts[node] != FITS:
                return False
        request = snapshot.classes.requests[cls, 0]
        for mode in (IDLE, FUTURE):
            if fits(snapshot.nodes.state, request, node, mode):
                statement.place(task, node, mode)
                return True
        return False


def may_go_on(session: Session, attempt: Attempt) -> bool:
    """A task found no node: can the job still become ready with the others?"""
    snapshot = session.snapshot
    job = attempt.job
    minimum = int(snapshot.jobs.min_member[job])
    if minimum == snapshot.jobs.task_count(job):
        return False
    roles = snapshot.jobs.roles[job]
    if minimum < snapshot.jobs.min_roles_total[job]:
        # Role minimums do not hold, so only the number of tasks that may still find a node counts.
        left = sum(
            int(snapshot.roles.counts[role, TaskStatus.PENDING]) for role in roles if role not in attempt.failed_roles
        )
        return snapshot.jobs.ready_count(job) + left >= minimum
    for role in attempt.failed_roles:
        counts = snapshot.roles.counts[role]
        have = int(counts[list(READY_STATUSES)].sum()) + int(counts[BEST_EFFORT_PENDING])
        if have < snapshot.roles.minimum[role]:
            return False
    return True
