"""Preempt: let jobs in need take the place of less important ones in their queue."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from muster.actions.eviction_arguments import EvictionArguments
from muster.actions.solver_arguments import solver_options
from muster.engine.evictions.budgets import warn_of_limit
from muster.engine.evictions.eligibility import jobs_in_need
from muster.engine.evictions.gang import run_gang_path
from muster.engine.evictions.must_leave import evict_departures
from muster.engine.evictions.solver.path import run_solver
from muster.engine.evictions.tasks import TaskStrategy
from muster.engine.evictions.topology_aware import CandidateOptions
from muster.engine.waiting import schedulable_tasks, tasks_by_job
from muster.framework import Action, Arguments, Eviction, Session
from muster.snapshot import Rows


class PreemptArguments(EvictionArguments, frozen=True, kw_only=True):
    """Arguments of the preempt action."""

    gang_aware_dotted: Annotated[bool, msgspec.Meta(description="The same as gangAwareEnable.")] = msgspec.field(
        default=False, name="preempt.gangAwareEnable"
    )
    topology_aware: Annotated[
        bool,
        msgspec.Meta(description="Try many nodes for each task and take the one whose victims matter least."),
    ] = msgspec.field(default=False, name="enableTopologyAwarePreemption")
    workers: Annotated[
        int, msgspec.Meta(description="Accepted for Volcano's files; nodes are tried together as arrays.")
    ] = msgspec.field(default=16, name="topologyAwarePreemptWorkerNum")
    percentage: Annotated[
        int, msgspec.Meta(ge=0, le=100, description="Topology-aware: the part of the nodes to find, in percent.")
    ] = msgspec.field(default=10, name="minCandidateNodesPercentage")
    at_least: Annotated[int, msgspec.Meta(ge=1, description="Topology-aware: the fewest nodes to find.")] = (
        msgspec.field(default=1, name="minCandidateNodesAbsolute")
    )
    at_most: Annotated[int, msgspec.Meta(ge=1, description="Topology-aware: the most nodes to find.")] = msgspec.field(
        default=100, name="maxCandidateNodesAbsolute"
    )


class Preempt(Action):
    """Go through queues and their jobs in need: first at the expense of other jobs, then inside each job."""

    name: ClassVar[str] = "preempt"
    summary: ClassVar[str] = "Let jobs in need take the place of less important ones in their queue."
    Args: ClassVar[type[Arguments]] = PreemptArguments

    def run(self, session: Session) -> None:
        arguments = self.arguments
        assert isinstance(arguments, PreemptArguments)
        self._make_room(session, arguments)
        evict_departures(session, self.name, ignores_budgets=arguments.ignore_pdb)

    def _make_room(self, session: Session, arguments: PreemptArguments) -> None:
        if arguments.strategy == "solver":
            run_solver(session, Eviction.PREEMPT, solver_options(arguments), self.name)
            return
        if arguments.strategy == "gang" or arguments.gang_aware or arguments.gang_aware_dotted:
            run_gang_path(session, Eviction.PREEMPT, arguments.options(), self.name)
            return
        warn_of_limit(arguments.max_disruption_ratio, self.name)
        candidates = CandidateOptions(arguments.percentage, arguments.at_least, arguments.at_most)
        by_task = arguments.task_options(candidates if arguments.topology_aware else None)
        self._run_tasks(session, TaskStrategy(session, Eviction.PREEMPT, self.name, by_task))

    def _run_tasks(self, session: Session, strategy: TaskStrategy) -> None:
        queues: dict[int, dict[int, Rows]] = {}
        for job, tasks in jobs_in_need(session):
            queues.setdefault(int(session.snapshot.jobs.queue[job]), {})[job] = tasks
        for queue in sorted(queues, key=session.queue_key):
            jobs = queues[queue]
            for job in sorted(jobs, key=session.job_key):
                with session.turn(job):
                    strategy.serve(job, jobs[job])
            self._serve_within(session, strategy, set(jobs))

    def _serve_within(self, session: Session, strategy: TaskStrategy, jobs: set[int]) -> None:
        """Second phase: tasks against tasks of the same job."""
        waiting = {job: tasks for job, tasks in tasks_by_job(session, schedulable_tasks(session)) if job in jobs}
        for job in sorted(waiting, key=session.job_key):
            with session.turn(job):
                strategy.serve_within(job, waiting[job])
