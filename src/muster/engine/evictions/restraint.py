"""Restraint: what stops evictions that every plugin allows.

What a queue deserves is protected: reclaim takes from a queue only while it has more, whatever tier its plugin has.
That is what plugins answer to `queue_deserved`; one that protects queues by its own rules (`protects`) is not
second-guessed, and a queue that nobody has an opinion on is not protected here.

And an eviction that the victim could answer with the reverse one in the next cycle is not made, so no two jobs ever
take turns in evicting each other. That is found out by asking for the reverse, not by remembering, so it holds across
restarts too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.engine.waiting import tasks_by_job
from muster.framework import Eviction, Evictor, Plugin, Rejection, Session, points
from muster.framework.reasons import NEVER_PREEMPTS, OVER_FAIR_SHARE, STILL_DELAYED
from muster.snapshot import NO_ROW, UNLIMITED, Amounts, Mask, Rows
from muster.snapshot.records import created_seconds


def have_too_much(session: Session, tasks: Rows, wanted: Mask, units: NDArray[np.int64] | None = None) -> Mask:
    """Which tasks may be taken from their queues, in the order given.

    A unit (tasks with the same number in `units`; without it, each task) may go while its queue holds more than it
    deserves of a resource that the unit has and that is wanted (a mask over resources): having much of what nobody
    needs exposes no queue. As units are not divided, the last one to go may leave a queue with less than it deserves:
    what is borrowed is given back, also by a gang that cannot give back a part.
    """
    snapshot = session.snapshot
    mask: Mask = np.ones(len(tasks), np.bool_)
    queues = np.append(snapshot.jobs.queue, np.intp(NO_ROW))[snapshot.tasks.job[tasks]]
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
    order = np.argsort(firsts, kind="stable")
    order = order[~going[order]]
    # Up to the first for which nothing is left, all go; from there on it depends on what each of them holds.
    before = np.cumsum(held[order], axis=0) - held[order]
    first = int(np.argmin(np.append(((left - before > 0) & looked_at[order]).any(axis=1), np.False_)))
    going[order[:first]] = True
    left = left - held[order[:first]].sum(axis=0)
    for unit in order[first:].tolist():
        if not (left[columns] > 0).any():
            break
        if (left[looked_at[unit]] > 0).any():
            going[unit] = True
            left = left - held[unit]
    return going[of_task]


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
    asked: set[tuple[int, int, bytes]] = set()
    queues = set(jobs.queue[tasks.job[victims]].tolist()) if kind is Eviction.RECLAIM else ()
    overused = {queue for queue in queues if session.overused(queue)}
    ordered = victims[np.argsort(tasks.job[victims], kind="stable")] if len(victims) > 1 else victims
    for owner, own in tasks_by_job(session, ordered):
        queue, priority = int(jobs.queue[owner]), int(jobs.priority[owner])
        if kind is Eviction.PREEMPT and priority < jobs.priority[job]:
            continue  # nobody evicts a job of higher priority inside its queue, so only equals could
        if queue in overused:
            continue
        # Whole gangs ask for all that they need to start again, single tasks for themselves.
        count = max(1, session.job_pipelined_deficit(owner)) if breaks_gangs and len(own) > 1 else 1
        wanted = own[:count]
        alike = queue, priority, tasks.cls[wanted].tobytes()
        if alike in asked:
            continue
        if kind is Eviction.RECLAIM and not session.preemptive(queue, wanted):
            asked.add(alike)
            continue
        if not (grows or session.job_starving(owner)):
            continue
        asked.add(alike)
        if _takes_back(session, kind, Evictor(owner, wanted, breaks_gangs), placed):
            return True
    return False


def _takes_back(session: Session, kind: Eviction, evictor: Evictor, placed: Rows) -> bool:
    """Whether the victim could evict one of the tasks that were placed."""
    snapshot = session.snapshot
    taken = session.evictable(kind, evictor, placed)
    if kind is Eviction.PREEMPT:
        return len(taken) > 0
    wanted = (snapshot.classes.requests[snapshot.tasks.cls[evictor.tasks], 0] > 0).any(axis=0)
    units = np.zeros(len(taken), np.int64) if evictor.breaks_gangs else None
    return bool(have_too_much(session, taken, wanted, units).any())


def why_not_ask(session: Session, kind: Eviction, job: int, tasks: Rows) -> Rejection | None:
    """Why a job may not look for victims at all for these tasks; None: it may."""
    if (refusal := why_wait(session, job, tasks)) is not None:
        return refusal
    if never_preempts(session, tasks):
        return Rejection(NEVER_PREEMPTS)
    if kind is Eviction.RECLAIM:
        refusal = session.can_reclaim(job, tasks) if session.asked(points.CAN_RECLAIM) else None
        if refusal is None and not session.preemptive(int(session.snapshot.jobs.queue[job]), tasks):
            refusal = Rejection(OVER_FAIR_SHARE)
        if refusal is not None:
            return refusal
    # Allocate would never bind it, however much room is made.
    return session.over_quota(job, tasks)


def why_wait(session: Session, job: int, tasks: Rows) -> Rejection | None:
    """Whether a job has asked for time in which free room may come before anybody is evicted; None: it is over.

    It begins with the youngest of the pods: whoever was evicted and made anew waits anew.
    """
    record = session.snapshot.jobs.records[job]
    if record.preemption_delay <= 0:
        return None
    pods = session.snapshot.tasks.pods
    until = max(created_seconds(pods[task].metadata) for task in tasks.tolist()) + record.preemption_delay
    if until <= session.now:
        return None
    session.look_again(until)
    return Rejection(STILL_DELAYED, f"{until - session.now:.0f} of {record.preemption_delay:.0f} s are left")


def never_preempts(session: Session, tasks: Rows) -> bool:
    """Whether one of the tasks says that nobody is to be evicted for it, in whatever queue, to move or for good."""
    pods = session.snapshot.tasks.pods
    return any(pods[task].spec.preemption_policy == "Never" for task in tasks.tolist())
