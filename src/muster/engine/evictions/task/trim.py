"""Trim: what was evicted for a job's tasks one after the other may be more than they need together.

Callers: the task strategy, before it commits. Each step evicts no more than it needs, but a later one may leave enough
for an earlier one too. Victims go back, the last evicted first, while every task still has its place and its queue may
still hold it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muster.engine.evictions.task.asking import free_on
from muster.framework import Eviction, Session
from muster.snapshot import Mask, Operation, OperationKind, Rows, Statement


def tasks_of(statement: Statement, kind: OperationKind) -> Rows:
    """Tasks of all operations of a kind, in order."""
    found = [operation.tasks for operation in statement.operations if operation.kind is kind]
    return np.concatenate(found) if found else np.empty(0, np.int32)


def trim(session: Session, kind: Eviction, statement: Statement) -> None:
    """Give victims back that nobody needs; placements stay as they are."""
    evicted = tasks_of(statement, OperationKind.EVICT)
    for task in evicted[_may_stay(session, evicted)][::-1].tolist():
        if not _may_stay(session, np.array([task], np.int32))[0]:
            continue  # another one that came back took the room
        if kind is Eviction.PREEMPT and not _queue_holds(session, task):
            continue  # it had to go because the queue may not hold both
        operations = [_without(operation, task) for operation in statement.operations]
        statement.rollback()
        statement.redo([operation for operation in operations if len(operation.tasks)])


def _may_stay(session: Session, evicted: Rows) -> Mask:
    """Victims that fit beside all that is promised on their nodes."""
    snapshot = session.snapshot
    held = snapshot.classes.requests[snapshot.tasks.cls[evicted], 0]
    stay: Mask = (free_on(session, snapshot.tasks.node[evicted]) >= held).all(axis=1)
    return stay


def _queue_holds(session: Session, task: int) -> bool:
    snapshot = session.snapshot
    queue = int(snapshot.jobs.queue[snapshot.tasks.job[task]])
    return session.queue_slots(queue, snapshot.request(task)) > 0


def _without(operation: Operation, task: int) -> Operation:
    """The same operation without one victim."""
    if operation.kind is not OperationKind.EVICT or task not in operation.tasks:
        return operation
    kept = operation.tasks != task
    previous = None if operation.previous is None else operation.previous[kept]
    return replace(operation, tasks=operation.tasks[kept], nodes=operation.nodes[kept], previous=previous)
