"""Where to evict for a job: which domains, in which order.

A plugin's word is final unless it says otherwise. Else smaller tiers come first, and inside a tier the domain that
costs the least to enter: what the gangs of the cheapest victims there would lose, in terms of what is needed; then the
name. A domain that the job was promised in an earlier cycle is tried before all others, so that it does not wander.
Domains that could not hold the job even if every candidate left are never looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.constraints import constraint_of, domain_of
from muster.engine.domains import ROOT, gradients
from muster.engine.evictions.gang.choice import Chooser, Proposal
from muster.engine.evictions.simulation import RunnerUp
from muster.framework import Plugin, Purpose, points
from muster.snapshot import NO_ROW, Rows, Snapshot

#: So many domains of a tier are compared by what victims cost there; with more, those where the least is missing.
_COMPARED: Final = 64


@dataclass
class DomainProposals:
    """Domains for one job, with a proposal of victims for each."""

    chooser: Chooser
    limit: int
    #: Proposals and domains that stand behind the one that was yielded last.
    _waiting: list[Proposal] = field(default_factory=list)
    _unseen: list[int] = field(default_factory=list)

    @property
    def _snapshot(self) -> Snapshot:
        return self.chooser.session.snapshot

    def __iter__(self) -> Iterator[Proposal]:
        """Proposals in order, until dry runs were made in as many domains as the limit says."""
        constraint = constraint_of(self.chooser.session, self.chooser.need.job)
        placed = domain_of(self._snapshot, self.chooser.need.job)
        tiers = gradients(self._snapshot.topology, constraint, ROOT, placed)
        steps = self._arranged([self._with_room(tier).tolist() for tier in tiers])
        proposals = self._gentlest(steps) if constraint.soft else self._proposals(steps)
        tried = 0
        for seen, proposal in enumerate(proposals, 1):
            before = self.chooser.trials
            yield proposal
            # A domain that budgets or protection rule out does not use up the list.
            tried += self.chooser.trials > before
            if tried >= self.limit:
                self.chooser.session.tally.cut_short += seen < sum(map(len, steps))
                return

    def _arranged(self, tiers: list[list[int]]) -> list[list[int]]:
        """Domains that are compared with each other, in the order in which they are tried."""
        valid = {domain for tier in tiers for domain in tier}
        answer, is_final = self._answer()
        if answer is not None and is_final:
            return [[domain] for domain in dict.fromkeys(answer.tolist()) if domain in valid]
        if answer is not None:
            self.limit = min(self.limit, len(answer))
        promised = self._promised()
        if promised not in valid:
            return tiers
        return [[promised], *([domain for domain in tier if domain != promised] for tier in tiers)]

    def _gentlest(self, steps: list[list[int]]) -> Iterator[Proposal]:
        """Under a soft constraint: who may give first and the fewest gangs broken, then as for a hard one.

        Where no gang is broken, larger tiers are not looked at.
        """
        put_off: list[Proposal] = []
        for number in range(len(steps)):
            for proposal in self._proposals(steps[number : number + 1]):
                if proposal.broken == 0 and proposal.loss < np.inf:
                    yield proposal
                else:
                    put_off.append(proposal)
        put_off.sort(key=lambda one: (one.cost[0], one.broken))
        while put_off:
            following = put_off.pop(0)
            self._waiting, self._unseen = put_off, []
            yield following

    def runner_up(self, taken: Proposal) -> RunnerUp | None:
        """The domain that would have been next, and why it was not taken; None: there is none."""
        topology = self._snapshot.topology
        if self._waiting:
            following = self._waiting[0]
            name = topology.names[following.domain]
            if following.loss == np.inf:
                return RunnerUp(name, "by the places on its nodes no victims would do")
            if abs(following.loss - taken.loss) < 1e-9:
                return RunnerUp(name, "it would cost gangs the same, and comes later in the tree")
            loss = f"{following.loss:.2f} times what is requested, not {taken.loss:.2f}"
            return RunnerUp(name, f"gangs there would lose {loss}")
        if not self._unseen:
            return None
        domain = self._unseen[0]
        tier, other = int(topology.tier[taken.domain]), int(topology.tier[domain])
        if tier != other:
            return RunnerUp(topology.names[domain], f"it is of tier {other}, not {tier}")
        return RunnerUp(
            topology.names[domain], f"{self._missing[domain]:.2f} of what is requested is missing there, no less"
        )

    def _with_room(self, domains: Rows) -> Rows:
        """Domains that would have places for every demand if all candidates were gone."""
        demands = self.chooser.need.demands
        kept: Rows = domains[self.chooser.supply.places(domains, demands) == sum(one.count for one in demands)]
        return kept

    def _proposals(self, steps: list[list[int]]) -> Iterator[Proposal]:
        for number, step in enumerate(steps):
            yield from self._ranked(step, [domain for later in steps[number + 1 :] for domain in later])

    def _answer(self) -> tuple[Rows | None, bool]:
        """The first plugin's word, and whether it is final."""
        for ask in self.chooser.session.asked(points.SEARCH_SPACE):
            answer: Rows | None = ask(self.chooser.need.job, Purpose.EVICT)
            if answer is not None and len(answer):
                plugin = getattr(ask, "__self__", None)
                return answer, not isinstance(plugin, Plugin) or plugin.search_space_is_final
        return None, True

    def _promised(self) -> int:
        """The domain that holds the nodes that the job was promised; NO_ROW: it was promised none."""
        snapshot = self._snapshot
        nodes = snapshot.tasks.nominated[self.chooser.need.tasks]
        domain = snapshot.topology.domain_of_nodes(nodes[nodes != NO_ROW])
        if domain != NO_ROW and constraint_of(self.chooser.session, self.chooser.need.job).limit is None:
            return ROOT
        return domain

    def _ranked(self, domains: list[int], behind: list[int]) -> Iterator[Proposal]:
        """Domains that are compared roughly, and the best of them once more with care."""
        names = self._snapshot.topology.names
        line = sorted(domains, key=lambda domain: (self._missing[domain], names[domain])) if domains[1:] else domains
        found, unseen = self._compared(line[:_COMPARED])
        careful = found[: self.limit]
        if len(line) > 1:
            careful = [self.chooser.propose(one.domain, polish=True) or one if one.rounds else one for one in careful]
        rest = [*(one.domain for one in found[self.limit :]), *unseen, *line[_COMPARED:]]
        self._waiting = sorted(careful, key=lambda one: (one.cost, names[one.domain]))
        self._unseen = [*unseen, *behind]
        while self._waiting:
            yield self._waiting.pop(0)
        # Nobody there was good enough after all: those that could not have been cheaper are asked in their turn.
        for number, domain in enumerate(rest, 1):
            self._unseen = [*rest[number:], *behind]
            proposal = self.chooser.propose(domain, polish=True)
            if proposal is not None:
                yield proposal

    def _compared(self, line: list[int]) -> tuple[list[Proposal], list[int]]:
        """Proposals, the cheapest first, and the domains that need not be looked at: they cannot be cheaper."""
        names = self._snapshot.topology.names
        found: list[Proposal] = []
        unseen = list(line)
        while unseen and not any(self._is_unbeatable(one, unseen[0]) for one in found):
            proposal = self.chooser.propose(unseen.pop(0), polish=len(line) == 1)
            if proposal is not None:
                found.append(proposal)
        return sorted(found, key=lambda one: (one.cost, names[one.domain])), unseen

    def _is_unbeatable(self, proposal: Proposal, domain: int) -> bool:
        """Whether a domain, and those behind it where no less is missing, cannot do with fewer victims."""
        missing = self._missing[domain]
        return (
            proposal.is_gentle
            and proposal.loss <= missing + 1e-9
            and proposal.broken <= max(1, math.ceil(missing * self._gangs_per_request - 1e-9))
        )

    @cached_property
    def _gangs_per_request(self) -> float:
        """How many gangs at least hold together what is requested, of the resource where that is the fewest."""
        request, columns = self.chooser.need.request, self.chooser.need.asked
        held = self._snapshot.jobs.allocated[self.chooser.candidates.jobs][:, columns]
        largest = np.maximum(held.max(axis=0, initial=0), 1)
        return float((request[columns] / largest).min())

    @cached_property
    def _missing(self) -> NDArray[np.float64]:
        """Per domain: what is missing of what is requested, of the resource that is missing most."""
        snapshot, request, columns = self._snapshot, self.chooser.need.request, self.chooser.need.asked
        free = np.maximum(snapshot.nodes.future_idle()[:, columns], 0)
        sums = np.concatenate((np.zeros((1, free.shape[1]), np.int64), np.cumsum(free, axis=0)))
        inside = sums[snapshot.topology.hi] - sums[snapshot.topology.lo]
        share: NDArray[np.float64] = (np.maximum(request[columns] - inside, 0) / request[columns]).max(axis=1)
        return share
