"""Which victim goes first: the reverse of the order of service.

The queue that gives first, then the job that would be served last, then the job's last task.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from muster.framework import Session, points
from muster.snapshot import Rows


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


def queue_levels(session: Session, evictor: int) -> NDArray[np.int64]:
    """Where queues stand as sources of victims for a queue, 0 first, equal ones together; one more for no queue.

    As plugins say by `victim_queue_order`; where one has only `queue_order`, by its reverse: most over its share first.
    """
    givers = {id(getattr(ask, "__self__", None)) for ask in session.asked(points.VICTIM_QUEUE_ORDER)}
    served = [ask for ask in session.asked(points.QUEUE_ORDER) if id(getattr(ask, "__self__", None)) not in givers]
    queues = range(len(session.snapshot.queues))
    given = {queue: session.victim_queue_key(queue, evictor) for queue in queues}
    turn = {queue: tuple(ask(queue) for ask in served) for queue in queues}
    ranked = sorted(queues, key=lambda queue: turn[queue], reverse=True)
    ranked.sort(key=lambda queue: given[queue])
    levels = np.zeros(len(ranked) + 1, np.int64)
    for before, queue in pairwise(ranked):
        levels[queue] = levels[before] + ((given[before], turn[before]) != (given[queue], turn[queue]))
    return levels


def queue_order(session: Session, queues: Iterable[int], evictor: int) -> dict[int, int]:
    """Places of queues as sources of victims for a queue: as plugins say, else the last served gives first."""
    last_first = sorted(queues, key=session.queue_key, reverse=True)
    ordered = sorted(last_first, key=lambda queue: session.victim_queue_key(queue, evictor))
    return {queue: place for place, queue in enumerate(ordered)}
