"""Allocate: start pending gangs on free capacity, in the order of queues, jobs and tasks. Never evicts."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from muster.engine.boards import boards_of
from muster.engine.gangs import place_best_effort_members
from muster.engine.lines import JobLine, QueueLine, related_queues
from muster.engine.placement import Attempt, Placer
from muster.engine.waiting import schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import Action, Arguments, JobVerdict, Session
from muster.framework.reasons import NOT_TRIED, QUEUE_OVERUSED
from muster.snapshot import BEST_EFFORT, Rows


class AllocateArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the allocate action."""

    predicate_error_cache_enable: Annotated[
        bool,
        msgspec.Meta(description="Accepted for Volcano's files; failures are always remembered per role."),
    ] = msgspec.field(default=True, name="predicateErrorCacheEnable")
    gate_removal_worker_num: Annotated[
        int, msgspec.Meta(description="Accepted for Volcano's files; without effect.")
    ] = msgspec.field(default=5, name="gateRemovalWorkerNum")


class Allocate(Action):
    """Give queues turns; each turn the queue's first job gets nodes until it is ready, and is bound only then."""

    name: ClassVar[str] = "allocate"
    summary: ClassVar[str] = "Start pending gangs on free capacity, in the order of queues, jobs and tasks."
    Args: ClassVar[type[Arguments]] = AllocateArguments

    def run(self, session: Session) -> None:
        placer = Placer(session, boards_of(session))
        lines, attempts = self._line_up(session)
        queues = QueueLine(lines, session.queue_key, related_queues(session, lines))
        while (queue := queues.pop()) is not None:
            jobs = lines[queue]
            if not jobs:
                continue
            if session.overused(queue):
                for job in jobs.jobs():
                    session.record(job, JobVerdict(QUEUE_OVERUSED))
                continue
            self._give_turn(session, placer, attempts[jobs.pop()], jobs)
            queues.refresh_around(queue)
            queues.push(queue)

    def _line_up(self, session: Session) -> tuple[dict[int, JobLine], dict[int, Attempt]]:
        """Put every job that can be allocated in line at its queue."""
        lines: dict[int, JobLine] = {}
        attempts: dict[int, Attempt] = {}
        for job, tasks in self._pending(session):
            verdict = why_not_schedulable(session, job)
            session.record(job, verdict or JobVerdict(NOT_TRIED))
            if verdict is None:
                queue = int(session.snapshot.jobs.queue[job])
                lines.setdefault(queue, JobLine()).push(session.job_key(job), job)
                attempts[job] = Attempt(job, tasks)
        return lines, attempts

    def _pending(self, session: Session) -> list[tuple[int, Rows]]:
        tasks = schedulable_tasks(session)
        flags = session.snapshot.tasks.flags[tasks]
        return tasks_by_job(session, tasks[(flags & BEST_EFFORT) == 0])

    def _give_turn(self, session: Session, placer: Placer, attempt: Attempt, jobs: JobLine) -> None:
        """Let one job try; a job that is ready with tasks left goes back in line."""
        statement = session.statement()
        if not placer.place(attempt, statement):
            session.record(attempt.job, attempt.verdict or JobVerdict(NOT_TRIED))
            return
        if session.job_deficit(attempt.job) > 0:
            return  # pipelined: keeps its places for this cycle, and is not bound
        if not place_best_effort_members(session, placer, attempt.job, statement):
            session.record(attempt.job, attempt.verdict or JobVerdict(NOT_TRIED))
            return
        session.commit(statement, self.name)
        if attempt:
            jobs.push(session.job_key(attempt.job), attempt.job)
