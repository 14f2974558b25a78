"""Jobs about which there was nothing to say in the last cycle, and that have not changed since.

Most jobs of a busy cluster run and go on running. What a job's status says follows from its PodGroup, its phase and the
counters of its roles and sub-groups, of which every task has one each. So whether those are still the same is asked for
all jobs at once, in columns, and only the others are looked at. Rows keep their numbers while they live. Kept by the
scheduler.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import GroupTable, JobRecord, Mask, Rows, Snapshot


@dataclass(frozen=True, slots=True)
class _Seen:
    """How jobs were at the end of a cycle."""

    quiet: Mask
    records: list[JobRecord]
    phases: NDArray[np.int8]
    roles: _Counted
    subgroups: _Counted
    #: Rows mean the same only in the same generation of snapshots.
    generation: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counters, and whose they were: a row that was given back may be another job's by now, or nobody's."""

    job: Rows
    counts: Rows

    @classmethod
    def of(cls, table: GroupTable) -> _Counted:
        return cls(table.job.copy(), table.counts.copy())

    def changed_jobs(self, table: GroupTable) -> Rows:
        """Jobs of which a row differs, is new, or is gone."""
        known = min(len(table.counts), len(self.counts))
        is_same = (table.counts[:known] == self.counts[:known]).all(axis=1) & (table.job[:known] == self.job[:known])
        others = ~is_same
        jobs: Rows = np.concatenate(
            [table.job[:known][others], self.job[:known][others], table.job[known:], self.job[known:]]
        )
        return jobs[jobs >= 0]


class Settled:
    """What the last cycle left behind."""

    def __init__(self) -> None:
        self._seen: _Seen | None = None

    def jobs(self, snapshot: Snapshot) -> Mask:
        """Which jobs are as they were when there was nothing to say about them."""
        n_jobs = len(snapshot.jobs)
        seen = self._seen
        same: Mask = np.zeros(n_jobs, np.bool_)
        if seen is None or seen.generation != snapshot.generation:
            return same
        known = min(n_jobs, len(seen.records))
        identical = map(operator.is_, snapshot.jobs.records[:known], seen.records[:known])
        same[:known] = seen.quiet[:known] & np.fromiter(identical, np.bool_, known)
        same[:known] &= snapshot.jobs.phase[:known] == seen.phases[:known]
        for table, before in ((snapshot.roles, seen.roles), (snapshot.subgroups, seen.subgroups)):
            changed = before.changed_jobs(table)
            same[changed[changed < n_jobs]] = False
        return same

    def remember(self, snapshot: Snapshot, quiet: Mask) -> None:
        """Note the jobs about which there is nothing to say now."""
        jobs = snapshot.jobs
        counted = _Counted.of(snapshot.roles), _Counted.of(snapshot.subgroups)
        self._seen = _Seen(quiet, jobs.records, jobs.phase.copy(), *counted, snapshot.generation)
