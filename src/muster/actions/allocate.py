"""Allocate: start pending gangs on free capacity, in the order of queues, jobs and tasks. Never evicts."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from muster.engine.boards import boards_of
from muster.engine.gangs import place_best_effort_members
from muster.engine.lines import JobLine, QueueLine, related_queues
from muster.engine.placement import Placer
from muster.engine.tree_allocation import TreeAllocation
from muster.engine.two_level import JobWork, TwoLevelPlacer, make_work, needs_domains
from muster.engine.waiting import gated_jobs, schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import Action, Arguments, JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, GATED, NOT_TRIED, QUEUE_OVERUSED
from muster.snapshot import BEST_EFFORT, Rows


class AllocateArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the allocate action."""

    predicate_error_cache_enable: Annotated[
        bool,
        msgspec.Meta(description="Accepted for Volcano's files; failures are always remembered per role."),
    ] = msgspec.field(default=True, name="predicateErrorCacheEnable")
    rank_order: Annotated[
        bool,
        msgspec.Meta(
            description="Give equal tasks of a gang with a topology constraint nodes in topology order, by their index."
        ),
    ] = msgspec.field(default=True, name="rankOrder")
    gate_removal_worker_num: Annotated[
        int, msgspec.Meta(description="Accepted for Volcano's files; without effect.")
    ] = msgspec.field(default=5, name="gateRemovalWorkerNum")


class Allocate(Action):
    """Give queues turns; each turn the queue's first job gets nodes until it is ready, and is bound only then."""

    name: ClassVar[str] = "allocate"
    summary: ClassVar[str] = "Start pending gangs on free capacity, in the order of queues, jobs and tasks."
    Args: ClassVar[type[Arguments]] = AllocateArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, AllocateArguments)
        if session.asked("queue_turn"):
            TreeAllocation(session, self.name, rank_order=self.arguments.rank_order).run()
            return
        boards = boards_of(session)
        placer = Placer(session, boards, rank_order=self.arguments.rank_order)
        domains = TwoLevelPlacer(session, boards, placer)
        lines, works = self._line_up(session)
        queues = QueueLine(lines, session.queue_key, related_queues(session, lines))
        while (queue := queues.pop()) is not None:
            jobs = lines[queue]
            if not jobs:
                continue
            if session.overused(queue):
                for job in jobs.jobs():
                    session.record(job, JobVerdict(QUEUE_OVERUSED))
                continue
            self._give_turn(session, placer, domains, works[jobs.pop()], jobs)
            queues.refresh_around(queue)
            queues.push(queue)

    def _line_up(self, session: Session) -> tuple[dict[int, JobLine], dict[int, JobWork]]:
        """Put every job that can be allocated in line at its queue."""
        lines: dict[int, JobLine] = {}
        works: dict[int, JobWork] = {}
        for job in gated_jobs(session):
            session.record(job, JobVerdict(GATED))
        for job, tasks in self._pending(session):
            verdict = why_not_schedulable(session, job)
            session.record(job, verdict or JobVerdict(NOT_TRIED))
            if verdict is not None:
                # Room is not kept for a job that cannot use it now.
                session.statement().release(tasks)
            else:
                queue = int(session.snapshot.jobs.queue[job])
                lines.setdefault(queue, JobLine()).push(session.job_key(job), job)
                works[job] = make_work(session, job, tasks)
        return lines, works

    def _pending(self, session: Session) -> list[tuple[int, Rows]]:
        tasks = schedulable_tasks(session)
        flags = session.snapshot.tasks.flags[tasks]
        return tasks_by_job(session, tasks[(flags & BEST_EFFORT) == 0])

    def _give_turn(
        self, session: Session, placer: Placer, domains: TwoLevelPlacer, work: JobWork, jobs: JobLine
    ) -> None:
        """Let one job try; a job that is ready with tasks left goes back in line."""
        job = work.job
        statement = session.statement()
        if session.snapshot.tasks.reserved.any():
            statement.release(session.snapshot.tasks_of(job))
        if needs_domains(session, job):
            found = domains.place(work, statement)
        else:
            found = placer.place(work.attempts[0], statement)
            work.verdict = work.attempts[0].verdict
        session.record(job, work.verdict or JobVerdict(NOT_TRIED))
        if not found:
            statement.rollback()
            return
        if session.job_deficit(job) > 0:
            return  # pipelined: keeps its places for this cycle, and is not bound
        if not place_best_effort_members(session, placer, job, statement):
            session.record(job, JobVerdict(GANG_INCOMPLETE))
            return
        session.commit(statement, self.name)
        if work:
            jobs.push(session.job_key(job), job)
