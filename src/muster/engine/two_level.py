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
from muster.engine.chunks import next_tasks
from muster.engine.constraints import (
    Constraint,
    has_topology,
    job_constraint,
    job_domain,
    subgroup_constraint,
    subgroup_domain,
)
from muster.engine.domains import ROOT, count_classes, distance_to, holding, ranked, roomiest, search_gradients
from muster.engine.nested import NestedPlacer
from muster.engine.placement import Attempt, Placer, Scope
from muster.framework import JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, QUEUE_CLOSED, QUEUE_FULL, TOPOLOGY
from muster.snapshot import NO_ROW, Amounts, Operation, Rows, Statement


@dataclass(slots=True)
class JobWork:
    """What is left to place of a job, sub-group by sub-group."""

    job: int
    attempts: list[Attempt]
    verdict: JobVerdict | None = None

    def __bool__(self) -> bool:
        """Is anything left to try?"""
        return any(self.attempts)

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
    if not session.snapshot.jobs.records[job].sub_groups:
        return JobWork(job, [Attempt(job, tasks)])
    owners = session.snapshot.tasks.subgroup[tasks]
    return JobWork(job, [Attempt(job, tasks[owners == owner], int(owner)) for owner in np.unique(owners)])


def needs_domains(session: Session, job: int) -> bool:
    """Whether the job is placed by domains and sub-groups, and not simply anywhere."""
    return is_divided(session, job) or has_topology(session, job)


def is_divided(session: Session, job: int) -> bool:
    """Whether the job has sub-groups, or groups with levels of a label topology."""
    record = session.snapshot.jobs.records[job]
    return bool(record.sub_groups) or record.groups is not None


class TwoLevelPlacer:
    """Places jobs with topology constraints or sub-groups."""

    def __init__(self, session: Session, boards: Boards, placer: Placer) -> None:
        self._session = session
        self._boards = boards
        self._placer = placer
        self._nested = NestedPlacer(session, boards, placer)

    def place(self, work: JobWork, statement: Statement) -> bool:
        """Place a job as far as it takes to be ready, in the best domain of the lowest tier that has room.

        What was tried in the chosen domain leaves `work`. False: no domain works, and nothing has changed.
        """
        session, job = self._session, work.job
        if session.snapshot.jobs.records[job].groups is not None:
            return self._place_nested(work, statement)
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
                    return True
        if work.verdict is None or (constraint and work.verdict.reason not in (QUEUE_FULL, QUEUE_CLOSED)):
            work.verdict = self._no_domain(tasks, len(tasks) if whole else needed, constraint, steps)
        return False

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
        return JobVerdict(TOPOLOGY, detail, int(self._session.snapshot.tasks.cls[tasks[0]]), int(tasks[0]))

    def place_in(self, work: JobWork, domain: int, statement: Statement) -> bool:
        """Place a job inside one domain, so that it is ready or waits only for room to be released.

        False: it does not fit there, and nothing has changed.
        """
        session = self._session
        mark = statement.mark()
        if session.snapshot.jobs.records[work.job].groups is not None:
            self._place_nested(work, statement)
        else:
            self._place_subgroups(work, domain, statement)
        if session.job_pipelined_deficit(work.job) == 0 and statement.mark() > mark:
            return True
        statement.rollback(mark)
        return False

    def _place_nested(self, work: JobWork, statement: Statement) -> bool:
        """Place the next chunk of a job whose groups name levels of a label topology."""
        session, [attempt] = self._session, work.attempts
        snapshot = session.snapshot
        tasks = next_tasks(session, work.job, attempt.tasks)
        if len(tasks) == 0:
            work.verdict = JobVerdict(GANG_INCOMPLETE)
            return False
        queue = int(snapshot.jobs.queue[work.job])
        for cls, count in zip(*count_classes(snapshot.tasks.cls[tasks]), strict=True):
            if session.queue_slots(queue, snapshot.classes.requests[cls, 0]) < count:
                work.verdict = JobVerdict(QUEUE_FULL, cls=int(cls))
                return False
        if not self._nested.place(work.job, tasks, statement):
            work.verdict = self._nested.verdict
            return False
        attempt.tasks = attempt.tasks[~np.isin(attempt.tasks, tasks)]
        return True

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
        required = required_subgroups(session, work)
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
        needed = max(1, self._placer.deficit(attempt))
        whole = needed < len(attempt.tasks) and starts_whole(constraint, placed) and self._holds(attempt.tasks, steps)
        for free in self._room_for_all(whole=whole):
            for step in steps:
                domains = holding(session, self._boards, attempt.tasks, needed, step, free)
                for candidate, score in ranked(session, attempt.job, attempt.subgroup, domains, placed):
                    if self._place_in(attempt, Scope(candidate, packed=bool(constraint)), statement):
                        return score
        return None

    def _place_in(self, attempt: Attempt, scope: Scope, statement: Statement) -> bool:
        """Place a sub-group in one domain; what was tried leaves the attempt if it works."""
        trial = attempt.copy()
        mark = statement.mark()
        if self._placer.place(trial, statement, scope) and statement.mark() > mark:
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


def required_subgroups(session: Session, work: JobWork) -> set[int]:
    """Sub-groups that the job cannot start without: as many of each policy as its minSubGroups still lacks."""
    snapshot = session.snapshot
    policies = snapshot.jobs.records[work.job].sub_groups
    waiting = []
    have: dict[int, int] = {}
    for subgroup in snapshot.jobs.subgroups[work.job]:
        if session.subgroup_deficit(subgroup) == 0:
            policy = int(snapshot.subgroups.policy[subgroup])
            have[policy] = have.get(policy, 0) + 1
        else:
            waiting.append(subgroup)
    required: set[int] = set()
    for subgroup in sorted(waiting, key=session.subgroup_key):
        policy = int(snapshot.subgroups.policy[subgroup])
        minimum = (policies[policy].min_sub_groups or 0) if policy != NO_ROW else 0
        if have.get(policy, 0) < minimum:
            required.add(subgroup)
            have[policy] = have.get(policy, 0) + 1
    return required
