"""Victims: who may be evicted for whom, and who goes first.

Candidates are pods that run or are bound, that did not ask to be spared, and that belong to this scheduler. The
order of victims is the reverse of the order of service: the queue that gives first, then the job that would be
served last, then the job's last task.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.framework import Session
from muster.snapshot import FOREIGN, NO_ROW, PREEMPTABLE, Mask, Rows, TaskStatus


def may_be_evicted(session: Session) -> Mask:
    """Tasks that somebody might evict."""
    tasks = session.snapshot.tasks
    on_node = ((tasks.status == TaskStatus.RUNNING) | (tasks.status == TaskStatus.BOUND)) & (tasks.node != NO_ROW)
    willing = (tasks.flags & (PREEMPTABLE | FOREIGN)) == PREEMPTABLE
    mask: Mask = on_node & willing & (tasks.job != NO_ROW)
    return mask


def in_queue_of(session: Session, job: int) -> Mask:
    """Tasks of other jobs in the job's queue."""
    return tasks_of(session, jobs_in_queue_of(session, job))


def in_other_queues(session: Session, job: int) -> Mask:
    """Tasks in other queues than the job's, as far as those queues let themselves be taken from."""
    return tasks_of(session, jobs_in_other_queues(session, job))


def jobs_in_queue_of(session: Session, job: int) -> Mask:
    """Other jobs in the job's queue."""
    queues = session.snapshot.jobs.queue
    mask: Mask = queues == queues[job]
    mask[job] = False
    return mask


def jobs_in_other_queues(session: Session, job: int) -> Mask:
    """Jobs in other queues than the job's, as far as those queues let themselves be taken from."""
    queues = session.snapshot.jobs.queue
    giving = np.array([record.reclaimable for record in session.snapshot.queues.records] + [False], np.bool_)
    mask: Mask = (queues != queues[job]) & giving[queues]
    return mask


def tasks_of(session: Session, jobs: Mask) -> Mask:
    """Tasks of the jobs; those of no job are not among them."""
    mask: Mask = np.append(jobs, np.False_)[session.snapshot.tasks.job]
    return mask


def victim_order(session: Session, tasks: Rows, evictor: int) -> Rows:
    """Order tasks as victims for the job `evictor`, first to go first."""
    snapshot = session.snapshot
    if len(tasks) == 0:
        return tasks
    last_first = session.sort_tasks(tasks)[::-1]
    home = int(snapshot.jobs.queue[evictor])
    jobs = snapshot.tasks.job[last_first]
    ranked = sorted(np.unique(jobs).tolist(), key=session.job_key, reverse=True)
    if any(snapshot.jobs.queue[job] != home for job in ranked):
        givers = queue_order(session, {int(snapshot.jobs.queue[job]) for job in ranked}, home)
        ranked.sort(key=lambda job: givers[int(snapshot.jobs.queue[job])])
    place = {job: k for k, job in enumerate(ranked)}
    order = np.argsort([place[job] for job in jobs.tolist()], kind="stable")
    ordered: Rows = last_first[order]
    return ordered


def queue_order(session: Session, queues: Iterable[int], evictor: int) -> dict[int, int]:
    """Places of queues as sources of victims for a queue: as plugins say, else the last served gives first."""
    last_first = sorted(queues, key=session.queue_key, reverse=True)
    ordered = sorted(last_first, key=lambda queue: session.victim_queue_key(queue, evictor))
    return {queue: place for place, queue in enumerate(ordered)}
