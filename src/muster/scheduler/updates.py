"""What to write to PodGroups at the end of a cycle: only what differs from what stands there."""

from __future__ import annotations

from muster.api import PodGroup
from muster.framework import JobVerdict, Session
from muster.scheduler.statuses import JobStatus, job_statuses, unschedulable_jobs, verdict_text
from muster.snapshot.decisions import JobUpdate

UNSCHEDULABLE = "Unschedulable"


def updates_of(session: Session) -> list[JobUpdate]:
    """Return the updates of all jobs that have a PodGroup and changed, by job id."""
    unschedulable = unschedulable_jobs(session)
    records = session.snapshot.jobs.records
    updates = []
    for job, status in job_statuses(session, unschedulable).items():
        group = records[job].source
        if group is None:
            continue
        update = _update(records[job].id, status, unschedulable.get(job))
        if _differs(update, group):
            updates.append(update)
    return sorted(updates, key=lambda update: update.job)


def _update(job: str, status: JobStatus, verdict: JobVerdict | None) -> JobUpdate:
    return JobUpdate(
        job=job,
        phase=status.phase.label,
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        unschedulable=None if verdict is None else verdict.reason.code,
        message="" if verdict is None else verdict_text(verdict),
    )


def _differs(update: JobUpdate, group: PodGroup) -> bool:
    status = group.status
    if (update.phase, update.running) != (status.phase, status.running):
        return True
    if (update.succeeded, update.failed) != (status.succeeded, status.failed):
        return True
    standing = [known for known in status.conditions if known.type == UNSCHEDULABLE and known.status == "True"]
    if not standing:
        return update.unschedulable is not None
    return (standing[0].reason, standing[0].message) != (update.unschedulable, update.message)
