"""Who may evict: which jobs are in need, which of their tasks may take others' room, and whose room it may be.

Callers: the task strategy's actions. Policies of plugins are not asked here, only what holds whatever they say: a
pod that must not preempt never does, a pod that asks for nothing takes nothing from pods that ask for something, and
inside a queue nobody evicts pods of a job with a higher priority.
"""

from __future__ import annotations

import numpy as np

from muster.engine.constraints import why_not_placeable
from muster.engine.victims import in_other_queues, in_queue_of, may_be_evicted
from muster.engine.waiting import schedulable_tasks, tasks_by_job
from muster.framework import Eviction, Session
from muster.snapshot import BEST_EFFORT, NO_ROW, JobPhase, Rows, TaskStatus

_NEVER = "Never"


def jobs_in_need(session: Session) -> list[tuple[int, Rows]]:
    """Admitted jobs that have less than they need, each with its pending tasks in order."""
    waiting = tasks_by_job(session, schedulable_tasks(session))
    return [(job, tasks) for job, tasks in waiting if _is_in_need(session, job)]


def _is_in_need(session: Session, job: int) -> bool:
    snapshot = session.snapshot
    jobs = snapshot.jobs
    queue = int(jobs.queue[job])
    if job in jobs.aside or not jobs.has_group[job] or queue == NO_ROW or queue in snapshot.queues.broken:
        return False
    if jobs.phase[job] == JobPhase.PENDING or session.job_valid(job) is not None:
        return False
    return session.job_starving(job) and why_not_placeable(session, job) is None


def may_evict(session: Session, tasks: Rows) -> Rows:
    """Tasks whose pods may preempt others."""
    pods = session.snapshot.tasks.pods
    allowed: Rows = tasks[[pods[task].spec.preemption_policy != _NEVER for task in tasks.tolist()]]
    return allowed


def candidates_of(session: Session, job: int, kind: Eviction) -> Rows:
    """Tasks of other jobs that the job might evict, before any plugin is asked."""
    snapshot = session.snapshot
    tasks, jobs = snapshot.tasks, snapshot.jobs
    if kind is Eviction.RECLAIM:
        mask = may_be_evicted(session) & in_other_queues(session, job) & (tasks.status == TaskStatus.RUNNING)
    else:
        mask = may_be_evicted(session) & in_queue_of(session, job)
        mask &= jobs.priority[tasks.job] <= jobs.priority[job]
    return np.flatnonzero(mask).astype(np.int32)


def candidates_within(session: Session, job: int) -> Rows:
    """Tasks of the job itself that others of it might evict."""
    own = session.snapshot.tasks_of(job)
    allowed: Rows = own[may_be_evicted(session)[own]]
    return np.sort(allowed)


def takes_from(session: Session, task: int, candidates: Rows) -> Rows:
    """Candidates that this very task may take from."""
    flags = session.snapshot.tasks.flags
    if not flags[task] & BEST_EFFORT:
        return candidates
    kept: Rows = candidates[(flags[candidates] & BEST_EFFORT) != 0]
    return kept
