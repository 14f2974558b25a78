"""A question for scenarios of a gang with required topology levels: could any domain hold its tasks at all?

Asked before a dry run. A domain's room is what is or will be free in it plus everything that the offered victims
hold there, by totals. Too little in every domain proves that the dry run must fail; enough in one proves nothing.
Callers: the solver's search, once per beneficiary.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.engine.label_domains import Levels, Part, read_parts
from muster.framework import Scenario, ScenarioFilter, Session
from muster.snapshot import NO_ROW, Amounts, Mask, Rows, TaskStatus

#: States of tasks that no dry run changes or takes back; only these bind the rest of a gang here.
_SETTLED = [TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING]


def topology_filter(session: Session, job: int) -> ScenarioFilter | None:
    """The filter for scenarios of a job; None: it requires no level."""
    if session.snapshot.jobs.records[job].groups is None:
        return None
    try:
        wanted = [_Requirement(session, job, part) for part in _requiring(read_parts(session, job))]
    except ValueError:
        return _nothing_helps
    if not wanted:
        return None
    return lambda scenario: all(requirement.can_be_met(scenario) for requirement in wanted)


def _nothing_helps(_: Scenario) -> bool:
    """Nobody's going makes a level exist."""
    return False


def _requiring(part: Part) -> Iterator[Part]:
    """The parts of a tree that require a level."""
    if part.levels is not None and part.levels.required is not None:
        yield part
    for inner in part.parts:
        yield from _requiring(inner)


class _Requirement:
    """One part of a gang that must be in one domain of a level."""

    def __init__(self, session: Session, job: int, part: Part) -> None:
        assert part.levels is not None
        self._session = session
        self._job = job
        self._part = part
        self._domains, self._owners = _domains_of(part.levels, len(session.snapshot.nodes))
        self._levels = part.levels
        #: What domains have free, as of a length of the touch log.
        self._free: tuple[int, Amounts] | None = None

    def can_be_met(self, scenario: Scenario) -> bool:
        """Is there a domain that could hold the part's pending tasks if all victims went?"""
        pending = scenario.pending[self._part.members(self._session.snapshot, scenario.pending)]
        if len(pending) == 0:
            return True
        snapshot = self._session.snapshot
        room = self._room().copy()
        owners = self._owners[snapshot.tasks.node[scenario.victims]]
        inside = owners != NO_ROW
        requests = snapshot.classes.requests[:, 0]
        np.add.at(room, owners[inside], requests[snapshot.tasks.cls[scenario.victims[inside]]])
        total = requests[snapshot.tasks.cls[pending]].sum(axis=0)
        return bool(((room >= total).all(axis=1) & self._joinable(pending)).any())

    def _room(self) -> Amounts:
        snapshot = self._session.snapshot
        if self._free is None or self._free[0] != snapshot.touched:
            free = np.maximum(snapshot.nodes.future_idle(), 0)
            self._free = snapshot.touched, self._levels.topology.sums(free)[self._domains]
        return self._free[1]

    def _joinable(self, pending: Rows) -> Mask:
        """Domains that hold pods of the part, which the others must join; all if it has none."""
        snapshot = self._session.snapshot
        tasks = snapshot.tasks_of(self._job)
        mine = self._part.members(snapshot, tasks) & np.isin(snapshot.tasks.status[tasks], _SETTLED)
        own = tasks[mine & ~np.isin(tasks, pending)]
        if len(own) == 0:
            return np.ones(len(self._domains), np.bool_)
        return np.isin(np.arange(len(self._domains)), self._owners[snapshot.tasks.node[own]])


def _domains_of(levels: Levels, n_nodes: int) -> tuple[Rows, Rows]:
    """Domains of the required level, and per node which of them holds it; the last entry stands for no node."""
    assert levels.required is not None
    domains = levels.topology.at_level(levels.required)
    owners = np.append(levels.topology.owners(levels.required, n_nodes), np.int32(NO_ROW))
    if len(domains):
        owners[owners != NO_ROW] -= domains[0]
    return domains, owners
