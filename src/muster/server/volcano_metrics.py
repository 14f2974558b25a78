"""Volcano's metrics, under its names, where they mean the same here: dashboards that exist go on working.

Made from the session of the last cycle when somebody asks, not with every cycle. Amounts of a queue include those of
the queues below it; scalar resources are in thousandths, as Volcano keeps them. The duration of cycles and the number
of evictions are counted in `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from muster.framework import Session, points
from muster.snapshot import BEST_EFFORT_PENDING, NO_ROW, READY_STATUSES, UNLIMITED, Amounts, TaskStatus

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_NOT_SCALAR: Final = frozenset({_CPU, _MEMORY, "pods"})
_HELP: Final = {
    "allocated": "What the pods of a queue hold.",
    "request": "What the pods of a queue hold and what its waiting pods ask for.",
    "deserved": "What a queue is entitled to.",
    "capacity": "The most that a queue may hold.",
}


def volcano_lines(session: Session) -> Iterator[str]:
    """Gauges of queues and jobs, as Prometheus reads them."""
    yield from _gauge(
        "volcano_unschedule_job_count", "Jobs that wait for their minimum.", [("", _waiting_jobs(session))]
    )
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
    axis, queues = session.snapshot.axis, session.snapshot.queues
    for resource, tail in ((_CPU, "milli_cpu"), (_MEMORY, "memory_bytes")):
        column = table[:, axis.index[resource]].tolist()
        rows = [(_label(record.name), amount) for record, amount in zip(queues.records, column, strict=True)]
        yield from _gauge(f"volcano_queue_{name}_{tail}", _HELP[name], _limited(rows))
    scalars = [
        (f'{_label(record.name)[:-1]},resource="{resource}"}}', int(table[row, axis.index[resource]]))
        for row, record in enumerate(queues.records)
        for resource in axis.names
        if resource not in _NOT_SCALAR
    ]
    yield from _gauge(f"volcano_queue_{name}_scalar_resources", _HELP[name], _limited(scalars))


def _standing(session: Session, deserved: Amounts | None) -> Iterator[str]:
    records = session.snapshot.queues.records
    yield from _gauge(
        "volcano_queue_weight", "Weight of a queue.", [(_label(record.name), record.weight) for record in records]
    )
    over = [(_label(record.name), int(session.overused(row))) for row, record in enumerate(records)]
    yield from _gauge("volcano_queue_overused", "1 while a queue has all that it is entitled to.", over)
    if deserved is not None:
        held = session.snapshot.queues.tree_allocated
        counted = np.where((deserved > 0) & (deserved < UNLIMITED), held / np.maximum(deserved, 1), 0.0)
        shares = [(_label(record.name), float(counted[row].max())) for row, record in enumerate(records)]
        yield from _gauge(
            "volcano_queue_share", "What a queue holds, in parts of what it is entitled to; the largest part.", shares
        )


def _limited(rows: Sequence[tuple[str, int]]) -> list[tuple[str, float]]:
    """Only amounts that have an end."""
    return [(label, amount) for label, amount in rows if amount < UNLIMITED]


def _label(queue: str) -> str:
    return f'{{queue_name="{queue}"}}'


def _gauge(name: str, text: str, rows: Sequence[tuple[str, float]]) -> Iterator[str]:
    if rows:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
        yield from (f"{name}{label} {value:.10g}" for label, value in rows)
