"""Volcano's metrics, under its names, where they mean the same here: dashboards that exist go on working.

Made from the session of the last cycle when somebody asks, not with every cycle. Amounts of a queue include those of
the queues below it; scalar resources are in thousandths, as Volcano keeps them. The duration of cycles and the number
of evictions are counted in `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from muster.framework import Session, points
from muster.server.metric_table import FAMILIES
from muster.snapshot import BEST_EFFORT_PENDING, NO_ROW, READY_STATUSES, UNLIMITED, Amounts, TaskStatus

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_NOT_SCALAR: Final = frozenset({_CPU, _MEMORY, "pods"})


def volcano_lines(session: Session) -> Iterator[str]:
    """Gauges of queues and jobs, as Prometheus reads them."""
    yield from FAMILIES["volcano_unschedule_job_count"].lines([((), _waiting_jobs(session))])
    tables = {"allocated": session.snapshot.queues.tree_allocated, "request": _requests(session)}
    deserved = _deserved(session)
    if deserved is not None:
        tables["deserved"] = deserved
    tables["capacity"] = _limits(session)
    for name, table in tables.items():
        yield from _amounts(session, name, table)
    yield from _standing(session, deserved)


def _waiting_jobs(session: Session) -> int:
    jobs = session.snapshot.jobs
    ready = jobs.counts[:, [*READY_STATUSES, BEST_EFFORT_PENDING]].sum(axis=1)
    waits = jobs.live & jobs.has_group & (ready < jobs.min_member) & (jobs.counts[:, TaskStatus.PENDING] > 0)
    return int(waits.sum())


def _requests(session: Session) -> Amounts:
    """int64[queues, resources]: what is held and asked for in every queue and below."""
    snapshot = session.snapshot
    table, own = snapshot.queues.tree_allocated.copy(), np.zeros_like(snapshot.queues.own_allocated)
    jobs = np.flatnonzero(snapshot.jobs.live & (snapshot.jobs.queue != NO_ROW))
    np.add.at(own, snapshot.jobs.queue[jobs], snapshot.jobs.pending[jobs])
    for row, path in enumerate(snapshot.queues.paths):
        table[path] += own[row]
    return table


def _deserved(session: Session) -> Amounts | None:
    """int64[queues, resources] by the first plugin that says; None: none does."""
    for ask in session.asked(points.QUEUE_DESERVED):
        rows = [ask(queue) for queue in range(len(session.snapshot.queues))]
        if rows and all(row is not None for row in rows):
            return np.array(rows, np.int64)
    return None


def _limits(session: Session) -> Amounts:
    axis = session.snapshot.axis
    rows = [axis.vector(record.capability, int(UNLIMITED)) for record in session.snapshot.queues.records]
    return np.array(rows, np.int64).reshape(len(rows), len(axis))


def _amounts(session: Session, name: str, table: Amounts) -> Iterator[str]:
    """Only amounts that have an end."""
    axis, queues = session.snapshot.axis, session.snapshot.queues
    for resource, tail in ((_CPU, "milli_cpu"), (_MEMORY, "memory_bytes")):
        column = table[:, axis.index[resource]].tolist()
        rows = [((record.name,), amount) for record, amount in zip(queues.records, column, strict=True)]
        yield from FAMILIES[f"volcano_queue_{name}_{tail}"].lines([row for row in rows if row[1] < UNLIMITED])
    scalars = [
        ((record.name, resource), int(table[row, axis.index[resource]]))
        for row, record in enumerate(queues.records)
        for resource in axis.names
        if resource not in _NOT_SCALAR
    ]
    yield from FAMILIES[f"volcano_queue_{name}_scalar_resources"].lines([row for row in scalars if row[1] < UNLIMITED])


def _standing(session: Session, deserved: Amounts | None) -> Iterator[str]:
    records = session.snapshot.queues.records
    yield from FAMILIES["volcano_queue_weight"].lines([((record.name,), record.weight) for record in records])
    over = [((record.name,), int(session.overused(row))) for row, record in enumerate(records)]
    yield from FAMILIES["volcano_queue_overused"].lines(over)
    if deserved is not None:
        held = session.snapshot.queues.tree_allocated
        counted = np.where((deserved > 0) & (deserved < UNLIMITED), held / np.maximum(deserved, 1), 0.0)
        shares = [((record.name,), float(counted[row].max())) for row, record in enumerate(records)]
        yield from FAMILIES["volcano_queue_share"].lines(shares)
