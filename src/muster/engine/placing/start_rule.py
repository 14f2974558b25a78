"""The start rule: where a gang starts, and with how much of it.

A gang starts where its minimum has room. Among such places one with room for all its waiting tasks is preferred, then
the lowest tier, then the fewest domains at every tier from the top down, then the score. The same holds for each of
its sub-groups, which take turns inside the job's domain. What was promised to a gang comes before all this: its nodes,
then their domain.

Tried in order here; where that fails though there may be a way, the exact search is asked. Trials leave no trace: what
is not kept is rolled back bit for bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum
from itertools import product
from typing import Final

import numpy as np

from muster.engine.constraints import Constraint, constraint_of, domain_of, fault_of
from muster.engine.domains import ROOT, holding, holding_by_totals, nearest_first, ranked, roomiest, search_gradients
from muster.engine.gangs import NOBODY, Portion, required_subgroups
from muster.engine.placing.contract import Found, Scope, promise, together
from muster.engine.placing.packing import Packer, domains_used
from muster.engine.placing.runs import Runs, Work
from muster.engine.placing.search import Answer, Search, is_entangled
from muster.framework import JobVerdict
from muster.framework.reasons import QUEUE_CLOSED, QUEUE_FULL, TOPOLOGY
from muster.kernels.placement import FUTURE
from muster.snapshot import NO_ROW, Amounts, Operation, OperationKind, Rows, Statement, TaskStatus
from muster.snapshot.columns import quick_to_name

#: Gangs with more waiting tasks than this grow without a plan for the rest.
PLANNED: Final = 256


@quick_to_name
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


class StartRule:
    """Goes through the places that a job may have."""

    def __init__(self, runs: Runs, search: Search) -> None:
        self._session = runs.session
        self._runs = runs
        self._search = search
        #: What nodes have free before anything is placed.
        self._free_at_first = self._session.snapshot.nodes.future_idle() if runs.options.starts_whole else None

    # -- anywhere ----------------------------------------------------------------------------------------------

    def place_anywhere(self, work: Work, scope: Scope) -> Found:
        """Place a job without constraints, until it is ready or all of it: in order, else by an exact search."""
        part = work.parts[0]
        if work.whole:
            found = Found.READY if self._runs.all_of(work, part.tasks, scope) else Found.NOTHING
        else:
            found = self._runs.until_ready(work, part, scope)
        if found or work.refused or scope.mask is not None or not is_entangled(work):
            return found
        places = self._search.places_in(work, np.array([scope.domain or ROOT], np.intp), everything=work.whole).places
        if places is not None:
            return self._place_planned(work, places)
        work.verdict = self._search.qualify(work.job, work.verdict)
        return Found.NOTHING

    # -- in domains --------------------------------------------------------------------------------------------

    def place(self, work: Work, scope: Scope) -> Found:
        """Place a job as far as it takes to be ready, or all of it; a domain in the scope is the only one asked."""
        session, job = self._session, work.job
        constraint, placed = constraint_of(session, job), domain_of(session.snapshot, job)
        steps = [np.array([scope.domain or ROOT], np.intp)]
        if scope.domain is None:
            steps = nearest_first(session, search_gradients(session, job, NO_ROW, ROOT, constraint, placed), placed)
        found = Found.NOTHING if work.whole else self._where_promised(work, constraint, steps)
        if found:
            return found
        if self._free_at_first is not None and scope.domain is None and not work.is_divided:
            steps = self._roomy_at_first(work, steps, self._free_at_first)
        if placed == NO_ROW and work.whole:  # tasks that are moved are best near to where they were
            table = session.snapshot.tasks
            left = table.node[work.tasks[table.status[work.tasks] == TaskStatus.RELEASING]]
            before = session.snapshot.topology.domain_of_nodes(left)
            steps = [near for step in steps for near in nearest_first(session, [step], before)]
        for extent, step in product(self._extents(work), steps):
            found = self._place_in_step(work, step, extent)
            if found:
                return found
        if constraint.soft and steps and not work.is_divided and not work.whole:
            # A preference refuses nothing that would start without it.
            mark = work.statement.mark()
            self._runs.until_ready(work, work.parts[0], Scope(int(steps[-1][0])))
            found = self._end_trial(work, mark)
            if found:
                return found
        if work.verdict is None or (constraint and work.verdict.reason not in (QUEUE_FULL, QUEUE_CLOSED)):
            work.verdict = self._search.qualify(job, self._no_domain(work, constraint, steps))
        return Found.NOTHING

    def _extents(self, work: Work) -> list[Extent]:
        """What is asked of a place, the best first."""
        if work.whole:
            return [Extent.WHOLE]
        if max(1, self._session.job_deficit(work.job)) >= len(work.tasks):
            return [Extent.LEAST]  # which is all
        if is_entangled(work):
            # What is placed first may be in the way of the rest, also while it grows.
            roomy = len(work.tasks) <= PLANNED
        else:
            roomy = self._wants_room(work, work.parts[0])
        extents = (Extent.ROOMY, roomy), (Extent.PARTS, work.is_divided and self._want_room(work)), (Extent.LEAST, True)
        return [extent for extent, is_asked in extents if is_asked]

    def _want_room(self, work: Work) -> list[int]:
        """Sub-groups of which a start should leave room for the rest."""
        return [part.subgroup for part in work.parts if self._wants_room(work, part)]

    def _bounds(self, work: Work, part: Portion) -> tuple[Constraint, int]:
        """The constraint on a sub-group, and the domain around what is placed of it."""
        job, subgroup = work.job, part.subgroup
        return constraint_of(self._session, job, subgroup), domain_of(self._session.snapshot, job, subgroup)

    def _wants_room(self, work: Work, part: Portion) -> bool:
        """Whether a start should leave room for the rest: it has to stay near, and nothing is placed yet."""
        if max(1, self._runs.deficit(work.job, part)) >= len(part.tasks):
            return False
        constraint, placed = self._bounds(work, part)
        return bool(constraint) and placed == NO_ROW

    def _roomy_at_first(self, work: Work, steps: list[Rows], free: Amounts) -> list[Rows]:
        """Only domains that had as much free, by totals, as the whole gang asks for."""
        if not self._wants_room(work, work.parts[0]):
            return steps
        kept = (step[holding_by_totals(self._session.snapshot, work.tasks, free, step)] for step in steps)
        return [step for step in kept if len(step)]

    # -- what was promised -------------------------------------------------------------------------------------

    def _where_promised(self, work: Work, constraint: Constraint, steps: list[Rows]) -> Found:
        """Start on the nodes that an earlier cycle set aside for the gang, else in the domain around them."""
        snapshot = self._session.snapshot
        nominated = snapshot.tasks.nominated[work.tasks]
        nodes = nominated[nominated != NO_ROW]
        if len(nodes) == 0:
            return Found.NOTHING
        mark, found = work.statement.mark(), self._place_planned(work, snapshot.tasks.nominated)
        if found and self._keeps_constraints(work):
            return found
        work.statement.rollback(mark)
        domain = snapshot.topology.domain_of_nodes(nodes) if constraint else NO_ROW
        while domain != NO_ROW and not any(domain in step for step in steps):
            domain = int(snapshot.topology.parent[domain])
        if domain == NO_ROW:
            return Found.NOTHING
        return self._place_in_step(work, np.array([domain], np.intp), Extent.LEAST)

    def _keeps_constraints(self, work: Work) -> bool:
        """Whether what is placed of a job and of its sub-groups keeps the hard constraints on them."""
        for part in [Portion(NO_ROW, work.tasks), *work.parts]:
            constraint, domain = self._bounds(work, part)
            if constraint.limit is None or constraint.soft or domain == NO_ROW:
                continue
            if self._session.snapshot.topology.tier[domain] > constraint.limit:
                return False
        return True

    # -- one tier ----------------------------------------------------------------------------------------------

    def _place_in_step(self, work: Work, step: Rows, extent: Extent) -> Found:
        """Place the job in the best of some domains of one tier, all as near to what is placed.

        Domains come in the order of the start rule, so without sub-groups the first solution is the best. When one
        fails, an exact search is asked about all of them: it may prove that trying the others is in vain.
        """
        session, tasks, topology = self._session, work.tasks, self._session.snapshot.topology
        needed = max(1, session.job_deficit(work.job)) if extent.is_least else len(tasks)
        domains = holding(session, tasks, needed, step)
        fewest = None if work.is_divided else self._fewest_domains(tasks[:needed], domains)
        mark = work.statement.mark()
        solved: list[tuple[tuple[int, ...], float, int, list[Operation]]] = []
        answer: Answer | None = None
        line = ranked(session, work.job, NO_ROW, domains, NO_ROW, fewest)
        for domain, _ in line:
            score = self.solve(work, domain, extent)
            if score is not None:
                if not work.is_divided:
                    return self._end_trial(work, mark)
                operations = work.statement.operations[mark:]
                work.statement.rollback(mark)
                used = domains_used(topology, domain, np.concatenate([one.nodes for one in operations]))
                solved.append((used, -score, len(solved), operations))
            elif not solved and answer is None:
                tried = np.array([one for one, _ in line], np.intp)
                roomy = self._want_room(work) if extent is Extent.PARTS else ()
                answer = self._search.places_in(work, tried, everything=not extent.is_least, roomy=roomy)
                if answer.is_proof:
                    return Found.NOTHING
        if solved:
            work.statement.redo(min(solved)[-1])
            return self._end_trial(work, mark)
        if answer is None or answer.places is None:
            return Found.NOTHING
        return self._place_planned(work, answer.places)

    def _fewest_domains(self, tasks: Rows, domains: Rows) -> list[int] | None:
        """How many smaller domains equal tasks would touch in each of some domains; None: that cannot be told."""
        snapshot = self._session.snapshot
        topology, cls = snapshot.topology, snapshot.tasks.cls[tasks]
        if len(domains) < 2 or (cls != cls[0]).any() or not any(topology.children[one] for one in domains.tolist()):
            return None
        base, end = int(topology.lo[domains].min()), int(topology.hi[domains].max())
        packer = Packer(topology, base, self._runs.boards.get(int(cls[0]), FUTURE).slots(snapshot, base, end))
        return [packer.fewest(domain, len(tasks)) for domain in domains.tolist()]

    # -- one domain --------------------------------------------------------------------------------------------

    def solve(self, work: Work, domain: int, extent: Extent) -> float | None:
        """Place the job inside one domain, and say how good that is; None: it has no place, and nothing is changed."""
        mark, work.together = work.statement.mark(), 0
        of_each = extent if extent.is_least else Extent.WHOLE
        score = self._in_turns(
            work, lambda part: self._place_part(work, part, domain, of_each), all_of_each=not extent.is_least
        )
        if score is not None and extent is Extent.ROOMY and not self._place_least(work, mark):
            score = None
        placed = sum(len(operation.tasks) for operation in work.statement.operations[mark:])
        if score is not None and self._end_trial(work, mark):
            return score
        work.statement.rollback(mark)
        work.most[domain] = max(placed, work.together, work.most.get(domain, 0))
        return None

    def _place_planned(self, work: Work, places: Rows) -> Found:
        """Place tasks on the nodes that a plan names for them: all, or until the job is ready; others wait."""
        mark, scope = work.statement.mark(), Scope(places=places)
        if work.whole:
            return Found.READY if self._runs.all_of(work, work.tasks, scope) else Found.NOTHING

        def place(part: Portion) -> float | None:
            planned = Portion(part.subgroup, part.tasks[places[part.tasks] != NO_ROW])
            return 0.0 if self._fill(work, planned, scope, Extent.LEAST) else None

        self._in_turns(work, place)
        return self._end_trial(work, mark)

    def _end_trial(self, work: Work, mark: int) -> Found:
        """Keep what was placed since `mark` if it is all, or the job can start with it."""
        if work.statement.mark() > mark:
            if work.is_divided and not work.whole:
                self._promise_unready(work, mark)
            if work.whole or self._session.job_deficit(work.job) == 0:
                return Found.READY
            if self._session.job_pipelined_deficit(work.job) == 0:
                return Found.PROMISED
        work.statement.rollback(mark)
        return Found.NOTHING

    def _promise_unready(self, work: Work, mark: int) -> None:
        """Let sub-groups of which some tasks wait for places wait whole, also where the job can do without them."""
        groups, placed = self._session.snapshot.tasks.subgroup, work.statement.operations[mark:]
        owners = {int(groups[one.tasks[0]]) for one in placed if one.kind is OperationKind.PIPELINE}
        unready = {owner for owner in owners if owner != NO_ROW and self._session.subgroup_deficit(owner) > 0}
        if unready:
            work.statement.rollback(mark)
            for one in placed:
                work.statement.redo(promise([one]) if int(groups[one.tasks[0]]) in unready else [one])

    def _in_turns(
        self, work: Work, place: Callable[[Portion], float | None], *, all_of_each: bool = False
    ) -> float | None:
        """Let sub-groups have turns, until the job is ready or once each; return the sum of what they gain."""
        session, parts = self._session, [*work.parts]
        required = required_subgroups(session, work.job) if work.is_divided else []

        def turn(number: int) -> tuple[bool, tuple[object, ...], int]:
            subgroup = parts[number].subgroup
            return subgroup not in required, session.subgroup_key(subgroup) if work.is_divided else (), number

        line = [turn(number) for number in range(len(parts))]
        heapq.heapify(line)
        score = 0.0
        while line:
            *_, number = heapq.heappop(line)
            gained = place(parts[number])
            if gained is None:
                coming = sum(len(parts[other].tasks) for *_, other in line)
                if all_of_each or coming < session.job_pipelined_deficit(work.job):
                    return None
                continue
            score += gained
            if not all_of_each:
                if session.job_deficit(work.job) == 0:
                    break
                tasks = parts[number].tasks
                left = tasks[session.snapshot.tasks.status[tasks] == TaskStatus.PENDING]
                parts[number] = Portion(parts[number].subgroup, left)
                if len(left):
                    heapq.heappush(line, turn(number))
        return score

    def _place_part(self, work: Work, part: Portion, domain: int, extent: Extent) -> float | None:
        """Place one sub-group in its best domain inside the job's, or all in that; None: it fits nowhere there."""
        session, job, subgroup = self._session, work.job, part.subgroup
        constraint, placed = self._bounds(work, part)
        if subgroup == NO_ROW:
            return 0.0 if self._fill(work, part, Scope(domain, packed=bool(constraint)), extent) else None
        extents = [extent]
        if extent.is_least and self._wants_room(work, part):
            extents = [Extent.ROOMY] if extent is Extent.PARTS else [Extent.ROOMY, Extent.LEAST]
        for least, step in product(extents, search_gradients(session, job, subgroup, domain, constraint, placed)):
            needed = max(1, self._runs.deficit(job, part)) if least.is_least else len(part.tasks)
            for candidate, score in ranked(session, job, subgroup, holding(session, part.tasks, needed, step), placed):
                if self._fill(work, part, Scope(candidate, packed=bool(constraint)), least):
                    return score
        return None

    def _fill(self, work: Work, part: Portion, scope: Scope, extent: Extent) -> bool:
        """Place a sub-group, or a job that has none, in one domain."""
        mark = work.statement.mark()
        if extent.is_least:
            return bool(self._runs.until_ready(work, part, scope)) and work.statement.mark() > mark
        if not self._runs.all_of(work, part.tasks, scope):
            return False
        if extent is Extent.ROOMY:
            return self._place_least(work, mark, part)
        if part.subgroup == NO_ROW or self._session.subgroup_pipelined_deficit(part.subgroup) == 0:
            return True
        work.statement.rollback(mark)
        return False

    def _place_least(self, work: Work, mark: int, part: Portion | None = None) -> bool:
        """All has room since `mark`: place what is needed of it, where it would be."""
        places = take_back(work.statement, mark)
        if part is None:
            return bool(self._place_planned(work, places))
        return self._fill(work, part, Scope(places=places), Extent.LEAST)

    # -- reasons -----------------------------------------------------------------------------------------------

    def _no_domain(self, work: Work, constraint: Constraint, steps: list[Rows]) -> JobVerdict:
        """Say how far the domain that comes closest is from holding the job."""
        session, tasks, topology = self._session, work.tasks, self._session.snapshot.topology
        needed = len(tasks) if work.whole else max(1, session.job_deficit(work.job))
        detail = together(needed)
        if constraint and not constraint.soft:
            detail += f" within tier {constraint.limit}"
        domain, room = roomiest(session, tasks, np.unique(np.concatenate([NOBODY, *steps])), work.most)
        where = "the whole cluster" if domain == ROOT else topology.names[domain]
        if domain != NO_ROW and room < needed:
            detail += f"; {where} comes closest with room for {room}"
        elif domain != NO_ROW:
            detail += f"; {where} comes closest, but a role or sub-group stays below its minimum there"
        nominated = session.snapshot.tasks.nominated[tasks]
        if (nominated != NO_ROW).any():
            promised = topology.names[topology.domain_of_nodes(nominated[nominated != NO_ROW])]
            detail += f"; what was promised to it in {promised} can no longer be had"
        if fault := fault_of(topology, constraint):
            detail += f"; out of use: {fault}"
        return JobVerdict(TOPOLOGY, detail, int(session.snapshot.tasks.cls[tasks[0]]), int(tasks[0]))


def take_back(statement: Statement, mark: int) -> Rows:
    """Undo what a statement has placed since a mark, and return the nodes of it, by task row."""
    places = np.full(len(statement.snapshot.tasks), NO_ROW, np.intp)
    for operation in statement.operations[mark:]:
        places[operation.tasks] = operation.nodes
    statement.rollback(mark)
    return places
