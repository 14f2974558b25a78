"""Restraint: what stops an eviction that every plugin allows.

An eviction that the victim could answer with the reverse one in the next cycle is not made, so no two jobs ever take
turns in evicting each other. That is found out by asking for the reverse, not by remembering, so it holds across
restarts too. Callers: the pipeline, for every strategy, before it commits.
"""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.deserved import have_too_much
from muster.framework import Eviction, Evictor, Session
from muster.snapshot import Rows


def would_bounce(
    session: Session,
    kind: Eviction,
    job: int,
    victims: Rows,
    placed: Rows,
    *,
    breaks_gangs: bool = False,
    grows: bool = False,
) -> bool:
    """Whether a victim's job could take back what `job` got; asked when victims and placements are in place.

    With `grows`, what it got is more than it needs: a victim that has its minimum could take that back, too.
    """
    tasks, jobs = session.snapshot.tasks, session.snapshot.jobs
    if kind is Eviction.CONSOLIDATE or jobs.spared[job]:
        return False  # who is moved loses nothing, and from who is not preemptible nobody takes
    if kind is Eviction.RECLAIM and not session.snapshot.queues.records[int(jobs.queue[job])].reclaimable:
        return False
    lost_by: dict[int, list[int]] = {}
    for task, owner in zip(victims.tolist(), tasks.job[victims].tolist(), strict=True):
        lost_by.setdefault(owner, []).append(task)
    asked: set[tuple[int, int, bytes]] = set()
    for owner in sorted(lost_by):
        queue, priority = int(jobs.queue[owner]), int(jobs.priority[owner])
        if kind is Eviction.PREEMPT and priority < jobs.priority[job]:
            continue  # nobody evicts a job of higher priority inside its queue, so only equals could
        if kind is Eviction.RECLAIM and session.overused(queue):
            continue
        # Whole gangs ask for all that they need to start again, single tasks for themselves.
        count = max(1, session.job_pipelined_deficit(owner)) if breaks_gangs else 1
        wanted = np.array(lost_by[owner][:count], np.int32)
        alike = queue, priority, tasks.cls[wanted].tobytes()
        if alike in asked or not (grows or session.job_starving(owner)):
            continue
        asked.add(alike)
        if _takes_back(session, kind, Evictor(owner, wanted, breaks_gangs), placed):
            return True
    return False


def _takes_back(session: Session, kind: Eviction, evictor: Evictor, placed: Rows) -> bool:
    """Whether the victim could evict one of the tasks that were placed."""
    snapshot = session.snapshot
    if kind is Eviction.RECLAIM and not session.preemptive(int(snapshot.jobs.queue[evictor.job]), evictor.tasks):
        return False
    taken = session.evictable(kind, evictor, placed)
    if kind is Eviction.PREEMPT:
        return len(taken) > 0
    wanted = (snapshot.classes.requests[snapshot.tasks.cls[evictor.tasks], 0] > 0).any(axis=0)
    units = np.zeros(len(taken), np.int64) if evictor.breaks_gangs else None
    return bool(have_too_much(session, taken, wanted, units).any())
