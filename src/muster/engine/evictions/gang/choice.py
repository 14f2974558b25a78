"""The five phases of choosing victims in one domain: bundle, order, ask the plugins once, order again, select.

A proposal is made first, from places alone: the cheapest units that would free enough of them. It tells domains apart
before anybody is asked, and what it wants goes to the front of its class in the order, so that plugins who count (a
queue's share, a budget) spend their count on victims that help. What the plugins refuse is then planned around.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.budgets import Budgets
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
from muster.engine.evictions.gang.clearing import MAX_LEVELS, Clearing, weighed
from muster.engine.evictions.gang.need import GangNeed, nearness, room_in_queue, shortage
from muster.engine.evictions.options import GangOptions
from muster.engine.evictions.restraint import have_too_much
from muster.engine.evictions.simulation import Simulation, joined, shortest_prefix, trim
from muster.engine.evictions.supply import Supply
from muster.engine.evictions.surplus import lasting_surplus
from muster.engine.gangs import NOBODY
from muster.engine.placing import Scope
from muster.framework import Eviction, Evictor, Session, points
from muster.snapshot import Amounts, Mask, Operation, Rows

#: In so many ways at most it is tried out which pods a gang can spare.
_FOCUSES: Final = 16
#: Breaking a gang counts as much as losing so many times what the mean gang holds. At 1, on random clusters, both
#: the gangs broken and the resources lost are near the fewest possible (benchmarks/optimal.py).
_PER_GANG: Final = 1.0


#: Stands behind every plan.
_NO_PLAN: Final = (2**31, np.inf)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Victims in a domain that would do by places alone; without any, places are only a guess."""

    domain: int
    need: Amounts
    #: The resources of which there is too little.
    scarce: Mask
    bundles: Bundles
    #: The node on which gangs spare pods before anywhere else; None: none is preferred.
    focus: int | None = None
    victims: Rows = field(default_factory=lambda: NOBODY)
    #: The highest level that has to give, and what victims cost, weighed by level: to compare domains.
    cost: tuple[int, float] = _NO_PLAN
    #: What the victims' gangs lose of the scarce resources, in terms of what is requested.
    loss: float = np.inf
    #: How many gangs are broken.
    broken: int = 0
    #: Whether only the first to give (spare pods, or the lowest policy level) lose something.
    is_gentle: bool = False
    #: How many such plans it pays to improve: a closer look may find something cheaper.
    rounds: int = 0
    #: Whether places have shown that every victim is needed.
    is_minimal: bool = False

    @property
    def works(self) -> bool:
        """Whether there are such victims."""
        return self.cost < _NO_PLAN


@dataclass(frozen=True, slots=True)
class Choice:
    """Victims that work, among all bundles in order, and the places of the beneficiary."""

    domain: int
    bundles: Bundles
    #: Whether each bundle goes.
    taken: Mask
    placements: list[Operation]
    #: Levels below this are those of gangs that are broken already.
    lowest_whole: int

    @property
    def victims(self) -> Rows:
        """All tasks that go."""
        return self.bundles.tasks[self.taken[self.bundles.owners()]]


@dataclass
class Chooser:
    """Chooses victims for one beneficiary."""

    session: Session
    kind: Eviction
    options: GangOptions
    budgets: Budgets
    need: GangNeed
    candidates: Candidates
    simulation: Simulation
    #: Dry runs so far: a domain where plugins and budgets leave too few victims costs none.
    trials: int = 0
    _proved: tuple[int, Rows, list[Operation]] | None = None

    # -- proposals -----------------------------------------------------------------------------------------

    def propose(self, domain: int, *, polish: bool = False) -> Proposal | None:
        """The cheapest victims that places ask for; None: no victims would do.

        With `polish`, and where there are none otherwise, also by which of its pods a gang would spare.
        """
        need, scarce = shortage(self.session.snapshot, self.need, domain)
        bundles = self._bundles(domain, need)
        best = self._plan(Proposal(domain, need, scarce, bundles), polish=polish)
        if polish or not best.works:
            for node in self._focuses(domain, bundles)[: max(0, best.rounds - 1)]:
                bundles = self._bundles(domain, need, node)
                other = self._plan(Proposal(domain, need, scarce, bundles, node), polish=True)
                if (other.cost[0], other.cost[1] * (1 + 1e-9)) < best.cost:
                    best = other
        # Places are only a guess for a mixed gang: a domain that fails by them is tried last, not left out.
        if not best.works and self.need.exact:
            return None
        if not self._queue_is_full:
            return best
        # The job's own queue may hold it without the victims, or without all candidates.
        enough = self._queue_has_room(best.victims) or self._queue_has_room(best.bundles.tasks)
        return best if enough else None

    def _focuses(self, domain: int, bundles: Bundles) -> list[int]:
        """Nodes of gangs that can spare some of their pods here, but not all: where these go first, others stay."""
        safe, whole = (bundles.job[bundles.kind == kind] for kind in BundleKind)
        spares = np.intersect1d(safe, np.union1d(whole, self.candidates.protected)) if len(safe) else safe
        if len(spares) == 0:
            return []
        table, every = self.session.snapshot.tasks, self._inside(domain)
        nodes: list[int] = np.unique(table.node[every[np.isin(table.job[every], spares)]]).tolist()
        return nodes[:_FOCUSES]

    def _inside(self, domain: int) -> Rows:
        """The candidates in a domain."""
        topology, every = self.session.snapshot.topology, self.candidates.tasks
        nodes = self.session.snapshot.tasks.node[every]
        found: Rows = every[(nodes >= topology.lo[domain]) & (nodes < topology.hi[domain])]
        return found

    def _queue_has_room(self, victims: Rows) -> bool:
        """Whether the beneficiary's queue may hold every class of what is needed when the victims are gone."""
        queue, demands = int(self.session.snapshot.jobs.queue[self.need.job]), self.need.demands
        return self.simulation.without(
            victims,
            lambda: all(self.session.queue_slots(queue, demand.request) >= demand.count for demand in demands),
        )

    def _bundles(self, domain: int, need: Amounts, focus: int | None = None, allowed: Rows | None = None) -> Bundles:
        """The bundles of a domain in order; gangs spare what they have on the node `focus` before anything else.

        A gang of which a task is not allowed does not go whole: what it can spare beside that one may go.
        """
        snapshot = self.session.snapshot
        every, inside, kept = self.candidates.tasks, self._inside(domain), self.candidates.protected
        if allowed is not None:
            kept = np.union1d(kept, snapshot.tasks.job[inside[~np.isin(inside, allowed)]])
            every, inside = (tasks[np.isin(tasks, allowed)] for tasks in (every, inside))
        nearness = self._nearness
        if focus is not None:
            nearness = nearness.copy()
            nearness[focus] = -1
        bundles = make_bundles(snapshot, inside, need, nearness, self._surplus)
        if self.options.evict_remainder:
            bundles = bundles.with_rest(snapshot, every[~np.isin(every, inside)])
        kept = kept if self.options.allow_whole else bundles.job
        whole = bundles.kind == BundleKind.WHOLE
        may_go = ~whole | ~np.isin(bundles.job, kept)
        # What a gang can spare where nobody needs to go goes with the whole of it, or not at all.
        helps = bundles.having(self._helps[snapshot.tasks.node[bundles.tasks]])
        may_go &= helps | np.isin(bundles.job, bundles.job[helps & whole & may_go])
        bundles = bundles.taken(np.flatnonzero(may_go))
        # Broken gangs, then what gangs can spare, then whole gangs; inside these by policy.
        whole = bundles.kind == BundleKind.WHOLE
        state = np.where(whole, 2, np.where(self._surplus[bundles.job] < 0, 0, 1)).astype(np.int64)
        # Gain in the domain ÷ cost everywhere; infinite for spare pods, which cost nothing.
        roi = efficiency(bundles.local, bundles.cost, need, np.where(whole, self._wasted(bundles.cost), 0.0))
        return self._ordered(replace(bundles, level=state * self._steps + self._policy[bundles.job], roi=roi), need)

    def _ordered(self, bundles: Bundles, need: Amounts, preferred: Mask | None = None) -> Bundles:
        """The bundles in order, those that are preferred first among their equals."""
        worth = buckets(bundles.roi, self.options.roi_threshold)
        return bundles.taken(bundle_order(self.session.snapshot, bundles, worth, need, preferred))

    def _wasted(self, amounts: Amounts) -> NDArray[np.float64]:
        snapshot = self.session.snapshot
        return waste(amounts, self.need.request, self.session.total, snapshot.axis.index["pods"])

    @cached_property
    def _evictor(self) -> Evictor:
        return Evictor(self.need.job, self.need.tasks, breaks_gangs=True)

    @cached_property
    def _queue_is_full(self) -> bool:
        """Whether the job's own queue may not hold what is needed, unless it loses something itself."""
        return not self._queue_has_room(self.candidates.tasks[:0])

    @cached_property
    def _surplus(self) -> NDArray[np.int64]:
        return lasting_surplus(self.session.snapshot)

    @cached_property
    def supply(self) -> Supply:
        return Supply(self.session.snapshot, self.candidates)

    @cached_property
    def _helps(self) -> Mask:
        """Nodes of which it matters who leaves: from others a victim would only use up what plugins count."""
        is_alone = self.session.live_tasks().isdisjoint(self.need.tasks.tolist())
        everywhere = self._queue_is_full or not is_alone
        mask: Mask = np.full(len(self.session.snapshot.nodes), everywhere)
        for demand in self.need.demands:
            mask |= demand.nodes & (self.supply.slots(demand.request) > 0)
        return mask

    @cached_property
    def _nearness(self) -> Rows:
        return nearness(self.session.snapshot, self.supply.room, self.need.demands[0])

    @cached_property
    def _policy(self) -> NDArray[np.int64]:
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
    def _steps(self) -> int:
        return int(self._policy[self.candidates.jobs].max(initial=0)) + 1

    @cached_property
    def _lowest(self) -> int:
        """The level of those who give first, wherever they are; gangs that can spare nothing go whole."""
        jobs = self.candidates.jobs
        state = np.where(self._surplus[jobs] < 0, 0, np.where(self._surplus[jobs] > 0, 1, 2))
        return int((state * self._steps + self._policy[jobs]).min(initial=3 * self._steps))

    def _lost(self, amounts: Amounts) -> NDArray[np.float64]:
        """What losing amounts means: in terms of what is requested, and what nobody asked for as waste."""
        return burden(amounts, self._requested) + self._wasted(amounts)

    @property
    def _requested(self) -> Amounts:
        """What counts of the request: what costs are measured by in every domain."""
        return np.where(self.need.asked, self.need.request, 0)

    @cached_property
    def _per_gang(self) -> float:
        """What breaking a gang costs whatever its size, a part of what the mean gang holds.

        Of two ways that free the same, the one that breaks fewer gangs is better.
        """
        jobs = self.candidates.jobs
        held = self._lost(self.session.snapshot.jobs.allocated[jobs])
        return _PER_GANG * float(held.mean()) if len(jobs) else 0.0

    def _plan(self, proposal: Proposal, *, polish: bool) -> Proposal:
        """The proposal with the cheapest tasks to take by places, whole gangs with all that they have here; or none."""
        topology, bundles, demands = self.session.snapshot.topology, proposal.bundles, self.need.demands
        span = int(topology.lo[proposal.domain]), int(topology.hi[proposal.domain])
        levels = bundles.level
        steps = np.unique(levels)
        if len(steps) > MAX_LEVELS:

            def suffice(upto: int) -> bool:
                """Whether the lowest levels would do."""
                costs = np.where(levels < steps[upto], 1.0, np.inf)
                return Clearing.on_nodes(self.session.snapshot, bundles, costs, span).plan(demands) is not None

            given = shortest_prefix(len(steps) - 1, suffice)
            levels = levels if given is None else np.minimum(levels, steps[given])
        clearing = self._clearing(bundles, levels, span)
        on_nodes = clearing.plan(demands, polish=polish)
        chosen = self._and_in_queue(bundles, levels, on_nodes)
        is_minimal = self.need.exact and chosen is on_nodes
        if chosen is None:
            return replace(proposal, rounds=clearing.rounds(demands))
        going = bundles.going(chosen)
        if len(going) < int(chosen.sum()) or len(going.tasks) > int(chosen[bundles.owners()].sum()):
            # With more going of these gangs, others among the chosen may not have to.
            on_nodes = self._clearing(going, going.level, span).plan(demands)
            fewer = self._and_in_queue(going, going.level, on_nodes)
            is_minimal = is_minimal and fewer is on_nodes
            going = going if fewer is None else going.taken(np.flatnonzero(fewer))
        goes = np.isin(bundles.tasks, going.tasks)
        taken = bundles.within(goes)
        whole = taken.kind == BundleKind.WHOLE
        lost = np.where(whole[:, None], taken.cost, taken.local).sum(axis=0)
        return replace(
            proposal,
            victims=bundles.tasks[goes],
            cost=(int(levels[chosen].max(initial=-1)), clearing.cost(chosen)),
            loss=float((lost / np.maximum(self.need.request, 1))[proposal.scarce].max()),
            broken=int(whole.sum()),
            is_gentle=bool((taken.level == self._lowest).all()),
            rounds=clearing.rounds(demands),
            is_minimal=is_minimal,
        )

    def _clearing(self, bundles: Bundles, levels: NDArray[np.int64], span: tuple[int, int]) -> Clearing:
        return Clearing.on_nodes(self.session.snapshot, bundles, self._costs(bundles, levels), span)

    def _costs(self, bundles: Bundles, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        whole = bundles.kind == BundleKind.WHOLE
        losses = np.where(whole, self._lost(bundles.cost) + self._per_gang, self._lost(bundles.local))
        return weighed(losses, levels)

    def _and_in_queue(self, bundles: Bundles, levels: NDArray[np.int64], chosen: Mask | None) -> Mask | None:
        """The chosen bundles, and the cheapest of the others that must go so that the job's own queue may hold it."""
        if chosen is None or not self._queue_is_full or self._queue_has_room(bundles.tasks[chosen[bundles.owners()]]):
            return chosen
        session, queue = self.session, int(self.session.snapshot.jobs.queue[self.need.job])
        room = self.simulation.without(bundles.tasks, lambda: room_in_queue(session, queue, self.need.asked))
        everywhere = [replace(demand, nodes=np.ones(1, np.bool_)) for demand in self.need.demands]
        clearing = Clearing.in_queue(session.snapshot, bundles, self._costs(bundles, levels), room)
        found = clearing.plan(everywhere, chosen, polish=True)
        return chosen if found is None else found

    # -- choices -------------------------------------------------------------------------------------------

    def choose(self, proposal: Proposal) -> Choice | None:
        """Victims that the plugins agree to and the dry run proves; None: there are none in this domain."""
        bundles = self.permitted(proposal)
        if len(bundles) == 0:
            return None
        domain, tasks = proposal.domain, bundles.tasks
        victims = self.session.select_victims(self._evictor, domain, tasks)
        if victims is None:
            victims = self._select(proposal, bundles)
        elif not np.isin(victims, tasks).all():
            victims = None  # what nobody permitted is not evicted because a plugin would like it
        if victims is None:
            return None
        taken = ~bundles.having(~np.isin(tasks, victims))
        placements = self._placements(domain, tasks[taken[bundles.owners()]])
        if placements is None:
            return None
        return Choice(domain, bundles, taken, placements, self._steps)

    def permitted(self, proposal: Proposal) -> Bundles:
        """Phases two to four: order, ask once about the whole list, shrink, order again."""
        session = self.session
        bundles = every = self._as_proposed(proposal.bundles, proposal)
        allowed = session.evictable(self.kind, self._evictor, bundles.tasks)
        bundles = bundles.within(np.isin(bundles.tasks, allowed))
        if self.kind is Eviction.RECLAIM:
            wanted = self._shortest(proposal)
            bundles = bundles.within(have_too_much(session, bundles.tasks, wanted, bundles.owners()))
        bundles = bundles.within(self.budgets.allowed(bundles.tasks))
        if bundles is every:
            return bundles
        refused = every.job[~every.having(np.isin(every.tasks, bundles.tasks))]
        if np.isin(refused, bundles.job[bundles.kind == BundleKind.WHOLE]).any():
            bundles = self._bundles(proposal.domain, proposal.need, proposal.focus, bundles.tasks)
        return self._as_proposed(bundles, proposal)

    def _shortest(self, proposal: Proposal) -> Mask:
        """The resources that are short the most: what queues deserve of these decides whether they give."""
        need = proposal.need
        share = np.divide(need, self._requested, out=np.zeros(len(need)), where=self._requested > 0)
        mask: Mask = (share >= share.max() - 1e-9) & (need > 0)
        return mask

    def _as_proposed(self, bundles: Bundles, proposal: Proposal) -> Bundles:
        """The bundles in order, those that the proposal takes from first among their equals."""
        return self._ordered(bundles, proposal.need, bundles.having(np.isin(bundles.tasks, proposal.victims)))

    def _select(self, proposal: Proposal, bundles: Bundles) -> Rows | None:
        """Phase five: tasks to take, none of which can be done without; None: no choice works."""
        plan = self._permitted_plan(proposal, bundles)
        if not plan.works and self.need.exact:
            return None
        if plan.works and self._works(plan.domain, plan.victims):
            return plan.victims if plan.is_minimal else self._trimmed(plan.domain, bundles, plan.victims)
        count = shortest_prefix(len(bundles), lambda k: self._works(proposal.domain, bundles.tasks[: bundles.start[k]]))
        if count is None:
            return None
        return self._trimmed(proposal.domain, bundles, bundles.tasks[: bundles.start[count]])

    def _permitted_plan(self, proposal: Proposal, bundles: Bundles) -> Proposal:
        """The proposal if nobody refused a part of it, else a new one from what is permitted."""
        kept: Rows = bundles.tasks[np.isin(bundles.tasks, proposal.victims)]
        if len(kept) and len(kept) == len(proposal.victims):
            return replace(proposal, victims=kept)
        return self._plan(Proposal(proposal.domain, proposal.need, proposal.scarce, bundles), polish=True)

    def _works(self, domain: int, victims: Rows) -> bool:
        return self._placements(domain, victims) is not None

    def _placements(self, domain: int, victims: Rows) -> list[Operation] | None:
        """The outcome of a dry run; the last one that worked is not run again."""
        if self._proved is not None:
            where, whom, placements = self._proved
            if where == domain and np.array_equal(whom, victims):
                return placements
        self.trials += 1
        found = self.simulation.placements(self.need.tasks, victims, Scope(domain))
        if found is not None:
            self._proved = domain, victims, found
        return found

    def _trimmed(self, domain: int, bundles: Bundles, victims: Rows) -> Rows:
        """Give back, the last in order first, what the dry run does not need; broken gangs go with all they have."""
        going = bundles.going(bundles.having(np.isin(bundles.tasks, victims)))
        pieces = [going.tasks_of(bundle) for bundle in range(len(going))]
        return joined(trim(pieces, lambda kept: self._works(domain, joined(kept))))


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
