"""The five phases of choosing victims in one domain: bundle, order, ask the plugins once, order again, select.

A proposal is made first, from places alone: the cheapest units that would free enough of them. It tells domains apart
before anybody is asked, and what it wants goes to the front of its class in the order, so that plugins who count (a
queue's share, a budget) spend their count on victims that help. What the plugins refuse is then planned around.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from muster.engine.evictions.gang.clearing import MAX_LEVELS, Clearing, Units, merged, unit_costs, units_of
from muster.engine.evictions.gang.need import (
    GangNeed,
    bottlenecks,
    domain_free,
    held_on_nodes,
    missing_amounts,
    nearness,
    without_pods,
)
from muster.engine.evictions.restraint import have_too_much
from muster.engine.evictions.simulation import Simulation, joined, shortest_prefix, trim
from muster.engine.evictions.surplus import job_surplus
from muster.engine.placing import Scope
from muster.framework import Eviction, Evictor, Session, points
from muster.snapshot import Amounts, Mask, Operation, Rows

#: In so many ways at most it is tried out which pods a gang can spare.
_FOCUSES: Final = 16
#: Breaking a gang counts as much as losing so many times what the mean gang holds. At 1, on random clusters, both
#: the gangs broken and the resources lost are near the fewest possible (benchmarks/optimal.py).
_PER_GANG: Final = 1.0


@dataclass(frozen=True, slots=True)
class GangOptions:
    """What an action's configuration says about evicting whole gangs."""

    max_domains: int = 8
    allow_whole: bool = True
    evict_remainder: bool = False
    roi_threshold: float = 0.05
    ignore_pdb: bool = False

    @property
    def domains(self) -> int:
        """In how many domains dry runs are made; a number below one stands for the default."""
        return self.max_domains if self.max_domains > 0 else 8


@dataclass(frozen=True, slots=True)
class Proposal:
    """Victims in a domain that would do by places alone."""

    domain: int
    need: Amounts
    #: Resources that keep the gang out of the domain.
    scarce: Mask
    bundles: Bundles
    victims: Rows
    #: The highest level that has to give, and what victims cost, weighed by level: to compare domains.
    cost: tuple[int, float]
    #: What the victims' gangs lose of the scarce resources, in terms of what is requested.
    loss: float
    #: How many gangs are broken.
    broken: int = 0
    #: Whether only the first to give (spare pods, or the lowest policy level) lose something.
    is_gentle: bool = False
    #: Whether looking closer may find something cheaper.
    improvable: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Victims that work, as bundles, and the places of the beneficiary."""

    domain: int
    taken: Bundles
    #: Position of each taken bundle in the order, and all bundles in that order.
    places: NDArray[np.int64]
    considered: Bundles
    #: Of the considered ones: their levels, and their return on investment.
    levels: NDArray[np.int64]
    roi: NDArray[np.float64]
    placements: list[Operation]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which tasks of some bundles to take, what that costs, and whether it pays to look closer."""

    mask: Mask
    cost: tuple[int, float]
    is_small: bool


#: Stands behind every plan.
_NO_PLAN: Final = (2**31, np.inf)


class Chooser:
    """Chooses victims for one beneficiary."""

    def __init__(
        self,
        session: Session,
        kind: Eviction,
        options: GangOptions,
        budgets: Budgets,
        need: GangNeed,
        candidates: Candidates,
        simulation: Simulation,
    ) -> None:
        self._session = session
        self._kind = kind
        self._options = options
        self._budgets = budgets
        self._need = need
        self._candidates = candidates
        self._evictor = Evictor(need.job, need.tasks, breaks_gangs=True)
        self._simulation = simulation
        self._proved: tuple[int, Rows, list[Operation]] | None = None
        #: Dry runs so far: a domain where plugins and budgets leave too few victims costs none.
        self.trials = 0

    # -- proposals -----------------------------------------------------------------------------------------

    def propose(self, domain: int, *, polish: bool = False) -> Proposal | None:
        """The cheapest victims that places ask for; None: no victims would do."""
        snapshot = self._session.snapshot
        scarce = bottlenecks(snapshot, self._need.demands, domain)
        need = missing_amounts(snapshot, self._need.request, domain_free(snapshot, domain), scarce)
        bundles, plan = self._planned(domain, need, polish=polish)
        victims = bundles.tasks[:0] if plan is None else bundles.tasks[plan.mask]
        if (plan is None and self._need.exact) or not self._queue_would_do(victims, bundles.tasks):
            return None
        if plan is None:
            # Places are only a guess for a mixed gang: a domain that fails by them is tried last, not left out.
            return Proposal(domain, need, scarce, bundles, victims, _NO_PLAN, np.inf)
        taken = bundles.shrunk(snapshot, plan.mask)
        return Proposal(
            domain,
            need,
            scarce,
            bundles,
            victims,
            plan.cost,
            self._loss(taken, scarce),
            broken=int((taken.kind == BundleKind.WHOLE).sum()),
            is_gentle=bool((self._levels(taken) == self._lowest).all()),
            improvable=not polish and plan.is_small,
        )

    def _planned(self, domain: int, need: Amounts, *, polish: bool) -> tuple[Bundles, _Plan | None]:
        """Bundles of a domain and the cheapest plan; with `polish`, also by which of its pods a gang would spare."""
        bundles = self._bundles(domain, need)
        plan = self._plan(domain, bundles, polish=polish)
        if not polish or plan is None or not plan.is_small or not (bundles.kind == BundleKind.WHOLE).any():
            return bundles, plan
        for node in self._focuses(bundles):
            others = self._bundles(domain, need, node)
            other = self._plan(domain, others, polish=True)
            if other is not None and (other.cost[0], other.cost[1] * (1 + 1e-9)) < plan.cost:
                bundles, plan = others, other
        return bundles, plan

    def _focuses(self, bundles: Bundles) -> list[int]:
        """Nodes of gangs that can spare some of their pods here, but not all: where these go first, others stay."""
        safe, whole = (bundles.job[bundles.kind == kind] for kind in BundleKind)
        spares = np.intersect1d(safe, whole)
        table = self._session.snapshot.tasks
        mine = bundles.tasks[np.isin(table.job[bundles.tasks], spares)]
        nodes: list[int] = np.unique(table.node[mine]).tolist()
        return nodes[:_FOCUSES]

    def _queue_would_do(self, victims: Rows, candidates: Rows) -> bool:
        """Whether the job's own queue may hold it: as it is, without the victims, or without all candidates."""
        return not self._queue_is_full or self._queue_has_room(victims) or self._queue_has_room(candidates)

    def _queue_has_room(self, victims: Rows) -> bool:
        """Whether the beneficiary's queue may hold every class of what is needed when the victims are gone."""
        queue, demands = int(self._session.snapshot.jobs.queue[self._need.job]), self._need.demands
        return self._simulation.without(
            victims,
            lambda: all(self._session.queue_slots(queue, demand.request) >= demand.count for demand in demands),
        )

    def _bundles(self, domain: int, need: Amounts, focus: int | None = None) -> Bundles:
        """The bundles of a domain in order; gangs spare what they have on the node `focus` before anything else."""
        snapshot = self._session.snapshot
        tasks = self._candidates.inside(snapshot, domain)
        inside: Mask | None = None
        if self._options.evict_remainder:
            mine: Mask = np.zeros(len(snapshot.tasks), np.bool_)
            mine[tasks] = True
            inside = mine
            owners = np.unique(snapshot.tasks.job[tasks])
            tasks = self._candidates.tasks[np.isin(snapshot.tasks.job[self._candidates.tasks], owners)]
        nearness = self._nearness
        if focus is not None:
            nearness = nearness.copy()
            nearness[focus] = -1
        bundles = make_bundles(snapshot, tasks, need, nearness, inside, self._surplus)
        bundles = bundles.without_whole_of(self._candidates.protected)
        if not self._options.allow_whole:
            bundles = bundles.without_whole()
        return bundles.taken(self._numbers(bundles, need))

    def _numbers(self, bundles: Bundles, need: Amounts, preferred: Mask | None = None) -> NDArray[np.int64]:
        """The order of bundles."""
        worth = buckets(self._roi(bundles, need), self._options.roi_threshold)
        return bundle_order(self._session.snapshot, bundles, self._levels(bundles), worth, need, preferred)

    def _roi(self, bundles: Bundles, need: Amounts) -> NDArray[np.float64]:
        """Gain in the domain ÷ cost everywhere; infinite for spare pods, which cost nothing."""
        whole = bundles.kind == BundleKind.WHOLE
        return efficiency(bundles.local, bundles.cost, need, np.where(whole, self._wasted(bundles.cost), 0.0))

    def _wasted(self, amounts: Amounts) -> NDArray[np.float64]:
        snapshot = self._session.snapshot
        return waste(amounts, self._need.request, self._session.total, snapshot.axis.index["pods"])

    @cached_property
    def _queue_is_full(self) -> bool:
        """Whether the job's own queue may not hold what is needed, unless it loses something itself."""
        return not self._queue_has_room(self._candidates.tasks[:0])

    @cached_property
    def _surplus(self) -> NDArray[np.int64]:
        return job_surplus(self._session.snapshot)

    @cached_property
    def held(self) -> Amounts:
        """int64[nodes, resources]: what the candidates hold."""
        return held_on_nodes(self._session.snapshot, self._candidates.tasks)

    @cached_property
    def _nearness(self) -> Rows:
        return nearness(self._session.snapshot, self.held, self._need.demands[0])

    @cached_property
    def _policy(self) -> NDArray[np.int64]:
        """Where every job stands as a victim: by its queue as a giver, if it is another one, then by its priority."""
        session, jobs = self._session, self._session.snapshot.jobs
        keys = jobs.priority.astype(np.int64)
        if self._kind is not Eviction.PREEMPT:
            home = int(jobs.queue[self._need.job])
            priorities = np.unique(keys, return_inverse=True)[1]
            keys = queue_levels(session, home)[jobs.queue] * (int(priorities.max(initial=0)) + 1) + priorities
        involved = np.unique(keys[self._candidates.jobs])
        return np.searchsorted(involved, keys).astype(np.int64)

    def _levels(self, bundles: Bundles) -> NDArray[np.int64]:
        """Broken gangs, then what gangs can spare, then whole gangs; inside these by policy."""
        whole = bundles.kind == BundleKind.WHOLE
        state = np.where(whole, 2, np.where(self._surplus[bundles.job] < 0, 0, 1)).astype(np.int64)
        return state * self._steps + self._policy[bundles.job]

    @cached_property
    def _steps(self) -> int:
        return int(self._policy[self._candidates.jobs].max(initial=0)) + 1

    @cached_property
    def _lowest(self) -> int:
        """The level of those who give first, wherever they are; gangs that can spare nothing go whole."""
        jobs = self._candidates.jobs
        state = np.where(self._surplus[jobs] < 0, 0, np.where(self._surplus[jobs] > 0, 1, 2))
        return int((state * self._steps + self._policy[jobs]).min(initial=3 * self._steps))

    def _lost(self, amounts: Amounts) -> NDArray[np.float64]:
        """What losing amounts means: in terms of what is requested, and what nobody asked for as waste."""
        return burden(amounts, self._requested) + self._wasted(amounts)

    @cached_property
    def _per_gang(self) -> float:
        """What breaking a gang costs whatever its size, a part of what the mean gang holds.

        Of two ways that free the same, the one that breaks fewer gangs is better.
        """
        jobs = self._candidates.jobs
        held = self._lost(self._session.snapshot.jobs.allocated[jobs])
        return _PER_GANG * float(held.mean()) if len(jobs) else 0.0

    @cached_property
    def _requested(self) -> Amounts:
        """What is requested, without pods: what costs are measured by in every domain."""
        snapshot, request = self._session.snapshot, self._need.request
        return np.where(without_pods(snapshot, request), request, 0)

    def _plan(self, domain: int, bundles: Bundles, *, polish: bool) -> _Plan | None:
        """The cheapest tasks to take by places, whole gangs with all that they have here."""
        topology = self._session.snapshot.topology
        span = int(topology.lo[domain]), int(topology.hi[domain])
        units = units_of(bundles)
        levels = self._levels(bundles)
        if len(np.unique(levels)) > MAX_LEVELS:
            highest = self._highest_level(bundles, units, levels, span)
            if highest is None:
                return None
            levels = np.minimum(levels, highest + 1)
        costs = self._costs(bundles, units, levels)
        clearing = Clearing(self._session.snapshot, bundles, units, costs, span)
        chosen = clearing.plan(self._need.demands, polish=polish)
        if chosen is None:
            return None
        cost = int(levels[units.bundle[chosen]].max(initial=-1)), clearing.cost(chosen)
        is_small = clearing.is_small(self._need.demands)
        together = merged(units, bundles, chosen)
        if together is None:
            return _Plan(chosen[units.of_task], cost, is_small)
        # With more going of these gangs, others among the chosen may not have to.
        among = Clearing(self._session.snapshot, bundles, together, np.where(chosen, costs, np.inf), span)
        fewer = among.plan(self._need.demands)
        return _Plan((chosen if fewer is None else fewer)[together.of_task], cost, is_small)

    def _costs(self, bundles: Bundles, units: Units, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        return unit_costs(self._session.snapshot, bundles, units, levels, self._lost, self._per_gang)

    def _highest_level(
        self, bundles: Bundles, units: Units, levels: NDArray[np.int64], span: tuple[int, int]
    ) -> int | None:
        """The lowest level that must give, with all below it; None: not even everybody would do."""
        steps = np.unique(levels)

        def works(upto: int) -> bool:
            costs = np.where(levels[units.bundle] <= steps[upto], 1.0, np.inf)
            clearing = Clearing(self._session.snapshot, bundles, units, costs, span)
            return clearing.plan(self._need.demands) is not None

        low, high = 0, len(steps) - 1
        if not works(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if works(middle) else (middle + 1, high)
        return int(steps[low])

    def _loss(self, taken: Bundles, scarce: Mask) -> float:
        """What the gangs of these bundles lose of the scarce resources, in terms of what is requested."""
        lost = np.where((taken.kind == BundleKind.WHOLE)[:, None], taken.cost, taken.local).sum(axis=0)
        return float((lost[scarce] / self._need.request[scarce]).max())

    # -- choices -------------------------------------------------------------------------------------------

    def choose(self, proposal: Proposal) -> Choice | None:
        """Victims that the plugins agree to and the dry run proves; None: there are none in this domain."""
        bundles = self.permitted(proposal)
        if len(bundles) == 0:
            return None
        domain, tasks = proposal.domain, bundles.tasks
        replaced = self._session.select_victims(self._evictor, domain, tasks)
        if replaced is None:
            mask = self._select(proposal, bundles)
        else:
            # What nobody permitted is not evicted because a plugin would like it.
            wanted = np.isin(tasks, replaced)
            mask = wanted if int(wanted.sum()) == len(replaced) else None
        if mask is None:
            return None
        taken = bundles.shrunk(self._session.snapshot, mask)
        placements = self._placements(domain, taken.tasks)
        if placements is None:
            return None
        places = np.unique(bundles.owners()[mask])
        levels, worth = self._levels(bundles), self._roi(bundles, proposal.need)
        return Choice(domain, taken, places, bundles, levels, worth, placements)

    def permitted(self, proposal: Proposal) -> Bundles:
        """Phases two to four: order, ask once about the whole list, shrink, order again."""
        session, snapshot = self._session, self._session.snapshot
        bundles = every = self._ordered(proposal.bundles, proposal)
        allowed = session.evictable(self._kind, self._evictor, bundles.tasks)
        bundles = bundles.shrunk(snapshot, np.isin(bundles.tasks, allowed))
        if self._kind is Eviction.RECLAIM:
            wanted, units = self._shortest(proposal), units_of(bundles).of_task
            bundles = bundles.shrunk(snapshot, have_too_much(session, bundles.tasks, wanted, units))
        bundles = bundles.shrunk(snapshot, self._budgets.allowed(bundles.tasks))
        return bundles if bundles is every else self._ordered(bundles, proposal)

    def _shortest(self, proposal: Proposal) -> Mask:
        """The resources that are short the most: what queues deserve of these decides whether they give."""
        need = proposal.need
        share = np.divide(need, self._requested, out=np.zeros(len(need)), where=self._requested > 0)
        mask: Mask = (share >= share.max() - 1e-9) & (need > 0)
        return mask

    def _ordered(self, bundles: Bundles, proposal: Proposal) -> Bundles:
        """The bundles in order, those that the proposal takes from first among their equals."""
        wanted = np.isin(bundles.tasks, proposal.victims)
        preferred = np.bincount(bundles.owners()[wanted], minlength=len(bundles)) > 0
        return bundles.taken(self._numbers(bundles, proposal.need, preferred))

    def _select(self, proposal: Proposal, bundles: Bundles) -> Mask | None:
        """Phase five: tasks to take, none of which can be done without; None: no choice works."""
        mask = self._proposed(proposal, bundles)
        if mask is None and self._need.exact:
            return None
        if mask is not None and self._works(proposal.domain, bundles.tasks[mask]):
            # Places have shown already that every unit is needed.
            return mask if self._need.exact else self._trimmed(proposal.domain, bundles, mask)
        count = shortest_prefix(len(bundles), lambda k: self._works(proposal.domain, bundles.tasks[: bundles.start[k]]))
        if count is None:
            return None
        return self._trimmed(proposal.domain, bundles, np.arange(len(bundles.tasks)) < bundles.start[count])

    def _proposed(self, proposal: Proposal, bundles: Bundles) -> Mask | None:
        """The proposal if nobody refused a part of it, else a new one from what is permitted."""
        mask = np.isin(bundles.tasks, proposal.victims)
        if len(proposal.victims) and int(mask.sum()) == len(proposal.victims):
            return mask
        plan = self._plan(proposal.domain, bundles, polish=True)
        return None if plan is None else plan.mask

    def _works(self, domain: int, victims: Rows) -> bool:
        return self._placements(domain, victims) is not None

    def _placements(self, domain: int, victims: Rows) -> list[Operation] | None:
        """The outcome of a dry run; the last one that worked is not run again."""
        if self._proved is not None:
            where, whom, placements = self._proved
            if where == domain and np.array_equal(whom, victims):
                return placements
        self.trials += 1
        found = self._simulation.placements(self._need.tasks, victims, Scope(domain))
        if found is not None:
            self._proved = domain, victims, found
        return found

    def _trimmed(self, domain: int, bundles: Bundles, mask: Mask) -> Mask:
        """Give back, the last in order first, what the dry run does not need; broken gangs go with all they have."""
        units = units_of(bundles)
        chosen = np.zeros(len(units), np.bool_)
        chosen[units.of_task[mask]] = True
        units = merged(units, bundles, chosen) or units
        mask = chosen[units.of_task]
        order = np.argsort(units.of_task[mask], kind="stable")
        tasks, owners = bundles.tasks[mask][order], units.of_task[mask][order]
        pieces = np.split(tasks, np.flatnonzero(np.diff(owners)) + 1) if len(tasks) else []
        kept = trim(pieces, lambda victims: self._works(domain, victims))
        return np.isin(bundles.tasks, joined(kept))


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
