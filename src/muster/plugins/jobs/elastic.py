"""Elastic: jobs that lack their minimum go before those that have just it, and these before those that have more.

A job whose role minimums hold lacks its minimum while any role does, and has just it when every role does. As victims
go from the last job to the first, what a job has beyond its minimum is taken before any gang is broken. The
plugin `gang` orders jobs by readiness alone; leave one of the two out of the order of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.gangs import beyond_roles
from muster.framework.plugin import Plugin
from muster.snapshot import ACTIVE_STATUSES, Pieces, Rows

if TYPE_CHECKING:
    from muster.framework.session import Session

BELOW: Final = 0
JUST_ENOUGH: Final = 1
ABOVE: Final = 2
#: They follow each other.
_ACTIVE: Final = slice(min(ACTIVE_STATUSES), max(ACTIVE_STATUSES) + 1)


def active_count(counts: Rows) -> int:
    """Of the counters of a job or role: tasks that have a place or are promised one."""
    return sum(counts[_ACTIVE].tolist())


class Elastic(Plugin):
    """Order jobs by how much of their minimum they have."""

    name = "elastic"
    summary = "Jobs below their minimum first, then those at it, then those above; the surplus is the first to go."
    orders_by = "how much of its minimum it has"

    def open(self, session: Session) -> None:
        super().open(session)
        self._snapshot = session.snapshot
        self._minimum: list[int] = session.snapshot.jobs.min_member.tolist()

    def job_order(self, job: int) -> int:
        jobs, roles = self._snapshot.jobs, self._snapshot.roles
        if not jobs.has_pod_sets(job):
            return _stage(active_count(jobs.counts[job]), self._minimum[job])
        by_role = stage((active_count(roles.counts[role]), int(roles.minimum[role])) for role in jobs.roles[job])
        return self._as_a_whole(job, by_role, active_count(jobs.counts[job]))

    def victim_order(self, job: int, left: Rows) -> int:
        jobs = self._snapshot.jobs
        if not jobs.has_pod_sets(job):
            return _stage(len(left), self._minimum[job])
        roles_left = self._snapshot.tasks.role[left]
        minimum = self._snapshot.roles.minimum
        by_role = stage((int(np.count_nonzero(roles_left == role)), int(minimum[role])) for role in jobs.roles[job])
        return self._as_a_whole(job, by_role, len(left))

    def _as_a_whole(self, job: int, by_role: int, active: int) -> int:
        """Where a job stands that needs more tasks than its roles do."""
        return min(by_role, _stage(active, self._minimum[job])) if beyond_roles(self._snapshot, job) else by_role

    def victim_orders(self, jobs: Rows, left: Pieces) -> NDArray[np.intp]:
        table = self._snapshot.jobs
        stages: Rows = JUST_ENOUGH + np.sign(left.sizes() - table.min_member[jobs])
        records = table.records
        for piece, job in enumerate(jobs.tolist()):
            if records[job].min_roles and table.has_pod_sets(job):
                stages[piece] = self.victim_order(job, left[piece])
        return stages


def stage(held: Iterable[tuple[int, int]]) -> int:
    """Where a job stands, by what each of its roles has and needs."""
    found = JUST_ENOUGH
    for active, minimum in held:
        if active < minimum:
            return BELOW
        if active > minimum:
            found = ABOVE
    return found


def _stage(active: int, minimum: int) -> int:
    """As `stage`, for a job that is all one."""
    return JUST_ENOUGH if active == minimum else BELOW if active < minimum else ABOVE
