"""The eviction pipeline: who may ask, in which order, for what, and what becomes of it; every action calls `run`.

    line of jobs → need → candidates → solve → limits, validators, restraint → record → commit

A strategy answers one question: which victims would make room for this need. It writes what it found to the statement,
as evictions and promises. Whether that is done is decided here, the same way for every strategy: nothing is committed
without a placed beneficiary, beyond the limit on disruption, against the word of a validator, or if the victim could
turn it round in the next cycle. Whatever is not done leaves no trace but the reason why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from muster.engine.evictions.budgets import Budgets, warn_of_limit, within_ratio
from muster.engine.evictions.candidates import Pool
from muster.engine.evictions.heirs import NextTakers, hand_on
from muster.engine.evictions.options import Limits
from muster.engine.evictions.restraint import never_preempts, why_not_ask, would_bounce
from muster.engine.evictions.simulation import Plan, Simulation, VictimRecord, joined
from muster.engine.lines import Line
from muster.engine.waiting import placeable_jobs, schedulable_tasks
from muster.framework import MADE_ROOM, Eviction, Rejection, Scenario, Session, points
from muster.framework.reasons import (
    NO_ROOM_BY_EVICTION,
    NO_ROOM_BY_MOVING,
    NO_VICTIMS,
    NOT_STEADY,
    OVER_DISRUPTION,
    OVER_FAIR_SHARE,
    VICTIMS_REFUSED,
)
from muster.snapshot import NO_ROW, OperationKind, Rows, Statement, TaskStatus

_TAKES = (OperationKind.EVICT, OperationKind.RECALL)
#: Below every priority.
_LOWEST = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, slots=True)
class Need:
    """What a job wants room for."""

    job: int
    #: The tasks that must be placed, in order.
    tasks: Rows


#: Candidates in the form in which a strategy wants them.
C = TypeVar("C")


class Strategy(ABC, Generic[C]):
    """A way to choose victims; unless it says otherwise, jobs in need have their turns queue by queue."""

    #: Whether victims may be whole gangs; if not, plugins are asked about single tasks.
    breaks_gangs: ClassVar[bool] = True
    #: Whether it asks by itself, task by task, whether the job may look for victims.
    piecewise: ClassVar[bool] = False
    #: Whether every plan that it offers has passed the validators already.
    asks_validators: ClassVar[bool] = False
    #: Who says what queues may take back: where nobody answers one of these, no queue takes from another.
    decides_dues: ClassVar[tuple[points.Point[..., Any, Any], ...]] = (points.QUEUE_DESERVED, points.EVICTABLE)
    #: Whether beneficiaries have their minimum and want more.
    grows: ClassVar[bool] = False

    #: Who might have to go; made when there is somebody who asks.
    _pool: Pool

    def __init__(self, session: Session, kind: Eviction, limits: Limits) -> None:
        self._session = session
        self._kind = kind
        self.limits = limits
        self._budgets = Budgets(session, limits.ignore_pdb)

    def jobs(self, waiting: dict[int, Rows], hope: Collection[int] | None) -> dict[int, Rows]:
        """Those of the jobs that may be placed, given with their pending tasks in order, that look for victims.

        `hope`: as `hopeful` says.
        """
        session, found = self._session, dict[int, Rows]()
        if self._kind is Eviction.RECLAIM and not any(map(session.methods, self.decides_dues)):
            return found  # nobody says what queues deserve: each could take from each, for ever
        for job in waiting if hope is None else (job for job in waiting if job in hope):
            with session.turn(job):
                if self.asks(job):
                    found[job] = waiting[job]
        return found

    def asks(self, job: int) -> bool:
        """Whether a job that may be placed looks for victims: it has less than it needs."""
        return self._session.job_starving(job)

    def has_settled(self, job: int) -> bool:
        """Whether a job waits for nobody to leave: who is still being served takes no more than it needs."""
        snapshot = self._session.snapshot
        is_promised = snapshot.jobs.counts[job, TaskStatus.PIPELINED] > 0
        return not (is_promised or (snapshot.tasks.nominated[snapshot.tasks_of(job)] != NO_ROW).any())

    def line(self, jobs: dict[int, Rows]) -> Iterator[int]:
        """The jobs in the order of their turns, each once; between queues, without those that have had their share."""
        line = Line(self._session, jobs)
        while (first := line.pop_queue()) is not None:
            queue, own = first
            if self._kind is not Eviction.RECLAIM or not self._session.overused(queue):
                yield from own

    @abstractmethod
    def need(self, job: int, pending: Rows) -> Rows:
        """The tasks that must be placed; empty: none, or it is known that no victims help."""

    @abstractmethod
    def candidates(self, job: int) -> C:
        """Whom the job might evict; false: nobody."""

    def hopeful(self, tasks: Rows) -> Collection[int] | None:
        """Of the jobs that wait with these tasks, ordered by job: for whom somebody might go; None: nobody knows yet.

        Asked where nobody wants to hear why the others wait.
        """
        return None

    @abstractmethod
    def solve(self, need: Need, candidates: C, simulation: Simulation) -> Plan | None:
        """Victims that make room, left in the simulation with the beneficiary's places; None: there are none.

        Only what the simulation accepts is a plan; who has others tries the next one.
        """

    def settled(self, need: Need, plan: Plan | None) -> None:
        """The turn of a job is over: the plan was committed, or nothing was done."""
        self._budgets.kept_by.clear()

    def obstacles(self, job: int) -> str:
        """Who is kept from being evicted for the job, also by budgets, with numbers."""
        return self._budgets.and_kept_by(self._pool.of(job).obstacles)


def run(session: Session, kind: Eviction, strategy: Strategy[C], action: str) -> None:
    """Give every job that may look for victims its turn, within the limits of the strategy."""
    warn_of_limit(strategy.limits.max_disruption_ratio, action)
    session.count_for(action)
    tasks = schedulable_tasks(session)
    # What is free was given out; where nobody may go either, a turn would only find out why.
    hope = None if session.explains else strategy.hopeful(tasks)
    if hope is not None and not hope:
        return
    waiting = placeable_jobs(session, tasks)
    jobs = strategy.jobs(waiting, hope)
    pipeline = _Pipeline(session, kind, strategy, action, dict(waiting))
    left_out = set(jobs)
    for job in strategy.line(jobs) if jobs else ():
        left_out.discard(job)
        with session.turn(job):
            pipeline.serve(job, jobs[job])
    for job in sorted(left_out):
        if kind is Eviction.RECLAIM and session.overused(int(session.snapshot.jobs.queue[job])):
            session.note_no_eviction(job, action, Rejection(OVER_FAIR_SHARE), tried=False)


def send_away(session: Session, tasks: Rows, action: str, record: VictimRecord) -> None:
    """Evict for nobody's benefit, which two actions do: what is left of a stale gang, and who must leave its place."""
    with session.statement(action) as statement:
        statement.evict(tasks, note=record.text, record=record)
        statement.commit()


@dataclass(frozen=True)
class _Pipeline(Generic[C]):
    """One run of an action."""

    session: Session
    kind: Eviction
    strategy: Strategy[C]
    action: str
    #: Jobs that may be placed and were not served so far, with their pending tasks in order.
    waiting: dict[int, Rows]

    @property
    def looks_ahead(self) -> bool:
        """Whether what is freed is given to the job of the queue that would take it in the next cycle."""
        return self.strategy.limits.looks_ahead

    @cached_property
    def highest(self) -> Rows:
        """By queue, the highest priority of a job that waited at the beginning."""
        jobs, rows = self.session.snapshot.jobs, np.fromiter(self.waiting, np.intp, len(self.waiting))
        highest = np.full(len(self.session.snapshot.queues) + 1, _LOWEST)
        np.maximum.at(highest, jobs.queue[rows], jobs.priority[rows])
        return highest

    @cached_property
    def returning(self) -> dict[int, int]:
        """By queue, the highest priority of a job that was broken in this session: it comes back before others."""
        found: dict[int, int] = {}
        done = [operation for committed in self.session.committed for operation in committed.operations]
        self._note_broken(joined([one.tasks for one in done if one.kind in _TAKES]), found)
        return found

    def _note_broken(self, evicted: Rows, returning: dict[int, int]) -> None:
        """Count those of the jobs that lost tasks, and with them their minimum, among who is returning."""
        jobs = self.session.snapshot.jobs
        for owner in set(self.session.snapshot.tasks.job[evicted].tolist()):
            queue, priority = int(jobs.queue[owner]), int(jobs.priority[owner])
            if priority > returning.get(queue, _LOWEST) and self.session.job_pipelined_deficit(owner) > 0:
                returning[queue] = priority

    @cached_property
    def takers(self) -> NextTakers:
        return NextTakers(self.session, self.waiting)

    def _yields(self, job: int) -> bool:
        """Whether a job has its minimum, and another of its queue comes before it, who would take the rest from it."""
        session, jobs = self.session, self.session.snapshot.jobs
        if jobs.priority[job] >= self.highest[jobs.queue[job]] or not jobs.allocated_count(job):
            return False
        return not session.job_starving(job) and session.job_deficit(job) <= 0

    def serve(self, job: int, pending: Rows) -> None:
        """One job's turn."""
        if self.looks_ahead and self._yields(job):
            return
        tasks = self.strategy.need(job, pending)
        if len(tasks) == 0:
            return
        refusal = None if self.strategy.piecewise else why_not_ask(self.session, self.kind, job, tasks)
        if refusal is not None:
            self.session.note_no_eviction(job, self.action, refusal)
            return
        need = Need(job, tasks)
        self.session.start_solution(self.kind, job)
        candidates = self.strategy.candidates(job)
        no_room = NO_ROOM_BY_MOVING if self.kind is Eviction.CONSOLIDATE else NO_ROOM_BY_EVICTION
        reason = no_room if candidates else NO_VICTIMS  # whoever searches may use them up
        # What is promised while others leave is kept, also without an eviction of its own: later plans build on it.
        with self.session.statement(self.action, promises=True) as statement:
            # Its own reservations are not in its way.
            statement.release(self.session.snapshot.tasks_of(job))
            simulation = Simulation(self.session, job, statement, partial(self._why_not, need))
            plan = self.strategy.solve(need, candidates, simulation)
            if plan is not None and self.looks_ahead:
                need, plan = self._for_the_first(need, plan, simulation)
            if plan is None:
                statement.rollback()
                why = simulation.refusal or Rejection(reason, self.strategy.obstacles(job))
                self.session.note_no_eviction(job, self.action, why)
            else:
                self._write_down(need, plan, statement)
                statement.commit()
                self.waiting.pop(need.job, None)
                if self.looks_ahead:
                    self._note_broken(plan.evicted, self.returning)
                self.session.tally.attempts[MADE_ROOM] += 1
        self.strategy.settled(need, plan)

    def _for_the_first(self, need: Need, plan: Plan, simulation: Simulation) -> tuple[Need, Plan | None]:
        """Whom a plan will serve: who comes first in the queue and finds room then; None: it would not be steady."""
        session, jobs, statement = self.session, self.session.snapshot.jobs, simulation.statement
        owner = need.job
        handed: Plan | None = plan
        if jobs.priority[owner] < self.returning.get(int(jobs.queue[owner]), _LOWEST):
            why = "a job of its queue that comes before it was evicted just now, and would take the room"
            simulation.refusal = Rejection(NOT_STEADY, why)
            return need, None
        if jobs.priority[owner] < self.highest[jobs.queue[owner]]:
            owner, handed = hand_on(session, owner, plan, statement, self.waiting)
        if handed is None or (owner != need.job and self._is_in_vain(owner, handed)):
            why = f"{jobs.records[owner].id} would take the room, and may not have it, or lose it"
        elif len(handed.evicted) and (taker := self.takers.first(owner, handed, statement)) is not None:
            why = f"{jobs.records[taker].id} would take the room next"
        else:
            return (need if owner == need.job else Need(owner, handed.placed)), handed
        simulation.refusal = Rejection(NOT_STEADY, why)
        return need, None

    def _is_in_vain(self, heir: int, plan: Plan) -> bool:
        """Whether an heir may not have what a plan frees, or not for long."""
        return never_preempts(self.session, self.kind, plan.placed) or would_bounce(
            self.session, self.kind, heir, plan.evicted, plan.placed, breaks_gangs=True
        )

    def _why_not(self, need: Need, plan: Plan) -> Rejection | None:
        """Why a plan, which is in the statement, may not be done; None: it may."""
        session, limit = self.session, self.strategy.limits.max_disruption_ratio
        victims = plan.victims
        if len(victims) == 0:
            return None
        if not within_ratio(session.snapshot, victims, plan.placed, limit):
            return Rejection(OVER_DISRUPTION, f"maxDisruptionRatio {limit:g}")
        if not self.strategy.asks_validators:
            scenario = Scenario(self.kind, need.job, plan.placed, victims, plan.evicted, plan.moved)
            if not session.is_valid_scenario(scenario):
                return Rejection(VICTIMS_REFUSED)
        whole, grows = self.strategy.breaks_gangs, self.strategy.grows
        if would_bounce(session, self.kind, need.job, plan.evicted, plan.placed, breaks_gangs=whole, grows=grows):
            return Rejection(NOT_STEADY)
        return None

    def _write_down(self, need: Need, plan: Plan, statement: Statement) -> None:
        """Note on every operation that takes something for whom that is, and why these."""
        beneficiary = self.session.snapshot.jobs.records[need.job].id
        for operation in statement.operations:
            if operation.kind in _TAKES:
                operation.beneficiary = need.job
                operation.note = f"makes room for {beneficiary}"
                operation.record = operation.record if plan.record is None else plan.record
