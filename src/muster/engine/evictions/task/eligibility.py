"""Which tasks of a job may take others' room, and whose room it may be.

Callers: the task strategy. Policies of plugins are not asked here, only what holds whatever they say: a
pod that must not preempt never does, a pod that asks for nothing takes nothing from pods that ask for something, and
inside a queue nobody evicts pods of a job with a higher priority.
"""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.candidates import ON_NODE, Pool, on_node, willing
from muster.framework import Eviction, Session
from muster.snapshot import BEST_EFFORT, Mask, Rows, TaskStatus

_NEVER = "Never"
_RUNNING: Mask = np.arange(len(TaskStatus)) == TaskStatus.RUNNING


def may_evict(session: Session, tasks: Rows) -> Rows:
    """Tasks whose pods may preempt others."""
    pods = session.snapshot.tasks.pods
    allowed: Rows = tasks[[pods[task].spec.preemption_policy != _NEVER for task in tasks.tolist()]]
    return allowed


def pool_for_tasks(session: Session, kind: Eviction) -> Pool:
    """Whom single tasks might evict: across queues only pods that run; inside a queue also those of equal priority."""
    statuses = _RUNNING if kind is Eviction.RECLAIM else ON_NODE
    return Pool(session, kind, statuses, equals=True)


def candidates_within(session: Session, job: int) -> Rows:
    """Tasks of the job itself that others of it might evict."""
    snapshot = session.snapshot
    own = snapshot.tasks_of(job)
    allowed: Rows = own[(on_node(snapshot) & willing(snapshot))[own]]
    return np.sort(allowed)


def takes_from(session: Session, task: int, candidates: Rows) -> Rows:
    """Candidates that this very task may take from."""
    flags = session.snapshot.tasks.flags
    if not flags[task] & BEST_EFFORT:
        return candidates
    kept: Rows = candidates[(flags[candidates] & BEST_EFFORT) != 0]
    return kept
