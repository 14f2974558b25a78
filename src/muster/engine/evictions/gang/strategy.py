"""The gang strategy: evict whole gangs, or what gangs can spare, for the benefit of one gang at a time.

A job that fits without victims is promised its places; for others the domains are tried in order, and the first choice
that works and is accepted is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from muster.engine.evictions.budgets import disruption_ratio
from muster.engine.evictions.candidates import Candidates, Pool
from muster.engine.evictions.gang.choice import Choice, Chooser, GangOptions, Rules
from muster.engine.evictions.gang.dry_run import DryRun, shortest_prefix
from muster.engine.evictions.gang.entering import Entrances
from muster.engine.evictions.gang.need import GangNeed, gang_need, needed_tasks
from muster.engine.evictions.pipeline import Need, Plan, jobs_in_need, queue_by_queue, why_not_ask
from muster.engine.evictions.records import Reasons, RunnerUp, SparedBundle
from muster.engine.placing import Goal, promise
from muster.framework import Eviction, Session
from muster.snapshot import NO_ROW, Rows, Statement, TaskStatus

_PASSED: Final = "it comes first in order, but plugins, budgets or limits leave too few victims there"


class GangStrategy:
    """Victims as bundles of gangs, domain by domain."""

    breaks_gangs = True
    piecewise = False
    asks_validators = False
    grows = False

    def __init__(self, session: Session, kind: Eviction, options: GangOptions, action: str) -> None:
        self._session = session
        self._kind = kind
        self._options = options
        self._rules = Rules.of(session, kind, options)
        self._pool = Pool(session, kind)
        later = session.config.actions[session.config.actions.index(action) :] if session.has_action(action) else ()
        self._is_before_allocate = "allocate" in later

    def jobs(self) -> dict[int, Rows]:
        return jobs_in_need(self._session, self._kind)

    def line(self, jobs: dict[int, Rows]) -> Iterator[int]:
        return queue_by_queue(self._session, self._kind, jobs)

    def need(self, job: int, pending: Rows) -> Rows:
        return needed_tasks(self._session, job, pending)

    def candidates(self, job: int) -> Candidates:
        return self._pool.of(job)

    def obstacles(self, job: int) -> str:
        return self._rules.budgets.and_kept_by(str(self._pool.of(job)))

    def settled(self, need: Need, plan: Plan | None) -> None:
        self._rules.budgets.kept_by.clear()

    def solve(
        self, need: Need, candidates: Candidates, statement: Statement, accepts: Callable[[Plan], bool]
    ) -> Plan | None:
        wanted = gang_need(self._session, need.job, need.tasks)
        dry = DryRun(self._session, wanted, statement, Goal.ALL if self.grows else Goal.START)
        placements = dry.anywhere()
        if placements is None:
            return self._in_domains(wanted, candidates, dry, statement, accepts)
        if self._is_before_allocate or self.grows:
            return None  # a promise would only keep allocate from binding the pods at once
        statement.redo(promise(placements))
        return Plan(need.tasks, need.tasks[:0])

    def _in_domains(
        self,
        need: GangNeed,
        candidates: Candidates,
        dry: DryRun,
        statement: Statement,
        accepts: Callable[[Plan], bool],
    ) -> Plan | None:
        """Try the domains in order; take the first choice that is accepted."""
        chooser = Chooser(self._rules, need, candidates, dry)
        entrances = Entrances(self._session, need, candidates, chooser, self._options.max_domains)
        passed: RunnerUp | None = None
        for proposal in entrances:
            choice = chooser.choose(proposal)
            if choice is not None:
                mark = statement.mark()
                statement.evict(choice.victims, need.job)
                statement.redo(promise(choice.placements))
                placed = np.concatenate([placed.tasks for placed in choice.placements])
                reasons = self._reasons(need, choice, passed or entrances.runner_up(proposal))
                plan = Plan(placed, choice.victims, record=reasons)
                if accepts(plan):
                    return plan
                statement.rollback(mark)
            name = self._session.snapshot.topology.names[proposal.domain]
            passed = RunnerUp(name, _PASSED)
        return None

    def _reasons(self, need: GangNeed, choice: Choice, other: RunnerUp | None) -> Reasons:
        snapshot = self._session.snapshot
        spare = np.ones(len(choice.considered), np.bool_)
        spare[choice.places] = False
        left = np.flatnonzero(spare)
        spared = None
        if len(left):
            first = int(left[0])
            bundles = choice.considered
            spared = SparedBundle(
                kind=int(bundles.kind[first]),
                job=int(bundles.job[first]),
                level=int(choice.levels[first]),
                roi=float(choice.roi[first]),
                place=first,
                places=choice.places,
                levels=choice.levels[choice.places],
            )
        return Reasons(
            snapshot=snapshot,
            beneficiary=need.job,
            domain=choice.domain,
            bundles=choice.taken,
            roi=choice.roi[choice.places],
            spared=spared,
            next_domain=other,
            ratio=disruption_ratio(snapshot, choice.victims, need.tasks),
        )


class GrowthStrategy(GangStrategy):
    """Pods beyond the minimum of gangs that run: for them nobody is broken, gangs give what they can spare."""

    piecewise = True
    grows = True

    def jobs(self) -> dict[int, Rows]:
        found = jobs_in_need(self._session, self._kind, grows=True)
        return {job: pending for job, pending in found.items() if self._has_settled(job) and self.candidates(job)}

    def _has_settled(self, job: int) -> bool:
        """Whether it waits for nobody to leave: who is still being served takes no more."""
        table, own = self._session.snapshot.tasks, self._session.snapshot.tasks_of(job)
        return not ((table.status[own] == TaskStatus.PIPELINED) | (table.nominated[own] != NO_ROW)).any()

    def need(self, job: int, pending: Rows) -> Rows:
        return pending

    def candidates(self, job: int) -> Candidates:
        return super().candidates(job).sparing(self._session.snapshot)

    def solve(
        self, need: Need, candidates: Candidates, statement: Statement, accepts: Callable[[Plan], bool]
    ) -> Plan | None:
        """As many of the pods as others can make room for, the first in order."""
        mark, count = statement.mark(), len(need.tasks)

        def grown(pods: int) -> Plan | None:
            tasks = need.tasks[:pods]
            if pods == 0 or why_not_ask(self._session, self._kind, need.job, tasks) is not None:
                return None
            return super(GrowthStrategy, self).solve(
                Need(need.job, tasks, need.pending), candidates, statement, accepts
            )

        def works(left_out: int) -> bool:
            plan = grown(count - left_out)
            statement.rollback(mark)
            return plan is not None or left_out == count

        left_out = shortest_prefix(count, works)
        return None if left_out is None else grown(count - left_out)
