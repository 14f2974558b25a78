"""What the domains of the network hold: sums over their nodes, and how full they would be with a request added.

Callers: the plugins `network-topology-aware` and `propose`. Every domain is a range of node rows, so its sums are
differences of prefix sums: exact in int64, for all domains at once, and only over the rows that were asked for.
Nothing is kept from one call to the next; what a call says is true at that moment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.kernels.planes import ALLOCATABLE, PIPELINED, USED
from muster.snapshot import Amounts, Rows, Snapshot, TaskStatus


def domain_totals(snapshot: Snapshot, domains: Rows) -> tuple[Amounts, Amounts]:
    """Used (promised places included) and allocatable amounts of domains, int64[domains, resources] each."""
    rows = _rows_of(snapshot, domains)
    state = snapshot.nodes.state[:, rows]
    return (
        _sum_over(snapshot, state[USED] + state[PIPELINED], domains, rows.start),
        _sum_over(snapshot, state[ALLOCATABLE], domains, rows.start),
    )


def domain_future_idle(snapshot: Snapshot, domains: Rows) -> Amounts:
    """What domains will have free once terminating pods are gone and promised places are taken."""
    rows = _rows_of(snapshot, domains)
    free = np.maximum(snapshot.nodes.future_idle()[rows], 0)
    return _sum_over(snapshot, free, domains, rows.start)


def _rows_of(snapshot: Snapshot, domains: Rows) -> slice:
    """The node rows that the domains are made of, and what lies between them."""
    if len(domains) == 0:
        return slice(0, 0)
    return slice(int(snapshot.topology.lo[domains].min()), int(snapshot.topology.hi[domains].max()))


def _sum_over(snapshot: Snapshot, amounts: Amounts, domains: Rows, first: int) -> Amounts:
    """Sums over the nodes of each domain; `amounts` begins at node row `first`."""
    sums = np.zeros((len(amounts) + 1, amounts.shape[1]), np.int64)
    np.cumsum(amounts, axis=0, out=sums[1:])
    totals: Amounts = sums[snapshot.topology.hi[domains] - first] - sums[snapshot.topology.lo[domains] - first]
    return totals


def fullness(
    used: Amounts, allocatable: Amounts, request: Amounts, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weighted mean of the used fractions with the request added, 0..1; 0 where a resource would overflow.

    Only resources that are requested count. `weights`: per resource; NaN: not looked at, not even for overflow.
    """
    asked = (request > 0) & ~np.isnan(weights)
    total = float(weights[asked].sum())
    if not asked.any() or total <= 0:
        return np.zeros(len(used))
    after = used[:, asked] + request[asked]
    room = allocatable[:, asked]
    shares = after / np.maximum(room, 1)
    scores: NDArray[np.float64] = np.where((after <= room).all(axis=1), shares @ weights[asked] / total, 0.0)
    return scores


def pending_tasks_of(snapshot: Snapshot, job: int, subgroup: int) -> Rows:
    """Pending tasks of a job, or (subgroup >= 0) of one of its sub-groups."""
    own = snapshot.tasks_of(job)
    waiting = snapshot.tasks.status[own] == TaskStatus.PENDING
    if subgroup >= 0:
        waiting &= snapshot.tasks.subgroup[own] == subgroup
    kept: Rows = own[waiting]
    return kept


def requests_of(snapshot: Snapshot, tasks: Rows) -> Amounts:
    """Requests of tasks, int64[tasks, resources]."""
    rows: Amounts = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0]
    return rows
