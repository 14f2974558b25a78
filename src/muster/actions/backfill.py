"""Backfill: give a node to pending tasks that ask for no resources."""

from __future__ import annotations

from typing import ClassVar

from muster.engine.gangs import relies_on_best_effort
from muster.engine.lines import QueueLine
from muster.engine.placing import Goal, door_of
from muster.engine.waiting import schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import Action, JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, INSUFFICIENT
from muster.snapshot import BEST_EFFORT, Rows


class Backfill(Action):
    """Go through queues and jobs in order; a gang is bound only if its minimum really has nodes."""

    name: ClassVar[str] = "backfill"
    summary: ClassVar[str] = "Give nodes to pending tasks that ask for no resources."

    def run(self, session: Session) -> None:
        waiting = pick_up(session)
        line = QueueLine(session, waiting, turns_away=False)
        while (job := line.pop()) is not None:
            with session.turn(job):
                self._fill(session, job, waiting[job])

    def _fill(self, session: Session, job: int, tasks: Rows) -> None:
        with session.statement(self.name) as statement:
            left = tasks
            while len(left):
                placed = door_of(session).place(job, left, statement, goal=Goal.FIRST).placed
                if placed < len(left):
                    task = int(left[placed])
                    session.record(job, JobVerdict(INSUFFICIENT, cls=int(session.snapshot.tasks.cls[task]), task=task))
                left = left[placed + 1 :]
            if session.job_deficit(job) == 0 and not relies_on_best_effort(session, job):
                statement.commit()
            else:
                statement.rollback()
                session.record(job, JobVerdict(GANG_INCOMPLETE))


def pick_up(session: Session) -> dict[int, Rows]:
    """Pending best-effort tasks by job, of jobs that may be scheduled."""
    tasks = schedulable_tasks(session)
    free = tasks[(session.snapshot.tasks.flags[tasks] & BEST_EFFORT) != 0]
    waiting: dict[int, Rows] = {}
    for job, own in tasks_by_job(session, free):
        with session.turn(job):
            if why_not_schedulable(session, job) is None:
                waiting[job] = own
    return waiting
