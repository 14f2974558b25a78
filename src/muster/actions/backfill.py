"""Backfill: give a node to pending tasks that ask for no resources."""

from __future__ import annotations

from typing import ClassVar

from muster.engine.boards import boards_of
from muster.engine.gangs import place_best_effort, relies_on_best_effort
from muster.engine.lines import JobLine, QueueLine, related_queues
from muster.engine.placement import Placer
from muster.engine.waiting import schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import Action, JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, INSUFFICIENT
from muster.snapshot import BEST_EFFORT, Rows


class Backfill(Action):
    """Go through queues and jobs in order; a gang is bound only if its minimum really has nodes."""

    name: ClassVar[str] = "backfill"
    summary: ClassVar[str] = "Give nodes to pending tasks that ask for no resources."

    def run(self, session: Session) -> None:
        placer = Placer(session, boards_of(session))
        waiting = pick_up(session)
        lines: dict[int, JobLine] = {}
        for job in waiting:
            lines.setdefault(int(session.snapshot.jobs.queue[job]), JobLine()).push(session.job_key(job), job)
        queues = QueueLine(lines, session.queue_key, related_queues(session, lines))
        while (queue := queues.pop()) is not None:
            jobs = lines[queue]
            if jobs:
                job = jobs.pop()
                self._fill(session, placer, job, waiting[job])
                queues.push(queue)

    def _fill(self, session: Session, placer: Placer, job: int, tasks: Rows) -> None:
        statement = session.statement()
        left = tasks
        while len(left):
            placed = place_best_effort(session, placer, left, statement)
            if placed < len(left):
                task = int(left[placed])
                session.record(job, JobVerdict(INSUFFICIENT, cls=int(session.snapshot.tasks.cls[task]), task=task))
            left = left[placed + 1 :]
        if session.job_deficit(job) == 0 and not relies_on_best_effort(session, job):
            session.commit(statement, self.name)
        else:
            statement.rollback()
            session.record(job, JobVerdict(GANG_INCOMPLETE))


def pick_up(session: Session) -> dict[int, Rows]:
    """Pending best-effort tasks by job, of jobs that may be scheduled."""
    tasks = schedulable_tasks(session)
    free = tasks[(session.snapshot.tasks.flags[tasks] & BEST_EFFORT) != 0]
    return {job: own for job, own in tasks_by_job(session, free) if why_not_schedulable(session, job) is None}
