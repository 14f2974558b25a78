"""Restraint: what stops an eviction that every plugin allows.

Callers: the task strategy. A queue is taken from only while it has more than it deserves, whatever tier the plugin that
knows it stands in. And before it is committed: an eviction that the victim could answer with the reverse one in the
next cycle is not made, so no two jobs ever take turns in evicting each other. That is found out by asking for the
reverse, not by remembering, so it holds across restarts too.
"""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.deserved import deserved_of
from muster.framework import Eviction, Session
from muster.snapshot import NO_ROW, UNLIMITED, Amounts, Mask, Rows


def have_too_much(session: Session, tasks: Rows, wanted: Mask) -> Mask:
    """Which tasks may be taken from their queues, in the order given.

    A task may go while its queue holds more than it deserves of a resource that the task has and that is wanted (a
    mask over resources). As tasks are not divided, the last one to go may leave a queue with less than that.
    """
    snapshot = session.snapshot
    mask: Mask = np.ones(len(tasks), np.bool_)
    queues = np.append(snapshot.jobs.queue, np.int32(NO_ROW))[snapshot.tasks.job[tasks]]
    counted = wanted.copy()
    counted[snapshot.axis.index["pods"]] = False
    for queue in np.unique(queues[queues != NO_ROW]).tolist():
        deserved = deserved_of(session, queue)
        if deserved is not None:
            mine = queues == queue
            excess = snapshot.queues.own_allocated[queue] - deserved
            mask[mine] = _within_excess(session, tasks[mine], excess, counted & (deserved < UNLIMITED))
    return mask


def _within_excess(session: Session, tasks: Rows, excess: Amounts, columns: Mask) -> Mask:
    """Tasks of one queue that go before its excess is used up; of resources that nobody counts, nothing is kept.

    What is left only shrinks, so with a task that may not go, all later ones of its class may not go either: there
    are at most as many rounds as classes.
    """
    classes = session.snapshot.tasks.cls[tasks]
    requests = session.snapshot.classes.requests[classes, 0]
    looked_at = (requests > 0) & columns
    taken: Mask = np.ones(len(tasks), np.bool_)
    while True:
        going = np.where(taken[:, None], requests, 0)
        left = excess - (np.cumsum(going, axis=0) - going)
        may_go = ((left > 0) & looked_at).any(axis=1) | ~looked_at.any(axis=1)
        refused = np.flatnonzero(taken & ~may_go)
        if len(refused) == 0:
            return taken
        first = int(refused[0])
        taken[first:] &= classes[first:] != classes[first]


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
        return len(session.preemptable(victim, placed)) > 0
    if not session.preemptive(int(snapshot.jobs.queue[owner]), np.array([victim], np.int32)):
        return False
    taken = session.reclaimable(victim, placed)
    return bool(have_too_much(session, taken, snapshot.request(victim) > 0).any())
