"""The start rule: where a gang starts, and with how much of it.

A gang starts where its minimum has room. Among such places one with room for all its waiting tasks is preferred, then
the lowest tier, then the fewest domains at every tier from the top down, then the score. The same holds for each of
its sub-groups inside the job's domain. What was promised to a gang comes before all this: its nodes, then their domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from muster.engine.boards import Boards
from muster.engine.constraints import (
    Constraint,
    constraint_of,
    domain_of,
    fault_of,
    placed_nodes,
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
from muster.engine.gangs import NOBODY
from muster.engine.placing.contract import NOW_OR_LATER, Found, Modes, Scope
from muster.engine.placing.packing import Packer
from muster.engine.placing.runs import Attempt, Runs
from muster.engine.placing.search import Answer, Search
from muster.engine.placing.subgroups import Extent, Solution, SubGroups, Work, is_entangled, wants_room
from muster.framework import JobVerdict, Session
from muster.framework.reasons import INSUFFICIENT, PLACES_SEARCH_ENDED, QUEUE_CLOSED, QUEUE_FULL, TOPOLOGY
from muster.kernels.placement import FUTURE
from muster.snapshot import NO_ROW, Rows, Statement, TaskStatus

#: Gangs with more waiting tasks than this grow without a plan for the rest.
_PLANNED: Final = 256


class StartRule:
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
        self.parts = SubGroups(session, boards, runs, search)

    # -- anywhere ----------------------------------------------------------------------------------------------

    def place_anywhere(
        self, work: Work, statement: Statement, scope: Scope, modes: Modes = NOW_OR_LATER, *, whole: bool = False
    ) -> Found:
        """Place a job without constraints, until it is ready or all of it: in order, else by an exact search."""
        attempt, table = work.attempts[0], self._session.snapshot.tasks
        if whole:
            tasks, mark = work.tasks(), statement.mark()
            placed = self._runs.in_order(tasks, statement, scope, modes)
            if placed == len(tasks):
                return Found.READY
            statement.rollback(mark)
            task = int(tasks[placed])
            work.verdict = JobVerdict(INSUFFICIENT, cls=int(table.cls[task]), task=task, placed=placed)
        else:
            tasks = attempt.tasks
            found = self._runs.until_ready(attempt, statement, scope, modes)
            work.verdict = attempt.verdict
            if found or attempt.refused:
                return found
            attempt.tasks = tasks
        return self.search(work, statement, scope, modes, whole=whole)

    def search(
        self, work: Work, statement: Statement, scope: Scope, modes: Modes = NOW_OR_LATER, *, whole: bool = False
    ) -> Found:
        """Look for places exactly, for a job without constraints that found none in order."""
        tasks, status = work.tasks(), self._session.snapshot.tasks.status
        if scope.mask is not None or not is_entangled(self._session, work.job, tasks):
            return Found.NOTHING
        if (status[tasks] != TaskStatus.PENDING).any():
            return Found.NOTHING
        domain = ROOT if scope.domain is None else scope.domain
        places = self.parts.search_places(work, np.array([domain], np.int32), everything=whole).places
        if places is not None:
            return self.parts.place_planned(work, places, statement, modes, whole=whole)
        if self._search.has_ended(work.job) and work.verdict is not None:
            work.verdict = replace(work.verdict, reason=PLACES_SEARCH_ENDED)
        return Found.NOTHING

    # -- in domains --------------------------------------------------------------------------------------------

    def place(self, work: Work, statement: Statement, domain: int | None = None, *, whole: bool = False) -> Found:
        """Place a job as far as it takes to be ready, or all of it; what was tried leaves `work`.

        `domain`: the only one that comes into question.
        """
        session, job = self._session, work.job
        constraint, placed = constraint_of(session, job), domain_of(session.snapshot, job)
        if domain is None:
            steps = nearest_first(session, search_gradients(session, job, NO_ROW, ROOT, constraint, placed), placed)
        else:
            steps = [np.array([domain], np.int32)]
        found = Found.NOTHING if whole else self._where_promised(work, constraint, steps, statement)
        if found:
            return found
        if self._hard_starts_whole and not constraint.soft and not work.is_divided and domain is None:
            steps = self._roomy_by_totals(work, constraint, placed, steps)
        for extent in [Extent.WHOLE] if whole else self._extents(work, constraint, placed):
            for step in steps:
                found = self._place_in_step(work, step, extent, placed, statement)
                if found:
                    return found
        if constraint.soft and steps and not work.is_divided and not whole:
            # A preference refuses nothing that would start without it.
            mark = statement.mark()
            self._runs.until_ready(work.attempts[0].copy(), statement, Scope(int(steps[-1][0])))
            found = self.parts.end_trial(work, mark, statement)
            if found:
                return found
        if work.verdict is None or (constraint and work.verdict.reason not in (QUEUE_FULL, QUEUE_CLOSED)):
            work.verdict = self._no_domain(work, constraint, steps, whole=whole)
        return Found.NOTHING

    def _extents(self, work: Work, constraint: Constraint, placed: int) -> list[Extent]:
        """What is asked of a place, the best first."""
        tasks, deficit = work.tasks(), self._session.job_deficit(work.job)
        roomy = wants_room(constraint, placed, tasks, deficit)
        if is_entangled(self._session, work.job, tasks):
            # What is placed first may be in the way of the rest, also while it grows.
            roomy = max(1, deficit) < len(tasks) <= _PLANNED
        extents = [Extent.ROOMY, Extent.LEAST] if roomy else [Extent.LEAST]
        if work.is_divided and any(self.parts.prefers_room(attempt) for attempt in work.attempts):
            extents.insert(-1, Extent.PARTS)
        return extents

    def _roomy_by_totals(self, work: Work, constraint: Constraint, placed: int, steps: list[Rows]) -> list[Rows]:
        """Only domains with as much free as the whole gang asks for; all, if none could ever have that."""
        snapshot, tasks = self._session.snapshot, work.tasks()
        if not wants_room(constraint, placed, tasks, self._session.job_deficit(work.job)):
            return steps
        capacity = snapshot.nodes.allocatable() * snapshot.nodes.ready[:, None]
        if not any(holding_by_totals(snapshot, tasks, capacity, step).any() for step in steps):
            return steps
        free = snapshot.nodes.future_idle()
        kept = (step[holding_by_totals(snapshot, tasks, free, step)] for step in steps)
        return [step for step in kept if len(step)]

    # -- what was promised -------------------------------------------------------------------------------------

    def _where_promised(self, work: Work, constraint: Constraint, steps: Sequence[Rows], statement: Statement) -> Found:
        """Start on the nodes that an earlier cycle set aside for the gang, else in the domain around them."""
        snapshot = self._session.snapshot
        nominated = snapshot.tasks.nominated[work.tasks()]
        nodes = nominated[nominated != NO_ROW]
        if len(nodes) == 0:
            return Found.NOTHING
        if self._keeps_constraints(work, snapshot.tasks.nominated):
            found = self.parts.place_planned(work, snapshot.tasks.nominated, statement)
            if found:
                return found
        domain = snapshot.topology.domain_of_nodes(nodes) if constraint else NO_ROW
        while domain != NO_ROW and not any(domain in step for step in steps):
            domain = int(snapshot.topology.parent[domain])
        if domain == NO_ROW:
            return Found.NOTHING
        return self._place_in_step(work, np.array([domain], np.int32), Extent.LEAST, NO_ROW, statement)

    def _keeps_constraints(self, work: Work, places: Rows) -> bool:
        """Whether hard constraints hold if tasks go to the places that are noted for them."""
        snapshot = self._session.snapshot
        for one in [Attempt(work.job, work.tasks()), *(work.attempts if work.is_divided else ())]:
            limit = constraint_of(self._session, work.job, one.subgroup)
            nodes = places[one.tasks]
            nodes = np.concatenate((placed_nodes(snapshot, work.job, one.subgroup), nodes[nodes != NO_ROW]))
            domain = snapshot.topology.domain_of_nodes(nodes)
            is_bound = domain != NO_ROW and limit.limit is not None and not limit.soft
            if is_bound and snapshot.topology.tier[domain] > limit.limit:
                return False
        return True

    # -- one tier ----------------------------------------------------------------------------------------------

    def _place_in_step(self, work: Work, step: Rows, extent: Extent, placed: int, statement: Statement) -> Found:
        """Place the job in the best of some domains of one tier: in order, else by an exact search."""
        session, job, tasks = self._session, work.job, work.tasks()
        needed = max(1, session.job_deficit(job)) if extent.is_least else len(tasks)
        domains = holding(session, self._boards, tasks, needed, step)
        if len(domains) == 0:
            return Found.NOTHING
        fewest = None if work.is_divided else self._fewest_domains(tasks[:needed], domains)
        line = ranked(session, job, NO_ROW, domains, placed, fewest)
        best = self._best(work, line, extent, placed, statement)
        if isinstance(best, Solution):
            statement.redo(best.operations)
            work.attempts = best.left.attempts
            ready = extent is Extent.WHOLE or session.job_deficit(job) == 0
            return Found.READY if ready else Found.PROMISED
        if best is None:
            return Found.NOTHING
        return self.parts.place_planned(work, best, statement, whole=extent is Extent.WHOLE)

    def _fewest_domains(self, tasks: Rows, domains: Rows) -> list[int] | None:
        """How many smaller domains equal tasks would touch in each of some domains; None: that cannot be told."""
        snapshot = self._session.snapshot
        topology, cls = snapshot.topology, snapshot.tasks.cls[tasks]
        if len(domains) < 2 or (cls != cls[0]).any() or not any(topology.children[one] for one in domains.tolist()):
            return None
        base, end = int(topology.lo[domains].min()), int(topology.hi[domains].max())
        packer = Packer(topology, base, self._boards.get(int(cls[0]), FUTURE).slots(snapshot, base, end))
        return [packer.fewest(domain, len(tasks)) for domain in domains.tolist()]

    def _best(
        self, work: Work, line: list[tuple[int, float]], extent: Extent, placed: int, statement: Statement
    ) -> Solution | Rows | None:
        """The best solution in the domains that are nearest to what is placed, else places that a search found.

        Domains come in the order of the start rule, so without sub-groups the first solution is the best. When one
        fails, the search is asked about all of them: it may prove that trying the others is in vain.
        """
        topology = self._session.snapshot.topology
        best: Solution | None = None
        answer: Answer | None = None
        nearest = 0
        for domain, _ in line:
            distance = distance_to(topology, placed, domain)
            if best is not None and distance > nearest:
                break
            solution = self.parts.solve(work, domain, extent, statement)
            if solution is not None and (best is None or solution.key < best.key):
                best, nearest = solution, distance
            if best is not None and not work.is_divided:
                break
            if best is None and answer is None and extent is not Extent.PARTS:
                domains = np.array([tried for tried, _ in line], np.int32)
                answer = self.parts.search_places(work, domains, everything=extent is not Extent.LEAST)
                if answer.is_proof:
                    return None
        return best if best is not None or answer is None else answer.places

    # -- reasons -----------------------------------------------------------------------------------------------

    def _no_domain(self, work: Work, constraint: Constraint, steps: Sequence[Rows], *, whole: bool) -> JobVerdict:
        """Say how far the domain that comes closest is from holding the job."""
        session, tasks = self._session, work.tasks()
        topology = session.snapshot.topology
        needed = len(tasks) if whole else max(1, session.job_deficit(work.job))
        detail = f"{needed} tasks are needed together"
        if constraint and not constraint.soft:
            detail += f" within tier {constraint.limit}"
        domains = np.unique(np.concatenate(steps)) if steps else NOBODY
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
        reason = PLACES_SEARCH_ENDED if self._search.has_ended(work.job) else TOPOLOGY
        return JobVerdict(reason, detail, int(session.snapshot.tasks.cls[tasks[0]]), int(tasks[0]))
