"""Placement under nested topology constraints: a domain for the job, inside it one for each group, and so on down.

A job's tree of groups (`JobRecord.groups`) may name levels of a label topology at every node. Each constrained part
tries its domains in order (`muster.engine.label_domains`) and keeps the first in which everything below it finds a
place; the parts inside it are confined to that domain. Pods of a part that already have a place bind the rest of
it where a level is required. Preferences among nodes are those of the innermost part that states one.
Callers: the door. Invariant: all given tasks are placed, or the statement is as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import Boards
from muster.engine.label_domains import Part, choose_domains, nodes_of_active, read_parts, slot_counts
from muster.engine.placing.label_search import LabelSearch
from muster.engine.placing.runs import ANYWHERE, Ground, Runs, Stretch
from muster.engine.placing.search import Search
from muster.engine.placing.terms import EARNEST, Modes
from muster.framework import JobVerdict, Session
from muster.framework.reasons import INSUFFICIENT, PLACES_SEARCH_ENDED, TOPOLOGY, TOPOLOGY_LEVEL
from muster.snapshot import Mask, Rows, Statement, TaskStatus


@dataclass(frozen=True, slots=True)
class Area:
    """Nodes that a part may use (None: all) and the preference among them (None: none)."""

    mask: Mask | None = None
    bands: NDArray[np.int8] | None = None

    def ground(self) -> Ground:
        """The area as stretches of nodes, the preferred ones first."""
        if self.mask is None:
            return ANYWHERE
        if self.bands is None:
            return Ground(stretches=(_stretch(self.mask),))
        bands = np.unique(self.bands[self.mask])[::-1]
        return Ground(stretches=tuple(_stretch(self.mask & (self.bands == band)) for band in bands))


def _stretch(mask: Mask) -> Stretch:
    """The marked nodes, of which there is one at least."""
    rows = np.flatnonzero(mask)
    lo, hi = int(rows[0]), int(rows[-1]) + 1
    return Stretch(lo, hi, None if hi - lo == len(rows) else mask)


class Nested:
    """Places tasks of jobs that have groups."""

    def __init__(self, session: Session, boards: Boards, runs: Runs, search: Search) -> None:
        self._session = session
        self._boards = boards
        self._runs = runs
        self._search = search
        self._parts: dict[int, Part] = {}

    def place(
        self, job: int, tasks: Rows, statement: Statement, modes: Modes = EARNEST, mask: Mask | None = None
    ) -> JobVerdict | None:
        """Place exactly these tasks of a job, on the marked nodes; the verdict says why none of them found a place."""
        try:
            root = self._root(job)
        except ValueError as error:
            return JobVerdict(TOPOLOGY_LEVEL, str(error))
        mark = statement.mark()
        trial = _Trial(job, statement, modes)
        if self._place(trial, root, tasks, Area(mask)):
            return None
        statement.rollback(mark)
        if mask is None and (self._session.snapshot.tasks.status[tasks] == TaskStatus.PENDING).all():
            places = LabelSearch(self._session, self._boards, job, tasks).places(self._search, root)
            ground = Ground(places=places)
            if places is not None and self._runs.in_order(tasks, statement, ground, modes) == len(tasks):
                return None
            statement.rollback(mark)
            if self._search.has_ended(job) and trial.verdict is not None:
                return replace(trial.verdict, reason=PLACES_SEARCH_ENDED)
        return trial.verdict or JobVerdict(TOPOLOGY)

    def _root(self, job: int) -> Part:
        if job not in self._parts:
            self._parts[job] = read_parts(self._session, job)
        return self._parts[job]

    def _place(self, trial: _Trial, part: Part, tasks: Rows, area: Area) -> bool:
        """Place the tasks of a part in the first of its domains in which they fit."""
        if len(tasks) == 0:
            return True
        if part.levels is None:
            return self._place_members(trial, part, tasks, area)
        snapshot = self._session.snapshot
        held = nodes_of_active(snapshot, self._tasks_of(trial.job, part))
        choice = choose_domains(self._session, self._boards, part.levels, tasks, area.mask, held)
        bands = area.bands if choice.bands is None else choice.bands
        mark = trial.statement.mark()
        for domain in choice.domains.tolist():
            mask = np.zeros(len(snapshot.nodes), np.bool_)
            mask[part.levels.topology.nodes(domain)] = True
            if area.mask is not None:
                mask &= area.mask
            if self._place_members(trial, part, tasks, Area(mask, bands)):
                return True
            trial.statement.rollback(mark)
        trial.verdict = self._no_domain(part, tasks, area, held)
        return False

    def _place_members(self, trial: _Trial, part: Part, tasks: Rows, area: Area) -> bool:
        """Place what is inside a part: groups by name, then pod sets and single roles in the order of their tasks."""
        left = tasks
        for group in sorted((inner for inner in part.parts if not inner.is_pod_set), key=lambda inner: inner.name):
            mine = self._belong(left, group)
            if not self._place(trial, group, left[mine], area):
                return False
            left = left[~mine]
        pod_sets = [inner for inner in part.parts if inner.is_pod_set]
        roles = self._session.snapshot.tasks.role
        while len(left):
            mine = roles[left] == roles[left[0]]
            inner = next((one for one in pod_sets if self._belong(left[:1], one).all()), None)
            same = left[mine]
            if not (self._place_tasks(trial, same, area) if inner is None else self._place(trial, inner, same, area)):
                return False
            left = left[~mine]
        return True

    def _place_tasks(self, trial: _Trial, tasks: Rows, area: Area) -> bool:
        placed = self._runs.in_order(tasks, trial.statement, area.ground(), trial.modes)
        if placed == len(tasks):
            return True
        task = int(tasks[placed])
        cls = int(self._session.snapshot.tasks.cls[task])
        trial.verdict = JobVerdict(INSUFFICIENT, cls=cls, task=task, placed=placed)
        return False

    def _belong(self, tasks: Rows, part: Part) -> Mask:
        """Which tasks of the job belong to a part."""
        if part.roles is None:
            return np.ones(len(tasks), np.bool_)
        return np.isin(self._session.snapshot.tasks.role[tasks], part.roles)

    def _tasks_of(self, job: int, part: Part) -> Rows:
        tasks = self._session.snapshot.tasks_of(job)
        return tasks[self._belong(tasks, part)]

    def _no_domain(self, part: Part, tasks: Rows, area: Area, held: Rows) -> JobVerdict:
        """Say how far the domain with the most room is from holding a part."""
        levels = part.levels
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
            room = slot_counts(self._session, self._boards, topology, tasks, area.mask)[domains]
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
