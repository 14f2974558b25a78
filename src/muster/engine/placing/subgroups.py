"""A job in one domain: its sub-groups take turns, each in the best domain inside; a job without any is one of them.

Tried in order here; where that fails though there may be a way, the exact search is asked. Trials leave no trace: what
is not kept is rolled back bit for bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from muster.engine.boards import Boards
from muster.engine.constraints import Constraint, constraint_of, domain_of
from muster.engine.domains import holding, ranked, search_gradients
from muster.engine.gangs import NOBODY, by_subgroup, required_subgroups
from muster.engine.placing.contract import NOW_OR_LATER, Found, Modes, Scope
from muster.engine.placing.packing import domains_used
from muster.engine.placing.runs import Attempt, Runs
from muster.engine.placing.search import Answer, Search, SearchPart
from muster.framework import JobVerdict, Session
from muster.snapshot import NO_ROW, Operation, Rows, Statement, TaskStatus


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

    @property
    def is_least(self) -> bool:
        return self in {Extent.LEAST, Extent.PARTS}


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
class Solution:
    """A trial that worked."""

    #: Domains that it touches, tier by tier from the top down, and how bad its score is.
    key: tuple[tuple[int, ...], float]
    operations: list[Operation]
    left: Work


def make_work(session: Session, job: int, tasks: Rows) -> Work:
    """Sort the tasks of a job, already in order, into its sub-groups."""
    return Work(job, [Attempt(job, own, subgroup) for subgroup, own in by_subgroup(session, job, tasks)])


def is_entangled(session: Session, job: int, tasks: Rows) -> bool:
    """Whether it matters for the rest of a gang where its first tasks are: they differ, or it has sub-groups."""
    if session.snapshot.jobs.records[job].sub_groups:
        return True
    cls = session.snapshot.tasks.cls[tasks]
    return len(tasks) > 1 and bool((cls != cls[0]).any())


def wants_room(constraint: Constraint, placed: int, tasks: Rows, deficit: int) -> bool:
    """Whether a start should leave room for the rest: it has to stay near, and nothing is placed yet."""
    return bool(constraint) and placed == NO_ROW and max(1, deficit) < len(tasks)


class SubGroups:
    """Places the sub-groups of jobs of one session."""

    def __init__(self, session: Session, boards: Boards, runs: Runs, search: Search) -> None:
        self._session = session
        self._boards = boards
        self._runs = runs
        self._search = search

    def prefers_room(self, attempt: Attempt) -> bool:
        """Whether a sub-group should start where all of it has room."""
        constraint = constraint_of(self._session, attempt.job, attempt.subgroup)
        placed = domain_of(self._session.snapshot, attempt.job, attempt.subgroup)
        return wants_room(constraint, placed, attempt.tasks, self._runs.deficit(attempt))

    def solve(self, work: Work, domain: int, extent: Extent, statement: Statement) -> Solution | None:
        """Place the job inside one domain, note how, and undo it."""
        session, job = self._session, work.job
        trial = work.copy()
        mark = statement.mark()
        least = extent if extent.is_least else Extent.WHOLE
        score = self._in_turns(
            trial, lambda part: self._place_part(part, domain, least, statement), all_of_each=not extent.is_least
        )
        if extent is Extent.ROOMY and score is not None:
            # All has room: what is needed of it is placed, where it would be.
            places = _places(session, statement.operations[mark:])
            statement.rollback(mark)
            trial = work.copy()
            score = score if self.place_planned(trial, places, statement) else None
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
        return Solution((used, -score), operations, trial)

    def place_planned(
        self, work: Work, places: Rows, statement: Statement, modes: Modes = NOW_OR_LATER, *, whole: bool = False
    ) -> Found:
        """Place tasks on the nodes that a plan names for them: all, or until the job is ready; others wait."""
        mark, scope = statement.mark(), Scope(places=places)
        if whole:
            tasks = work.tasks()
            if self._runs.in_order(tasks, statement, scope, modes) == len(tasks):
                return Found.READY
            statement.rollback(mark)
            return Found.NOTHING
        trial = work.copy()
        for attempt in trial.attempts:
            attempt.tasks = attempt.tasks[places[attempt.tasks] != NO_ROW]
        self._in_turns(trial, lambda part: 0.0 if self._runs.until_ready(part, statement, scope, modes) else None)
        work.verdict = trial.verdict or work.verdict
        return self.end_trial(work, mark, statement)

    def end_trial(self, work: Work, mark: int, statement: Statement) -> Found:
        """Keep what was placed since `mark` if the job can start with it; what still waits goes on waiting."""
        session, found = self._session, Found.NOTHING
        if statement.mark() > mark:
            if session.job_deficit(work.job) == 0:
                found = Found.READY
            elif session.job_pipelined_deficit(work.job) == 0:
                found = Found.PROMISED
        if not found:
            statement.rollback(mark)
            return found
        status = session.snapshot.tasks.status
        for attempt in work.attempts:
            attempt.tasks = attempt.tasks[status[attempt.tasks] == TaskStatus.PENDING]
        return found

    # -- sub-groups --------------------------------------------------------------------------------------------

    def _in_turns(
        self, work: Work, place: Callable[[Attempt], float | None], *, all_of_each: bool = False
    ) -> float | None:
        """Let sub-groups have turns, until the job is ready or once each; return the sum of what they gain."""
        session = self._session
        required = required_subgroups(session, work.job) if work.is_divided else set()
        line = [
            (attempt.subgroup not in required, self._turn(attempt), number)
            for number, attempt in enumerate(work.attempts)
            if attempt
        ]
        heapq.heapify(line)
        score = 0.0
        while line:
            is_extra, _, number = heapq.heappop(line)
            attempt = work.attempts[number]
            gained = place(attempt)
            if gained is None:
                work.verdict = attempt.verdict or work.verdict
                coming = sum(len(work.attempts[other].tasks) for *_, other in line)
                if all_of_each or coming < session.job_pipelined_deficit(work.job):
                    return None
                continue
            score += gained
            if not all_of_each:
                if session.job_deficit(work.job) == 0:
                    break
                if attempt:
                    heapq.heappush(line, (is_extra, self._turn(attempt), number))
        return score

    def _turn(self, attempt: Attempt) -> tuple[object, ...]:
        return self._session.subgroup_key(attempt.subgroup) if attempt.is_part else ()

    def _place_part(self, attempt: Attempt, domain: int, extent: Extent, statement: Statement) -> float | None:
        """Place one sub-group in its best domain inside the job's; None: it fits nowhere there."""
        session = self._session
        extents = [extent]
        constraint = constraint_of(session, attempt.job, attempt.subgroup)
        placed = domain_of(session.snapshot, attempt.job, attempt.subgroup)
        steps = [np.array([domain], np.int32)]
        if attempt.is_part:
            steps = search_gradients(session, attempt.job, attempt.subgroup, domain, constraint, placed)
            if extent.is_least and self.prefers_room(attempt):
                extents = [Extent.ROOMY] if extent is Extent.PARTS else [Extent.ROOMY, Extent.LEAST]
        for least in extents:
            needed = max(1, self._runs.deficit(attempt)) if least.is_least else len(attempt.tasks)
            for step in steps:
                domains = holding(session, self._boards, attempt.tasks, needed, step)
                for candidate, score in ranked(session, attempt.job, attempt.subgroup, domains, placed):
                    if self._fill(attempt, Scope(candidate, packed=bool(constraint)), least, statement):
                        return score
        return None

    def _fill(self, attempt: Attempt, scope: Scope, extent: Extent, statement: Statement) -> bool:
        """Place a sub-group in one domain; what was tried leaves the attempt if it works."""
        trial = attempt.copy()
        mark = statement.mark()
        if not extent.is_least:
            done = self._runs.in_order(trial.tasks, statement, scope)
            attempt.most = max(attempt.most, done)
            if done == len(trial.tasks) and extent is Extent.WHOLE:
                if not attempt.is_part or self._session.subgroup_pipelined_deficit(attempt.subgroup) == 0:
                    attempt.tasks = NOBODY
                    return True
                done = 0
            scope = Scope(places=_places(self._session, statement.operations[mark:]))
            statement.rollback(mark)
            if done < len(trial.tasks):
                return False
        if self._runs.until_ready(trial, statement, scope) and statement.mark() > mark:
            attempt.tasks = trial.tasks
            return True
        attempt.verdict = trial.verdict or attempt.verdict
        attempt.most = max(attempt.most, trial.most)
        return False

    # -- the exact search --------------------------------------------------------------------------------------

    def search_places(self, work: Work, domains: Rows, *, everything: bool) -> Answer:
        """Places in one of some domains, by an exact search where placing in order may have missed something."""
        session, job, tasks = self._session, work.job, work.tasks()
        if not is_entangled(session, job, tasks) or not self._search.knows(tasks):
            return Answer()
        network = session.snapshot.topology
        parts: list[SearchPart] = []
        #: Domains for equal sub-groups; gradients take long to make.
        gradients: dict[tuple[Constraint, int], Rows] = {}
        for attempt in work.attempts:
            if not attempt.is_part:
                parts.append(SearchPart(0, attempt.tasks))
            elif attempt:
                need = session.subgroup_deficit(attempt.subgroup)
                policy = int(session.snapshot.subgroups.policy[attempt.subgroup])
                inside = self._domains_inside(attempt, domains, gradients)
                if inside is not None:
                    inside = holding(session, self._boards, attempt.tasks, max(1, need), inside)
                if inside is None or len(inside):
                    candidates = None if inside is None else (network, inside)
                    parts.append(SearchPart(0, attempt.tasks, candidates, need, policy))
                elif everything:
                    return Answer(is_proof=True)
        if not parts:
            return Answer(is_proof=True)
        # Those with the fewest candidates first, as they are the hardest; those that may go anywhere last.
        parts.sort(key=self._hardness)
        return self._search.places(job, [SearchPart(NO_ROW, NOBODY, (network, domains)), *parts], everything=everything)

    def _domains_inside(
        self, attempt: Attempt, domains: Rows, known: dict[tuple[Constraint, int], Rows]
    ) -> Rows | None:
        """Domains that a sub-group may have inside the job's, lowest tier first; None: anywhere there."""
        session, topology = self._session, self._session.snapshot.topology
        constraint = constraint_of(session, attempt.job, attempt.subgroup)
        if constraint.limit is None:
            return None
        key = constraint, domain_of(session.snapshot, attempt.job, attempt.subgroup)
        if key not in known:
            around = topology.lca(int(domains.min()), int(domains.max()))
            steps = search_gradients(session, attempt.job, attempt.subgroup, around, *key)
            found = np.unique(np.concatenate(steps)) if steps else NOBODY
            inside = [(found >= domain) & (found <= topology.last[domain]) for domain in domains.tolist()]
            found = found[np.any(inside, axis=0)]
            known[key] = found[np.argsort(topology.tier[found], kind="stable")]
        return known[key]

    def _hardness(self, part: SearchPart) -> tuple[object, ...]:
        table, tasks = self._session.snapshot.tasks, part.tasks
        kinds = sorted(zip(table.role[tasks].tolist(), table.cls[tasks].tolist(), strict=True))
        return part.candidates is None, 0 if part.candidates is None else len(part.candidates[1]), -len(tasks), kinds


def _places(session: Session, operations: Sequence[Operation]) -> Rows:
    """The node of every task that operations place, by task row; NO_ROW for all others."""
    places = np.full(len(session.snapshot.tasks), NO_ROW, np.int32)
    for operation in operations:
        places[operation.tasks] = operation.nodes
    return places
