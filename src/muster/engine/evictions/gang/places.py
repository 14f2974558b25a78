"""Where a job could fit if all who might give way did, and what is missing there; plain sums over nodes.

Callers: the gang strategy, before any plugin is asked: a gang that no eviction can help costs a few sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.gang.clearing import Demand
from muster.kernels.totals import sum_requests
from muster.snapshot import Amounts, Mask, Rows, Snapshot


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
        places = np.where(demand.nodes, places_on(free, demand.request), 0)
        sums = np.concatenate(([0], np.cumsum(np.minimum(places, demand.count), dtype=np.int64)))
        mask &= sums[hi] - sums[lo] >= demand.count
    return mask


def places_on(free: Amounts, request: Amounts) -> NDArray[np.int64]:
    """How many tasks with the request fit into each row of free amounts."""
    asked = request > 0
    places: NDArray[np.int64] = np.maximum(free[:, asked] // request[asked], 0).min(axis=1)
    return places


def nearness(snapshot: Snapshot, held: Amounts, demand: Demand) -> Rows:
    """Rank of every node by how little is missing for one more place, nodes that can never have one last."""
    free = snapshot.nodes.future_idle()
    asked = demand.request > 0
    target = (places_on(free, demand.request)[:, None] + 1) * demand.request[asked]
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
