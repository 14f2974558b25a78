"""What a job needs before it may start, and where it could be if all who might give way did; plain sums over nodes.

It needs the pending tasks that its minimum lacks, no more: a job that is ready needs nothing (what it would like to
have beyond that is another strategy's). A gang that no eviction can help costs a few sums, before any plugin is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.engine.evictions.supply import Demand, demands_of
from muster.engine.evictions.surplus import roles_hold
from muster.engine.gangs import requests_of, required_subgroups
from muster.framework import Session
from muster.snapshot import BEST_EFFORT_PENDING, READY_STATUSES, Amounts, Mask, Rows, Snapshot, TaskStatus, slots_in

_SETTLED: Final = [*READY_STATUSES, TaskStatus.PIPELINED, BEST_EFFORT_PENDING]


@dataclass(frozen=True, slots=True)
class GangNeed:
    """The tasks that must be placed, in order, and what they ask for."""

    job: int
    tasks: Rows
    #: Sum of the requests.
    request: Amounts
    #: The resources that count: those requested, and pods only if nothing else is.
    asked: Mask
    #: The same by class, the largest class first.
    demands: tuple[Demand, ...]
    #: Whether places tell exactly if the tasks fit: one class, and neither other pods nor sub-groups matter.
    exact: bool


def gang_need(session: Session, job: int, tasks: Rows) -> GangNeed:
    """What the tasks, of which there is at least one, ask for."""
    total = np.maximum(session.total, 1)
    demands = tuple(sorted(demands_of(session, tasks), key=lambda one: -(one.request / total).max()))
    alone = not session.snapshot.jobs.records[job].sub_groups and session.live_tasks().isdisjoint(tasks.tolist())
    exact, request = alone and len(demands) == 1, requests_of(session.snapshot, tasks)
    return GangNeed(job, tasks, request, without_pods(session.snapshot, request), demands, exact)


def needed_tasks(session: Session, job: int, pending: Rows) -> Rows:
    """The first pending tasks that make the job ready: what roles and sub-groups lack, then any up to the minimum."""
    snapshot, missing = session.snapshot, session.job_pipelined_deficit(job)
    if missing <= 0:
        return pending[:0]
    own, lacked = snapshot.tasks.role[pending], list[tuple[Mask, int]]()
    if roles_hold(snapshot, np.array([job], np.intp))[0]:
        for role in snapshot.jobs.roles[job]:
            have = int(snapshot.roles.counts[role][_SETTLED].sum())
            lacked.append((own == role, int(snapshot.roles.minimum[role]) - have))
    for subgroup in sorted(required_subgroups(session, job)):
        mine = snapshot.tasks.subgroup[pending] == subgroup
        lacked.append((mine, session.subgroup_pipelined_deficit(subgroup)))
    required: Mask = np.zeros(len(pending), np.bool_)
    for mine, count in lacked:
        required[np.flatnonzero(mine)[: max(0, count)]] = True
    others = np.flatnonzero(~required)[: max(0, missing - int(required.sum()))]
    required[others] = True
    tasks: Rows = pending[required]
    return tasks if len(tasks) >= missing else pending[:0]


# -- places ----------------------------------------------------------------------------------------------------------


def nearness(snapshot: Snapshot, held: Amounts, demand: Demand) -> Rows:
    """Rank of every node by how little is missing for one more place, nodes that can never have one last.

    Nodes that are equally near have the same rank, so that something else decides between their pods.
    """
    free = snapshot.nodes.future_idle()
    asked = demand.request > 0
    target = (slots_in(free, demand.request)[:, None] + 1) * demand.request[asked]
    missing = np.maximum(target - free[:, asked], 0)
    far = (missing / demand.request[asked]).sum(axis=1)
    far[~demand.nodes | (missing > held[:, asked]).any(axis=1)] = np.inf
    rank: Rows = np.unique(far, return_inverse=True)[1].astype(np.intp)
    return rank


def shortage(snapshot: Snapshot, need: GangNeed, domain: int) -> tuple[Amounts, Mask]:
    """What is needed in a domain beside what is free there, without pods, and the resources that are scarce.

    Scarce is what its nodes have too little of by itself, node by node, for some demand; when nothing is, all that is
    asked for. When the sums would do and only the places are missing, all that is requested of these is needed.
    """
    span = slice(int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain]))
    free = np.maximum(snapshot.nodes.future_idle(span), 0)
    scarce: Mask = np.zeros(free.shape[1], np.bool_)
    for demand in need.demands:
        places = (free[demand.nodes[span]] // np.maximum(demand.request, 1)).sum(axis=0)
        scarce |= (demand.request > 0) & (places < demand.count)
    scarce = scarce & need.asked if (scarce & need.asked).any() else need.asked
    missing: Amounts = np.where(need.asked, np.maximum(need.request - free.sum(axis=0), 0), 0)
    return missing if missing.any() else np.where(scarce, need.request, 0), scarce


def room_in_queue(session: Session, queue: int, asked: Mask) -> Amounts:
    """How much more a queue may hold of the resources asked for; of others, more than there is.

    Counted in steps, as many as slots can tell: powers of two, which amounts of memory are multiples of.
    """
    steps = 2 ** np.maximum(0, np.frexp(session.total)[1] - 30).astype(np.int64)
    slots = [session.queue_slots(queue, unit) for unit in np.diag(steps * asked)]
    room: Amounts = np.array(slots, np.int64) * steps
    return room


def without_pods(snapshot: Snapshot, requested: Amounts) -> Mask:
    """Those of the resources requested that are not pods, or pods if these are all."""
    columns: Mask = requested > 0
    pods = snapshot.axis.index["pods"]
    columns[pods] &= not np.delete(columns, pods).any()
    return columns
