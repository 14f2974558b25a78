"""Ending broken gangs: for how long one has been broken, what is left of it, and the record of why it was ended.

Which gangs are broken is said in `muster.engine.staleness`. Callers: the action stalegangeviction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.snapshot import FOREIGN, NO_ROW, Rows, Snapshot, TaskStatus

#: Pods that can be told to leave: what this very cycle has placed is not there yet.
_LEAVABLE = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


def broken_since(snapshot: Snapshot, job: int, now: float) -> float:
    """When a gang that is broken became so; one without a stamp became so just now."""
    since = snapshot.jobs.records[job].stale_since
    return now if since is None else min(since, now)


def remaining_tasks(snapshot: Snapshot, job: int) -> Rows:
    """What is left of a broken gang, in order of names."""
    table = snapshot.tasks
    own = snapshot.tasks_of(job)
    here = np.isin(table.status[own], _LEAVABLE) & (table.node[own] != NO_ROW) & ((table.flags[own] & FOREIGN) == 0)
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
