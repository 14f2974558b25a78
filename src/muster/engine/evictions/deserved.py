"""What a queue deserves is protected: reclaim takes from a queue only while it has more, whatever tier its plugin has.

Callers: every strategy that takes from other queues, after the plugins have spoken. What queues deserve is what plugins
answer to `queue_deserved`. A plugin that protects queues by its own rules (`protects`) is not second-guessed, and a
queue that nobody has an opinion on is not protected here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.framework import Plugin, Session, points
from muster.snapshot import NO_ROW, UNLIMITED, Amounts, Mask, Rows


def have_too_much(session: Session, tasks: Rows, wanted: Mask, units: NDArray[np.int64] | None = None) -> Mask:
    """Which tasks may be taken from their queues, in the order given.

    A unit (tasks with the same number in `units`; without it, each task) may go while its queue holds more than it
    deserves of a resource that the unit has and that is wanted (a mask over resources): having much of what nobody
    needs exposes no queue. As units are not divided, the last one to go may leave a queue with less than it deserves:
    what is borrowed is given back, also by a gang that cannot give back a part.
    """
    snapshot = session.snapshot
    mask: Mask = np.ones(len(tasks), np.bool_)
    queues = np.append(snapshot.jobs.queue, np.int32(NO_ROW))[snapshot.tasks.job[tasks]]
    counted = wanted.copy()
    counted[snapshot.axis.index["pods"]] = False
    units = np.arange(len(tasks)) if units is None else units
    for queue in np.unique(queues[queues != NO_ROW]).tolist():
        deserved = _deserved_of(session, queue)
        if deserved is not None:
            mine = np.flatnonzero(queues == queue)
            excess = snapshot.queues.own_allocated[queue] - deserved
            columns = counted & (deserved < UNLIMITED)
            mask[mine] = _within_excess(session, tasks[mine], units[mine], excess, columns)
    return mask


def _deserved_of(session: Session, queue: int) -> Amounts | None:
    """What the queue deserves, by the first plugin that says so; None: nobody does, or he sees to it himself."""
    for ask in session.asked(points.QUEUE_DESERVED):
        answer: Amounts | None = ask(queue)
        if answer is not None:
            plugin = getattr(ask, "__self__", None)
            return None if isinstance(plugin, Plugin) and plugin.protects else answer
    return None


def _within_excess(session: Session, tasks: Rows, units: NDArray[np.int64], excess: Amounts, columns: Mask) -> Mask:
    """Tasks of one queue that go before its excess is used up; of resources that nobody counts, nothing is kept."""
    requests = session.snapshot.classes.requests[session.snapshot.tasks.cls[tasks], 0]
    numbers, firsts, of_task = np.unique(units, return_index=True, return_inverse=True)
    held = np.zeros((len(numbers), requests.shape[1]), np.int64)
    np.add.at(held, of_task, requests)
    looked_at = (held > 0) & columns
    # Of what nobody looks at, nothing is protected.
    going: Mask = np.logical_not(looked_at.any(axis=1))
    left = excess - held[going].sum(axis=0)
    for unit in np.argsort(firsts, kind="stable").tolist():
        if not (left[columns] > 0).any():
            break
        if not going[unit] and (left[looked_at[unit]] > 0).any():
            going[unit] = True
            left = left - held[unit]
    return going[of_task]
