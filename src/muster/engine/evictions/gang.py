"""The gang strategy: evict whole gangs, or what gangs can spare, for the benefit of one gang at a time.

Callers: the actions gangpreempt and gangreclaim, and preempt and reclaim when `gangAwareEnable` is set. Queues and
jobs take turns in their usual order. A job that fits without victims is promised its places; for others the domains
are tried in order and the first that works is committed, evictions and promises together.
"""

from __future__ import annotations

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.constraints import why_not_placeable
from muster.engine.evictions.budgets import disruption_ratio, warn_of_limit, within_ratio
from muster.engine.evictions.candidates import Pool
from muster.engine.evictions.choice import Choice, Chooser, GangOptions, Proposal, Rules
from muster.engine.evictions.entering import Entrances
from muster.engine.evictions.need import Need, find_need
from muster.engine.evictions.pipeline import DryRun
from muster.engine.evictions.records import Reasons, RunnerUp, SparedBundle
from muster.engine.lines import JobLine
from muster.engine.placing import promise
from muster.engine.waiting import schedulable_tasks, tasks_by_job
from muster.framework import Eviction, Session
from muster.snapshot import BEST_EFFORT, NO_ROW, JobPhase, Operation, Rows, Statement


def run_gang_path(session: Session, kind: Eviction, options: GangOptions, action: str = "") -> None:
    """Let every starving gang evict, in the order of queues and jobs."""
    _GangPath(session, kind, options, action or kind.name.lower()).run()


class _GangPath:
    """One run of the strategy."""

    def __init__(self, session: Session, kind: Eviction, options: GangOptions, action: str) -> None:
        self._session = session
        self._kind = kind
        self._options = options
        self._action = action
        self._boards = boards_of(session)
        self._live = session.live_tasks()
        self._rules = Rules.of(session, kind, options)
        self._pool = Pool(session, kind)
        later = session.config.actions[session.config.actions.index(action) :] if session.has_action(action) else ()
        self._is_before_allocate = "allocate" in later

    def run(self) -> None:
        warn_of_limit(self._options.max_disruption_ratio, self._action)
        session = self._session
        if self._kind is Eviction.RECLAIM and not session.asked("queue_deserved"):
            return  # nobody says what queues deserve: each could take from each, for ever
        pending = self._pending()
        lines: dict[int, JobLine] = {}
        for job in pending:
            with session.turn(job):
                lines.setdefault(int(session.snapshot.jobs.queue[job]), JobLine()).push(session.job_key(job), job)
        for queue in sorted(lines, key=session.queue_key):
            if self._kind is Eviction.RECLAIM and session.overused(queue):
                continue
            while lines[queue]:
                job = lines[queue].pop()
                with session.turn(job):
                    self._serve(job, pending[job])

    def _pending(self) -> dict[int, Rows]:
        """Pending tasks, in order, of the jobs that may evict."""
        session = self._session
        tasks = schedulable_tasks(session)
        tasks = tasks[(session.snapshot.tasks.flags[tasks] & BEST_EFFORT) == 0]
        found: dict[int, Rows] = {}
        for job, own in tasks_by_job(session, tasks):
            with session.turn(job):
                if job != NO_ROW and self._may_evict(job):
                    found[job] = own
        return found

    def _may_evict(self, job: int) -> bool:
        session, jobs = self._session, self._session.snapshot.jobs
        queue = int(jobs.queue[job])
        return (
            bool(jobs.has_group[job])
            and job not in jobs.aside
            and queue != NO_ROW
            and queue not in session.snapshot.queues.broken
            and jobs.phase[job] != JobPhase.PENDING
            and session.job_starving(job)
            and session.job_valid(job) is None
            and why_not_placeable(session, job) is None
        )

    def _serve(self, job: int, pending: Rows) -> None:
        session = self._session
        need = find_need(session, self._boards, job, pending, self._live)
        queue = int(session.snapshot.jobs.queue[job])
        if need is None or (self._kind is Eviction.RECLAIM and not session.preemptive(queue, need.tasks)):
            return
        if session.over_quota(job, need.tasks) is not None:
            return  # allocate would never bind it, however much room is made
        statement = session.statement()
        statement.release(pending)
        dry = DryRun(session, need, statement)
        placements = dry.anywhere()
        if placements is None:
            done = self._evict_for(need, dry, statement)
        else:
            # A promise would only keep allocate, if that is still to come, from binding the gang at once.
            done = not self._is_before_allocate
            if done:
                self._commit(need, statement, None, placements, None)
        if not done:
            statement.rollback()

    def _evict_for(self, need: Need, dry: DryRun, statement: Statement) -> bool:
        """Try the domains in order; commit the first choice that works."""
        candidates = self._pool.of(need.job)
        if len(candidates.tasks) == 0 or not self._asks_for_evictions(need):
            return False
        chooser = Chooser(self._rules, need, candidates, dry)
        passed: list[Proposal] = []
        entrances = Entrances(self._session, need, candidates, chooser, self._options.max_domains)
        for proposal in entrances:
            choice = chooser.choose(proposal)
            if choice is not None and within_ratio(
                self._session.snapshot, choice.victims, need.tasks, self._options.max_disruption_ratio
            ):
                other = self._refused_domain(passed) or entrances.runner_up(proposal)
                self._commit(need, statement, choice, choice.placements, other)
                return True
            passed.append(proposal)
        return False

    def _asks_for_evictions(self, need: Need) -> bool:
        """Whether no pod of the gang says that it never preempts others; between queues that is no question."""
        if self._kind is Eviction.RECLAIM:
            return True
        pods = self._session.snapshot.tasks.pods
        return all(pods[task].spec.preemption_policy != "Never" for task in need.tasks.tolist())

    def _refused_domain(self, passed: list[Proposal]) -> RunnerUp | None:
        """The last domain that came before the one that is taken, if any did."""
        if not passed:
            return None
        name = self._session.snapshot.topology.names[passed[-1].domain]
        return RunnerUp(name, "it comes first in order, but plugins, budgets or limits leave too few victims there")

    def _commit(
        self,
        need: Need,
        statement: Statement,
        choice: Choice | None,
        placements: list[Operation],
        other: RunnerUp | None,
    ) -> None:
        """Evict and promise, all at once."""
        session = self._session
        if choice is not None:
            beneficiary = session.snapshot.jobs.records[need.job].id
            reasons = self._reasons(need, choice, other)
            statement.evict(choice.victims, need.job, f"makes room for {beneficiary}", reasons)
        statement.redo(promise(placements))
        session.commit(statement, self._action)

    def _reasons(self, need: Need, choice: Choice, other: RunnerUp | None) -> Reasons:
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
