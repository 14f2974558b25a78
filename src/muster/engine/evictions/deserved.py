"""What a queue deserves is protected: no reclaim takes a queue below it, whatever tier its plugin stands in.

Callers: every strategy that takes from other queues, after the plugins have spoken. What queues deserve is what the
plugins answer to `queue_deserved`; a queue that nobody has an opinion on is not protected here.
"""

from __future__ import annotations

import numpy as np

from muster.framework import Session
from muster.snapshot import NO_ROW, UNLIMITED, Amounts, Mask, Rows


def keeps_deserved(session: Session, tasks: Rows, wanted: Mask | None = None) -> Mask:
    """Which tasks may be taken, in the order given, so that their queues keep what they deserve.

    A task may go while its queue still holds, without it, what it deserves of a resource that the task has. With
    `wanted`, a mask over resources, only these are looked at: having much of what nobody needs exposes no queue. Not
    every resource must stay: queues deserve all they have of something plentiful, and would never give a pod that
    holds some of it.
    """
    snapshot = session.snapshot
    mask: Mask = np.ones(len(tasks), np.bool_)
    queues = np.append(snapshot.jobs.queue, np.int32(NO_ROW))[snapshot.tasks.job[tasks]]
    for queue in np.unique(queues[queues != NO_ROW]).tolist():
        deserved = deserved_of(session, queue)
        if deserved is not None:
            mine = np.flatnonzero(queues == queue)
            held = snapshot.queues.own_allocated[queue]
            mask[mine] = _keep(session, tasks[mine], held, deserved, wanted)
    return mask


def deserved_of(session: Session, queue: int) -> Amounts | None:
    """What the queue deserves, by the first plugin that says so; None: nobody does."""
    for ask in session.asked("queue_deserved"):
        answer: Amounts | None = ask(queue)
        if answer is not None:
            return answer
    return None


def _keep(session: Session, tasks: Rows, held: Amounts, deserved: Amounts, wanted: Mask | None) -> Mask:
    """As `keeps_deserved`, for the tasks of one queue.

    A task that may not go leaves the rest as it is, and so do all later ones of its class: what the queue holds
    only shrinks. So there are at most as many rounds as classes.
    """
    snapshot = session.snapshot
    classes = snapshot.tasks.cls[tasks]
    requests = snapshot.classes.requests[classes, 0]
    looked_at = _columns(session, requests, deserved, wanted)
    taken: Mask = np.ones(len(tasks), np.bool_)
    while True:
        left = held - np.cumsum(np.where(taken[:, None], requests, 0), axis=0)
        # Of what nobody looks at, nothing is protected.
        fine = ((left >= deserved) & looked_at).any(axis=1) | ~looked_at.any(axis=1)
        refused = np.flatnonzero(taken & ~fine)
        if len(refused) == 0:
            return taken
        first = int(refused[0])
        taken[first:] &= classes[first:] != classes[first]


def _columns(session: Session, requests: Amounts, deserved: Amounts, wanted: Mask | None) -> Mask:
    """bool[tasks, resources]: where a task counts against what its queue deserves."""
    columns = deserved < UNLIMITED
    columns[session.snapshot.axis.index["pods"]] = False
    if wanted is not None:
        columns = columns & wanted
    mask: Mask = (requests > 0) & columns
    return mask
