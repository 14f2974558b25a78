"""Bundles: what goes together. A safe bundle is one task that its gang can spare, a whole bundle ends the gang.

Inside a domain the candidates of each gang are split in two. Safe are tasks above the gang's minimum (of the job, of
its roles while those hold, of its sub-groups), and all tasks of a gang that is broken already. The rest is one whole
bundle: the first of its tasks to go ends the gang, so they go together. Terminating pods are nobody's survivors.
Bundles are columns, like everything on the hot path: five thousand gangs of eight cost milliseconds.
What a bundle is worth as a victim is told in terms of what is needed, summed over the resources that are; what it has
beyond that is waste. Pods are not a resource here: every pod has one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.surplus import job_surplus, safe_tasks
from muster.snapshot import Amounts, Mask, Rows, Snapshot, run_bounds

_MINUTE = 60.0


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
    #: Where each stands by preference, the lowest goes first, and its return on investment; see `bundle_order`.
    level: NDArray[np.int64]
    roi: NDArray[np.float64]

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
        local, cost, level, roi = self.local[order], self.cost[order], self.level[order], self.roi[order]
        return Bundles(self.kind[order], self.job[order], tasks, start, local, cost, level, roi)

    def having(self, tasks: Mask) -> Mask:
        """Which bundles have one of the tasks that the mask marks."""
        mask: Mask = np.bincount(self.owners()[tasks], minlength=len(self)) > 0
        return mask

    def within(self, allowed: Mask) -> Bundles:
        """Those of which every task is allowed: a whole bundle goes whole or not at all."""
        return self if bool(allowed.all()) else self.taken(np.flatnonzero(~self.having(~allowed)))

    def going(self, chosen: Mask) -> Bundles:
        """The chosen bundles, gangs that they break with all they have here as one bundle.

        What a gang could have spared runs for nothing once its core is gone.
        """
        core = self._cores(int(self.job.max(initial=0)) + 1, chosen)[self.job]
        into = np.where(core >= 0, core, np.where(chosen, np.arange(len(self)), len(self)))
        order = np.argsort(into, kind="stable")[: int((into < len(self)).sum())]
        parts, cuts = self.taken(order), run_bounds(into[order])[:-1]
        if len(cuts) == len(parts):
            return parts
        local, cost = (np.add.reduceat(amounts, cuts, axis=0) for amounts in (parts.local, parts.cost))
        kind, level = (np.maximum.reduceat(values, cuts) for values in (parts.kind, parts.level))
        start = np.append(parts.start[cuts], len(parts.tasks))
        return Bundles(kind, parts.job[cuts], parts.tasks, start, local, cost, level, parts.roi[cuts])

    def with_rest(self, snapshot: Snapshot, tasks: Rows) -> Bundles:
        """The same when whole bundles take these tasks of their gangs too, which free nothing in the domain."""
        into = self._cores(len(snapshot.jobs))[snapshot.tasks.job[tasks]]
        owners = np.concatenate((self.owners(), into[into >= 0]))
        order = np.argsort(owners, kind="stable")
        every = np.concatenate((self.tasks, tasks[into >= 0]))[order]
        return replace(self, tasks=every, start=np.searchsorted(owners[order], np.arange(len(self) + 1)))

    def _cores(self, n_jobs: int, chosen: Mask | None = None) -> NDArray[np.int64]:
        """By job: its whole bundle, if it has one (among the chosen), else -1."""
        whole = self.kind == BundleKind.WHOLE
        numbers = np.flatnonzero(whole if chosen is None else whole & chosen)
        core = np.full(n_jobs, -1, np.int64)
        core[self.job[numbers]] = numbers
        return core


def make_bundles(
    snapshot: Snapshot,
    tasks: Rows,
    need: Amounts,
    rank: Rows | None = None,
    surplus: NDArray[np.int64] | None = None,
) -> Bundles:
    """Split candidates into bundles.

    `need` is what is missing; it decides which tasks of a gang go first. `rank` orders nodes by how near they are to a
    free place. `surplus` is that of `job_surplus`, if somebody has it already.
    """
    surplus = job_surplus(snapshot) if surplus is None else surplus
    own = surplus[snapshot.tasks.job[tasks]]
    # Gangs with exactly their minimum go whole: in which order is told, and decides nothing.
    rigid, others = tasks[own == 0], order_tasks(snapshot, tasks[own != 0], need, rank)
    rigid = rigid[np.lexsort((snapshot.tasks.rank[rigid], snapshot.tasks.job[rigid]))]
    kinds = np.where(safe_tasks(snapshot, others, surplus), BundleKind.SAFE, BundleKind.WHOLE).astype(np.int8)
    together = np.lexsort((kinds, snapshot.tasks.job[others]))
    tasks = np.concatenate((others[together], rigid))
    kinds = np.append(kinds[together], np.full(len(rigid), BundleKind.WHOLE, np.int8))
    jobs = snapshot.tasks.job[tasks]
    begins = (np.diff(jobs, prepend=-1) != 0) | (np.diff(kinds, prepend=np.int8(-1)) != 0)
    cuts = np.flatnonzero(begins | (kinds == BundleKind.SAFE))
    freed = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0]
    local = np.add.reduceat(freed, cuts, axis=0) if len(cuts) else freed
    kind, job = kinds[cuts], jobs[cuts]
    cost = np.where((kind == BundleKind.WHOLE)[:, None], snapshot.jobs.allocated[job], 0)
    level, roi = np.zeros(len(kind), np.int64), np.zeros(len(kind))
    return Bundles(kind, job, tasks, np.append(cuts, len(tasks)), local, cost, level, roi)


def order_tasks(snapshot: Snapshot, tasks: Rows, need: Amounts, rank: Rows | None = None) -> Rows:
    """Order candidates by job, and inside a job: coverage, low priority, least waste, nearest place, least work lost.

    The nearest place (the node where the least is missing for one more task, see `rank`) stands before age, because a
    pod that frees no place for anybody has no worth as a victim. Pods that began together go node by node, the last in
    order first.
    """
    table = snapshot.tasks
    requests = snapshot.classes.requests[table.cls[tasks], 0]
    waste = burden(np.maximum(requests - need, 0), need)
    nearness = np.zeros(len(tasks), np.intp) if rank is None else rank[table.node[tasks]]
    together = nearness if rank is None else table.node[tasks]
    keys = (
        -table.rank[tasks],
        together,
        -_minutes_late(snapshot, tasks),
        nearness,
        waste,
        table.priority[tasks],
        -coverage(requests, need),
        table.job[tasks],
    )
    ordered: Rows = tasks[np.lexsort(keys)]
    return ordered


def _minutes_late(snapshot: Snapshot, tasks: Rows) -> NDArray[np.float64]:
    """How much later than the first of its job each task has begun: pods of a gang never start at the same second."""
    table = snapshot.tasks
    begun = (table.pods[task].status.start_time for task in tasks.tolist())
    since = np.array([math.inf if start is None else start.timestamp() for start in begun], np.float64)
    first = np.full(len(snapshot.jobs), math.inf)
    np.minimum.at(first, table.job[tasks], since)
    late = since - np.where(np.isfinite(first), first, 0.0)[table.job[tasks]]
    return np.floor(late / _MINUTE)


def bundle_order(
    snapshot: Snapshot,
    bundles: Bundles,
    worth: NDArray[np.float64],
    need: Amounts,
    preferred: Mask | None = None,
) -> NDArray[np.int64]:
    """Numbers of the bundles in the order in which they are taken: the one place where preference is written down.

    Levels come first: broken gangs, then what gangs can spare, then whole gangs; inside these the victim queue (for
    reclaim) and the job's priority, the lowest first. Then what the plan for the domain prefers; then `worth`,
    the return on investment in buckets, larger first; among spare pods larger coverage. Then the youngest job, and
    the name.
    """
    jobs = snapshot.jobs
    gain = np.where(bundles.kind == BundleKind.SAFE, coverage(bundles.local, need), 0.0)
    plain = np.zeros(len(bundles), np.bool_) if preferred is None else ~preferred
    names = jobs.names.places(bundles.job, jobs.records)
    return np.lexsort((names, -jobs.created[bundles.job], -gain, -worth, plain, bundles.level)).astype(np.int64)


def buckets(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Round to multiples of the threshold, so that "nearly equal" is transitive; 0: as they are."""
    return np.round(values / threshold) if threshold > 0 else values


def coverage(amounts: Amounts, need: Amounts) -> NDArray[np.float64]:
    """How much of what is needed each row brings, one per resource at most."""
    return burden(np.minimum(amounts, need), need)


def burden(amounts: Amounts, need: Amounts) -> NDArray[np.float64]:
    """How much each row is in terms of what is needed."""
    asked = need > 0
    share: NDArray[np.float64] = (amounts[..., asked] / need[asked]).sum(axis=-1)
    return share


def waste(amounts: Amounts, requested: Amounts, total: Amounts, pods: int) -> NDArray[np.float64]:
    """How much of what nobody asked for each row holds, against what is requested, both as parts of the cluster.

    One GPU of two, taken for half of the CPUs, is one time the request.
    """
    counts = total > 0
    counts[pods] = False
    columns, asked = counts & (requested == 0), counts & (requested > 0)
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
