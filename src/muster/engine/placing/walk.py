"""Two-level placement: a domain for the job, inside it a domain for each of its sub-groups, inside that the tasks.

Domains are tried tier by tier. In the first tier that has a solution every domain that can hold the gang is tried,
and the one with the best score wins: the sum of the scores of the domains that the sub-groups found. A job without
sub-groups is scored before it is placed, so its domains are tried best first and the first that works is the best.
Trials leave no trace: what is not kept is rolled back bit for bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.boards import Boards
from muster.engine.constraints import (
    Constraint,
    fault_of,
    job_constraint,
    job_domain,
    subgroup_constraint,
    subgroup_domain,
)
from muster.engine.domains import ROOT, distance_to, holding, ranked, roomiest, search_gradients
from muster.engine.placing.runs import Attempt, Ground, Runs
from muster.engine.placing.terms import Found
from muster.engine.subgroups import by_subgroup, required_subgroups
from muster.framework import JobVerdict, Session
from muster.framework.reasons import QUEUE_CLOSED, QUEUE_FULL, TOPOLOGY
from muster.snapshot import NO_ROW, Amounts, Operation, Rows, Statement


@dataclass(slots=True)
class JobWork:
    """What is left to place of a job, sub-group by sub-group."""

    job: int
    attempts: list[Attempt]
    verdict: JobVerdict | None = None

    @property
    def is_divided(self) -> bool:
        return self.attempts[0].subgroup != NO_ROW

    def copy(self) -> JobWork:
        return JobWork(self.job, [attempt.copy() for attempt in self.attempts])

    def tasks(self) -> Rows:
        return np.concatenate([attempt.tasks for attempt in self.attempts])


@dataclass(slots=True)
class _Solution:
    """A trial that worked."""

    score: float
    operations: list[Operation]
    left: JobWork


def make_work(session: Session, job: int, tasks: Rows) -> JobWork:
    """Sort the tasks of a job, already in order, into its sub-groups."""
    return JobWork(job, [Attempt(job, own, subgroup) for subgroup, own in by_subgroup(session, job, tasks)])


class Walk:
    """Places jobs with topology constraints or sub-groups."""

    def __init__(self, session: Session, boards: Boards, runs: Runs) -> None:
        self._session = session
        self._boards = boards
        self._runs = runs

    def place(self, work: JobWork, statement: Statement) -> Found:
        """Place a job as far as it takes to be ready, in the best domain of the lowest tier that has room.

        What was tried in the chosen domain leaves `work`.
        """
        session, job = self._session, work.job
        constraint, placed = job_constraint(session, job), job_domain(session.snapshot, job)
        needed = max(1, session.job_deficit(job))
        steps = search_gradients(session, job, NO_ROW, ROOT, constraint, placed)
        tasks = work.tasks()
        divided = bool(session.snapshot.jobs.records[job].sub_groups)
        whole = starts_whole(constraint, placed) and not divided and needed < len(tasks) and self._holds(tasks, steps)
        for free in self._room_for_all(whole=whole):
            for step in steps:
                domains = holding(session, self._boards, tasks, needed, step, free)
                best = self._best(work, ranked(session, job, NO_ROW, domains, placed), placed, statement)
                if best is not None:
                    statement.redo(best.operations)
                    work.attempts = best.left.attempts
                    return Found.READY if session.job_deficit(job) == 0 else Found.PROMISED
        if work.verdict is None or (constraint and work.verdict.reason not in (QUEUE_FULL, QUEUE_CLOSED)):
            work.verdict = self._no_domain(tasks, len(tasks) if whole else needed, constraint, steps)
        return Found.NOTHING

    def _no_domain(self, tasks: Rows, needed: int, constraint: Constraint, steps: Sequence[Rows]) -> JobVerdict:
        """Say how far the domain with the most room is from holding the job."""
        domains = np.unique(np.concatenate(steps)) if steps else np.empty(0, np.int32)
        domain, room = roomiest(self._session, self._boards, tasks, domains)
        detail = f"{needed} tasks are needed together"
        if constraint and not constraint.soft:
            detail += f" within tier {constraint.limit}"
        if domain != NO_ROW:
            name = self._session.snapshot.topology.names[domain]
            detail += f"; {name} comes closest with room for {min(room, needed)}"
        if fault := fault_of(self._session.snapshot.topology, constraint):
            detail += f"; out of use: {fault}"
        return JobVerdict(TOPOLOGY, detail, int(self._session.snapshot.tasks.cls[tasks[0]]), int(tasks[0]))

    def place_in(self, work: JobWork, domain: int, statement: Statement) -> Found:
        """Place a job inside one domain, so that it is ready or waits only for room to be released."""
        session = self._session
        mark = statement.mark()
        self._place_subgroups(work, domain, statement)
        if session.job_pipelined_deficit(work.job) == 0 and statement.mark() > mark:
            return Found.READY if session.job_deficit(work.job) == 0 else Found.PROMISED
        statement.rollback(mark)
        return Found.NOTHING

    def _holds(self, tasks: Rows, steps: Sequence[Rows]) -> bool:
        """Whether some domain, were it empty, could hold all the tasks by totals; else waiting for it is in vain."""
        snapshot = self._session.snapshot
        capacity = snapshot.nodes.allocatable() * snapshot.nodes.ready[:, None]
        return any(len(holding(self._session, self._boards, tasks, 0, step, capacity)) for step in steps)

    def _room_for_all(self, *, whole: bool) -> list[Amounts | None]:
        """What all tasks, beyond those that are needed, must fit into: what is free; else what was free at first.

        At first: when the actions began. What others took since then does not make a domain too small to start in.
        """
        return [self._session.snapshot.nodes.future_idle(), self._boards.free_at_first] if whole else [None]

    def _best(
        self, work: JobWork, domains: list[tuple[int, float]], placed: int, statement: Statement
    ) -> _Solution | None:
        """The solution with the best score, of those nearest to what is placed.

        Domains come in that order, so without sub-groups the first solution is the best.
        """
        topology = self._session.snapshot.topology
        best: _Solution | None = None
        nearest = 0
        for domain, _ in domains:
            distance = distance_to(topology, placed, domain)
            if best is not None and distance > nearest:
                break
            solution = self._try(work, domain, statement)
            if solution is not None and (best is None or solution.score > best.score):
                best, nearest = solution, distance
            if best is not None and not self._session.snapshot.jobs.records[work.job].sub_groups:
                break
        return best

    def _try(self, work: JobWork, domain: int, statement: Statement) -> _Solution | None:
        """Place the job inside one domain, note how, and undo it."""
        session = self._session
        trial = work.copy()
        mark = statement.mark()
        score = self._place_subgroups(trial, domain, statement)
        operations = statement.operations[mark:]
        ready = session.job_deficit(work.job) == 0 or session.job_pipelined_deficit(work.job) == 0
        statement.rollback(mark)
        if not operations or not ready:
            work.verdict = trial.verdict or work.verdict
            return None
        return _Solution(score, operations, trial)

    def _place_subgroups(self, work: JobWork, domain: int, statement: Statement) -> float:
        """Place sub-groups in their order until the job is ready; return the sum of their scores."""
        session = self._session
        required = required_subgroups(session, work.job)
        line = [(self._key(attempt, required), k) for k, attempt in enumerate(work.attempts) if attempt]
        heapq.heapify(line)
        score = 0.0
        while line:
            number = heapq.heappop(line)[1]
            attempt = work.attempts[number]
            gained = self._place_subgroup(attempt, domain, statement)
            if gained is None:
                work.verdict = attempt.verdict or work.verdict
                continue
            score += gained
            if attempt:
                heapq.heappush(line, (self._key(attempt, required), number))
            if session.job_deficit(work.job) == 0:
                break
        return score

    def _place_subgroup(self, attempt: Attempt, domain: int, statement: Statement) -> float | None:
        """Place one sub-group in its best domain inside the job's; None: it fits nowhere there."""
        session = self._session
        snapshot = session.snapshot
        if attempt.subgroup == NO_ROW:
            constraint, placed = job_constraint(session, attempt.job), job_domain(snapshot, attempt.job)
            steps = [np.array([domain], np.int32)]
        else:
            constraint = subgroup_constraint(session, attempt.subgroup)
            placed = subgroup_domain(snapshot, attempt.subgroup)
            steps = search_gradients(session, attempt.job, attempt.subgroup, domain, constraint, placed)
        needed = max(1, self._runs.deficit(attempt))
        whole = needed < len(attempt.tasks) and starts_whole(constraint, placed) and self._holds(attempt.tasks, steps)
        for free in self._room_for_all(whole=whole):
            for step in steps:
                domains = holding(session, self._boards, attempt.tasks, needed, step, free)
                for candidate, score in ranked(session, attempt.job, attempt.subgroup, domains, placed):
                    if self._place_in(attempt, Ground(candidate, packed=bool(constraint)), statement):
                        return score
        return None

    def _place_in(self, attempt: Attempt, ground: Ground, statement: Statement) -> bool:
        """Place a sub-group in one domain; what was tried leaves the attempt if it works."""
        trial = attempt.copy()
        mark = statement.mark()
        if self._runs.until_ready(trial, statement, ground) and statement.mark() > mark:
            attempt.tasks = trial.tasks
            return True
        attempt.verdict = trial.verdict or attempt.verdict
        return False

    def _key(self, attempt: Attempt, required: set[int]) -> tuple[object, ...]:
        if attempt.subgroup == NO_ROW:
            return (False,)
        return (attempt.subgroup not in required, self._session.subgroup_key(attempt.subgroup))


def starts_whole(constraint: Constraint, placed: int) -> bool:
    """Whether a gang, or sub-group, may start only where there is room for all of it, beyond its minimum.

    A hard constraint keeps what comes later near to what was first, so a start in a domain that is too small would
    pin the gang below its size. Once part of it runs that cannot be helped.
    """
    return constraint.limit is not None and not constraint.soft and placed == NO_ROW
