"""Task states and job phases as small integers, and which of them count as what.

The counters of a job, role or sub-group are a row of `N_COUNTS` numbers: one per state, then the pending
tasks that ask for nothing (`BEST_EFFORT_PENDING`), which gangs count as ready.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from muster.api import Pod


class TaskStatus(IntEnum):
    """Where a task stands; the names are those that users know from Volcano."""

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9
    #: The row is free: no task lives in it.
    GONE = 10

    @property
    def label(self) -> str:
        return self.name.capitalize()


N_STATUSES: Final = 11
BEST_EFFORT_PENDING: Final = 11
N_COUNTS: Final = 12

#: Holds its requests in job and queue totals.
ALLOCATED_STATUSES: Final = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
)
#: Has a place, or is promised one.
ACTIVE_STATUSES: Final = (*ALLOCATED_STATUSES, TaskStatus.PIPELINED)
#: Counts towards a gang's minimum.
READY_STATUSES: Final = (*ALLOCATED_STATUSES, TaskStatus.SUCCEEDED)
#: Has ended, well or not.
FINISHED_STATUSES: Final = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
#: Takes room on its node.
OCCUPYING_STATUSES: Final = (*ALLOCATED_STATUSES, TaskStatus.RELEASING, TaskStatus.UNKNOWN)


class JobPhase(IntEnum):
    """The phase of a PodGroup."""

    PENDING = 0
    INQUEUE = 1
    RUNNING = 2
    UNKNOWN = 3
    COMPLETED = 4

    @property
    def label(self) -> str:
        return self.name.capitalize()


_PHASES: Final = {phase.label: phase for phase in JobPhase}


def phase_of(text: str) -> JobPhase:
    """Read a PodGroup phase; an empty or unknown one is Pending."""
    return _PHASES.get(text, JobPhase.PENDING)


def status_of(pod: Pod) -> TaskStatus:
    """Derive a task's state from its pod, as the cluster reports it."""
    phase = pod.status.phase
    if phase == "Succeeded":
        return TaskStatus.SUCCEEDED
    if phase == "Failed":
        return TaskStatus.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return TaskStatus.RELEASING
    if phase == "Running":
        return TaskStatus.RUNNING
    if phase in ("Pending", ""):
        return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING
    return TaskStatus.UNKNOWN
