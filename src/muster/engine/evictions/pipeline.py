"""The eviction pipeline: who may ask, in which order, for what, and what becomes of it; every action calls `run`.

    line of jobs → need → candidates → solve → limits, validators, restraint → record → commit

A strategy answers one question: which victims would make room for this need. It writes what it found to the statement,
as evictions and promises. Whether that is done is decided here, the same way for every strategy: nothing is committed
without a placed beneficiary, beyond the limit on disruption, against the word of a validator, or if the victim could
turn it round in the next cycle. Whatever is not done leaves no trace but the reason why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from muster.engine.constraints import why_not_placeable
from muster.engine.evictions.budgets import warn_of_limit, within_ratio
from muster.engine.evictions.restraint import would_bounce
from muster.engine.evictions.simulation import Simulation, VictimRecord, VictimRecords
from muster.engine.lines import QueueLine
from muster.engine.waiting import schedulable_tasks, tasks_by_job
from muster.framework import MADE_ROOM, Eviction, Rejection, Scenario, Session, points
from muster.framework.reasons import (
    NEVER_PREEMPTS,
    NO_ROOM_BY_EVICTION,
    NO_ROOM_BY_MOVING,
    NO_VICTIMS,
    NOT_STEADY,
    OVER_DISRUPTION,
    OVER_FAIR_SHARE,
    VICTIMS_REFUSED,
)
from muster.snapshot import BEST_EFFORT, NO_ROW, JobPhase, OperationKind, Rows, Statement

_NOBODY: Rows = np.empty(0, np.int32)
_TAKES = (OperationKind.EVICT, OperationKind.RECALL)


@dataclass(frozen=True, slots=True)
class Need:
    """What a job wants room for."""

    job: int
    #: The tasks that must be placed, in order, and all that wait.
    tasks: Rows
    pending: Rows


@dataclass(frozen=True, slots=True)
class Plan:
    """What a strategy found; its operations are in the statement."""

    #: Tasks of the beneficiary that get a place.
    placed: Rows
    evicted: Rows
    #: Victims that have a place elsewhere.
    moved: Rows = field(default_factory=lambda: _NOBODY)
    #: Why these; None: the operations say so themselves.
    record: VictimRecords | None = None


#: Candidates in the form in which a strategy wants them.
C = TypeVar("C")


class Strategy(Protocol[C]):
    """A way to choose victims."""

    #: Whether victims may be whole gangs; if not, plugins are asked about single tasks.
    breaks_gangs: bool
    #: Whether it asks by itself, task by task, whether the job may look for victims.
    piecewise: bool
    #: Whether every plan that it offers has passed the validators already.
    asks_validators: bool
    #: Whether beneficiaries have their minimum and want more.
    grows: bool

    def jobs(self) -> dict[int, Rows]:
        """The jobs that may look for victims, with their pending tasks in order; empty: nobody may."""
        ...

    def line(self, jobs: dict[int, Rows]) -> Iterator[int]:
        """The jobs in the order of their turns; each has one."""
        ...

    def need(self, job: int, pending: Rows) -> Rows:
        """The tasks that must be placed; empty: none, or it is known that no victims help."""
        ...

    def candidates(self, job: int) -> C:
        """Whom the job might evict; false: nobody."""
        ...

    def obstacles(self, job: int) -> str:
        """Who is kept from being evicted for the job, with numbers."""
        ...

    def solve(self, need: Need, candidates: C, simulation: Simulation, accepts: Callable[[Plan], bool]) -> Plan | None:
        """Victims that make room, left in the simulation with the beneficiary's places; None: there are none.

        `accepts` says of a plan in the simulation whether it may be done; who has others tries the next one.
        """
        ...

    def settled(self, need: Need, plan: Plan | None) -> None:
        """The turn of a job is over: the plan was committed, or nothing was done."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What every strategy respects, whatever its own options are."""

    #: Evicted ÷ requested resources; None: no limit.
    max_disruption_ratio: float | None = None


def run(session: Session, kind: Eviction, strategy: Strategy[C], limits: Limits, action: str) -> None:
    """Give every job that may look for victims its turn."""
    warn_of_limit(limits.max_disruption_ratio, action)
    session.count_for(action)
    jobs = strategy.jobs()
    pipeline = _Pipeline(session, kind, strategy, limits, action)
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


class _Pipeline:
    """One run of an action."""

    def __init__(self, session: Session, kind: Eviction, strategy: Strategy[C], limits: Limits, action: str) -> None:
        self._session = session
        self._kind = kind
        self._strategy = strategy
        self._limits = limits
        self._action = action

    def serve(self, job: int, pending: Rows) -> None:
        """One job's turn."""
        tasks = self._strategy.need(job, pending)
        if len(tasks) == 0:
            return
        need = Need(job, tasks, pending)
        refusal = None if self._strategy.piecewise else why_not_ask(self._session, self._kind, job, tasks)
        if refusal is not None:
            self._session.note_no_eviction(job, self._action, refusal)
            return
        self._session.start_solution(self._kind, job)
        candidates = self._strategy.candidates(job)
        refused: list[Rejection] = []
        with self._session.statement(self._action) as statement:
            # Its own reservations are not in its way.
            statement.release(self._session.snapshot.tasks_of(job))
            simulation = Simulation(self._session, job, statement)
            plan = self._strategy.solve(need, candidates, simulation, lambda plan: self._accepts(need, plan, refused))
            if plan is None:
                statement.rollback()
                in_vain = NO_ROOM_BY_MOVING if self._kind is Eviction.CONSOLIDATE else NO_ROOM_BY_EVICTION
                reason = in_vain if candidates else NO_VICTIMS
                why = refused[-1] if refused else Rejection(reason, self._strategy.obstacles(job))
                self._session.note_no_eviction(job, self._action, why)
            else:
                self._write_down(need, plan, statement)
                statement.commit()
                self._session.tally.attempts[MADE_ROOM] += 1
        self._strategy.settled(need, plan)

    def _accepts(self, need: Need, plan: Plan, refused: list[Rejection]) -> bool:
        """Whether a plan, which is in the statement, may be done; if not, `refused` grows by the reason."""
        reason = self._why_not(need, plan) if len(plan.evicted) + len(plan.moved) else None
        if reason is not None:
            refused.append(reason)
        return reason is None

    def _why_not(self, need: Need, plan: Plan) -> Rejection | None:
        session, limit = self._session, self._limits.max_disruption_ratio
        victims = np.concatenate((plan.evicted, plan.moved))
        if not within_ratio(session.snapshot, victims, plan.placed, limit):
            return Rejection(OVER_DISRUPTION, f"maxDisruptionRatio {limit:g}")
        if not self._strategy.asks_validators:
            scenario = Scenario(self._kind, need.job, plan.placed, victims, plan.evicted, plan.moved)
            if not session.is_valid_scenario(scenario):
                return Rejection(VICTIMS_REFUSED)
        whole, grows = self._strategy.breaks_gangs, self._strategy.grows
        if would_bounce(session, self._kind, need.job, plan.evicted, plan.placed, breaks_gangs=whole, grows=grows):
            return Rejection(NOT_STEADY)
        return None

    def _write_down(self, need: Need, plan: Plan, statement: Statement) -> None:
        """Note on every operation that takes something for whom that is, and why these."""
        beneficiary = self._session.snapshot.jobs.records[need.job].id
        for operation in statement.operations:
            if operation.kind in _TAKES:
                operation.note = f"makes room for {beneficiary}"
                operation.record = operation.record if plan.record is None else plan.record


def why_not_ask(session: Session, kind: Eviction, job: int, tasks: Rows) -> Rejection | None:
    """Why a job may not look for victims at all for these tasks; None: it may."""
    if kind is Eviction.PREEMPT and never_preempts(session, tasks):
        return Rejection(NEVER_PREEMPTS)
    if kind is Eviction.RECLAIM:
        refusal = session.can_reclaim(job, tasks) if session.asked(points.CAN_RECLAIM) else None
        if refusal is None and not session.preemptive(int(session.snapshot.jobs.queue[job]), tasks):
            refusal = Rejection(OVER_FAIR_SHARE)
        if refusal is not None:
            return refusal
    # Allocate would never bind it, however much room is made.
    return session.over_quota(job, tasks)


# -- what strategies without a tree of queues have in common ------------------------------------------------------


def jobs_in_need(
    session: Session, kind: Eviction, *, best_effort: bool = False, grows: bool = False
) -> dict[int, Rows]:
    """Admitted jobs that have less than they need, with their pending tasks in order; where anybody may take at all.

    With `grows`, those that have what they need, and more tasks that wait.
    """
    if kind is Eviction.RECLAIM and not session.asked(points.QUEUE_DESERVED) and not session.asked(points.EVICTABLE):
        return {}  # nobody says what queues deserve: each could take from each, for ever
    tasks = schedulable_tasks(session)
    if not best_effort:
        tasks = tasks[(session.snapshot.tasks.flags[tasks] & BEST_EFFORT) == 0]
    found: dict[int, Rows] = {}
    for job, own in tasks_by_job(session, tasks):
        with session.turn(job):
            if job != NO_ROW and _may_ask(session, job, grows=grows):
                found[job] = own
    return found


def _may_ask(session: Session, job: int, *, grows: bool) -> bool:
    snapshot = session.snapshot
    jobs = snapshot.jobs
    queue = int(jobs.queue[job])
    if job in jobs.aside or not jobs.has_group[job] or queue == NO_ROW or queue in snapshot.queues.broken:
        return False
    if jobs.phase[job] == JobPhase.PENDING or session.job_valid(job) is not None:
        return False
    lacks = session.job_starving(job)
    if grows:
        return not lacks and session.job_deficit(job) <= 0 and why_not_placeable(session, job) is None
    return lacks and why_not_placeable(session, job) is None


def queue_by_queue(session: Session, kind: Eviction, jobs: dict[int, Rows]) -> Iterator[int]:
    """Jobs in the order of queues and then of jobs; between queues, those that have had their share are left out."""
    line = QueueLine(session, jobs)
    while (queue := line.pop_queue()) is not None:
        if kind is not Eviction.RECLAIM or not session.overused(queue):
            yield from line.pop_jobs(queue)


def never_preempts(session: Session, tasks: Rows) -> bool:
    """Whether a pod among these says that it never takes the place of others."""
    pods = session.snapshot.tasks.pods
    return any(pods[task].spec.preemption_policy == "Never" for task in tasks.tolist())
