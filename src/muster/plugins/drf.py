"""Dominant resource fairness: the job that has the smallest part of the cluster goes first.

A job's part is its dominant share: the largest of its shares of the cluster's resources. With `enableHierarchy`
queues are ordered too, by shares computed up the queue tree (`drf_tree`). Shares are derived from the
snapshot's allocations whenever somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from muster.framework.plugin import OrderKey, Plugin
from muster.plugins.drf_tree import FairTree
from muster.snapshot import Amounts, Rows

if TYPE_CHECKING:
    from muster.framework.session import Session

#: Shares this close count as equal when victims are chosen, as in Volcano.
_SHARE_DELTA: Final = 1e-6


class Drf(Plugin):
    """Order jobs by their dominant share, and queues by hierarchical shares."""

    name = "drf"
    summary = "Jobs with the smallest dominant share first; with enableHierarchy, fair shares in the queue tree."

    def open(self, session: Session) -> None:
        super().open(session)
        self._allocated = session.snapshot.jobs.allocated
        self._totals = [(column, total) for column, total in enumerate(session.total.tolist()) if total > 0]
        self._tree = FairTree(session) if session.is_hierarchical(self.name) else None

    def _share(self, allocated: Amounts) -> float:
        """The dominant share of an allocation."""
        amounts = allocated.tolist()
        share = 0.0
        for column, total in self._totals:
            part = amounts[column] / total
            share = max(share, part)
        return float(share)

    def job_order(self, job: int) -> float:
        return self._share(self._allocated[job])

    def queue_order(self, queue: int) -> OrderKey:
        return None if self._tree is None else self._tree.key(queue)

    def preemptable(self, preemptor: int, candidates: Rows) -> Rows | None:
        """Tasks of jobs that would still have at least the share that the preemptor's job would get."""
        snapshot = self.session.snapshot
        gains = self._share(self._allocated[snapshot.tasks.job[preemptor]] + snapshot.request(preemptor))
        left: dict[int, Amounts] = {}
        victims = []
        for task in candidates.tolist():
            job = int(snapshot.tasks.job[task])
            if job not in left:
                left[job] = self._allocated[job].copy()
            left[job] -= snapshot.request(task)
            if gains <= self._share(left[job]) + _SHARE_DELTA:
                victims.append(task)
        return np.array(victims, np.int32)

    def reclaimable(self, reclaimer: int, candidates: Rows) -> Rows | None:
        """With a tree: tasks whose queue would still come after the reclaimer's queue once the task moved."""
        if self._tree is None:
            return None
        snapshot = self.session.snapshot
        job = int(snapshot.tasks.job[reclaimer])
        queue = int(snapshot.jobs.queue[job])
        victims = []
        for task in candidates.tolist():
            other = int(snapshot.tasks.job[task])
            after = self._allocated.copy()
            after[job] += snapshot.request(reclaimer)
            after[other] -= snapshot.request(task)
            keys = self._tree.keys(after)
            if keys[queue] < keys[int(snapshot.jobs.queue[other])]:
                victims.append(task)
        return np.array(victims, np.int32)
