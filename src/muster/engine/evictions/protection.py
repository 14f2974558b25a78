"""Gangs that must keep their minimum: what strategies may still take of them, and whether a scenario respects it.

Who is protected against whom is what plugins answer to `Plugin.protected`. A protected gang gives what it can spare;
one that is broken already gives nothing. Callers: every strategy that evicts, after the plugins have spoken, so it
holds whatever tier they stand in; plugins that judge scenarios. Terminating pods are nobody's survivors.
"""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.surplus import holds_minimum, job_surplus, safe_tasks
from muster.framework import Eviction, Session
from muster.snapshot import BEST_EFFORT, READY_STATUSES, Mask, Rows, Snapshot, TaskStatus


def protected_jobs(session: Session, kind: Eviction, evictor: int, jobs: Rows) -> Rows:
    """Those of the jobs that must keep their minimum against the job `evictor`."""
    if len(jobs) == 0 or not session.asked("protected"):
        return jobs[:0]
    protected: Rows = jobs[session.protected(kind, evictor, jobs)]
    return protected


def may_go(session: Session, kind: Eviction, evictor: int, tasks: Rows) -> Mask:
    """Which tasks may go together, taken in the order given, so that every protected gang keeps its minimum."""
    snapshot = session.snapshot
    mask: Mask = np.ones(len(tasks), np.bool_)
    owners = snapshot.tasks.job[tasks]
    protected = protected_jobs(session, kind, evictor, np.unique(owners))
    if len(protected) == 0:
        return mask
    concerned = np.flatnonzero(np.isin(owners, protected))
    concerned = concerned[np.argsort(owners[concerned], kind="stable")]
    surplus = job_surplus(snapshot)
    spare = safe_tasks(snapshot, tasks[concerned], surplus)
    mask[concerned] = spare & (surplus[owners[concerned]] > 0)
    return mask


def without_barred(session: Session, kind: Eviction, evictor: int, jobs: Rows) -> tuple[Rows, Rows]:
    """Jobs without the protected gangs that can spare nothing, and the protected ones that are left."""
    protected = protected_jobs(session, kind, evictor, jobs)
    if len(protected) == 0:
        return jobs, protected
    can_spare = job_surplus(session.snapshot)[protected] > 0
    kept: Rows = jobs[~np.isin(jobs, protected[~can_spare])]
    return kept, protected[can_spare]


def keep_minimum(snapshot: Snapshot, jobs: Rows, taken: Rows, moved: Rows) -> bool:
    """Whether each of the jobs that loses a task has its minimum without those in `taken`.

    `moved` have a place elsewhere and count as there. The answer is the same before and after the statement has
    evicted and moved them. A job that is below its minimum loses nothing.
    """
    table = snapshot.tasks
    for job in jobs[np.isin(jobs, table.job[taken])].tolist():
        own = snapshot.tasks_of(job)
        status = table.status[own]
        needs_no_place = (status == TaskStatus.PENDING) & ((table.flags[own] & BEST_EFFORT) != 0)
        here = np.isin(status, READY_STATUSES) | needs_no_place | np.isin(own, moved)
        if not holds_minimum(snapshot, job, own[here & ~np.isin(own, taken)]):
            return False
    return True
