"""Reclaim: let queues that have less than they deserve take it back from queues that have more."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from muster.actions.eviction_arguments import EvictionArguments
from muster.actions.solver_arguments import solver_options
from muster.engine.evictions.budgets import warn_of_limit
from muster.engine.evictions.eligibility import jobs_in_need
from muster.engine.evictions.gang import run_gang_path
from muster.engine.evictions.solver.path import run_solver
from muster.engine.evictions.tasks import TaskStrategy
from muster.engine.lines import JobLine, QueueLine, related_queues
from muster.framework import Action, Arguments, Eviction, Session


class ReclaimArguments(EvictionArguments, frozen=True, kw_only=True):
    """Arguments of the reclaim action."""

    gang_aware_dotted: Annotated[bool, msgspec.Meta(description="The same as gangAwareEnable.")] = msgspec.field(
        default=False, name="reclaim.gangAwareEnable"
    )


class Reclaim(Action):
    """Go through queues in order; each one that has not had its share serves its jobs in need from other queues."""

    name: ClassVar[str] = "reclaim"
    summary: ClassVar[str] = "Let queues below their share take it back from queues that have more than theirs."
    Args: ClassVar[type[Arguments]] = ReclaimArguments

    def run(self, session: Session) -> None:
        arguments = self.arguments
        assert isinstance(arguments, ReclaimArguments)
        if arguments.strategy == "solver":
            run_solver(session, Eviction.RECLAIM, solver_options(arguments), self.name)
            return
        if arguments.strategy == "gang" or arguments.gang_aware or arguments.gang_aware_dotted:
            run_gang_path(session, Eviction.RECLAIM, arguments.options(), self.name)
            return
        warn_of_limit(arguments.max_disruption_ratio, self.name)
        self._run_tasks(session, TaskStrategy(session, Eviction.RECLAIM, self.name, arguments.task_options()))

    def _run_tasks(self, session: Session, strategy: TaskStrategy) -> None:
        waiting = dict(jobs_in_need(session))
        lines: dict[int, JobLine] = {}
        for job in waiting:
            lines.setdefault(int(session.snapshot.jobs.queue[job]), JobLine()).push(session.job_key(job), job)
        queues = QueueLine(lines, session.queue_key, related_queues(session, lines))
        while (queue := queues.pop()) is not None:
            if session.overused(queue):
                continue
            while lines[queue]:
                job = lines[queue].pop()
                with session.turn(job):
                    strategy.serve(job, waiting[job])
            queues.refresh_around(queue)
