"""Bundles: what a gang loses together. A safe bundle it can spare, a whole bundle ends it.

Inside a domain the candidates of each gang are split in two. Safe are tasks above the gang's minimum (of the job, of
its roles while those hold, of its sub-groups), and all tasks of a gang that is broken already. The rest is one whole
bundle: the first of its tasks to go ends the gang, so they go together. Terminating pods are nobody's survivors.
Bundles are columns, like everything on the hot path: five thousand gangs of eight cost milliseconds.
What a bundle is worth as a victim is told in terms of what is needed, summed over the resources that are; what it has
beyond that is waste. Pods are not a resource here: every pod has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.surplus import job_surplus, safe_tasks
from muster.snapshot import Amounts, Mask, Rows, Snapshot


class BundleKind(IntEnum):
    """What taking a bundle does to its gang."""

    SAFE = 0
    WHOLE = 1


@dataclass(frozen=True, slots=True)
class Bundles:
    """Bundles in order, as columns; the tasks of bundle b are `tasks[start[b]:start[b + 1]]`."""

    #: BundleKind of each.
    kind: NDArray[np.int8]
    #: Job of each.
    job: Rows
    tasks: Rows
    start: NDArray[np.int64]
    #: int64[bundles, resources]: what is freed inside the domain.
    local: Amounts
    #: int64[bundles, resources]: what the gang holds now, all of which is lost; zero for safe bundles.
    cost: Amounts

    def __len__(self) -> int:
        return len(self.kind)

    def tasks_of(self, bundle: int) -> Rows:
        return self.tasks[self.start[bundle] : self.start[bundle + 1]]

    def owners(self) -> NDArray[np.int64]:
        """Bundle of each task."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def taken(self, order: NDArray[np.int64]) -> Bundles:
        """The bundles with these numbers, in this order."""
        sizes = np.diff(self.start)[order]
        start = np.concatenate(([0], np.cumsum(sizes)))
        within = np.arange(int(start[-1])) - np.repeat(start[:-1], sizes)
        tasks = self.tasks[np.repeat(self.start[:-1][order], sizes) + within]
        return Bundles(self.kind[order], self.job[order], tasks, start, self.local[order], self.cost[order])

    def shrunk(self, snapshot: Snapshot, allowed: Mask) -> Bundles:
        """What is left when only the allowed tasks may go: a whole bundle goes whole or not at all."""
        if bool(allowed.all()):
            return self
        owners = self.owners()
        refused = np.bincount(owners[~allowed], minlength=len(self)) > 0
        kept = allowed & ~(refused & (self.kind == BundleKind.WHOLE))[owners]
        sizes = np.bincount(owners[kept], minlength=len(self))
        lost = ~kept & (self.kind[owners] == BundleKind.SAFE)
        local = self.local.copy()
        np.subtract.at(local, owners[lost], snapshot.classes.requests[snapshot.tasks.cls[self.tasks[lost]], 0])
        left = np.flatnonzero(sizes > 0)
        start = np.concatenate(([0], np.cumsum(sizes[left])))
        return Bundles(self.kind[left], self.job[left], self.tasks[kept], start, local[left], self.cost[left])

    def without_whole(self) -> Bundles:
        """The safe bundles alone."""
        return self.taken(np.flatnonzero(self.kind == BundleKind.SAFE))

    def without_whole_of(self, jobs: Rows) -> Bundles:
        """All but the whole bundles of these jobs."""
        if len(jobs) == 0:
            return self
        return self.taken(np.flatnonzero((self.kind == BundleKind.SAFE) | ~np.isin(self.job, jobs)))


def make_bundles(
    snapshot: Snapshot,
    tasks: Rows,
    need: Amounts,
    rank: Rows | None = None,
    inside: Mask | None = None,
    surplus: NDArray[np.int64] | None = None,
) -> Bundles:
    """Split candidates into bundles.

    `need` is what is missing; it decides which tasks of a gang go first. `rank` orders nodes by how near they are to a
    free place. `inside`, a mask over the task table, marks the tasks that are in the domain; others join their gang's
    whole bundle and free nothing there. `surplus` is that of `job_surplus`, if somebody has it already.
    """
    surplus = job_surplus(snapshot) if surplus is None else surplus
    own = surplus[snapshot.tasks.job[tasks]]
    # Gangs with exactly their minimum go whole, so the order of their tasks does not matter.
    rigid, others = tasks[own == 0], tasks[own != 0]
    rigid = rigid[np.argsort(snapshot.tasks.job[rigid], kind="stable")]
    whole = np.full(len(rigid), BundleKind.WHOLE, np.int8)
    if len(others) == 0:
        return _cut(snapshot, rigid, whole, inside)
    others = order_tasks(snapshot, others, need, rank, inside)
    safe = safe_tasks(snapshot, others, surplus)
    if inside is not None:
        safe &= inside[others]
    kinds = np.where(safe, BundleKind.SAFE, BundleKind.WHOLE).astype(np.int8)
    together = np.lexsort((kinds, snapshot.tasks.job[others]))
    every = np.concatenate((others[together], rigid))
    return _cut(snapshot, every, np.append(kinds[together], whole), inside)


def _cut(snapshot: Snapshot, tasks: Rows, kinds: NDArray[np.int8], inside: Mask | None) -> Bundles:
    """Cut tasks, ordered by job and kind, into bundles; those with nothing in the domain are left out."""
    jobs = snapshot.tasks.job[tasks]
    cuts = np.flatnonzero((np.diff(jobs, prepend=-1) != 0) | (np.diff(kinds, prepend=np.int8(-1)) != 0))
    freed = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0]
    if inside is not None:
        freed = np.where(inside[tasks][:, None], freed, 0)
    local = np.add.reduceat(freed, cuts, axis=0) if len(cuts) else freed
    kind, job = kinds[cuts], jobs[cuts]
    cost = np.where((kind == BundleKind.WHOLE)[:, None], snapshot.jobs.allocated[job], 0)
    bundles = Bundles(kind, job, tasks, np.append(cuts, len(tasks)), local, cost)
    if inside is None or len(cuts) == 0:
        return bundles
    return bundles.taken(np.flatnonzero(np.add.reduceat(inside[tasks].astype(np.int64), cuts) > 0))


def order_tasks(
    snapshot: Snapshot, tasks: Rows, need: Amounts, rank: Rows | None = None, inside: Mask | None = None
) -> Rows:
    """Order candidates by job, and inside a job: coverage, low priority, least waste, nearest place, youngest.

    The nearest place (the node where the least is missing for one more task, see `rank`) stands before age, because a
    pod that frees no place for anybody has no worth as a victim. Tasks outside the domain come last.
    """
    table = snapshot.tasks
    requests = snapshot.classes.requests[table.cls[tasks], 0]
    asked = need > 0
    waste = burden(np.maximum(requests - need, 0), np.where(asked, need, 0))
    nearness = np.zeros(len(tasks), np.int32) if rank is None else rank[table.node[tasks]]
    outside = np.zeros(len(tasks), np.bool_) if inside is None else ~inside[tasks]
    keys = (-table.rank[tasks], nearness, waste, table.priority[tasks], -coverage(requests, need), outside)
    ordered: Rows = tasks[np.lexsort((*keys, table.job[tasks]))]
    return ordered


def bundle_order(
    snapshot: Snapshot,
    bundles: Bundles,
    levels: NDArray[np.int64],
    worth: NDArray[np.float64],
    need: Amounts,
    preferred: Mask | None = None,
) -> NDArray[np.int64]:
    """Numbers of the bundles in the order in which they are taken: the one place where preference is written down.

    `levels` come first: broken gangs, then what gangs can spare, then whole gangs; inside these the victim queue (for
    reclaim) and the job's priority, the lowest first. Then what the plan for the domain prefers; then `worth`,
    the return on investment in buckets, larger first; among spare pods larger coverage. Then the youngest job, and
    the name.
    """
    jobs = snapshot.jobs
    gain = np.where(bundles.kind == BundleKind.SAFE, coverage(bundles.local, need), 0.0)
    plain = np.zeros(len(bundles), np.bool_) if preferred is None else ~preferred
    names = jobs.names.places(bundles.job, jobs.records)
    return np.lexsort((names, -jobs.created[bundles.job], -gain, -worth, plain, levels)).astype(np.int64)


def buckets(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Round to multiples of the threshold, so that "nearly equal" is transitive; 0: as they are."""
    return np.round(values / threshold) if threshold > 0 else values


def coverage(amounts: Amounts, need: Amounts) -> NDArray[np.float64]:
    """How much of what is needed each row brings, one per resource at most."""
    asked = need > 0
    share: NDArray[np.float64] = (np.minimum(amounts[..., asked], need[asked]) / need[asked]).sum(axis=-1)
    return share


def burden(amounts: Amounts, need: Amounts) -> NDArray[np.float64]:
    """How much each row is in terms of what is needed."""
    asked = need > 0
    share: NDArray[np.float64] = (amounts[..., asked] / need[asked]).sum(axis=-1)
    return share


def waste(amounts: Amounts, requested: Amounts, total: Amounts, pods: int) -> NDArray[np.float64]:
    """How much of what nobody asked for each row holds, against what is requested, both as parts of the cluster.

    One GPU of two, taken for half of the CPUs, is one time the request.
    """
    columns = (requested == 0) & (total > 0)
    columns[pods] = False
    asked = (requested > 0) & (total > 0)
    asked[pods] = False
    size = float((requested[asked] / total[asked]).max()) if asked.any() else 1.0
    share: NDArray[np.float64] = (amounts[..., columns] / total[columns]).sum(axis=-1) / size
    return share


def efficiency(
    local: Amounts, cost: Amounts, need: Amounts, wasted: NDArray[np.float64] | float = 0.0
) -> NDArray[np.float64]:
    """Return on investment: coverage of what is freed in the domain ÷ burden and waste of what is lost everywhere."""
    gain, loss = coverage(local, need), burden(cost, need) + wasted
    ratio: NDArray[np.float64] = np.divide(gain, loss, out=np.full(len(loss), np.inf), where=loss > 0)
    return ratio
