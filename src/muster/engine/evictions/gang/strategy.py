"""The gang strategy: evict whole gangs, or what gangs can spare, for the benefit of one gang at a time.

A job that fits without victims is promised its places; for others the domains are tried in order, and the first choice
that works and is accepted is taken.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.api import format_amount
from muster.engine.evictions.budgets import disruption_ratio
from muster.engine.evictions.candidates import Candidates, Pool, owners_of
from muster.engine.evictions.gang.bundles import BundleKind
from muster.engine.evictions.gang.choice import Choice, Chooser
from muster.engine.evictions.gang.domains import DomainProposals
from muster.engine.evictions.gang.need import GangNeed, gang_need, needed_tasks
from muster.engine.evictions.options import GangOptions
from muster.engine.evictions.pipeline import Strategy
from muster.engine.evictions.restraint import why_not_ask
from muster.engine.evictions.simulation import (
    Plan,
    RunnerUp,
    Simulation,
    VictimRecord,
    joined,
    shortest_prefix,
)
from muster.engine.placing import EVERYWHERE, Goal, Scope, promise
from muster.framework import Eviction, Rejection, Session
from muster.kernels.planes import RELEASING
from muster.snapshot import BEST_EFFORT, NO_ROW, Amounts, Mask, Rows, Snapshot

_PASSED: Final = "it comes first in order, but plugins, budgets or limits leave too few victims there"


class GangStrategy(Strategy[Candidates]):
    """Victims as bundles of gangs, domain by domain."""

    options: GangOptions

    def __init__(self, session: Session, kind: Eviction, options: GangOptions, action: str) -> None:
        super().__init__(session, kind, options, action)
        self._pool = Pool(session, kind, budgets=self._budgets)
        later = session.config.actions[session.config.actions.index(action) :] if session.has_action(action) else ()
        self._is_before_allocate = "allocate" in later

    def need(self, job: int, pending: Rows) -> Rows:
        return needed_tasks(self.session, job, self._sized(pending))

    def _sized(self, tasks: Rows) -> Rows:
        """Those that ask for something: for others nobody has to go."""
        sized: Rows = tasks[(self.session.snapshot.tasks.flags[tasks] & BEST_EFFORT) == 0]
        return sized

    def candidates(self, job: int) -> Candidates:
        return self._pool.of(job)

    def hopeful(self, tasks: Rows) -> Collection[int] | None:
        snapshot = self.session.snapshot
        if self._is_before_allocate or snapshot.nodes.state[RELEASING].any():
            return None
        jobs = owners_of(snapshot, tasks)
        jobs = jobs[snapshot.jobs.queue[jobs] != NO_ROW]
        # Jobs of the same queue and priority have the same candidates, so one of them is asked about.
        alike = list(zip(snapshot.jobs.queue[jobs].tolist(), snapshot.jobs.priority[jobs].tolist(), strict=True))
        one_of_each = dict(zip(alike, jobs.tolist(), strict=True))
        hope = {key for key, job in one_of_each.items() if self._pool.of(job)}
        return {job for key, job in zip(alike, jobs.tolist(), strict=True) if key in hope} if hope else ()

    def solve(self, tasks: Rows, candidates: Candidates, simulation: Simulation) -> Plan | None:
        simulation.goal = Goal.ALL if self.grows else Goal.START
        # Where nobody has to go, it is a start like any other: room that is kept for others stays theirs.
        where, placements = self.session.start_nodes(simulation.job, tasks), None
        if not isinstance(where, Rejection):
            scope = EVERYWHERE if where is None else Scope(mask=where)
            placements = simulation.placements(tasks, tasks[:0], scope)
        if placements is None:
            wanted = gang_need(self.session, simulation.job, tasks) if candidates else None
            return None if wanted is None else self._in_domains(wanted, candidates, simulation)
        if self._is_before_allocate or self.grows:
            return None  # a promise would only keep allocate from binding the pods at once
        simulation.statement.redo(promise(placements))
        return Plan(tasks, tasks[:0])

    def _in_domains(self, need: GangNeed, candidates: Candidates, simulation: Simulation) -> Plan | None:
        """Try the domains in order; take the first choice that is accepted."""
        session = self.session
        chooser = Chooser(session, self.kind, self.options, self._budgets, need, candidates, simulation)
        proposals = DomainProposals(chooser, self.options.domains)
        passed: RunnerUp | None = None
        for proposal in proposals:
            choice = chooser.choose(proposal)
            if choice is not None:
                mark = simulation.statement.mark()
                records = BundleRecords(session.snapshot, need, choice, passed or proposals.runner_up(proposal))
                simulation.evict(choice.victims, records)
                simulation.statement.redo(promise(choice.placements))
                plan = Plan(joined([placed.tasks for placed in choice.placements]), choice.victims)
                if simulation.accepts(plan):
                    return plan
                simulation.statement.rollback(mark)
            passed = RunnerUp(session.snapshot.topology.names[proposal.domain], _PASSED)
        return None


class GrowthStrategy(GangStrategy):
    """Pods beyond the minimum of gangs that run: for them nobody is broken, gangs give what they can spare."""

    piecewise = True
    grows = True

    def asks(self, job: int) -> bool:
        """Whether it has what it needs, waits for more, and somebody has something to spare."""
        session = self.session
        needs = session.job_starving(job) or session.job_deficit(job) > 0
        return not needs and self.has_settled(job) and bool(self.candidates(job))

    def need(self, job: int, pending: Rows) -> Rows:
        return self._sized(pending)

    def candidates(self, job: int) -> Candidates:
        found = super().candidates(job)
        return found.keeping(self.session.snapshot, found.jobs)

    def solve(self, tasks: Rows, candidates: Candidates, simulation: Simulation) -> Plan | None:
        """As many of the pods as others can make room for, the first in order."""
        mark, count = simulation.statement.mark(), len(tasks)

        def grown(pods: int) -> Plan | None:
            first = tasks[:pods]
            if pods == 0 or why_not_ask(self.session, self.kind, simulation.job, first) is not None:
                return None
            return super(GrowthStrategy, self).solve(first, candidates, simulation)

        def works(left_out: int) -> bool:
            plan = grown(count - left_out)
            simulation.statement.rollback(mark)
            return plan is not None or left_out == count

        left_out = shortest_prefix(count, works)
        return None if left_out is None else grown(count - left_out)


@dataclass(frozen=True, slots=True)
class BundleRecords:
    """Why bundles were taken: in which domain, at what cost, and who came next and why they did not go."""

    snapshot: Snapshot
    need: GangNeed
    choice: Choice
    next_domain: RunnerUp | None
    #: By the first bundle of those that a gang loses for the same reason, as far as somebody asked.
    _made: dict[int, VictimRecord] = field(default_factory=dict)

    def of_task(self, task: int) -> VictimRecord:
        bundles = self.choice.bundles
        bundle = bundles.owners()[np.argmax(bundles.tasks == task)]
        # What goes of the same gang for the same reason.
        alike = (bundles.job == bundles.job[bundle]) & (bundles.kind == bundles.kind[bundle]) & self.choice.taken
        first = int(np.argmax(alike))
        if first not in self._made:
            self._made[first] = self._record(first, alike)
        return self._made[first]

    def _record(self, first: int, alike: Mask) -> VictimRecord:
        snapshot, choice, bundles = self.snapshot, self.choice, self.choice.bundles
        job, domain = int(bundles.job[first]), choice.domain
        ends = bool((choice.taken & (bundles.job == job) & (bundles.kind == BundleKind.WHOLE)).any())
        is_safe = bundles.kind[first] == BundleKind.SAFE
        roi = None if is_safe else round(float(bundles.roi[first]), 6)
        names = [snapshot.tasks.ids[task] for task in bundles.tasks[alike[bundles.owners()]].tolist()]
        kind = "whole" if not is_safe else "rest" if ends else "safe"
        kind = "broken" if bundles.level[first] < choice.lowest_whole else kind
        following = self._next_bundle(first)
        beneficiary, owner = (snapshot.jobs.records[row].id for row in (self.need.job, job))
        where = f" in {snapshot.topology.names[domain]}" if domain else ""
        text = f"makes room for {beneficiary}{where}: {_what(kind, owner, len(names), where, roi)}"
        if following is not None:
            text += f"; next would have been {following.name}: {following.reason}"
        if self.next_domain is not None:
            text += f"; next domain {self.next_domain.name}: {self.next_domain.reason}"
        facts = {
            "beneficiary": beneficiary,
            "domain": snapshot.topology.names[domain] if domain else "",
            "bundle": {
                "kind": kind,
                "job": owner,
                "tasks": names,
                "frees": self._amounts(bundles.local[alike].sum(axis=0)),
                "costs": self._amounts(bundles.cost[alike].sum(axis=0)),
                "roi": roi,
            },
            "nextBundle": following and following._asdict(),
            "nextDomain": self.next_domain and self.next_domain._asdict(),
            "ratio": round(disruption_ratio(snapshot, choice.victims, self.need.tasks), 6),
        }
        return VictimRecord(kind, text, facts)

    def _amounts(self, amounts: Amounts) -> dict[str, str]:
        return {
            name: format_amount(name, amount) for name, amount in sorted(self.snapshot.axis.amounts(amounts).items())
        }

    def _next_bundle(self, taken: int) -> RunnerUp | None:
        """The first gang in order that was left alone, and why it lost: the first row of preference that differs."""
        bundles = self.choice.bundles
        groups = bundles.job.astype(np.int64) * len(BundleKind) + bundles.kind
        left = np.flatnonzero(~np.isin(groups, groups[self.choice.taken]))
        if len(left) == 0:
            return None
        first = int(left[0])
        return RunnerUp(self.snapshot.jobs.records[int(bundles.job[first])].id, self._why_not(first, taken))

    def _why_not(self, spared: int, taken: int) -> str:
        jobs, queues, bundles = self.snapshot.jobs, self.snapshot.queues, self.choice.bundles
        levels, roi = bundles.level, bundles.roi
        mine, theirs = int(bundles.job[taken]), int(bundles.job[spared])
        if (levels[spared], spared) < (levels[taken], taken):
            return "it comes first in order, but what it frees makes no place that is still needed"
        if levels[spared] > levels[taken]:
            if bundles.kind[spared] != bundles.kind[taken]:
                return "it would be broken, while this gang can spare the pods"
            if jobs.queue[theirs] != jobs.queue[mine]:
                names = [queues.records[int(jobs.queue[job])].name for job in (theirs, mine)]
                return f"its queue {names[0]} gives after {names[1]}"
            if jobs.priority[theirs] > jobs.priority[mine]:
                return f"its priority {int(jobs.priority[theirs])} is above {int(jobs.priority[mine])}"
            return "its gang is whole, while this one is broken already"
        if np.isfinite(roi[spared]) and abs(float(roi[spared] - roi[taken])) > 1e-9:
            return f"it is worth {float(roi[spared]):.2f} of what it costs, not {float(roi[taken]):.2f}"
        return "it is worth the same; the plan for the domain, then age and name decide"


def _what(kind: str, job: str, count: int, where: str, roi: float | None) -> str:
    """What happens to a gang, in words."""
    pods = "1 pod" if count == 1 else f"{count} pods"
    if kind == "safe":
        return f"{job} can spare {pods}"
    if kind == "broken":
        return f"{job} is broken already, {pods} of it"
    if kind == "rest":
        return f"{job} ends, so {pods} beyond its minimum go too"
    worth = "" if roi is None else f", worth {roi:.2f} of what it costs"
    return f"{job} goes whole, {pods}{where}{worth}"
