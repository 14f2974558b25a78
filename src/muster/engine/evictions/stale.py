"""Broken gangs, of which some pods run, but too few for what they are made for, and the record of why one was ended.

A pod that is leaving does not count as one that runs; a task that is promised a place does, as the gang is on its way
to be whole again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.evictions.surplus import job_surplus
from muster.snapshot import FOREIGN, NO_ROW, Mask, Rows, Snapshot, TaskStatus

#: The cluster knows of these; tasks placed in this very cycle cannot make a gang broken, or be told to leave.
_RUNNING = [TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING]


def stale_jobs(snapshot: Snapshot) -> Mask:
    """Jobs that run below a minimum: their own, of a role, of sub-groups.

    Never those of which a pod has succeeded, or of which something was put aside.
    """
    jobs = snapshot.jobs
    runs = jobs.counts[:, _RUNNING].any(axis=1)
    finishing = jobs.counts[:, TaskStatus.SUCCEEDED] > 0
    suspects: Mask = jobs.live & runs & ~finishing
    suspects[list(jobs.aside)] = False  # who is missing may be among what cannot be read
    if not suspects.any():
        return np.zeros(len(jobs), np.bool_)
    return suspects & (job_surplus(snapshot, promised=True) < 0)


def broken_since(snapshot: Snapshot, job: int, now: float) -> float:
    """When a gang that is broken became so; one without a stamp became so just now."""
    since = snapshot.jobs.records[job].stale_since
    return now if since is None else min(since, now)


def remaining_tasks(snapshot: Snapshot, job: int) -> Rows:
    """What is left of a broken gang, in order of names."""
    table = snapshot.tasks
    own = snapshot.tasks_of(job)
    here = np.isin(table.status[own], _RUNNING) & (table.node[own] != NO_ROW) & ((table.flags[own] & FOREIGN) == 0)
    left = own[here].tolist()
    return np.array(sorted(left, key=lambda task: table.ids[task]), np.int32)


@dataclass(frozen=True, slots=True)
class StaleRecord:
    """Why the pods of a broken gang were evicted; the same for all of them."""

    job: str
    #: Seconds.
    broken_for: float
    grace: float
    pods: int

    @property
    def reason(self) -> str:
        return "stale"

    def to_json(self) -> dict[str, object]:
        """The record for programs."""
        return {"job": self.job, "brokenSeconds": self.broken_for, "graceSeconds": self.grace, "pods": self.pods}

    def as_text(self) -> str:
        """One line for people."""
        return f"its gang has been broken for {self.broken_for:g}s (grace {self.grace:g}s)"


@dataclass(frozen=True, slots=True)
class StaleReasons:
    """The record, in the form in which reports ask for it."""

    record: StaleRecord

    def of_task(self, _task: int) -> StaleRecord:
        return self.record
