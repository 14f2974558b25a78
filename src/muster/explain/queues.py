"""A job's queue and the queues above it, as numbers: what they hold, deserve and may hold at most.

Called by `explain_job`. Only resources that the job asks for are shown, and only limits that are set.
"""

from __future__ import annotations

from muster.explain.model import Named, QueuePicture
from muster.framework import Session
from muster.snapshot import NO_ROW, UNLIMITED, Amounts


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
                if queue.deserved[name] < session.total[session.snapshot.axis.index[name]]:
                    return False
    return broken


def _picture(session: Session, queue: int, resources: frozenset[str]) -> QueuePicture:
    snapshot = session.snapshot
    record = snapshot.queues.records[queue]
    axis = snapshot.axis
    allocated = snapshot.queues.tree_allocated[queue]
    return QueuePicture(
        name=record.name,
        weight=record.weight,
        allocated={name: int(allocated[axis.index[name]]) for name in axis.names if name in resources},
        deserved=_deserved(session, queue, resources) or _only(record.deserved, resources),
        limit=_only(record.capability, resources),
        guarantee=_only(record.guarantee, resources),
    )


def _deserved(session: Session, queue: int, resources: frozenset[str]) -> Named:
    for ask in session.asked("queue_deserved"):
        answer: Amounts | None = ask(queue)
        if answer is not None:
            return {
                name: int(amount)
                for name, amount in zip(session.snapshot.axis.names, answer, strict=True)
                if name in resources and amount < UNLIMITED
            }
    return {}


def _only(amounts: Named, resources: frozenset[str]) -> Named:
    return {name: amounts[name] for name in sorted(amounts) if name in resources}
