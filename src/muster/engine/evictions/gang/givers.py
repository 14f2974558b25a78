"""Who could give in a domain, in which order, and what losing it costs: the bundles that choices are made of.

Level and worth of a bundle are told here, and `bundle_order` makes the order of them. What is the same in every domain
is made once for each beneficiary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.candidates import Candidates
from muster.engine.evictions.gang.bundles import (
    BundleKind,
    Bundles,
    buckets,
    bundle_order,
    burden,
    efficiency,
    make_bundles,
    waste,
)
from muster.engine.evictions.gang.need import GangNeed, nearness
from muster.engine.evictions.options import GangOptions
from muster.engine.evictions.simulation import Simulation
from muster.engine.evictions.supply import Supply
from muster.engine.evictions.surplus import lasting_surplus
from muster.framework import Eviction, Evictor, Session, points
from muster.snapshot import Amounts, Mask, Rows

#: Breaking a gang counts as much as losing so many times what the mean gang holds. At 1, on random clusters, both
#: the gangs broken and the resources lost are near the fewest possible (benchmarks/optimal.py).
_PER_GANG: Final = 1.0


@dataclass
class Givers:
    """Candidates of one beneficiary, domain by domain."""

    session: Session
    kind: Eviction
    options: GangOptions
    need: GangNeed
    candidates: Candidates
    simulation: Simulation

    def inside(self, domain: int) -> Rows:
        """The candidates in a domain."""
        topology, every = self.session.snapshot.topology, self.candidates.tasks
        nodes = self.session.snapshot.tasks.node[every]
        found: Rows = every[(nodes >= topology.lo[domain]) & (nodes < topology.hi[domain])]
        return found

    def queue_has_room(self, victims: Rows) -> bool:
        """Whether the beneficiary's queue may hold every class of what is needed when the victims are gone."""
        queue, demands = int(self.session.snapshot.jobs.queue[self.need.job]), self.need.demands
        return self.simulation.without(
            victims,
            lambda: all(self.session.queue_slots(queue, demand.request) >= demand.count for demand in demands),
        )

    def bundles(self, domain: int, need: Amounts, focus: int | None = None, allowed: Rows | None = None) -> Bundles:
        """The bundles of a domain in order; gangs spare what they have on the node `focus` before anything else.

        A gang of which a task is not allowed does not go whole: what it can spare beside that one may go.
        """
        snapshot = self.session.snapshot
        every, inside, kept = self.candidates.tasks, self.inside(domain), self.candidates.protected
        if allowed is not None:
            kept = np.union1d(kept, snapshot.tasks.job[inside[~np.isin(inside, allowed)]])
            every, inside = (tasks[np.isin(tasks, allowed)] for tasks in (every, inside))
        nearness = self.nearness
        if focus is not None:
            nearness = nearness.copy()
            nearness[focus] = -1
        bundles = make_bundles(snapshot, inside, need, nearness, self.surplus)
        if self.options.evict_remainder:
            bundles = bundles.with_rest(snapshot, every[~np.isin(every, inside)])
        kept = kept if self.options.allow_whole else bundles.job
        whole = bundles.kind == BundleKind.WHOLE
        may_go = ~whole | ~np.isin(bundles.job, kept)
        # What a gang can spare where nobody needs to go goes with the whole of it, or not at all.
        helps = bundles.having(self.helps[snapshot.tasks.node[bundles.tasks]])
        may_go &= helps | np.isin(bundles.job, bundles.job[helps & whole & may_go])
        bundles = bundles.taken(np.flatnonzero(may_go))
        # Broken gangs, then what gangs can spare, then whole gangs; inside these by policy.
        whole = bundles.kind == BundleKind.WHOLE
        state = np.where(whole, 2, np.where(self.surplus[bundles.job] < 0, 0, 1)).astype(np.int64)
        # Gain in the domain ÷ cost everywhere; infinite for spare pods, which cost nothing.
        roi = efficiency(bundles.local, bundles.cost, need, np.where(whole, self.wasted(bundles.cost), 0.0))
        return self.ordered(replace(bundles, level=state * self.steps + self.policy[bundles.job], roi=roi), need)

    def ordered(self, bundles: Bundles, need: Amounts, preferred: Mask | None = None) -> Bundles:
        """The bundles in order, those that are preferred first among their equals."""
        worth = buckets(bundles.roi, self.options.roi_threshold)
        return bundles.taken(bundle_order(self.session.snapshot, bundles, worth, need, preferred))

    def wasted(self, amounts: Amounts) -> NDArray[np.float64]:
        snapshot = self.session.snapshot
        return waste(amounts, self.need.request, self.session.total, snapshot.axis.index["pods"])

    @cached_property
    def evictor(self) -> Evictor:
        return Evictor(self.need.job, self.need.tasks, breaks_gangs=True)

    @cached_property
    def queue_is_full(self) -> bool:
        """Whether the job's own queue may not hold what is needed, unless it loses something itself."""
        return not self.queue_has_room(self.candidates.tasks[:0])

    @cached_property
    def surplus(self) -> NDArray[np.int64]:
        return lasting_surplus(self.session.snapshot)

    @cached_property
    def supply(self) -> Supply:
        return Supply(self.session.snapshot, self.candidates)

    @cached_property
    def helps(self) -> Mask:
        """Nodes of which it matters who leaves: from others a victim would only use up what plugins count."""
        is_alone = self.session.live_tasks().isdisjoint(self.need.tasks.tolist())
        everywhere = self.queue_is_full or not is_alone
        mask: Mask = np.full(len(self.session.snapshot.nodes), everywhere)
        for demand in self.need.demands:
            mask |= demand.nodes & (self.supply.slots(demand.request) > 0)
        return mask

    @cached_property
    def nearness(self) -> Rows:
        return nearness(self.session.snapshot, self.supply.room, self.need.demands[0])

    @cached_property
    def policy(self) -> NDArray[np.int64]:
        """Where every job stands as a victim: by its queue as a giver, if it is another one, then by its priority."""
        session, jobs = self.session, self.session.snapshot.jobs
        keys = jobs.priority.astype(np.int64)
        if self.kind is not Eviction.PREEMPT:
            home = int(jobs.queue[self.need.job])
            priorities = np.unique(keys, return_inverse=True)[1]
            keys = queue_levels(session, home)[jobs.queue] * (int(priorities.max(initial=0)) + 1) + priorities
        involved = np.unique(keys[self.candidates.jobs])
        return np.searchsorted(involved, keys).astype(np.int64)

    @cached_property
    def steps(self) -> int:
        return int(self.policy[self.candidates.jobs].max(initial=0)) + 1

    @cached_property
    def lowest(self) -> int:
        """The level of those who give first, wherever they are; gangs that can spare nothing go whole."""
        jobs = self.candidates.jobs
        state = np.where(self.surplus[jobs] < 0, 0, np.where(self.surplus[jobs] > 0, 1, 2))
        return int((state * self.steps + self.policy[jobs]).min(initial=3 * self.steps))

    def lost(self, amounts: Amounts) -> NDArray[np.float64]:
        """What losing amounts means: in terms of what is requested, and what nobody asked for as waste."""
        return burden(amounts, self.requested) + self.wasted(amounts)

    @property
    def requested(self) -> Amounts:
        """What counts of the request: what costs are measured by in every domain."""
        return np.where(self.need.asked, self.need.request, 0)

    @cached_property
    def per_gang(self) -> float:
        """What breaking a gang costs whatever its size, a part of what the mean gang holds.

        Of two ways that free the same, the one that breaks fewer gangs is better.
        """
        jobs = self.candidates.jobs
        held = self.lost(self.session.snapshot.jobs.allocated[jobs])
        return _PER_GANG * float(held.mean()) if len(jobs) else 0.0


def queue_levels(session: Session, evictor: int) -> NDArray[np.int64]:
    """Where queues stand as sources of victims for a queue, 0 first, equal ones together; one more for no queue.

    As plugins say by `victim_queue_order`; where one has only `queue_order`, by its reverse: most over its share first.
    """
    givers = {id(getattr(ask, "__self__", None)) for ask in session.asked(points.VICTIM_QUEUE_ORDER)}
    served = [ask for ask in session.asked(points.QUEUE_ORDER) if id(getattr(ask, "__self__", None)) not in givers]
    queues = range(len(session.snapshot.queues))
    given = {queue: session.victim_queue_key(queue, evictor) for queue in queues}
    turn = {queue: tuple(ask(queue) for ask in served) for queue in queues}
    ranked = sorted(queues, key=lambda queue: turn[queue], reverse=True)
    ranked.sort(key=lambda queue: given[queue])
    levels = np.zeros(len(ranked) + 1, np.int64)
    for before, queue in pairwise(ranked):
        levels[queue] = levels[before] + ((given[before], turn[before]) != (given[queue], turn[queue]))
    return levels
