"""Restraint: what stops an eviction that every plugin allows.

An eviction that the victim could answer with the reverse one in the next cycle is not made, so no two jobs ever take
turns in evicting each other. That is found out by asking for the reverse, not by remembering, so it holds across
restarts too. Callers: the task strategy, before it commits.
"""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.asking import evictor_of
from muster.engine.evictions.deserved import have_too_much
from muster.framework import Eviction, Session
from muster.snapshot import Rows


def would_bounce(session: Session, kind: Eviction, job: int, victims: Rows, placed: Rows) -> bool:
    """Whether a victim's job could take back what `job` got; asked when victims and placements are in place."""
    tasks, jobs = session.snapshot.tasks, session.snapshot.jobs
    owners = tasks.job[victims]
    if kind is Eviction.PREEMPT:
        # Nobody evicts a job of higher priority inside its queue, so only equals could.
        victims = victims[jobs.priority[owners] >= jobs.priority[job]]
    else:
        victims = victims[_queues_that_reclaim(session, job, victims)]
    _, firsts = np.unique(tasks.job[victims], return_index=True)
    return any(_takes_back(session, kind, int(victim), placed) for victim in victims[firsts])


def _queues_that_reclaim(session: Session, job: int, victims: Rows) -> Rows:
    """Positions of victims whose queue may take from the job's queue."""
    snapshot = session.snapshot
    if not snapshot.queues.records[int(snapshot.jobs.queue[job])].reclaimable:
        return np.empty(0, np.int32)
    queues = snapshot.jobs.queue[snapshot.tasks.job[victims]]
    able = [queue for queue in np.unique(queues).tolist() if not session.overused(queue)]
    return np.flatnonzero(np.isin(queues, able)).astype(np.int32)


def _takes_back(session: Session, kind: Eviction, victim: int, placed: Rows) -> bool:
    """Whether a task like the victim could evict one of the tasks that were placed."""
    snapshot = session.snapshot
    owner = int(snapshot.tasks.job[victim])
    if not session.job_starving(owner):
        return False
    if kind is Eviction.PREEMPT:
        return len(session.evictable(kind, evictor_of(session, victim), placed)) > 0
    if not session.preemptive(int(snapshot.jobs.queue[owner]), np.array([victim], np.int32)):
        return False
    taken = session.evictable(kind, evictor_of(session, victim), placed)
    return bool(have_too_much(session, taken, snapshot.request(victim) > 0).any())
