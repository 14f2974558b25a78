"""Priority: what matters more goes first, and may take the place of what matters less inside its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.framework.plugin import Eviction, Evictor, Plugin
from muster.snapshot import NO_ROW, Pieces, Rows, TaskStatus

if TYPE_CHECKING:
    from muster.framework.session import Session

_PIPELINED = int(TaskStatus.PIPELINED)


class Priority(Plugin):
    """Order by the priority of jobs, of sub-groups and of pods."""

    name = "priority"
    summary = "Higher priority first, for jobs in a queue, sub-groups and pods in a job; lower ones may be preempted."
    orders_by = "priority"
    victim_kinds = frozenset({Eviction.PREEMPT})
    steady_victims = True

    def open(self, session: Session) -> None:
        super().open(session)
        self._jobs = session.snapshot.jobs
        self._subgroup_keys: list[int] = []

    def job_order(self, job: int) -> int:
        return -self._jobs.priority.item(job)

    def job_orders(self, jobs: Rows) -> NDArray[np.int64]:
        return -self._jobs.priority[jobs].astype(np.int64)

    def victim_orders(self, jobs: Rows, left: Pieces) -> NDArray[np.int64]:
        return -self._jobs.priority[jobs].astype(np.int64)

    def task_order(self, tasks: Rows) -> NDArray[np.int64]:
        return -self.session.snapshot.tasks.priority[tasks].astype(np.int64)

    def subgroup_order(self, subgroup: int) -> int:
        """By the highest priority of a sub-group's tasks."""
        if not self._subgroup_keys:
            tasks = self.session.snapshot.tasks
            highest = np.full(len(self.session.snapshot.subgroups), np.iinfo(np.int64).min + 1)
            owned = tasks.subgroup != NO_ROW
            np.maximum.at(highest, tasks.subgroup[owned], tasks.priority[owned])
            self._subgroup_keys = (-highest).tolist()
        return self._subgroup_keys[subgroup]

    def job_starving(self, job: int) -> bool:
        """A job wants more while it has tasks that neither run nor have a place."""
        jobs = self._jobs
        placed = jobs.ready_count(job) + int(jobs.counts[job, _PIPELINED])
        return placed < jobs.task_count(job)

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Inside a queue, tasks of jobs with strictly lower priority; within a job, tasks with lower priority.

        Between queues priority has no say.
        """
        if kind is not Eviction.PREEMPT:
            return None
        tasks, jobs = self.session.snapshot.tasks, self._jobs
        owners = tasks.job[candidates]
        lower = jobs.priority[owners] < jobs.priority[evictor.job]
        own = owners == evictor.job
        if own.any():
            lower[own] = tasks.priority[candidates[own]] < tasks.priority[evictor.tasks].min()
        victims: Rows = candidates[lower]
        return victims
