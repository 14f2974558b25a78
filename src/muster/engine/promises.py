"""Promises: room that pods leave belongs to whom it was cleared for, or promised to, until it starts or can no longer.

What is promised is kept back from others by the snapshot's reservations. Here stands who may have it all the same, and
that a queue's share is kept for them too.
"""

from __future__ import annotations

import numpy as np

from muster.engine.placing import door_of
from muster.engine.waiting import queue_holds, tasks_by_job
from muster.framework import Session
from muster.snapshot import NO_ROW, Rows, Statement, TaskStatus


def has_promise(session: Session, job: int) -> bool:
    """Whether a job that is not ready has been promised all that it needs, and waits for others to leave."""
    is_waiting = session.snapshot.jobs.counts[job, TaskStatus.PIPELINED] and session.job_deficit(job) > 0
    return bool(is_waiting) and session.job_pipelined_deficit(job) == 0


def take_promises(session: Session, job: int, statement: Statement) -> bool:
    """Let what is promised to jobs that this one could evict, and not theirs yet, be free for it; False: there is none.

    Otherwise they would start there, only to be evicted for it a moment later. Between queues a priority says nothing:
    whose room was taken back for another queue must not sit down in it again. And pods beyond a minimum take what is
    free, also while the minimum waits for the room that it was promised: nobody was evicted for them.
    """
    if session.job_pipelined_deficit(job) <= 0:
        return False
    jobs = session.snapshot.jobs
    promised = _promised_below(session, int(jobs.queue[job]), job)
    owners = session.snapshot.tasks.job[promised]
    taken = promised[(jobs.priority[owners] < jobs.priority[job]) & ~jobs.spared[owners]]
    statement.release(taken)
    return len(taken) > 0


def left_without_share(session: Session, job: int, statement: Statement) -> str:
    """A job for which room was cleared and whose queue could not hold it any more after this placement; "": none.

    What was cleared for it is a part of its queue's share too; else it would not start, and pods had gone for nothing.
    Jobs that were promised room are counted together: each alone might fit into what is left, and all wait for the
    others then.
    """
    queues, queue = session.snapshot.queues, int(session.snapshot.jobs.queue[job])
    # A limit above the queue is one for all below it.
    highest = [row for row in queues.paths[queue].tolist() if row == queue or queues.records[row].capability][-1]
    promised = _by_priority(session, _promised_below(session, highest, job))
    held = _held_together(session, promised, statement)
    if len(held) == len(promised):
        return ""
    placed = list(statement.operations)
    statement.rollback(0)
    # It has its turn among them, if room was cleared for it too: of two that exclude each other one starts.
    own = session.snapshot.tasks_of(job)
    own = own[session.snapshot.tasks.reserved[own]]
    everybody = _by_priority(session, np.concatenate((*(tasks for _, tasks in promised), own)))
    had = _held_together(session, everybody, statement)
    statement.redo(placed)
    lost = (owner for owner in had if owner != job and owner not in held)
    return next((session.snapshot.jobs.records[owner].id for owner in lost), "")


def _by_priority(session: Session, tasks: Rows) -> list[tuple[int, Rows]]:
    """Tasks that are ordered by job, cut into one piece for each job, in the order in which promises are kept."""
    jobs = session.snapshot.jobs
    return sorted(
        tasks_by_job(session, tasks), key=lambda piece: (-int(jobs.priority[piece[0]]), jobs.records[piece[0]].id)
    )


def _held_together(session: Session, promised: list[tuple[int, Rows]], statement: Statement) -> list[int]:
    """Those of the jobs that their queues could hold, one after the other, if they got what was promised to them."""
    table, jobs, mark, found = session.snapshot.tasks, session.snapshot.jobs, statement.mark(), []
    for job, tasks in promised:
        if not session.overused(int(jobs.queue[job])) and queue_holds(session, job, tasks):
            found.append(job)
            if len(promised) > 1:
                statement.release(tasks)
                door_of(session).put(tasks, table.nominated[tasks], statement)
    statement.rollback(mark)
    return found


def _promised_below(session: Session, queue: int, job: int) -> Rows:
    """Tasks of other jobs in a queue, or below it, for which room is set aside, ordered by job."""
    table, jobs, queues = session.snapshot.tasks, session.snapshot.jobs, session.snapshot.queues
    promised = np.flatnonzero(table.reserved & (table.job != NO_ROW) & (table.job != job)).astype(np.intp)
    below = np.append((queues.upward == queue).any(axis=1), np.False_)
    promised = promised[below[jobs.queue[table.job[promised]]]]
    ordered: Rows = promised[np.argsort(table.job[promised], kind="stable")]
    return ordered
