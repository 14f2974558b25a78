"""How jobs are at the end of a cycle: phase, counts, and why a gang is not complete.

The rules are Volcano's. A task that was bound in this very cycle does not count yet: the cluster has
not confirmed it, so the phase follows one cycle later. Two rules differ: a job with no scheduled task at all
is never Running or Completed, even when its minimum is zero; and one that ran, and of which nothing is left but pods
that have ended, is complete although the others are gone, as workers are when their launcher is done.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.promises import has_promise
from muster.framework import JobVerdict, Session
from muster.framework.reasons import GANG_INCOMPLETE, PROMISED, QUARANTINED
from muster.snapshot import BEST_EFFORT_PENDING, NO_ROW, JobPhase, Mask, Rows, Snapshot, TaskStatus

#: Counts as scheduled, beside tasks that are leaving a node.
SCHEDULED_STATUSES = (TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)
COMPLETED_STATUSES = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_UNPLACED_STATUSES = (TaskStatus.PENDING, TaskStatus.PIPELINED)
_INQUEUE, _PENDING = np.int8(JobPhase.INQUEUE), np.int8(JobPhase.PENDING)
#: Phases of jobs that have started.
_STARTED = (JobPhase.RUNNING, JobPhase.UNKNOWN, JobPhase.COMPLETED)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How one job is."""

    phase: JobPhase
    running: int
    succeeded: int
    failed: int
    #: Tasks that have no node.
    pending: int


def scheduled_count(counts: Rows) -> int:
    """Tasks of one job that run, ran, or are about to: `counts` is a row of the job counters."""
    return int(sum(int(counts[status]) for status in SCHEDULED_STATUSES))


def leaving_count(status: NDArray[np.int8], node: Rows) -> int:
    """Tasks that are leaving a node; one that goes without ever having had a node does not count."""
    return int(np.count_nonzero((status == TaskStatus.RELEASING) & (node != NO_ROW)))


def is_only_leaving(minimum: int, status: NDArray[np.int8], node: Rows) -> bool:
    """Is a job below its minimum just because tasks are leaving, with none waiting to replace them?

    Such a job is ending, not unschedulable.
    """
    if np.isin(status, _UNPLACED_STATUSES).any():
        return False
    leaving = leaving_count(status, node)
    return leaving > 0 and leaving + int(np.isin(status, SCHEDULED_STATUSES).sum()) >= minimum


def phase_after(before: JobPhase, minimum: int, counts: Rows, leaving: int, *, unschedulable: bool) -> JobPhase:
    """Return the phase that follows from a job's counters."""
    if unschedulable and counts[TaskStatus.RUNNING]:
        return JobPhase.UNKNOWN
    if before in _STARTED and have_ended(counts).all():
        return JobPhase.COMPLETED
    scheduled = scheduled_count(counts) + leaving
    if scheduled and scheduled >= minimum:
        completed = sum(int(counts[status]) for status in COMPLETED_STATUSES)
        return JobPhase.COMPLETED if completed == scheduled else JobPhase.RUNNING
    return JobPhase.INQUEUE if before == JobPhase.INQUEUE else JobPhase.PENDING


def phases_after(snapshot: Snapshot, broken: Mask) -> NDArray[np.int8]:
    """`phase_after` of every job; `broken`: those that run below a minimum."""
    jobs = snapshot.jobs
    counts = jobs.counts.T
    completed = sum_of(counts, COMPLETED_STATUSES)
    scheduled = sum_of(counts, SCHEDULED_STATUSES)
    if counts[TaskStatus.RELEASING].any():
        scheduled += np.array(leaving_counts(snapshot), np.intp)
    phases: NDArray[np.int8] = np.where(jobs.phase == _INQUEUE, _INQUEUE, _PENDING)
    started = (scheduled > 0) & (scheduled >= jobs.min_member)
    phases[started] = JobPhase.RUNNING
    phases[started & (completed == scheduled)] = JobPhase.COMPLETED
    phases[np.isin(jobs.phase, _STARTED) & have_ended(counts)] = JobPhase.COMPLETED
    if broken.any():
        phases[broken & (counts[TaskStatus.RUNNING] > 0)] = JobPhase.UNKNOWN
    return phases


def have_ended(counts: Rows) -> Mask:
    """Which jobs have pods that have all ended; `counts` has a row per state, or is that of one job."""
    completed = sum_of(counts, COMPLETED_STATUSES)
    ended: Mask = (completed > 0) & (completed == counts[:BEST_EFFORT_PENDING].sum(axis=0))
    return ended


def sum_of(counts: Rows, statuses: Sequence[TaskStatus]) -> Rows:
    """Tasks in any of some states, of every job; `counts` has a row per state."""
    first, *others = statuses
    total: Rows = counts[first].copy()
    for status in others:
        total += counts[status]
    return total


def leaving_counts(snapshot: Snapshot) -> list[int]:
    """`leaving_count` of every job; pods of other schedulers belong to none."""
    tasks = snapshot.tasks
    leaving = (tasks.status == TaskStatus.RELEASING) & (tasks.node != NO_ROW) & (tasks.job != NO_ROW)
    counts: list[int] = np.bincount(tasks.job[leaving], minlength=len(snapshot.jobs)).tolist()
    return counts


def job_status(snapshot: Snapshot, job: int, leaving: int, *, unschedulable: bool) -> JobStatus:
    """Derive the status of one job from its counters."""
    counts = snapshot.jobs.counts[job]
    before = JobPhase(int(snapshot.jobs.phase[job]))
    minimum = int(snapshot.jobs.min_member[job])
    return JobStatus(
        phase=phase_after(before, minimum, counts, leaving, unschedulable=unschedulable),
        running=int(counts[TaskStatus.RUNNING]),
        succeeded=int(counts[TaskStatus.SUCCEEDED]),
        failed=int(counts[TaskStatus.FAILED]),
        pending=sum(int(counts[status]) for status in _UNPLACED_STATUSES),
    )


def unschedulable_jobs(session: Session, jobs: Iterable[int]) -> dict[int, JobVerdict]:
    """Those of the jobs that wait to be let in, or whose gang is not complete or aside, and the reason on record.

    A job that has been let in and has no tasks yet waits for whoever makes them, and not for the scheduler.
    """
    snapshot = session.snapshot
    found: dict[int, JobVerdict] = {}
    for job in jobs:
        if job in snapshot.jobs.aside:
            found[job] = JobVerdict(QUARANTINED, snapshot.jobs.aside[job])
        elif not snapshot.jobs.task_count(job):
            if snapshot.jobs.phase[job] == JobPhase.PENDING and job in session.verdicts:
                found[job] = session.verdicts[job]
        elif session.job_deficit(job) and not _is_over(snapshot, job) and not _only_leaving(snapshot, job):
            promised = JobVerdict(PROMISED) if has_promise(session, job) else None
            found[job] = promised or session.verdicts.get(job) or JobVerdict(GANG_INCOMPLETE)
    return found


def growing_jobs(session: Session, jobs: Iterable[int]) -> dict[int, JobVerdict]:
    """Those of the jobs that have their minimum and whose other pods find no place, and the reason on record."""
    waiting = session.snapshot.jobs.counts[:, TaskStatus.PENDING]
    found = ((job, session.verdicts.get(job)) for job in jobs if waiting[job])
    return {job: verdict for job, verdict in found if verdict is not None and not session.job_deficit(job)}


def _is_over(snapshot: Snapshot, job: int) -> bool:
    return snapshot.jobs.phase[job] in _STARTED and bool(have_ended(snapshot.jobs.counts[job]).all())


def _only_leaving(snapshot: Snapshot, job: int) -> bool:
    if not snapshot.jobs.counts[job, TaskStatus.RELEASING]:
        return False
    rows = np.flatnonzero(snapshot.tasks.job == job)
    minimum = int(snapshot.jobs.min_member[job])
    return is_only_leaving(minimum, snapshot.tasks.status[rows], snapshot.tasks.node[rows])


def job_statuses(session: Session, jobs: Iterable[int], unschedulable: Container[int]) -> dict[int, JobStatus]:
    """Statuses of jobs, by row."""
    snapshot = session.snapshot
    leaving = leaving_counts(snapshot)
    return {job: job_status(snapshot, job, leaving[job], unschedulable=job in unschedulable) for job in jobs}


def verdict_text(verdict: JobVerdict) -> str:
    """Return the reason of a verdict as reports show it: code, text, numbers."""
    text = f"{verdict.reason.code}: {verdict.reason.text}"
    return f"{text} ({verdict.detail})" if verdict.detail else text
