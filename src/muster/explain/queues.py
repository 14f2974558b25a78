"""A job's queue and the queues above it, as numbers: what they hold, deserve, could have now and may hold at most.

Called by `explain_job`. Only resources that the job asks for are shown, and only limits that are set.
"""

from __future__ import annotations

import numpy as np

from muster.explain.model import Explanation, Named, QueuePicture
from muster.framework import FITS, Session, points
from muster.scheduler.job_statuses import no_evictions_text
from muster.snapshot import GATED, NO_ROW, UNLIMITED, Amounts, TaskStatus


def queue_pictures(session: Session, job: int, resources: frozenset[str]) -> tuple[QueuePicture, ...]:
    """Return the queue of a job and its parents, nearest first; nothing when the queue does not exist."""
    row = int(session.snapshot.jobs.queue[job])
    if row == NO_ROW:
        return ()
    return tuple(_picture(session, int(queue), resources) for queue in session.snapshot.queues.paths[row])


def bound_by_cluster(session: Session, queues: tuple[QueuePicture, ...], needed: Named) -> bool:
    """Whether what is needed breaks no bound of a queue but those that are as wide as the whole cluster.

    A queue alone deserves everything there is; when that is used up, the cluster is full, not the queue.
    """
    broken = False
    for queue in queues:
        for name, amount in needed.items():
            wanted = queue.allocated.get(name, 0) + amount
            if wanted > queue.limit.get(name, wanted):
                return False
            if wanted > queue.deserved.get(name, wanted):
                broken = True
                if queue.deserved[name] < session.shared_total[session.snapshot.axis.index[name]]:
                    return False
    return broken


def contested_resources(session: Session, job: int) -> frozenset[str]:
    """Resources that pending tasks of other queues ask for, if room would let them start."""
    snapshot = session.snapshot
    tasks, queues = snapshot.tasks, snapshot.jobs.queue
    waits = (tasks.status == TaskStatus.PENDING) & (tasks.job != NO_ROW) & ((tasks.flags & GATED) == 0)
    rows = np.flatnonzero(waits)
    owners = queues[tasks.job[rows]]
    rows = rows[(owners != NO_ROW) & (owners != queues[job])]
    classes = [cls for cls in np.unique(tasks.cls[rows]).tolist() if (session.node_verdicts(cls) == FITS).any()]
    columns = np.flatnonzero(snapshot.classes.requests[classes, 0].sum(axis=0))
    return frozenset(snapshot.axis.names[column] for column in columns)


def used_up_shares(explanation: Explanation) -> tuple[str, tuple[QueuePicture, ...]]:
    """A resource that is short, and the queues, nearest first, that would have more of it than their fair share.

    No queues where nobody else waits for what is short: then it is the cluster that is full, whatever the shares.
    """
    needs = [need for need in explanation.needs if need.contested and need.resource in explanation.lacking]
    for name in sorted((need.resource for need in needs), key=lambda name: ("/" not in name, name)):
        more = explanation.wanted.get(name, 0)
        queues = tuple(
            queue
            for queue in explanation.queues
            if more and queue.allocated.get(name, 0) + more > queue.fair_share.get(name, UNLIMITED)
        )
        if queues:
            return name, queues
    return "", ()


def held_by_others(session: Session, resources: frozenset[str]) -> Named:
    """What pods of other schedulers hold of some resources, on the ready nodes."""
    held = session.snapshot.axis.amounts(session.snapshot.held_by_others())
    return {name: amount for name, amount in held.items() if name in resources and amount > 0}


def why_nobody_leaves(session: Session, job: int, explanation: Explanation) -> str:
    """Why nobody is evicted for a job that lacks room: what each action ran into; "" where nobody looked."""
    said = _why_queues_keep(session, job, explanation), no_evictions_text(session, job)
    return "; ".join(part for part in said if part)


def _why_queues_keep(session: Session, job: int, explanation: Explanation) -> str:
    """Why pods of other queues are not evicted for a job that lacks room; "" where that cannot be told in a word."""
    snapshot = session.snapshot
    own, lacking = int(snapshot.jobs.queue[job]), sorted(explanation.lacking)
    if own == NO_ROW or not lacking or not any(session.has_action(name) for name in ("reclaim", "gangreclaim")):
        return ""
    shares = {queue: _entitled(session, queue) for queue in range(len(snapshot.queues))}
    if any(share is None for share in shares.values()):
        return ""
    line = set(snapshot.queues.paths[own].tolist())
    for queue, share in shares.items():
        held = snapshot.queues.tree_allocated[queue]
        for name in lacking:
            column = snapshot.axis.index[name]
            asked = explanation.wanted.get(name, 0) if queue in line else 0
            if share is not None and held[column] + asked > share[column]:
                return ""  # somebody has too much, or this queue would: the rest is for the actions to say
    return "no other queue has more than it is entitled to"


def _entitled(session: Session, queue: int) -> Amounts | None:
    """What a queue may keep while others want more: what it deserves or its fair share; None: no plugin says."""
    said = [ask(queue) for point in (points.QUEUE_DESERVED, points.QUEUE_FAIR_SHARE) for ask in session.asked(point)]
    known: list[Amounts] = [answer for answer in said if answer is not None]
    return np.maximum.reduce(known) if known else None


def _picture(session: Session, queue: int, resources: frozenset[str]) -> QueuePicture:
    snapshot = session.snapshot
    record = snapshot.queues.records[queue]
    axis = snapshot.axis
    allocated = snapshot.queues.tree_allocated[queue]
    deserved = session.ask(points.QUEUE_DESERVED, queue)
    return QueuePicture(
        name=record.name,
        weight=record.weight,
        allocated={name: int(allocated[axis.index[name]]) for name in axis.names if name in resources},
        deserved=_said(session, deserved, resources) or _only(record.deserved, resources),
        fair_share=_said(session, session.ask(points.QUEUE_FAIR_SHARE, queue), resources),
        limit=_only(record.capability, resources),
        guarantee=_only(record.guarantee, resources),
    )


def _said(session: Session, amounts: Amounts | None, resources: frozenset[str]) -> Named:
    """What a queue is entitled to, by name; nothing where it is entitled to everything."""
    named = () if amounts is None else zip(session.snapshot.axis.names, amounts, strict=True)
    return {name: int(amount) for name, amount in named if name in resources and amount < UNLIMITED}


def _only(amounts: Named, resources: frozenset[str]) -> Named:
    return {name: amounts[name] for name in sorted(amounts) if name in resources}
