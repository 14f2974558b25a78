"""Dominant resource fairness: the job that has the smallest part of the cluster goes first.

A job's part is its dominant share: the largest of its shares of the cluster's resources. With `enableHierarchy`
queues are ordered too, by shares computed up the queue tree (`drf_tree`). Shares are derived from the
snapshot's allocations whenever somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from muster.engine.gangs import requests_of
from muster.framework.plugin import Eviction, Evictor, OrderKey, Plugin
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

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Of single tasks, those that leave their job, or their queue in the tree, with no less than the evictor's."""
        if evictor.breaks_gangs or kind is Eviction.CONSOLIDATE:
            return None
        if kind is Eviction.PREEMPT:
            return self._of_richer_jobs(evictor, candidates)
        return None if self._tree is None else self._of_later_queues(self._tree, evictor, candidates)

    def _of_richer_jobs(self, evictor: Evictor, candidates: Rows) -> Rows:
        """Tasks of jobs that would still have at least the share that the evictor's job would get."""
        snapshot = self.session.snapshot
        gains = self._share(self._allocated[evictor.job] + requests_of(snapshot, evictor.tasks))
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

    def _of_later_queues(self, tree: FairTree, evictor: Evictor, candidates: Rows) -> Rows:
        """Tasks whose queue would still come after the evictor's queue once the task moved."""
        snapshot = self.session.snapshot
        queue = int(snapshot.jobs.queue[evictor.job])
        wanted = requests_of(snapshot, evictor.tasks)
        victims = []
        for task in candidates.tolist():
            other = int(snapshot.tasks.job[task])
            after = self._allocated.copy()
            after[evictor.job] += wanted
            after[other] -= snapshot.request(task)
            keys = tree.keys(after)
            if keys[queue] < keys[int(snapshot.jobs.queue[other])]:
                victims.append(task)
        return np.array(victims, np.int32)
