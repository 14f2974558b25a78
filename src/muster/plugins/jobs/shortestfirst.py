"""Shortest first: jobs of a queue in the order of the run times that are expected of them (SJF, SRTF).

Jobs that nobody knows anything about come last. Large jobs may starve; `reservation` with the order `shortest` keeps
them from it. With `preempt` what counts is what is left of run times, for jobs that run too, and it counts as priority
does: among jobs of one priority a shorter one goes first, and actions that preempt may take the place of a longer one
for it. That loses what victims have done since they last saved it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

import numpy as np
from msgspec import Meta

from muster.framework.plugin import Arguments, OrderKey, Plugin

if TYPE_CHECKING:
    from muster.framework.session import Session


class ShortestFirstArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the shortestfirst plugin."""

    preempt: Annotated[
        bool,
        Meta(
            description="Let jobs take the place of those with more left to run: what is left counts as priority does. "
            "The plugin has to stand before `priority`."
        ),
    ] = False


class ShortestFirst(Plugin):
    """Order jobs by expected run time."""

    name = "shortestfirst"
    summary = "Jobs of a queue in the order of their expected run times, the shortest first."
    orders_by = "expected run time"
    Args: ClassVar[type[Arguments]] = ShortestFirstArguments
    wants_run_times: ClassVar[bool] = True

    def open(self, session: Session) -> None:
        super().open(session)
        self._left: dict[int, float] = {}
        if cast("ShortestFirstArguments", self.arguments).preempt:
            self._rank()

    def job_order(self, job: int) -> OrderKey:
        left = self._left.get(job)
        if left is None:
            left = self._left[job] = self._seconds_left(job)
        return left

    def _rank(self) -> None:
        """Give jobs the priorities that follow from what they have left, below those that they were given."""
        jobs = self.session.snapshot.jobs
        rows = np.flatnonzero(jobs.live)
        left = np.array([self.job_order(job) for job in rows.tolist()], np.float64)
        order = np.lexsort((-left, jobs.priority[rows]))
        ordered = np.stack((jobs.priority[rows[order]].astype(np.float64), left[order]))
        # Equal ones stay equal: none of them may take the place of another.
        steps = (np.diff(ordered, axis=1) != 0) & ~(np.isinf(ordered[:, 1:]) & np.isinf(ordered[:, :-1]))
        jobs.priority[rows[order]] = np.concatenate(([0], np.cumsum(steps.any(axis=0))))[: len(rows)]

    def _seconds_left(self, job: int) -> float:
        session, snapshot = self.session, self.session.snapshot
        record = snapshot.jobs.records[job]
        pods = (snapshot.tasks.pods[task] for task in snapshot.tasks_of(job).tolist())
        found = session.run_times.of(record, pods)
        if found is None:
            return math.inf
        if not snapshot.jobs.allocated_count(job):
            return found.seconds
        return found.remaining(max(0.0, session.now - session.run_times.since(record, session.now)))
