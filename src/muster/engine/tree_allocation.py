"""Allocation over a tree of queues: chunk by chunk, each time the first job of the queue whose turn it is.

Used by allocate when a plugin makes queues a tree (`queue_turn`). A gang gets its minimum at once or nothing; a gang
that has it grows by one task per turn. A chunk that must wait for room to come free is promised its places as a whole.
"""

from __future__ import annotations

from muster.engine.chunk_placer import ChunkPlacer
from muster.engine.chunks import next_tasks
from muster.engine.evictions.pipeline import promise
from muster.engine.gangs import place_best_effort_members
from muster.engine.placement import EARNEST
from muster.engine.tree_line import TreeLine
from muster.engine.two_level import JobWork, make_work, needs_domains
from muster.engine.waiting import gated_jobs, schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, GATED, INSUFFICIENT, NOT_TRIED
from muster.snapshot import BEST_EFFORT, NO_ROW, OperationKind, Rows, Statement, TaskStatus


class TreeAllocation:
    """One run of allocate over the tree."""

    def __init__(self, session: Session, action: str, *, rank_order: bool = True) -> None:
        self._session = session
        self._action = action
        self._placer = ChunkPlacer(session, rank_order=rank_order)
        #: Gangs on their way through their domains.
        self._works: dict[int, JobWork] = {}

    def run(self) -> None:
        session = self._session
        gated = frozenset(gated_jobs(session))
        for held in gated:
            session.record(held, JobVerdict(GATED))
        waiting = self._line_up()
        line = TreeLine(session, waiting)
        while (job := line.pop()) is not None:
            tasks = next_tasks(session, job, waiting[job])
            if len(tasks) == 0:
                session.record(job, JobVerdict(GATED if job in gated else GANG_INCOMPLETE))
                continue
            if self._serve_by_domains(job, tasks, waiting[job]) if self._by_domains(job) else self._serve(job, tasks):
                waiting[job] = left = waiting[job][session.snapshot.tasks.status[waiting[job]] == TaskStatus.PENDING]
                if len(left):
                    line.push(job)

    def _by_domains(self, job: int) -> bool:
        """Whether HyperNodes and sub-groups decide what is placed together, and not the chunk alone."""
        return needs_domains(self._session, job) and self._session.snapshot.jobs.records[job].groups is None

    def _line_up(self) -> dict[int, Rows]:
        """Pending tasks of every job that can be allocated; the others get their verdicts."""
        session = self._session
        waiting = {}
        for job, tasks in tasks_by_job(session, schedulable_tasks(session)):
            if job == NO_ROW:
                continue
            verdict = why_not_schedulable(session, job)
            session.record(job, verdict or JobVerdict(NOT_TRIED))
            if verdict is None:
                waiting[job] = tasks
            else:
                # Room is not kept for a job that cannot use it now.
                session.statement().release(tasks)
        return waiting

    def _serve_by_domains(self, job: int, chunk: Rows, waiting: Rows) -> bool:
        """Let a gang try its domains with all that waits, until it is ready; False: nothing was bound.

        The queues are asked about the chunk that it cannot do without.
        """
        session, table = self._session, self._session.snapshot.tasks
        rejection = session.over_capacity(job, chunk)
        if rejection is not None:
            session.record(job, JobVerdict(rejection.reason, rejection.detail))
            return False
        statement = session.statement()
        if table.reserved.any():
            statement.release(waiting)
        work = self._works.get(job)
        if work is None:
            work = self._works[job] = make_work(session, job, waiting[(table.flags[waiting] & BEST_EFFORT) == 0])
        found = self._placer.domains.place(work, statement)
        session.record(job, work.verdict or JobVerdict(NOT_TRIED))
        if not found:
            statement.rollback()
            return False
        if session.job_deficit(job) > 0:
            return False  # pipelined: keeps its places for this cycle, and is not bound
        if not place_best_effort_members(session, self._placer.placer, job, statement):
            session.record(job, JobVerdict(GANG_INCOMPLETE))
            return False
        session.commit(statement, self._action)
        return bool(work)

    def _serve(self, job: int, tasks: Rows) -> bool:
        """Place one chunk and keep it; False: it found no place."""
        session = self._session
        statement = session.statement()
        if session.snapshot.tasks.reserved.any():
            statement.release(tasks)
        if not self._placer.place(job, tasks, statement, EARNEST):
            statement.rollback()
            session.record(job, self._placer.verdict or JobVerdict(INSUFFICIENT))
            return False
        _promise_all_if_any(statement)
        session.commit(statement, self._action)
        return True


def _promise_all_if_any(statement: Statement) -> None:
    """A gang of which some tasks wait for room is not bound in part."""
    if any(operation.kind is OperationKind.PIPELINE for operation in statement.operations):
        operations = list(statement.operations)
        statement.rollback()
        statement.redo(promise(operations))
