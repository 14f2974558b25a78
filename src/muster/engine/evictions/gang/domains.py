"""Where to evict for a job: which domains, in which order.

A plugin's word is final unless it says otherwise. Else smaller tiers come first, and inside a tier the domain that
costs the least to enter: what the gangs of the cheapest victims there would lose, in terms of what is needed; then the
name. A domain that the job was promised in an earlier cycle is tried before all others, so that it does not wander.
Domains that could not hold the job even if every candidate left are never looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.constraints import constraint_of, domain_of
from muster.engine.domains import ROOT, gradients
from muster.engine.evictions.candidates import Candidates
from muster.engine.evictions.gang.choice import Chooser, Proposal
from muster.engine.evictions.gang.need import GangNeed, domains_with_room, without_pods
from muster.engine.evictions.simulation import RunnerUp
from muster.framework import Plugin, Purpose, Session, points
from muster.snapshot import NO_ROW, Rows

#: So many domains of a tier are compared by what victims cost there; with more, those where the least is missing.
_COMPARED: Final = 64


class DomainProposals:
    """Domains for one job, with a proposal of victims for each."""

    def __init__(self, session: Session, need: GangNeed, candidates: Candidates, chooser: Chooser, limit: int) -> None:
        self._session = session
        self._need = need
        self._candidates = candidates
        self._chooser = chooser
        self._limit = limit
        #: Proposals and domains that stand behind the one that was yielded last.
        self._waiting: list[Proposal] = []
        self._unseen: list[int] = []

    def __iter__(self) -> Iterator[Proposal]:
        """Proposals in order, until dry runs were made in as many domains as the limit says."""
        constraint = constraint_of(self._session, self._need.job)
        placed = domain_of(self._session.snapshot, self._need.job)
        steps = gradients(self._session.snapshot.topology, constraint, ROOT, placed)
        roomy = [kept for step in steps if len(kept := self._with_room(step))]
        proposals = self._gentlest(roomy) if constraint.soft else self._proposals(roomy)
        tried = 0
        for seen, proposal in enumerate(proposals, 1):
            before = self._chooser.trials
            yield proposal
            # A domain that budgets or protection rule out does not use up the list.
            tried += self._chooser.trials > before
            if tried >= self._limit:
                self._session.tally.cut_short += seen < sum(map(len, roomy))
                return

    def _gentlest(self, steps: list[Rows]) -> Iterator[Proposal]:
        """Under a soft constraint: the fewest gangs broken first, then as for a hard one.

        Where no gang is broken, larger tiers are not looked at.
        """
        put_off: list[Proposal] = []
        for number in range(len(steps)):
            for proposal in self._proposals(steps[number : number + 1]):
                if proposal.broken == 0 and proposal.loss < np.inf:
                    yield proposal
                else:
                    put_off.append(proposal)
        put_off.sort(key=lambda one: one.broken if one.loss < np.inf else 2**31)
        while put_off:
            following = put_off.pop(0)
            self._waiting, self._unseen = put_off, []
            yield following

    def runner_up(self, taken: Proposal) -> RunnerUp | None:
        """The domain that would have been next, and why it was not taken; None: there is none."""
        topology = self._session.snapshot.topology
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
        kept: Rows = domains[domains_with_room(self._session.snapshot, self._chooser.held, self._need.demands, domains)]
        return kept

    def _proposals(self, steps: list[Rows]) -> Iterator[Proposal]:
        valid = np.concatenate(steps) if steps else np.empty(0, np.int32)
        answer, is_final = self._answer()
        if answer is not None and is_final:
            yield from self._in_order(list(dict.fromkeys(answer[np.isin(answer, valid)].tolist())))
            return
        if answer is not None:
            self._limit = min(self._limit, len(answer))
        promised = self._promised()
        if promised in valid:
            yield from self._in_order([promised])
        for number, step in enumerate(steps):
            above = [int(domain) for later in steps[number + 1 :] for domain in later]
            yield from self._ranked(step[step != promised], above)

    def _answer(self) -> tuple[Rows | None, bool]:
        """The first plugin's word, and whether it is final."""
        for ask in self._session.asked(points.SEARCH_SPACE):
            answer: Rows | None = ask(self._need.job, Purpose.EVICT)
            if answer is not None and len(answer):
                plugin = getattr(ask, "__self__", None)
                return answer, not isinstance(plugin, Plugin) or plugin.search_space_is_final
        return None, True

    def _promised(self) -> int:
        """The domain that holds the nodes that the job was promised; NO_ROW: it was promised none."""
        snapshot = self._session.snapshot
        nodes = snapshot.tasks.nominated[self._need.tasks]
        domain = snapshot.topology.domain_of_nodes(nodes[nodes != NO_ROW])
        if domain != NO_ROW and constraint_of(self._session, self._need.job).limit is None:
            return ROOT
        return domain

    def _in_order(self, domains: list[int]) -> Iterator[Proposal]:
        for number, domain in enumerate(domains):
            proposal = self._chooser.propose(domain, polish=True)
            self._waiting, self._unseen = [], domains[number + 1 :]
            if proposal is not None:
                yield proposal

    def _ranked(self, domains: Rows, above: list[int]) -> Iterator[Proposal]:
        """Domains of one tier: compared roughly, the best of them once more with care."""
        names = self._session.snapshot.topology.names
        line = sorted(domains.tolist(), key=lambda domain: (self._missing[domain], names[domain]))
        found, unseen = self._compared(line[:_COMPARED])
        careful = [
            (self._chooser.propose(one.domain, polish=True) or one) if one.improvable else one
            for one in found[: self._limit]
        ]
        self._waiting = sorted(careful, key=lambda one: (one.cost, names[one.domain]))
        self._unseen = [*unseen, *above]
        while self._waiting:
            yield self._waiting.pop(0)
        # Nobody there was good enough after all: those that could not have been cheaper are asked in their turn.
        yield from self._in_order([*(one.domain for one in found[self._limit :]), *unseen, *line[_COMPARED:]])
        self._unseen = above

    def _compared(self, line: list[int]) -> tuple[list[Proposal], list[int]]:
        """Proposals, the cheapest first, and the domains that need not be looked at: they cannot be cheaper."""
        names = self._session.snapshot.topology.names
        found: list[Proposal] = []
        unseen = list(line)
        while unseen and not any(self._is_unbeatable(one, unseen[0]) for one in found):
            proposal = self._chooser.propose(unseen.pop(0))
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
        snapshot, request = self._session.snapshot, self._need.request
        columns = without_pods(snapshot, request)
        largest = np.maximum(snapshot.jobs.allocated[self._candidates.jobs][:, columns].max(axis=0, initial=0), 1)
        return float((request[columns] / largest).min())

    @cached_property
    def _missing(self) -> NDArray[np.float64]:
        """Per domain: what is missing of what is requested, of the resource that is missing most."""
        snapshot, request = self._session.snapshot, self._need.request
        columns = without_pods(snapshot, request)
        free = np.maximum(snapshot.nodes.future_idle()[:, columns], 0)
        sums = np.concatenate((np.zeros((1, free.shape[1]), np.int64), np.cumsum(free, axis=0)))
        inside = sums[snapshot.topology.hi] - sums[snapshot.topology.lo]
        share: NDArray[np.float64] = (np.maximum(request[columns] - inside, 0) / request[columns]).max(axis=1)
        return share
