"""What a job needs before it may start, and where it could be if all who might give way did; plain sums over nodes.

It needs the pending tasks that its minimum lacks, no more: elastic growth beyond the minimum never evicts anybody, so a
job that is ready needs nothing. A gang that no eviction can help costs a few sums, before any plugin is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.evictions.surplus import roles_hold
from muster.engine.gangs import required_subgroups
from muster.framework import FITS, Session
from muster.kernels.totals import sum_requests
from muster.snapshot import BEST_EFFORT_PENDING, READY_STATUSES, Amounts, Mask, Rows, Snapshot, TaskStatus, slots_in

_SETTLED: Final = [*READY_STATUSES, TaskStatus.PIPELINED, BEST_EFFORT_PENDING]


@dataclass(frozen=True, slots=True)
class Demand:
    """So many equal tasks, and the nodes of the cluster that they may go to."""

    request: Amounts
    count: int
    nodes: Mask


@dataclass(frozen=True, slots=True)
class GangNeed:
    """The tasks that must be placed, in order, and what they ask for."""

    job: int
    tasks: Rows
    #: Sum of the requests.
    request: Amounts
    #: The same by class, the largest class first.
    demands: tuple[Demand, ...]
    #: Whether places tell exactly if the tasks fit: one class, and neither other pods nor sub-groups matter.
    exact: bool


def gang_need(session: Session, job: int, tasks: Rows) -> GangNeed:
    """What the tasks, of which there is at least one, ask for."""
    boards, live = boards_of(session), session.live_tasks()
    classes, counts = np.unique(session.snapshot.tasks.cls[tasks], return_counts=True)
    requests = session.snapshot.classes.requests[classes, 0]
    share = (requests / np.maximum(session.total, 1)).max(axis=1)
    order = np.lexsort((classes, -share))
    demands = tuple(
        Demand(requests[k], int(counts[k]), boards.verdicts(int(classes[k])) == FITS) for k in order.tolist()
    )
    exact = len(classes) == 1 and not session.snapshot.jobs.records[job].sub_groups and live.isdisjoint(tasks.tolist())
    return GangNeed(job, tasks, (requests * counts[:, None]).sum(axis=0), demands, exact)


def needed_tasks(session: Session, job: int, pending: Rows) -> Rows:
    """The first pending tasks that make the job ready: what roles and sub-groups lack, then any up to the minimum."""
    missing = session.job_pipelined_deficit(job)
    if missing <= 0:
        return pending[:0]
    required = _lacked_by_roles(session, job, pending) | _lacked_by_subgroups(session, job, pending)
    others = np.flatnonzero(~required)[: max(0, missing - int(required.sum()))]
    required[others] = True
    tasks: Rows = pending[required]
    return tasks if len(tasks) >= missing else pending[:0]


def _lacked_by_roles(session: Session, job: int, pending: Rows) -> Mask:
    snapshot = session.snapshot
    mask: Mask = np.zeros(len(pending), np.bool_)
    if not roles_hold(snapshot, np.array([job], np.int32))[0]:
        return mask
    own = snapshot.tasks.role[pending]
    for role in snapshot.jobs.roles[job]:
        lacking = int(snapshot.roles.minimum[role]) - _placed(snapshot.roles.counts[role])
        mask[np.flatnonzero(own == role)[: max(0, lacking)]] = True
    return mask


def _placed(counts: Rows) -> int:
    return int(counts[_SETTLED].sum())


def _lacked_by_subgroups(session: Session, job: int, pending: Rows) -> Mask:
    mask: Mask = np.zeros(len(pending), np.bool_)
    if not session.snapshot.jobs.records[job].sub_groups:
        return mask
    own = session.snapshot.tasks.subgroup[pending]
    for subgroup in sorted(required_subgroups(session, job)):
        lacking = session.subgroup_pipelined_deficit(subgroup)
        mask[np.flatnonzero(own == subgroup)[:lacking]] = True
    return mask


# -- places ----------------------------------------------------------------------------------------------------------


def held_on_nodes(snapshot: Snapshot, tasks: Rows) -> Amounts:
    """int64[nodes, resources]: what the tasks hold on each node."""
    held: Amounts = np.zeros_like(snapshot.nodes.used())
    sum_requests(snapshot.classes.requests, snapshot.tasks.cls[tasks], snapshot.tasks.node[tasks], held)
    return held


def domains_with_room(snapshot: Snapshot, held: Amounts, demands: tuple[Demand, ...], domains: Rows) -> Mask:
    """Which domains would have places for every demand if all candidates were gone."""
    free = snapshot.nodes.future_idle() + held
    mask: Mask = np.ones(len(domains), np.bool_)
    lo, hi = snapshot.topology.lo[domains], snapshot.topology.hi[domains]
    for demand in demands:
        places = np.where(demand.nodes, slots_in(free, demand.request), 0)
        sums = np.concatenate(([0], np.cumsum(np.minimum(places, demand.count), dtype=np.int64)))
        mask &= sums[hi] - sums[lo] >= demand.count
    return mask


def nearness(snapshot: Snapshot, held: Amounts, demand: Demand) -> Rows:
    """Rank of every node by how little is missing for one more place, nodes that can never have one last."""
    free = snapshot.nodes.future_idle()
    asked = demand.request > 0
    target = (slots_in(free, demand.request)[:, None] + 1) * demand.request[asked]
    missing = np.maximum(target - free[:, asked], 0)
    far = (missing / demand.request[asked]).sum(axis=1)
    far[~demand.nodes | (missing > held[:, asked]).any(axis=1)] = np.inf
    rank = np.empty(len(far), np.int32)
    rank[np.argsort(far, kind="stable")] = np.arange(len(far), dtype=np.int32)
    return rank


def bottlenecks(snapshot: Snapshot, demands: tuple[Demand, ...], domain: int) -> Mask:
    """Resources that are scarce in a domain: of each alone its nodes have too little, node by node, for some demand.

    When none is scarce by itself, all that is asked for are.
    """
    span = slice(int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain]))
    free = np.maximum(snapshot.nodes.future_idle()[span], 0)
    scarce: Mask = np.zeros(free.shape[1], np.bool_)
    asked: Mask = np.zeros_like(scarce)
    for demand in demands:
        request = demand.request
        places = (free[demand.nodes[span]] // np.maximum(request, 1)).sum(axis=0)
        asked |= request > 0
        scarce |= (request > 0) & (places < demand.count)
    pods = snapshot.axis.index["pods"]
    asked[pods] &= not np.delete(asked, pods).any()
    scarce &= asked
    return scarce if scarce.any() else asked


def domain_free(snapshot: Snapshot, domain: int) -> Amounts:
    """What a domain has idle or will have."""
    lo, hi = int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain])
    total: Amounts = np.maximum(snapshot.nodes.future_idle()[lo:hi], 0).sum(axis=0)
    return total


def missing_amounts(snapshot: Snapshot, requested: Amounts, free: Amounts, scarce: Mask) -> Amounts:
    """What is needed: the request less what is free, without pods.

    When the sums would do and only the places are missing, all that is requested of the scarce resources is needed.
    """
    columns = without_pods(snapshot, requested)
    need: Amounts = np.where(columns, np.maximum(requested - np.maximum(free, 0), 0), 0)
    return need if need.any() else np.where(scarce, requested, 0)


def without_pods(snapshot: Snapshot, requested: Amounts) -> Mask:
    """Resources that count: those requested, and pods only if nothing else is."""
    columns: Mask = requested > 0
    pods = snapshot.axis.index["pods"]
    columns[pods] &= not np.delete(columns, pods).any()
    return columns
