"""Backfill: give a node to pending tasks that ask for no resources."""

from __future__ import annotations

from typing import ClassVar

from muster.engine.gangs import relies_on_best_effort
from muster.engine.lines import Line
from muster.engine.placing import Goal, door_of
from muster.engine.waiting import placeable_jobs, schedulable_tasks
from muster.framework import Action, JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, INSUFFICIENT
from muster.snapshot import Rows


class Backfill(Action):
    """Go through queues and jobs in order; a gang is bound only if its minimum really has nodes."""

    name: ClassVar[str] = "backfill"
    summary: ClassVar[str] = "Give nodes to pending tasks that ask for no resources."

    def run(self, session: Session) -> None:
        tasks = schedulable_tasks(session, best_effort=True)
        waiting = placeable_jobs(session, tasks) if len(tasks) else {}
        if not waiting:
            return
        line = Line(session, waiting)
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
