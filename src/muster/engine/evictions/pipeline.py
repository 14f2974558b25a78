"""The eviction pipeline: who may ask, in which order, for what, and what becomes of it; every action calls `run`.

    line of jobs → need → candidates → solve → limits, validators, restraint → record → commit

A strategy answers one question: which victims would make room for this need. It writes what it found to the statement,
as evictions and promises. Whether that is done is decided here, the same way for every strategy: nothing is committed
without a placed beneficiary, beyond the limit on disruption, against the word of a validator, or if the victim could
turn it round in the next cycle. Whatever is not done leaves no trace but the reason why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from muster.engine.evictions.budgets import Budgets, warn_of_limit, within_ratio
from muster.engine.evictions.candidates import Pool, served
from muster.engine.evictions.heirs import LookAhead
from muster.engine.evictions.options import Limits
from muster.engine.evictions.restraint import why_not_ask, why_wait, would_bounce
from muster.engine.evictions.simulation import TAKES, Plan, Simulation, VictimRecord
from muster.engine.gangs import next_tasks
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
from muster.kernels.planes import RELEASING
from muster.snapshot import NO_ROW, Operation, Rows, TaskStatus

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

    def __init__(self, session: Session, kind: Eviction, options: Limits, action: str) -> None:
        self.session = session
        self.kind = kind
        self.options = options
        self.action = action
        self._budgets = Budgets(session, options.ignore_pdb)

    def jobs(self, waiting: dict[int, Rows]) -> dict[int, Rows]:
        """Those of the jobs that may be placed, given with their pending tasks in order, that look for victims."""
        session, found = self.session, dict[int, Rows]()
        if self.kind is Eviction.RECLAIM and not any(map(session.methods, self.decides_dues)):
            return found  # nobody says what queues deserve: each could take from each, for ever
        for job, tasks in waiting.items():
            with session.turn(job):
                if self.asks(job):
                    found[job] = tasks
        return found

    def asks(self, job: int) -> bool:
        """Whether a job that may be placed looks for victims: it has less than it needs."""
        return self.session.job_starving(job)

    def has_settled(self, job: int) -> bool:
        """Whether a job waits for nobody to leave: who is still being served takes no more than it needs."""
        snapshot = self.session.snapshot
        is_promised = snapshot.jobs.counts[job, TaskStatus.PIPELINED] > 0
        return not (is_promised or (snapshot.tasks.nominated[snapshot.tasks_of(job)] != NO_ROW).any())

    def line(self, jobs: dict[int, Rows]) -> Iterator[int]:
        """The jobs in the order of their turns, each once; between queues, without those that have had their share."""
        line = Line(self.session, jobs)
        while (first := line.pop_queue()) is not None:
            queue, own = first
            if self.kind is not Eviction.RECLAIM or not self.session.overused(queue):
                yield from own
                continue
            for job in own:
                self.session.note_no_eviction(job, self.action, Rejection(OVER_FAIR_SHARE), tried=False)

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
    def solve(self, tasks: Rows, candidates: C, simulation: Simulation) -> Plan | None:
        """Victims that make room for the tasks, left in the simulation with their places; None: there are none.

        Only what the simulation accepts is a plan; who has others tries the next one.
        """

    def settled(self, job: int, tasks: Rows, plan: Plan | None) -> None:
        """A turn is over: the plan was committed for a job, or nothing was done for these tasks of it."""
        self._budgets.kept_by.clear()

    def obstacles(self, job: int) -> str:
        """Who is kept from being evicted for the job, also by budgets, with numbers."""
        return self._budgets.and_kept_by(self._pool.of(job).obstacles)


def run(strategy: Strategy[C]) -> None:
    """Give every job that may look for victims its turn, within the limits of the strategy."""
    session = strategy.session
    warn_of_limit(strategy.options.max_disruption_ratio, strategy.action)
    session.count_for(strategy.action)
    tasks = schedulable_tasks(session)
    # What is free was given out; where nobody may go either, a turn would only find out why.
    hope = None if session.explains else strategy.hopeful(tasks)
    if hope is not None and not hope:
        return
    waiting = placeable_jobs(session, tasks)
    jobs = strategy.jobs(waiting)
    budgets = Budgets(session, strategy.options.ignore_pdb)
    ahead = LookAhead(session, strategy.kind, dict(waiting), budgets) if strategy.options.looks_ahead else None
    for job in strategy.line(jobs) if jobs else ():
        # Who has no victims may have the room of those who have gone for others.
        if hope is not None and job not in hope and not session.snapshot.nodes.state[RELEASING].any():
            continue
        with session.turn(job):
            _serve(strategy, ahead, job, jobs[job])
    if ahead:
        _pass_on(session, ahead, strategy.action)


def send_away(session: Session, tasks: Rows, action: str, record: VictimRecord) -> None:
    """Evict for nobody's benefit, which two actions do: what is left of a stale gang, and who must leave its place."""
    with session.statement(action) as statement:
        statement.evict(tasks, note=record.text, record=record)
        statement.commit()


def _serve(strategy: Strategy[C], ahead: LookAhead | None, job: int, pending: Rows) -> None:
    """One job's turn."""
    session, kind, action = strategy.session, strategy.kind, strategy.action
    if ahead and ahead.yields(job):
        return
    tasks = strategy.need(job, pending)
    if len(tasks) == 0:
        return
    if strategy.piecewise:  # allocate starts the gang as a whole, or, beyond what is guaranteed, not at all
        refusal = why_wait(session, job, tasks) or session.over_quota(job, next_tasks(session, job, tasks))
    else:
        refusal = why_not_ask(session, kind, job, tasks)
    if refusal is not None:
        session.note_no_eviction(job, action, refusal)
        return
    session.start_solution(kind, job)
    candidates = strategy.candidates(job)
    no_room = NO_ROOM_BY_MOVING if kind is Eviction.CONSOLIDATE else NO_ROOM_BY_EVICTION
    reason = no_room if candidates else NO_VICTIMS  # whoever searches may use them up
    # What is promised while others leave is kept, also without an eviction of its own: later plans build on it.
    with session.statement(action, promises=True) as statement:
        # Its own reservations are not in its way.
        statement.release(session.snapshot.tasks_of(job))
        simulation = Simulation(session, job, statement, partial(_why_not, strategy, job))
        owner, plan = job, strategy.solve(tasks, candidates, simulation)
        if plan is not None and ahead:
            owner, plan = ahead.beneficiary(job, plan, simulation)
        if plan is None:
            statement.rollback()
            # To find the words costs as much as a search.
            obstacles = strategy.obstacles(job) if session.explains else ""
            session.note_no_eviction(job, action, simulation.refusal or Rejection(reason, obstacles))
        else:
            _name_beneficiary(session, statement.operations, owner)
            served(session).update(session.snapshot.tasks.job[simulation.placed()].tolist())
            statement.commit()
            if ahead:
                ahead.note(owner, plan)
            session.tally.attempts[MADE_ROOM] += 1
    strategy.settled(owner, tasks, plan)


def _pass_on(session: Session, ahead: LookAhead, action: str) -> None:
    """Give promises of this session to those who would take them in the next cycle."""
    for earlier in ahead.contested():
        loser = earlier.job
        with session.turn(loser), session.statement(action, promises=True) as statement:
            if not ahead.pass_on(earlier, statement):
                statement.hold()
                continue
            _name_beneficiary(session, earlier.operations, earlier.job)
            served(session).add(earlier.job)
            statement.commit()
            detail = f"{session.snapshot.jobs.records[earlier.job].id} takes the room"
            session.note_no_eviction(loser, action, Rejection(NOT_STEADY, detail), tried=False)


def _name_beneficiary(session: Session, operations: Iterable[Operation], job: int) -> None:
    """Let evictions say for whom they are."""
    for operation in operations:
        if operation.kind in TAKES:
            operation.beneficiary = job
            operation.note = f"makes room for {session.snapshot.jobs.records[job].id}"


def _why_not(strategy: Strategy[C], job: int, plan: Plan) -> Rejection | None:
    """Why a plan, which is in the statement, may not be done; None: it may."""
    session, limit = strategy.session, strategy.options.max_disruption_ratio
    victims = plan.victims
    if len(victims) == 0:
        return None
    if not within_ratio(session.snapshot, victims, plan.placed, limit):
        return Rejection(OVER_DISRUPTION, f"maxDisruptionRatio {limit:g}")
    if not strategy.asks_validators:
        scenario = Scenario(strategy.kind, job, plan.placed, victims, plan.evicted, plan.moved)
        if not session.is_valid_scenario(scenario):
            return Rejection(VICTIMS_REFUSED)
    whole, grows = strategy.breaks_gangs, strategy.grows
    if would_bounce(session, strategy.kind, job, plan.evicted, plan.placed, breaks_gangs=whole, grows=grows):
        return Rejection(NOT_STEADY)
    return None
