"""What to write to queues and HyperNodes at the end of a cycle: only what differs from what stands there.

What queues hold is taken from the picture at the beginning of a cycle, so that it says what pods hold and not what was
only decided. Queues of Volcano count PodGroups by phase, and `root` holds what all of them hold; queues of KAI say what
was asked for, what cannot be taken back, and which queues are below.
A HyperNode that is wrong says so itself, in its condition `Valid`, and not only the jobs that wait because of it.
Nothing is compared while everything is as it was when there was nothing to say.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.api import HyperNode, KaiQueue, Quantity, Queue, format_amount, to_base
from muster.api.names import ROOT_QUEUE
from muster.cluster.written_objects import says
from muster.snapshot import NO_ROW, Amounts, JobPhase, Mirror, QueueRecord, Rows, Snapshot
from muster.snapshot.devices import PREFIX
from muster.snapshot.hypernodes import HyperNodeForest
from muster.snapshot.messages import HyperNodeUpdate, QueueUpdate

#: Said even when it is nothing.
_ALWAYS: Final = ("cpu", "memory", "pods")
_N_PHASES: Final = len(JobPhase)
_Named = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Picture:
    """All that statuses of queues follow from."""

    records: list[QueueRecord]
    held: Amounts
    firm: Amounts
    requested: Amounts
    phases: Rows

    def is_like(self, other: _Picture) -> bool:
        if len(self.records) != len(other.records) or not all(map(operator.is_, self.records, other.records)):
            return False
        pairs = ((self.held, other.held), (self.firm, other.firm), (self.requested, other.requested))
        return all(map(np.array_equal, *zip(*pairs, strict=True))) and np.array_equal(self.phases, other.phases)


class QueueStatuses:
    """Remembers which picture needs no writing."""

    def __init__(self) -> None:
        self._settled: _Picture | None = None

    def updates(self, snapshot: Snapshot, finished: Mapping[str, int]) -> list[QueueUpdate]:
        """Return the updates of queues whose status is not current, by name.

        `finished`: gangs that are out of the picture because they are over, by queue.
        """
        queues = snapshot.queues
        phases = _phases(snapshot)
        for name, count in finished.items():
            if name in queues.index:
                phases[queues.index[name], JobPhase.COMPLETED] += count
        picture = _Picture(queues.records, _with_root(snapshot), queues.tree_firm.copy(), _requested(snapshot), phases)
        if self._settled is not None and picture.is_like(self._settled):
            return []
        updates = [made for row in range(len(queues)) if (made := _update(snapshot, picture, row)) is not None]
        self._settled = None if updates else picture
        return updates


def _update(snapshot: Snapshot, picture: _Picture, row: int) -> QueueUpdate | None:
    """What to write to one queue; None: it stands there already."""
    record, axis = picture.records[row], snapshot.axis
    held = axis.amounts(picture.held[row])
    if isinstance(record.source, Queue):
        phases = {phase.label.lower(): int(picture.phases[row, phase]) for phase in JobPhase}
        if _phases_of(record.source) == phases and _is(held, record.source.status.allocated):
            return None
        return QueueUpdate(record.name, _texts(held), phases=phases)
    if not isinstance(record.source, KaiQueue):
        return None
    firm, requested = axis.amounts(picture.firm[row]), axis.amounts(picture.requested[row])
    below = _below(picture.records, record.name)
    status = record.source.status
    is_same = (
        _is(held, status.allocated)
        and _is(firm, status.allocated_non_preemptible)
        and _is(requested, status.requested)
        and below == tuple(status.child_queues)
    )
    if is_same:
        return None
    return QueueUpdate(record.name, _texts(held), firm=_texts(firm), requested=_texts(requested), children=below)


def _phases_of(queue: Queue) -> _Named:
    status = queue.status
    return {
        "pending": status.pending,
        "inqueue": status.inqueue,
        "running": status.running,
        "unknown": status.unknown,
        "completed": status.completed,
    }


def _below(records: Iterable[QueueRecord], name: str) -> tuple[str, ...]:
    return tuple(sorted(record.name for record in records if record.parent == name))


def _with_root(snapshot: Snapshot) -> Amounts:
    """What queues and those below them hold; queues of Volcano without a parent are below root."""
    queues = snapshot.queues
    total = queues.tree_allocated.copy()
    root = queues.index.get(ROOT_QUEUE)
    if root is None or not isinstance(queues.records[root].source, Queue):
        return total
    for row, record in enumerate(queues.records):
        if row != root and isinstance(record.source, Queue) and not record.parent:
            total[root] += queues.tree_allocated[row]
    return total


def _phases(snapshot: Snapshot) -> Rows:
    """PodGroups by queue and phase; pods without a PodGroup are none."""
    jobs, n_phases = snapshot.jobs, _N_PHASES
    mine = jobs.live & jobs.has_source & (jobs.queue != NO_ROW)
    counts = np.bincount(jobs.queue[mine] * n_phases + jobs.phase[mine], minlength=len(snapshot.queues) * n_phases)
    return counts.astype(np.intp).reshape(-1, n_phases)


def _requested(snapshot: Snapshot) -> Amounts:
    """What pods of a queue and of those below it hold and wait for; only queues of KAI say it."""
    queues, jobs = snapshot.queues, snapshot.jobs
    if not any(isinstance(record.source, KaiQueue) for record in queues.records):
        return np.empty((len(queues), 0), np.int64)
    own: Amounts = np.zeros_like(queues.own_allocated)
    mine = jobs.live & (jobs.queue != NO_ROW)
    np.add.at(own, jobs.queue[mine], jobs.pending[mine])
    total = queues.tree_allocated.copy()
    for row, path in enumerate(queues.paths):
        total[path] += own[row]
    return total


def _texts(amounts: _Named) -> dict[str, str]:
    said = {**dict.fromkeys(_ALWAYS, 0), **amounts}
    return {name: format_amount(name, said[name]) for name in sorted(said) if not name.startswith(PREFIX)}


def _is(wanted: _Named, standing: Mapping[str, Quantity]) -> bool:
    """Whether amounts stand there; nothing of a resource need not be said."""
    said = {name: amount for name, quantity in standing.items() if (amount := to_base(name, quantity))}
    return said == {name: amount for name, amount in wanted.items() if not name.startswith(PREFIX)}


class HyperNodeStatuses:
    """Remembers which state of the tree needs no writing."""

    def __init__(self) -> None:
        self._settled: tuple[HyperNodeForest, int] | None = None

    def updates(self, mirror: Mirror, forest: HyperNodeForest) -> list[HyperNodeUpdate]:
        """Return the updates of HyperNodes whose status is not current, by name."""
        revision = mirror.hyper_node_revision
        if self._settled is not None and self._settled[0] is forest and self._settled[1] == revision:
            return []
        updates = hypernode_updates(mirror.hyper_nodes, forest)
        self._settled = None if updates else (forest, revision)
        return updates


def hypernode_updates(hyper_nodes: Mapping[str, HyperNode], forest: HyperNodeForest) -> list[HyperNodeUpdate]:
    """Compare every HyperNode with its place in the tree."""
    updates = []
    for name in sorted(hyper_nodes):
        if name in forest.tiers:
            update = HyperNodeUpdate(name, len(forest.nodes[name]), forest.faults.get(name, ""))
            if not says(hyper_nodes[name], update):
                updates.append(update)
    return updates
