"""Which pending tasks and jobs may be placed at all, before any node is looked at."""

from __future__ import annotations

import numpy as np

from muster.engine.constraints import why_not_placeable
from muster.framework import JobVerdict, Session
from muster.framework.reasons import GROUP_MISSING, NOT_ADMITTED, QUEUE_BROKEN, QUEUE_MISSING
from muster.snapshot import GATED, NO_ROW, JobPhase, Rows


def schedulable_tasks(session: Session) -> Rows:
    """Pending tasks without scheduling gates, ordered by job and then as the plugins order them."""
    tasks = session.snapshot.pending_tasks()
    ungated: Rows = tasks[(session.snapshot.tasks.flags[tasks] & GATED) == 0]
    return session.sort_tasks(ungated)


def gated_jobs(session: Session) -> list[int]:
    """Jobs with pending tasks that scheduling gates hold back; a later word on what else waits replaces this one."""
    tasks = session.snapshot.pending_tasks()
    held = tasks[(session.snapshot.tasks.flags[tasks] & GATED) != 0]
    jobs: list[int] = np.unique(session.snapshot.tasks.job[held]).tolist()
    return jobs


def tasks_by_job(session: Session, tasks: Rows) -> list[tuple[int, Rows]]:
    """Cut tasks that are ordered by job into one piece per job."""
    if len(tasks) == 0:
        return []
    owners = session.snapshot.tasks.job[tasks]
    cuts = np.flatnonzero(np.diff(owners)) + 1
    pieces = np.split(tasks, cuts)
    return [(int(owner), piece) for owner, piece in zip(owners[np.concatenate(([0], cuts))], pieces, strict=True)]


def why_not_schedulable(session: Session, job: int) -> JobVerdict | None:
    """Why a job may not be placed in this cycle; None: it may.

    Without an enqueue action nobody admits jobs, so a waiting job counts as admitted.
    """
    snapshot = session.snapshot
    jobs = snapshot.jobs
    if not jobs.has_group[job]:
        return JobVerdict(GROUP_MISSING, jobs.records[job].id)
    queue = int(jobs.queue[job])
    if queue == NO_ROW:
        return JobVerdict(QUEUE_MISSING, jobs.records[job].queue)
    if queue in snapshot.queues.broken:
        return JobVerdict(QUEUE_BROKEN, snapshot.queues.broken[queue])
    if jobs.phase[job] == JobPhase.PENDING:
        if session.has_action("enqueue"):
            return session.verdicts.get(job) or JobVerdict(NOT_ADMITTED)
        jobs.phase[job] = JobPhase.INQUEUE
    rejection = session.job_valid(job) or why_not_placeable(session, job)
    return None if rejection is None else JobVerdict(rejection.reason, rejection.detail)
