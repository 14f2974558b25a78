"""Dominant resource fairness: the job that has the smallest part of the cluster goes first.

A job's part is its dominant share: the largest of its shares of the cluster's resources, derived from the snapshot's
allocations whenever somebody asks. With `enableHierarchy` queues are ordered too, by shares computed up the queue tree.
That is given by the queues' annotations `volcano.sh/hierarchy` ("root/eng/dev") and `volcano.sh/hierarchy-weights`
("1/2/8"), or by their parents and weights. Jobs are the leaves. A node's allocation is the sum of its children's, those
that still want more scaled down to the smallest dominant share among them, so that one branch's appetite for one
resource is not held against its siblings (Bhattacharya et al., "Hierarchical scheduling for diverse datacenter
workloads").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from muster.api.names import ROOT_QUEUE
from muster.engine.gangs import requests_of
from muster.framework.plugin import Eviction, Evictor, OrderKey, Plugin
from muster.snapshot import NO_ROW, Amounts, QueueRecord, Rows, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.framework.session import Session


#: Shares this close count as equal when victims are chosen, as in Volcano.
_SHARE_DELTA: Final = 1e-6
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
Floats = NDArray[np.float64]
#: Per level below the root: is everything below saturated, and the share by weight. Smaller goes first.
LevelKey = tuple[tuple[bool, float], ...]


class Drf(Plugin):
    """Order jobs by their dominant share, and queues by hierarchical shares."""

    name = "drf"
    summary = "Jobs with the smallest dominant share first; with enableHierarchy, fair shares in the queue tree."
    orders_by = "the share that it has"

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
        return np.array(victims, np.intp)

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
        return np.array(victims, np.intp)


@dataclass(slots=True)
class _Node:
    weight: float
    parent: int
    children: dict[str, int] = field(default_factory=dict)


class FairTree:
    """The tree of one session; keys are made anew when an allocation has changed."""

    def __init__(self, session: Session) -> None:
        snapshot = session.snapshot
        self._snapshot = snapshot
        jobs = snapshot.jobs
        self._nodes = [_Node(1.0, NO_ROW)]
        self._paths = self._grow(snapshot.queues.records, snapshot.queues.index)
        self._rows = np.flatnonzero(jobs.live & jobs.has_group & (jobs.queue != NO_ROW))
        leaf_of_queue = np.array([path[-1] for path in self._paths], np.int64)
        self._leaf = leaf_of_queue[jobs.queue[self._rows]]
        self._total = session.total.astype(np.float64)
        self._columns = np.flatnonzero(session.total > 0)
        self._requests = _total_requests(session)[self._rows]
        self._seen = -1
        self._keys: list[LevelKey] = []

    def key(self, queue: int) -> LevelKey:
        """Where a queue stands now."""
        # Every change of an allocation touches a node, and touches are counted.
        if self._seen != self._snapshot.touched:
            self._keys = self.keys(self._snapshot.jobs.allocated)
            self._seen = self._snapshot.touched
        return self._keys[queue]

    def keys(self, allocated: Amounts) -> list[LevelKey]:
        """Keys of all queues for given allocations of all jobs."""
        saturated, shares = self._levels(allocated[self._rows].astype(np.float64))
        weighted = [
            (bool(full), float(share) / node.weight)
            for full, share, node in zip(saturated, shares, self._nodes, strict=True)
        ]
        return [tuple(weighted[node] for node in path) for path in self._paths]

    # -- shares --------------------------------------------------------------------------------------------

    def _levels(self, allocated: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Saturation and dominant share of every node, from the jobs up."""
        n = len(self._nodes)
        jobs_full, jobs_share = self._jobs_state(allocated)
        holds = jobs_share > 0
        wants = holds & ~jobs_full
        smallest = np.ones(n)
        np.minimum.at(smallest, self._leaf[wants], jobs_share[wants])
        settled = np.zeros((n, allocated.shape[1]))
        np.add.at(settled, self._leaf[holds & jobs_full], allocated[holds & jobs_full])
        scaled = np.zeros_like(settled)
        np.add.at(scaled, self._leaf[wants], allocated[wants] / jobs_share[wants, None])
        full = np.ones(n, np.bool_)
        full[self._leaf[~jobs_full]] = False
        shares = np.zeros(n)
        # Children stand after their parents, so one pass backwards has every child done before its parent.
        for node in range(n - 1, -1, -1):
            total = settled[node] + smallest[node] * scaled[node]
            shares[node] = self._dominant(total)
            parent = self._nodes[node].parent
            if parent == NO_ROW:
                continue
            full[parent] &= full[node]
            if shares[node] > 0 and full[node]:
                settled[parent] += total
            elif shares[node] > 0:
                smallest[parent] = min(smallest[parent], shares[node])
                scaled[parent] += total / shares[node]
        return full, shares

    def _jobs_state(self, allocated: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Which jobs are saturated, and their dominant shares.

        A job is saturated when it has all it asks for of some resource, or holds some of a resource that it
        asks for and that the cluster has no more of.
        """
        # A resource that the cluster does not have at all holds nobody back.
        used_up = (allocated.sum(axis=0) >= self._total) & (self._total > 0)
        counts = (allocated > 0) & (self._requests > 0)
        full: NDArray[np.bool_] = (counts & ((allocated >= self._requests) | used_up)).any(axis=1)
        if not len(self._columns) or not len(allocated):
            return full, np.zeros(len(allocated))
        shares: Floats = (allocated[:, self._columns] / self._total[self._columns]).max(axis=1)
        return full, shares

    def _dominant(self, allocated: Floats) -> float:
        if not len(self._columns):
            return 0.0
        return float((allocated[self._columns] / self._total[self._columns]).max())

    # -- the tree ------------------------------------------------------------------------------------------

    def _grow(self, records: list[QueueRecord], index: Mapping[str, int]) -> list[list[int]]:
        """Make the nodes; return the nodes of every queue, from below the root to its own."""
        return [self._path(_steps(record, records, index)) for record in records]

    def _path(self, steps: list[tuple[str, float]]) -> list[int]:
        path, here = [], 0
        for name, weight in steps:
            children = self._nodes[here].children
            if name not in children:
                children[name] = len(self._nodes)
                self._nodes.append(_Node(weight, here))
            here = children[name]
            path.append(here)
        return path or [0]


def _steps(record: QueueRecord, records: list[QueueRecord], index: Mapping[str, int]) -> list[tuple[str, float]]:
    """Names and weights from below the root down to a queue."""
    steps: list[tuple[str, float]] = []
    seen: set[str] = set()
    while record.name not in seen:
        seen.add(record.name)
        names, weights = record.annotations.get(HIERARCHY, ""), record.annotations.get(HIERARCHY_WEIGHTS, "")
        if names and weights:
            return _annotated(names, weights) + steps
        if record.name == ROOT_QUEUE:
            break
        steps.insert(0, (record.name, float(max(1, record.weight))))
        above = index.get(record.parent or ROOT_QUEUE)
        if above is None:
            break
        record = records[above]
    return steps


def _annotated(names: str, weights: str) -> list[tuple[str, float]]:
    """Read the two annotations; the first name is the root, a weight that is missing or below one is one."""
    given = [_weight(text) for text in weights.split("/")]
    parts = names.split("/")
    given += [1.0] * (len(parts) - len(given))
    return list(zip(parts, given, strict=False))[1:]


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if weight >= 1 else 1.0


def _total_requests(session: Session) -> Amounts:
    """int64[jobs, resources]: requests of all tasks of each job, whatever their state."""
    snapshot = session.snapshot
    tasks = snapshot.tasks
    rows = np.flatnonzero((tasks.status != TaskStatus.GONE) & (tasks.job >= 0))
    sums: Amounts = np.zeros_like(snapshot.jobs.allocated)
    np.add.at(sums, tasks.job[rows], snapshot.classes.requests[tasks.cls[rows], 0])
    return sums
