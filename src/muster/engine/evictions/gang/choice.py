"""The five phases of choosing victims in one domain: bundle, order, ask the plugins once, order again, select.

A proposal is made first, from places alone: the cheapest units that would free enough of them. It tells domains apart
before anybody is asked, and what it wants goes to the front of its class in the order, so that plugins who count (a
queue's share, a budget) spend their count on victims that help. What the plugins refuse is then planned around.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.candidates import Candidates
from muster.engine.evictions.gang.bundles import BundleKind, Bundles
from muster.engine.evictions.gang.clearing import MAX_LEVELS, Clearing, weighed
from muster.engine.evictions.gang.givers import Givers
from muster.engine.evictions.gang.need import GangNeed, room_in_queue, shortage
from muster.engine.evictions.options import GangOptions
from muster.engine.evictions.restraint import have_too_much
from muster.engine.evictions.simulation import Simulation, joined, shortest_prefix, trim
from muster.engine.evictions.supply import Supply
from muster.engine.gangs import NOBODY
from muster.engine.placing import Scope
from muster.framework import Eviction, Session
from muster.snapshot import Amounts, Mask, Operation, Rows

#: In so many ways at most it is tried out which pods a gang can spare.
_FOCUSES: Final = 16
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
    _givers: Givers = field(init=False)
    #: Dry runs so far: a domain where plugins and budgets leave too few victims costs none.
    trials: int = 0
    _proved: tuple[int, Rows, list[Operation]] | None = None

    def __post_init__(self) -> None:
        self._givers = Givers(self.session, self.kind, self.options, self.need, self.candidates, self.simulation)

    @property
    def supply(self) -> Supply:
        return self._givers.supply

    # -- proposals -----------------------------------------------------------------------------------------

    def propose(self, domain: int, *, polish: bool = False) -> Proposal | None:
        """The cheapest victims that places ask for; None: no victims would do.

        With `polish`, and where there are none otherwise, also by which of its pods a gang would spare.
        """
        need, scarce = shortage(self.session.snapshot, self.need, domain)
        bundles = self._givers.bundles(domain, need)
        best = self._plan(Proposal(domain, need, scarce, bundles), polish=polish)
        if polish or not best.works:
            for node in self._focuses(domain, bundles)[: max(0, best.rounds - 1)]:
                bundles = self._givers.bundles(domain, need, node)
                other = self._plan(Proposal(domain, need, scarce, bundles, node), polish=True)
                if (other.cost[0], other.cost[1] * (1 + 1e-9)) < best.cost:
                    best = other
        # Places are only a guess for a mixed gang: a domain that fails by them is tried last, not left out.
        if not best.works and self.need.exact:
            return None
        if not self._givers.queue_is_full:
            return best
        # The job's own queue may hold it without the victims, or without all candidates.
        enough = self._givers.queue_has_room(best.victims) or self._givers.queue_has_room(best.bundles.tasks)
        return best if enough else None

    def _focuses(self, domain: int, bundles: Bundles) -> list[int]:
        """Nodes of gangs that can spare some of their pods here, but not all: where these go first, others stay."""
        safe, whole = (bundles.job[bundles.kind == kind] for kind in BundleKind)
        spares = np.intersect1d(safe, np.union1d(whole, self.candidates.protected)) if len(safe) else safe
        if len(spares) == 0:
            return []
        table, every = self.session.snapshot.tasks, self._givers.inside(domain)
        nodes: list[int] = np.unique(table.node[every[np.isin(table.job[every], spares)]]).tolist()
        return nodes[:_FOCUSES]

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
            is_gentle=bool((taken.level == self._givers.lowest).all()),
            rounds=clearing.rounds(demands),
            is_minimal=is_minimal,
        )

    def _clearing(self, bundles: Bundles, levels: NDArray[np.int64], span: tuple[int, int]) -> Clearing:
        return Clearing.on_nodes(self.session.snapshot, bundles, self._costs(bundles, levels), span)

    def _costs(self, bundles: Bundles, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        whole = bundles.kind == BundleKind.WHOLE
        losses = np.where(
            whole, self._givers.lost(bundles.cost) + self._givers.per_gang, self._givers.lost(bundles.local)
        )
        return weighed(losses, levels)

    def _and_in_queue(self, bundles: Bundles, levels: NDArray[np.int64], chosen: Mask | None) -> Mask | None:
        """The chosen bundles, and the cheapest of the others that must go so that the job's own queue may hold it."""
        if (
            chosen is None
            or not self._givers.queue_is_full
            or self._givers.queue_has_room(bundles.tasks[chosen[bundles.owners()]])
        ):
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
        victims = self.session.select_victims(self._givers.evictor, domain, tasks)
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
        return Choice(domain, bundles, taken, placements, self._givers.steps)

    def permitted(self, proposal: Proposal) -> Bundles:
        """Phases two to four: order, ask once about the whole list, shrink, order again."""
        session = self.session
        bundles = every = self._as_proposed(proposal.bundles, proposal)
        allowed = session.evictable(self.kind, self._givers.evictor, bundles.tasks)
        bundles = bundles.within(np.isin(bundles.tasks, allowed))
        if self.kind is Eviction.RECLAIM:
            wanted = self._shortest(proposal)
            bundles = bundles.within(have_too_much(session, bundles.tasks, wanted, bundles.owners()))
        bundles = bundles.within(self.budgets.allowed(bundles.tasks))
        if bundles is every:
            return bundles
        refused = every.job[~every.having(np.isin(every.tasks, bundles.tasks))]
        if np.isin(refused, bundles.job[bundles.kind == BundleKind.WHOLE]).any():
            bundles = self._givers.bundles(proposal.domain, proposal.need, proposal.focus, bundles.tasks)
        return self._as_proposed(bundles, proposal)

    def _shortest(self, proposal: Proposal) -> Mask:
        """The resources that are short the most: what queues deserve of these decides whether they give."""
        need = proposal.need
        share = np.divide(need, self._givers.requested, out=np.zeros(len(need)), where=self._givers.requested > 0)
        mask: Mask = (share >= share.max() - 1e-9) & (need > 0)
        return mask

    def _as_proposed(self, bundles: Bundles, proposal: Proposal) -> Bundles:
        """The bundles in order, those that the proposal takes from first among their equals."""
        return self._givers.ordered(bundles, proposal.need, bundles.having(np.isin(bundles.tasks, proposal.victims)))

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
