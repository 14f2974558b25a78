"""Placement under nested topology constraints: a domain for the job, inside it one for each group, and so on down.

A job's tree of groups (`JobRecord.groups`) may name levels of a label topology at every node. Each constrained part
tries its domains in order (`muster.engine.label_domains`) and keeps the first in which everything below it finds a
place; the parts inside it are confined to that domain. Pods of a part that already have a place bind the rest of
it where a level is required. Preferences among nodes are those of the innermost part that states one.
Invariant: all given tasks are placed, or the statement is as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from muster.engine.boards import Boards
from muster.engine.domains import ROOT
from muster.engine.label_domains import DomainsInOrder, Part, choose_domains, nodes_of_active, read_parts, slot_counts
from muster.engine.placing.contract import EVERYWHERE, NOBODY, NOW_OR_LATER, Modes, Scope
from muster.engine.placing.runs import Runs
from muster.engine.placing.search import Search, SearchPart
from muster.framework import JobVerdict, Session
from muster.framework.reasons import INSUFFICIENT, PLACES_SEARCH_ENDED, TOPOLOGY, TOPOLOGY_LEVEL
from muster.snapshot import NO_ROW, Mask, Rows, Statement, TaskStatus


class Nested:
    """Places tasks of jobs that have groups."""

    def __init__(self, session: Session, boards: Boards, runs: Runs, search: Search) -> None:
        self._session = session
        self._boards = boards
        self._runs = runs
        self._search = search
        self._parts: dict[int, Part] = {}

    def place(
        self, job: int, tasks: Rows, statement: Statement, modes: Modes = NOW_OR_LATER, scope: Scope = EVERYWHERE
    ) -> JobVerdict | None:
        """Place exactly these tasks of a job; the verdict says why none of them found a place."""
        try:
            if job not in self._parts:
                self._parts[job] = read_parts(self._session, job)
        except ValueError as error:
            return JobVerdict(TOPOLOGY_LEVEL, str(error))
        mark = statement.mark()
        trial = _Trial(job, statement, modes)
        if self._place(trial, self._parts[job], tasks, scope):
            return None
        statement.rollback(mark)
        if scope.mask is None and (self._session.snapshot.tasks.status[tasks] == TaskStatus.PENDING).all():
            places = Scope(places=self._search_places(job, tasks))
            if places.places is not None and self._runs.in_order(tasks, statement, places, modes) == len(tasks):
                return None
            statement.rollback(mark)
            if self._search.has_ended(job) and trial.verdict is not None:
                return replace(trial.verdict, reason=PLACES_SEARCH_ENDED)
        return trial.verdict or JobVerdict(TOPOLOGY)

    # -- in order ----------------------------------------------------------------------------------------------

    def _place(self, trial: _Trial, part: Part, tasks: Rows, scope: Scope) -> bool:
        """Place the tasks of a part in the first of its domains in which they fit."""
        if len(tasks) == 0:
            return True
        if part.levels is None:
            return self._place_members(trial, part, tasks, scope)
        choice = self._choose(trial.job, part, tasks, scope.mask)
        preference = scope.preference if choice.bands is None else choice.bands
        mark = trial.statement.mark()
        for domain in choice.domains.tolist():
            mask = np.zeros(len(self._session.snapshot.nodes), np.bool_)
            mask[part.levels.topology.nodes(domain)] = True
            if scope.mask is not None:
                mask &= scope.mask
            if self._place_members(trial, part, tasks, Scope(mask=mask, preference=preference)):
                return True
            trial.statement.rollback(mark)
        trial.verdict = self._no_domain(trial.job, part, tasks, scope.mask)
        return False

    def _choose(self, job: int, part: Part, tasks: Rows, mask: Mask | None) -> DomainsInOrder:
        assert part.levels is not None
        return choose_domains(self._session, self._boards, part.levels, tasks, mask, self._held(job, part))

    def _held(self, job: int, part: Part) -> Rows:
        """Nodes of the tasks of a part that have a place."""
        tasks = self._session.snapshot.tasks_of(job)
        return nodes_of_active(self._session.snapshot, tasks[part.members(self._session.snapshot, tasks)])

    def _place_members(self, trial: _Trial, part: Part, tasks: Rows, scope: Scope) -> bool:
        """Place what is inside a part: groups by name, then pod sets and single roles in the order of their tasks."""
        left = tasks
        for group in sorted((inner for inner in part.parts if not inner.is_pod_set), key=lambda inner: inner.name):
            mine = group.members(self._session.snapshot, left)
            if not self._place(trial, group, left[mine], scope):
                return False
            left = left[~mine]
        pod_sets = [inner for inner in part.parts if inner.is_pod_set]
        roles = self._session.snapshot.tasks.role
        while len(left):
            mine = roles[left] == roles[left[0]]
            inner = next((one for one in pod_sets if one.members(self._session.snapshot, left[:1]).all()), None)
            same = left[mine]
            if not (self._place_tasks(trial, same, scope) if inner is None else self._place(trial, inner, same, scope)):
                return False
            left = left[~mine]
        return True

    def _place_tasks(self, trial: _Trial, tasks: Rows, scope: Scope) -> bool:
        placed = self._runs.in_order(tasks, trial.statement, scope, trial.modes)
        if placed == len(tasks):
            return True
        task = int(tasks[placed])
        cls = int(self._session.snapshot.tasks.cls[task])
        trial.verdict = JobVerdict(INSUFFICIENT, cls=cls, task=task, placed=placed)
        return False

    # -- by an exact search ------------------------------------------------------------------------------------

    def _search_places(self, job: int, tasks: Rows) -> Rows | None:
        """The node of every task, by task row; None: none were found."""
        topology = self._session.snapshot.topology
        parts = [SearchPart(NO_ROW, NOBODY, (topology, np.array([ROOT], np.int32)))]
        if not self._search.knows(tasks) or not self._read(parts, job, self._parts[job], 0, tasks):
            return None
        return self._search.places(job, parts, everything=True).places

    def _read(self, parts: list[SearchPart], job: int, part: Part, parent: int, tasks: Rows) -> bool:
        """Note a part and those inside it; False: one of them has no candidate at all."""
        if len(tasks) == 0:
            return True
        candidates = None
        if part.levels is not None:
            candidates = part.levels.topology, self._choose(job, part, tasks, None).domains
            if len(candidates[1]) == 0:
                return False
        inner = [(group, group.members(self._session.snapshot, tasks)) for group in part.parts]
        own = ~np.any([mine for _, mine in inner] or [np.zeros(len(tasks), np.bool_)], axis=0)
        number = len(parts)
        parts.append(SearchPart(parent, tasks[own], candidates))
        return all(self._read(parts, job, group, number, tasks[mine]) for group, mine in inner)

    # -- reasons -----------------------------------------------------------------------------------------------

    def _no_domain(self, job: int, part: Part, tasks: Rows, mask: Mask | None) -> JobVerdict:
        """Say how far the domain with the most room is from holding a part."""
        levels, held = part.levels, self._held(job, part)
        assert levels is not None
        topology = levels.topology
        widest = levels.tried()[-1]
        detail = f"{len(tasks)} tasks{f' of {part.name}' if part.name else ''} are needed together"
        if widest:
            detail += f" within one {topology.level_name(widest)}"
        if len(held) and widest:
            detail += f", with those in {topology.names[topology.common_domain(held, widest)]}"
        domains = topology.at_level(widest)
        if len(domains):
            room = slot_counts(self._session, self._boards, topology, tasks, mask)[domains]
            best = int(np.argmax(room))
            detail += f"; {topology.names[domains[best]]} comes closest with room for {room[best]}"
        task = int(tasks[0])
        return JobVerdict(TOPOLOGY, detail, int(self._session.snapshot.tasks.cls[task]), task)


@dataclass(slots=True)
class _Trial:
    """One call of `place`, and the last trouble in it."""

    job: int
    statement: Statement
    modes: Modes
    verdict: JobVerdict | None = None
