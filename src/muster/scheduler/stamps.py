"""Stamps on PodGroups: when a gang last became complete, and since when it is broken.

Called with the other updates at the end of a cycle. Annotations survive a restart of the scheduler, and that of
a cluster's status. They are written when something changes, not in every cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muster.api.names import KAI_STALE_STAMP, STALE_STAMP, START_STAMP
from muster.engine.evictions.stale import stale_jobs
from muster.framework import Session
from muster.snapshot import JobRecord, Mask, OperationKind, Rows, TaskStatus
from muster.snapshot.records import stamp_text

#: Changes of annotations; None removes one.
Stamps = dict[str, str | None]

_HELD = [TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING]


def stamps_of(session: Session) -> Mapping[int, Stamps]:
    """What to change on the PodGroups of jobs, by row; jobs without changes are left out."""
    records = session.snapshot.jobs.records
    now = stamp_text(session.now)
    found: dict[int, Stamps] = {}
    for job in _started(session).tolist():
        found.setdefault(job, {})[START_STAMP] = now
    stale = stale_jobs(session.snapshot)
    for job in np.flatnonzero(stale).tolist():
        if records[job].stale_since is None:
            found.setdefault(job, {})[STALE_STAMP] = now
    for job in np.flatnonzero(session.snapshot.jobs.live & ~stale).tolist():
        if records[job].stale_since is not None:
            found.setdefault(job, {}).update(dict.fromkeys(_stale_keys(records[job])))
    return found


def _stale_keys(record: JobRecord) -> list[str]:
    return [key for key in (STALE_STAMP, KAI_STALE_STAMP) if key in record.annotations]


def _started(session: Session) -> Rows:
    """Gangs of which tasks are bound in this cycle and none was before: growth is no new start."""
    jobs = session.snapshot.jobs
    held: Mask = jobs.counts[:, _HELD].sum(axis=1) > 0
    held[_jobs_of(session, OperationKind.EVICT, on_node=True)] = True
    bound = _jobs_of(session, OperationKind.ALLOCATE)
    complete = np.array([session.job_deficit(job) == 0 for job in bound.tolist()], np.bool_)
    return bound[complete & ~held[bound]]


def _jobs_of(session: Session, kind: OperationKind, *, on_node: bool = False) -> Rows:
    """Jobs with committed operations of a kind, each once; `on_node`: on pods that are on a node."""
    table = session.snapshot.tasks
    found = [
        operation.tasks
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is kind
    ]
    if not found:
        return np.empty(0, np.int32)
    tasks = np.concatenate(found)
    if on_node:
        tasks = np.array([task for task in tasks.tolist() if table.pods[task].spec.node_name], np.int32)
    jobs: Rows = np.unique(table.job[tasks])
    return jobs[jobs >= 0]
