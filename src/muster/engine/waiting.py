"""Which pending tasks and jobs may be placed at all, before any node is looked at."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from muster.engine.constraints import why_not_placeable
from muster.framework import JobVerdict, Session
from muster.framework.entrance import why_queue_refuses
from muster.framework.reasons import DEVICE_CLAIM, GPU_PART, GROUP_MISSING, NAMESPACE_ENDING, NOT_ADMITTED, QUARANTINED
from muster.framework.reasons import GATED as GATED_REASON
from muster.snapshot import GATED, JobPhase, Rows, TaskStatus

_HOLDS = {"gpu-part": GPU_PART, "device-claim": DEVICE_CLAIM, "namespace": NAMESPACE_ENDING}
#: Members of an enum are slow to look up, and these are asked for with every job that waits.
_PENDING = int(JobPhase.PENDING)


def schedulable_tasks(session: Session) -> Rows:
    """Pending tasks without scheduling gates, ordered by job and then as the plugins order them."""
    tasks = session.snapshot.pending_tasks()
    ungated: Rows = tasks[(session.snapshot.tasks.flags[tasks] & GATED) == 0]
    return session.sort_tasks(ungated)


def gated_jobs(session: Session) -> list[int]:
    """Jobs with pending tasks that are held back; a later word on what else waits replaces `gated_verdict`."""
    tasks = session.snapshot.pending_tasks()
    held = tasks[(session.snapshot.tasks.flags[tasks] & GATED) != 0]
    jobs: list[int] = np.unique(session.snapshot.tasks.job[held]).tolist()
    return jobs


def gated_verdict(session: Session, job: int) -> JobVerdict:
    """What holds pods of a job back: what is not served here, else their scheduling gates."""
    snapshot = session.snapshot
    held = [task for task in snapshot.tasks_of(job).tolist() if task in snapshot.holds] if snapshot.holds else []
    if not held:
        return JobVerdict(GATED_REASON)
    hold = snapshot.holds[min(held, key=snapshot.tasks.ids.__getitem__)]
    return JobVerdict(_HOLDS[hold.kind], hold.detail)


def tasks_by_job(session: Session, tasks: Rows) -> list[tuple[int, Rows]]:
    """Cut tasks that are ordered by job into one piece per job."""
    return list(zip(*cut_by_job(session, tasks), strict=True))


def cut_by_job(session: Session, tasks: Rows) -> tuple[list[int], list[Rows]]:
    """As `tasks_by_job`: the jobs, and the piece of each."""
    if len(tasks) == 0:
        return [], []
    owners = session.snapshot.tasks.job[tasks]
    starts = np.flatnonzero(np.diff(owners, prepend=owners[0] - 1))
    bounds = [*starts.tolist(), len(tasks)]
    return owners[starts].tolist(), [tasks[start:end] for start, end in pairwise(bounds)]


def has_promise(session: Session, job: int) -> bool:
    """Whether a job that is not ready has been promised all that it needs, and waits for others to leave."""
    is_waiting = session.snapshot.jobs.counts[job, TaskStatus.PIPELINED] and session.job_deficit(job) > 0
    return bool(is_waiting) and session.job_pipelined_deficit(job) == 0


def why_not_schedulable(session: Session, job: int) -> JobVerdict | None:
    """Why a job may not be placed in this cycle; None: it may."""
    jobs = session.snapshot.jobs
    if job in jobs.aside:
        return JobVerdict(QUARANTINED, jobs.aside[job])
    if not jobs.has_group[job]:
        return JobVerdict(GROUP_MISSING, jobs.records[job].id)
    refusal = why_queue_refuses(session, job)
    if refusal is not None:
        return refusal
    if jobs.phase[job] == _PENDING:
        return session.verdicts.get(job) or JobVerdict(NOT_ADMITTED)
    rejection = session.job_valid(job) or why_not_placeable(session, job)
    return None if rejection is None else JobVerdict(rejection.reason, rejection.detail)
