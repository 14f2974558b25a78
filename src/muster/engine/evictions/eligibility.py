"""Who may evict: which jobs are in need, which of their tasks may take others' room, and whose room it may be.

Callers: the task strategy's actions. Policies of plugins are not asked here, only what holds whatever they say: a
pod that must not preempt never does, a pod that asks for nothing takes nothing from pods that ask for something, and
inside a queue nobody evicts pods of a job with a higher priority.
"""

from __future__ import annotations

import numpy as np

from muster.engine.constraints import why_not_placeable
from muster.engine.evictions.candidates import ON_NODE, Pool, on_node, willing
from muster.engine.waiting import schedulable_tasks, tasks_by_job
from muster.framework import Eviction, Session
from muster.snapshot import BEST_EFFORT, NO_ROW, JobPhase, Mask, Rows, TaskStatus

_NEVER = "Never"
_RUNNING: Mask = np.arange(len(TaskStatus)) == TaskStatus.RUNNING


def jobs_in_need(session: Session) -> list[tuple[int, Rows]]:
    """Admitted jobs that have less than they need, each with its pending tasks in order."""
    found: list[tuple[int, Rows]] = []
    for job, tasks in tasks_by_job(session, schedulable_tasks(session)):
        with session.turn(job):
            if _is_in_need(session, job):
                found.append((job, tasks))
    return found


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


def pool_for_tasks(session: Session, kind: Eviction) -> Pool:
    """Whom single tasks might evict: across queues only pods that run; inside a queue also those of equal priority."""
    statuses = _RUNNING if kind is Eviction.RECLAIM else ON_NODE
    return Pool(session, kind, statuses, equals=True)


def candidates_within(session: Session, job: int) -> Rows:
    """Tasks of the job itself that others of it might evict."""
    snapshot = session.snapshot
    own = snapshot.tasks_of(job)
    allowed: Rows = own[(on_node(snapshot) & willing(snapshot))[own]]
    return np.sort(allowed)


def takes_from(session: Session, task: int, candidates: Rows) -> Rows:
    """Candidates that this very task may take from."""
    flags = session.snapshot.tasks.flags
    if not flags[task] & BEST_EFFORT:
        return candidates
    kept: Rows = candidates[(flags[candidates] & BEST_EFFORT) != 0]
    return kept
