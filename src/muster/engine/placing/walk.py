"""The start rule: where a gang starts, and with how much of it.

A gang starts where its minimum has room. Among such places one with room for all its waiting tasks is preferred, then
the lowest tier, then the fewest domains at every tier from the top down, then the score. The same holds for each of
its sub-groups inside the job's domain. What was promised to a gang comes before all this: its nodes, then their domain.
Every place is tried in order first; where that fails though there may be a way, `search` looks for it exactly.
Trials leave no trace: what is not kept is rolled back bit for bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import numpy as np

from muster.engine.boards import Boards
from muster.engine.constraints import (
    Constraint,
    fault_of,
    job_constraint,
    job_domain,
    placed_nodes,
    subgroup_constraint,
    subgroup_domain,
)
from muster.engine.domains import (
    ROOT,
    distance_to,
    holding,
    holding_by_totals,
    nearest_first,
    ranked,
    roomiest,
    search_gradients,
)
from muster.engine.gangs import by_subgroup, required_subgroups
from muster.engine.placing.packing import domains_used, fewest_domains
from muster.engine.placing.runs import Attempt, Ground, Runs
from muster.engine.placing.search import Answer, Search
from muster.engine.placing.terms import EARNEST, Found, Modes
from muster.framework import JobVerdict, Session
from muster.framework.reasons import PLACES_SEARCH_ENDED, QUEUE_CLOSED, QUEUE_FULL, TOPOLOGY
from muster.snapshot import NO_ROW, Operation, Rows, Statement, TaskStatus

#: Gangs with more waiting tasks than this grow without a plan for the rest.
_PLANNED: Final = 256


class Extent(Enum):
    """How much must fit, and how much of it is placed."""

    #: What is lacking to be ready.
    LEAST = 0
    #: The same, with each sub-group where all of it fits.
    PARTS = 1
    #: All must fit; what is lacking to be ready is placed.
    ROOMY = 2
    #: All.
    WHOLE = 3


@dataclass(slots=True)
class Work:
    """Tasks of a job on their way, sub-group by sub-group."""

    job: int
    attempts: list[Attempt]
    verdict: JobVerdict | None = None
    #: Tasks that found room together in domains that were too small all the same.
    most: dict[int, int] = field(default_factory=dict)

    @property
    def is_divided(self) -> bool:
        return self.attempts[0].is_part

    def copy(self) -> Work:
        return Work(self.job, [attempt.copy() for attempt in self.attempts])

    def tasks(self) -> Rows:
        if len(self.attempts) == 1:
            return self.attempts[0].tasks
        return np.concatenate([attempt.tasks for attempt in self.attempts])


@dataclass(slots=True)
class _Solution:
    """A trial that worked."""

    #: Domains that it touches, tier by tier from the top down, and how bad its score is.
    key: tuple[tuple[int, ...], float]
    operations: list[Operation]
    left: Work


def make_work(session: Session, job: int, tasks: Rows) -> Work:
    """Sort the tasks of a job, already in order, into its sub-groups."""
    return Work(job, [Attempt(job, own, subgroup) for subgroup, own in by_subgroup(session, job, tasks)])


class Walk:
    """Goes through the places that a job may have."""

    def __init__(
        self, session: Session, boards: Boards, runs: Runs, search: Search, *, hard_starts_whole: bool = False
    ) -> None:
        """`hard_starts_whole`: a hard gang starts afresh only where totals have room for all of it, as in Volcano."""
        self._session = session
        self._hard_starts_whole = hard_starts_whole
        self._boards = boards
        self._runs = runs
        self._search = search

    def place(self, work: Work, statement: Statement, domain: int | None = None, *, whole: bool = False) -> Found:
        """Place a job as far as it takes to be ready, or all of it; what was tried leaves `work`.

        `domain`: the only one that comes into question.
        """
        session, job = self._session, work.job
        constraint, placed = job_constraint(session, job), job_domain(session.snapshot, job)
        if domain is None:
            steps = nearest_first(session, search_gradients(session, job, NO_ROW, ROOT, constraint, placed), placed)
        else:
            steps = [np.array([domain], np.int32)]
        found = Found.NOTHING if whole else self._where_promised(work, constraint, steps, statement)
        if found:
            return found
        if self._hard_starts_whole and not constraint.soft and not work.is_divided and domain is None:
            steps = self._roomy_by_totals(work, constraint, placed, steps)
        extents = [Extent.WHOLE] if whole else self._extents(work, constraint, placed)
        for extent in extents:
            for step in steps:
                found = self._place_in_step(work, step, extent, placed, statement)
                if found:
                    return found
        if constraint.soft and steps and not work.is_divided and not whole:
            # A preference refuses nothing that would start without it.
            mark = statement.mark()
            self._runs.until_ready(work.attempts[0].copy(), statement, Ground(int(steps[-1][0])))
            found = self._end_trial(work, mark, statement)
            if found:
                return found
        if work.verdict is None or (constraint and work.verdict.reason not in (QUEUE_FULL, QUEUE_CLOSED)):
            work.verdict = self._no_domain(work, constraint, steps, whole=whole)
        return Found.NOTHING

    def search(
        self, work: Work, statement: Statement, domain: int, modes: Modes = EARNEST, *, whole: bool = False
    ) -> Found:
        """Look for places exactly, for a job that found none in order; it may go anywhere in a domain."""
        places = self._search.places(work.job, work.attempts, [domain], everything=whole).places
        if places is None:
            if self._search.has_ended(work.job) and work.verdict is not None:
                work.verdict = replace(work.verdict, reason=PLACES_SEARCH_ENDED)
            return Found.NOTHING
        return (
            self._place_all_planned(work, places, statement, modes)
            if whole
            else self._place_planned(work, places, statement)
        )

    def _place_all_planned(self, work: Work, places: Rows, statement: Statement, modes: Modes) -> Found:
        """Place all tasks on the nodes that a plan names for them, or none."""
        tasks, mark = work.tasks(), statement.mark()
        if self._runs.in_order(tasks, statement, Ground(places=places), modes) == len(tasks):
            return self._kept(work, Found.READY)
        statement.rollback(mark)
        return Found.NOTHING

    def _extents(self, work: Work, constraint: Constraint, placed: int) -> list[Extent]:
        """What is asked of a place, the best first."""
        tasks, deficit = work.tasks(), self._session.job_deficit(work.job)
        roomy = self._prefers_room(constraint, placed, tasks, deficit)
        if is_entangled(self._session, work.job, tasks):
            # What is placed first may be in the way of the rest, also while it grows.
            roomy = max(1, deficit) < len(tasks) <= _PLANNED
        extents = [Extent.ROOMY, Extent.LEAST] if roomy else [Extent.LEAST]
        if work.is_divided and any(self._part_prefers_room(attempt) for attempt in work.attempts):
            extents.insert(-1, Extent.PARTS)
        return extents

    def _roomy_by_totals(self, work: Work, constraint: Constraint, placed: int, steps: list[Rows]) -> list[Rows]:
        """Only domains with as much free as the whole gang asks for; all, if none could ever have that."""
        snapshot, tasks = self._session.snapshot, work.tasks()
        if not self._prefers_room(constraint, placed, tasks, self._session.job_deficit(work.job)):
            return steps
        capacity = snapshot.nodes.allocatable() * snapshot.nodes.ready[:, None]
        if not any(holding_by_totals(snapshot, tasks, capacity, step).any() for step in steps):
            return steps
        free = snapshot.nodes.future_idle()
        kept = (step[holding_by_totals(snapshot, tasks, free, step)] for step in steps)
        return [step for step in kept if len(step)]

    def _part_prefers_room(self, attempt: Attempt) -> bool:
        constraint = subgroup_constraint(self._session, attempt.subgroup)
        placed = subgroup_domain(self._session.snapshot, attempt.subgroup)
        return self._prefers_room(constraint, placed, attempt.tasks, self._runs.deficit(attempt))

    def _prefers_room(self, constraint: Constraint, placed: int, tasks: Rows, deficit: int) -> bool:
        """Whether a start should leave room for the rest: it has to stay near, and nothing is placed yet."""
        return bool(constraint) and placed == NO_ROW and max(1, deficit) < len(tasks)

    def _kept(self, work: Work, found: Found) -> Found:
        """What still waits goes on waiting."""
        status = self._session.snapshot.tasks.status
        for attempt in work.attempts:
            attempt.tasks = attempt.tasks[status[attempt.tasks] == TaskStatus.PENDING]
        return found

    # -- what was promised -------------------------------------------------------------------------------------

    def _where_promised(self, work: Work, constraint: Constraint, steps: Sequence[Rows], statement: Statement) -> Found:
        """Start on the nodes that an earlier cycle set aside for the gang, else in the domain around them."""
        snapshot, tasks = self._session.snapshot, work.tasks()
        nominated = snapshot.tasks.nominated[tasks]
        nodes = nominated[nominated != NO_ROW]
        if len(nodes) == 0:
            return Found.NOTHING
        if self._keeps_constraints(work, constraint, snapshot.tasks.nominated):
            found = self._place_planned(work, snapshot.tasks.nominated, statement)
            if found:
                return found
        if not constraint:
            return Found.NOTHING
        domain = snapshot.topology.domain_of_nodes(nodes)
        while domain != NO_ROW and not any(domain in step for step in steps):
            domain = int(snapshot.topology.parent[domain])
        if domain == NO_ROW:
            return Found.NOTHING
        return self._place_in_step(work, np.array([domain], np.int32), Extent.LEAST, NO_ROW, statement)

    def _keeps_constraints(self, work: Work, constraint: Constraint, places: Rows) -> bool:
        """Whether hard constraints hold if tasks go to the places that are noted for them."""
        if not self._holds(constraint, work.job, NO_ROW, places[work.tasks()]):
            return False
        return not work.is_divided or all(
            self._holds(
                subgroup_constraint(self._session, attempt.subgroup), work.job, attempt.subgroup, places[attempt.tasks]
            )
            for attempt in work.attempts
        )

    def _holds(self, constraint: Constraint, job: int, subgroup: int, nodes: Rows) -> bool:
        if constraint.limit is None or constraint.soft:
            return True
        topology = self._session.snapshot.topology
        own = placed_nodes(self._session.snapshot, job, subgroup)
        domain = topology.domain_of_nodes(np.concatenate((own, nodes[nodes != NO_ROW])))
        return domain == NO_ROW or bool(topology.tier[domain] <= constraint.limit)

    def _place_planned(self, work: Work, places: Rows, statement: Statement) -> Found:
        """Place tasks on the nodes that a plan names for them, until the job is ready; those without one wait."""
        trial = work.copy()
        for attempt in trial.attempts:
            attempt.tasks = attempt.tasks[places[attempt.tasks] != NO_ROW]
        mark = statement.mark()
        required = required_subgroups(self._session, work.job) if work.is_divided else set()
        line = [(self._key(attempt, required), k) for k, attempt in enumerate(trial.attempts) if attempt]
        heapq.heapify(line)
        while line:
            number = heapq.heappop(line)[1]
            attempt = trial.attempts[number]
            if not self._runs.until_ready(attempt, statement, Ground(places=places)):
                continue
            if self._session.job_deficit(work.job) == 0:
                break
            if attempt:
                heapq.heappush(line, (self._key(attempt, required), number))
        return self._end_trial(work, mark, statement)

    def _end_trial(self, work: Work, mark: int, statement: Statement) -> Found:
        """Keep what was placed since `mark` if the job can start with it."""
        session = self._session
        if statement.mark() > mark:
            if session.job_deficit(work.job) == 0:
                return self._kept(work, Found.READY)
            if session.job_pipelined_deficit(work.job) == 0:
                return self._kept(work, Found.PROMISED)
        statement.rollback(mark)
        return Found.NOTHING

    # -- one tier ----------------------------------------------------------------------------------------------

    def _place_in_step(self, work: Work, step: Rows, extent: Extent, placed: int, statement: Statement) -> Found:
        """Place the job in the best of some domains of one tier: in order, else by an exact search."""
        session, job, tasks = self._session, work.job, work.tasks()
        is_least = extent in {Extent.LEAST, Extent.PARTS}
        needed = max(1, session.job_deficit(job)) if is_least else len(tasks)
        domains = holding(session, self._boards, tasks, needed, step)
        if len(domains) == 0:
            return Found.NOTHING
        fewest = None if work.is_divided else fewest_domains(session, self._boards, tasks[:needed], domains)
        line = ranked(session, job, NO_ROW, domains, placed, fewest)
        best = self._best(work, line, extent, placed, statement)
        if isinstance(best, _Solution):
            statement.redo(best.operations)
            work.attempts = best.left.attempts
            ready = extent is Extent.WHOLE or session.job_deficit(job) == 0
            return Found.READY if ready else Found.PROMISED
        if best is None:
            return Found.NOTHING
        if extent is Extent.WHOLE:
            return self._place_all_planned(work, best, statement, EARNEST)
        return self._place_planned(work, best, statement)

    def _best(
        self, work: Work, line: list[tuple[int, float]], extent: Extent, placed: int, statement: Statement
    ) -> _Solution | Rows | None:
        """The best solution in the domains that are nearest to what is placed, else places that a search found.

        Domains come in the order of the start rule, so without sub-groups the first solution is the best. When one
        fails, the search is asked about all of them: it may prove that trying the others is in vain.
        """
        topology = self._session.snapshot.topology
        best: _Solution | None = None
        answer: Answer | None = None
        nearest = 0
        for domain, _ in line:
            distance = distance_to(topology, placed, domain)
            if best is not None and distance > nearest:
                break
            solution = self._try(work, domain, extent, statement)
            if solution is not None and (best is None or solution.key < best.key):
                best, nearest = solution, distance
            if best is not None and not work.is_divided:
                break
            if best is None and answer is None and extent is not Extent.PARTS:
                everything = extent is not Extent.LEAST
                domains = [tried for tried, _ in line]
                answer = self._search.places(work.job, work.attempts, domains, everything=everything)
                if answer.is_proof:
                    return None
        return best if best is not None or answer is None else answer.places

    def _try(self, work: Work, domain: int, extent: Extent, statement: Statement) -> _Solution | None:
        """Place the job inside one domain, note how, and undo it."""
        session, job = self._session, work.job
        trial = work.copy()
        mark = statement.mark()
        score = self._place_parts(trial, domain, extent, statement)
        operations = statement.operations[mark:]
        if extent is Extent.ROOMY and score is not None and work.is_divided:
            # All has room: what is needed of it is placed, where it would be.
            places = _places(session, operations)
            statement.rollback(mark)
            trial = work.copy()
            score = score if self._place_planned(trial, places, statement) else None
            operations = statement.operations[mark:]
        nodes = [operation.nodes for operation in operations]
        ready = extent is Extent.WHOLE or 0 in (session.job_deficit(job), session.job_pipelined_deficit(job))
        statement.rollback(mark)
        if score is None or not operations or not ready:
            found = sum(map(len, nodes)) if work.is_divided else trial.attempts[0].most
            work.most[domain] = max(found, work.most.get(domain, 0))
            work.verdict = trial.verdict or work.verdict
            return None
        used = domains_used(session.snapshot.topology, domain, np.concatenate(nodes)) if work.is_divided else ()
        return _Solution((used, -score), operations, trial)

    # -- sub-groups --------------------------------------------------------------------------------------------

    def _place_parts(self, work: Work, domain: int, extent: Extent, statement: Statement) -> float | None:
        """Place sub-groups in their order, until the job is ready or all of each; return the sum of their scores."""
        session = self._session
        all_of_each = extent is Extent.WHOLE or (extent is Extent.ROOMY and work.is_divided)
        required = required_subgroups(session, work.job) if work.is_divided else set()
        line = [(self._key(attempt, required), k) for k, attempt in enumerate(work.attempts) if attempt]
        heapq.heapify(line)
        score = 0.0
        while line:
            number = heapq.heappop(line)[1]
            attempt = work.attempts[number]
            gained = self._place_part(attempt, domain, Extent.WHOLE if all_of_each else extent, statement)
            if gained is None:
                work.verdict = attempt.verdict or work.verdict
                coming = sum(len(work.attempts[other].tasks) for _, other in line)
                if all_of_each or coming < session.job_pipelined_deficit(work.job):
                    return None
                continue
            score += gained
            if all_of_each:
                continue
            if attempt:
                heapq.heappush(line, (self._key(attempt, required), number))
            if session.job_deficit(work.job) == 0:
                break
        return score

    def _place_part(self, attempt: Attempt, domain: int, extent: Extent, statement: Statement) -> float | None:
        """Place one sub-group in its best domain inside the job's; None: it fits nowhere there."""
        session = self._session
        snapshot = session.snapshot
        extents = [extent]
        if attempt.subgroup == NO_ROW:
            constraint, placed = job_constraint(session, attempt.job), job_domain(snapshot, attempt.job)
            steps = [np.array([domain], np.int32)]
        else:
            constraint = subgroup_constraint(session, attempt.subgroup)
            placed = subgroup_domain(snapshot, attempt.subgroup)
            steps = search_gradients(session, attempt.job, attempt.subgroup, domain, constraint, placed)
            if extent in {Extent.LEAST, Extent.PARTS} and self._part_prefers_room(attempt):
                extents = [Extent.ROOMY] if extent is Extent.PARTS else [Extent.ROOMY, Extent.LEAST]
        for least in extents:
            is_least = least in {Extent.LEAST, Extent.PARTS}
            needed = max(1, self._runs.deficit(attempt)) if is_least else len(attempt.tasks)
            for step in steps:
                domains = holding(session, self._boards, attempt.tasks, needed, step)
                for candidate, score in ranked(session, attempt.job, attempt.subgroup, domains, placed):
                    if self._fill(attempt, Ground(candidate, packed=bool(constraint)), least, statement):
                        return score
        return None

    def _fill(self, attempt: Attempt, ground: Ground, extent: Extent, statement: Statement) -> bool:
        """Place a sub-group in one domain; what was tried leaves the attempt if it works."""
        trial = attempt.copy()
        mark = statement.mark()
        if extent in {Extent.ROOMY, Extent.WHOLE}:
            done = self._runs.in_order(trial.tasks, statement, ground)
            attempt.most = max(attempt.most, done)
            if done < len(trial.tasks):
                statement.rollback(mark)
                return False
            if extent is Extent.WHOLE:
                if attempt.subgroup != NO_ROW and self._session.subgroup_pipelined_deficit(attempt.subgroup) > 0:
                    statement.rollback(mark)
                    return False
                attempt.tasks = trial.tasks[:0]
                return True
            places = _places(self._session, statement.operations[mark:])
            statement.rollback(mark)
            ground = Ground(places=places)
        if self._runs.until_ready(trial, statement, ground) and statement.mark() > mark:
            attempt.tasks = trial.tasks
            return True
        attempt.verdict = trial.verdict or attempt.verdict
        attempt.most = max(attempt.most, trial.most)
        return False

    def _key(self, attempt: Attempt, required: set[int]) -> tuple[object, ...]:
        if attempt.subgroup == NO_ROW:
            return (False,)
        return (attempt.subgroup not in required, self._session.subgroup_key(attempt.subgroup))

    # -- reasons -----------------------------------------------------------------------------------------------

    def _no_domain(self, work: Work, constraint: Constraint, steps: Sequence[Rows], *, whole: bool) -> JobVerdict:
        """Say how far the domain that comes closest is from holding the job."""
        session, tasks = self._session, work.tasks()
        topology = session.snapshot.topology
        needed = len(tasks) if whole else max(1, session.job_deficit(work.job))
        domains = np.unique(np.concatenate(steps)) if steps else np.empty(0, np.int32)
        detail = f"{needed} tasks are needed together"
        if constraint and not constraint.soft:
            detail += f" within tier {constraint.limit}"
        domain, room = roomiest(session, self._boards, tasks, domains, work.most)
        if domain != NO_ROW and room < needed:
            detail += f"; {topology.names[domain]} comes closest with room for {room}"
        elif domain != NO_ROW:
            detail += f"; {topology.names[domain]} comes closest, but a role or sub-group stays below its minimum there"
        nominated = session.snapshot.tasks.nominated[tasks]
        if (nominated != NO_ROW).any():
            where = topology.names[topology.domain_of_nodes(nominated[nominated != NO_ROW])]
            detail += f"; what was promised to it in {where} can no longer be had"
        if fault := fault_of(topology, constraint):
            detail += f"; out of use: {fault}"
        reason = TOPOLOGY
        if self._search.has_ended(work.job):
            reason = PLACES_SEARCH_ENDED
        return JobVerdict(reason, detail, int(session.snapshot.tasks.cls[tasks[0]]), int(tasks[0]))


def is_entangled(session: Session, job: int, tasks: Rows) -> bool:
    """Whether it matters for the rest of a gang where its first tasks are: they differ, or it has sub-groups."""
    cls = session.snapshot.tasks.cls[tasks]
    return bool(session.snapshot.jobs.records[job].sub_groups) or bool((cls != cls[0]).any())


def _places(session: Session, operations: Sequence[Operation]) -> Rows:
    """The node of every task that operations place, by task row; NO_ROW for all others."""
    places = np.full(len(session.snapshot.tasks), NO_ROW, np.int32)
    for operation in operations:
        places[operation.tasks] = operation.nodes
    return places
