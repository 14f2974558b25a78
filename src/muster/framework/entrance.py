"""Which queues take jobs at all, and who is let in where no action decides on it.

A PodGroup is admitted before it has pods: controllers make them only when its phase says so. Where `enqueue` is
configured it admits jobs one by one. Without it, every waiting job is let in when the session opens, whether it has
pods or not, unless its queue cannot have it; then the reason is on record, for its condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from muster.framework.reasons import QUARANTINED, QUEUE_BROKEN, QUEUE_CLOSED, QUEUE_MISSING, QUEUE_NOT_A_LEAF
from muster.framework.verdicts import JobVerdict
from muster.snapshot import NO_ROW, JobPhase

if TYPE_CHECKING:
    from muster.framework.session import Session

_STARTING: Final = ("allocate", "backfill")


def why_queue_refuses(session: Session, job: int) -> JobVerdict | None:
    """Why the queue of a job takes no jobs, or not this one; None: it does."""
    snapshot = session.snapshot
    queue, name = int(snapshot.jobs.queue[job]), snapshot.jobs.records[job].queue
    if queue == NO_ROW:
        return JobVerdict(QUEUE_MISSING, name)
    if queue in snapshot.queues.aside:
        return JobVerdict(QUARANTINED, snapshot.queues.aside[queue])
    if queue in snapshot.queues.broken:
        return JobVerdict(QUEUE_BROKEN, snapshot.queues.broken[queue])
    if session.asked("queue_turn"):
        if not snapshot.queues.records[queue].open:
            return JobVerdict(QUEUE_CLOSED, name)
        if queue in snapshot.queues.parents:
            return JobVerdict(QUEUE_NOT_A_LEAF, name)
    return None


def let_in_where_nobody_decides(session: Session) -> None:
    """Admit waiting jobs if no action decides on it; plugins are not asked."""
    if session.has_action("enqueue") or not _starts_jobs(session):
        return
    jobs = session.snapshot.jobs
    waiting = np.flatnonzero(jobs.live & jobs.has_group & (jobs.phase == JobPhase.PENDING))
    queues = jobs.queue[waiting]
    for queue in np.unique(queues):
        same = waiting[queues == queue]
        if queue != NO_ROW and why_queue_refuses(session, int(same[0])) is None:
            jobs.phase[same] = JobPhase.INQUEUE
            continue
        for job in same.tolist():
            verdict = why_queue_refuses(session, job)
            if verdict is not None:
                session.record(job, verdict)


def _starts_jobs(session: Session) -> bool:
    """Whether an action starts waiting jobs.

    Where queues take turns in a tree, all of them do; else evicting alone helps only who was let in before.
    """
    return bool(session.asked("queue_turn")) or any(map(session.has_action, _STARTING))
