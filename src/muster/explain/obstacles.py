"""What stands in a job's way, as numbers: every node for one class of tasks, and its queue with those above.

This looks at every node, which a cycle does not do for a job that waits. Free resources are counted as of the end of
the session. Of queues only resources that the job asks for are shown, and only limits that are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from muster.explain.model import ClosestNode, Explanation, Holder, Named, NodeGroup, QueuePicture
from muster.framework import FITS, Reason, Session, Verdicts, points, reason, reason_number, reason_of
from muster.framework.reasons import INSUFFICIENT, NODE_NOT_READY
from muster.snapshot import (
    ALLOCATED_STATUSES,
    GATED,
    NO_ROW,
    UNLIMITED,
    Amounts,
    Mask,
    Rows,
    Snapshot,
    TaskStatus,
    slots_in,
)

TOO_SMALL = reason(
    "node-too-small",
    "are too small even when empty",
    remedy="ask for less per pod, or add larger nodes",
)
NO_SUCH_RESOURCE = reason(
    "no-such-resource",
    "have none of a resource that it asks for",
    remedy="correct the resource's name, or add nodes that have it",
)
NO_NODES = reason("no-nodes", "the cluster has no nodes", remedy="add a node")
_EXAMPLES = 3
_HOLDERS = 20


@dataclass(frozen=True)
class NodeView:
    """The nodes as one task sees them."""

    snapshot: Snapshot
    #: The request, without resources that it does not name.
    request: Amounts
    #: Why each node is out, free resources aside.
    fixed: Verdicts
    #: The same with free resources.
    verdicts: Verdicts
    idle: Amounts

    @property
    def eligible(self) -> Mask:
        """Nodes that only lack room, or lack nothing."""
        mask: Mask = self.fixed == FITS
        return mask

    @cached_property
    def n_fitting(self) -> int:
        return int(np.count_nonzero(self.verdicts == FITS))

    @cached_property
    def room(self) -> int:
        """How many such tasks have room now, on all nodes together."""
        return int(self.slots().sum())

    @cached_property
    def counts(self) -> Named:
        """Nodes by the code of what is against them; most frequent first."""
        numbers, counts = np.unique(self.verdicts, return_counts=True)
        known = {reason_number(int(number)).code: int(n) for number, n in zip(numbers, counts, strict=True)}
        return dict(sorted(known.items(), key=lambda pair: (-pair[1], pair[0])))

    @cached_property
    def examples(self) -> Mapping[str, tuple[str, ...]]:
        """The first few nodes, by name, that have the same against them, by its code."""
        found: dict[str, tuple[str, ...]] = {}
        for number in np.unique(self.verdicts).tolist():
            rows = np.flatnonzero(self.verdicts == number).tolist()
            names = nsmallest(_EXAMPLES, (self.snapshot.nodes.names[row] for row in rows))
            found[reason_number(number).code] = tuple(names)
        return found

    @cached_property
    def free(self) -> Named:
        """Total room on the nodes where the task may go."""
        total = np.maximum(self.idle[self.eligible], 0).sum(axis=0)
        return {name: int(total[column]) for column, name in enumerate(self.snapshot.axis.names)}

    @cached_property
    def closest(self) -> ClosestNode | None:
        """The node that lacks the smallest part of the request; None when one fits or none may be used.

        A node that is too small is farther away than any whose pods could go.
        """
        near = self.verdicts == INSUFFICIENT.number
        small = np.isin(self.verdicts, (TOO_SMALL.number, NO_SUCH_RESOURCE.number))
        rows = np.flatnonzero(near if near.any() else small)
        if self.n_fitting or not len(rows):
            return None
        names, asked = self.snapshot.nodes.names, self.request > 0
        lacks = np.maximum(self.request - self.idle, 0) * asked
        part = (lacks[:, asked] / self.request[asked]).sum(axis=1)
        row = int(min(rows, key=lambda row: (part[row], names[row])))
        columns = enumerate(self.snapshot.axis.names)
        free = {name: int(self.idle[row, column]) for column, name in columns if asked[column] and name != "pods"}
        return ClosestNode(names[row], free, self.snapshot.axis.amounts(lacks[row]))

    @cached_property
    def short_of(self) -> Named:
        """On how many of the nodes that lack room each resource is short; most first."""
        near = self.verdicts == INSUFFICIENT.number
        counts = ((self.request > np.maximum(self.idle, 0)) & near[:, None]).sum(axis=0)
        found = {self.snapshot.axis.names[column]: int(counts[column]) for column in np.flatnonzero(counts)}
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], "/" not in pair[0], pair[0])))

    @cached_property
    def nowhere(self) -> tuple[str, ...]:
        """Resources that the task asks for and no node has, ready or not."""
        most = self.snapshot.nodes.allocatable().max(axis=0, initial=0)
        return tuple(self.snapshot.axis.names[column] for column in np.flatnonzero((self.request > 0) & (most <= 0)))

    def slots(self, freed: Amounts | None = None) -> NDArray[np.int64]:
        """How many such tasks each node could take now, or when `freed` amounts were given back."""
        room = self.idle if freed is None else self.idle + freed
        return slots_in(room, self.request) * self.eligible

    def empty_slots(self) -> NDArray[np.int64]:
        """How many such tasks each node could take if it were empty."""
        return slots_in(self.snapshot.nodes.allocatable(), self.request) * self.eligible


def view_nodes(session: Session, cls: int, task: int) -> NodeView:
    """Ask every plugin about every node for a class; with a task (not negative) also about other pods."""
    snapshot = session.snapshot
    fixed = np.where(snapshot.nodes.ready, session.node_verdicts(cls), NODE_NOT_READY.number).astype(np.int16)
    if task >= 0:
        live = session.task_verdicts(task)
        if live is not None:
            fixed = np.where(fixed == FITS, live, fixed).astype(np.int16)
    request = snapshot.classes.requests[cls, 0]
    # What is promised to others is as good as taken.
    idle = np.minimum(snapshot.nodes.idle(), snapshot.nodes.future_idle())
    fits_now = slots_in(idle, request) > 0
    fits_empty = slots_in(snapshot.nodes.allocatable(), request) > 0
    room = np.where(fits_now, FITS, np.where(fits_empty, INSUFFICIENT.number, TOO_SMALL.number))
    verdicts = np.where(fixed == FITS, room, fixed).astype(np.int16)
    view = NodeView(snapshot, request, fixed, verdicts, idle)
    if view.nowhere:
        verdicts[verdicts == TOO_SMALL.number] = NO_SUCH_RESOURCE.number
    return view


def dominant_reason(view: NodeView) -> Reason:
    """Return what keeps the task out: room where there are nodes that could have it, else what most nodes lack."""
    if not view.counts:
        return NO_NODES
    if INSUFFICIENT.code in view.counts or view.n_fitting:
        return INSUFFICIENT
    about_size = (known for known in (NO_SUCH_RESOURCE, TOO_SMALL) if known.code in view.counts)
    return next(about_size, None) or reason_of(next(iter(view.counts)))


def node_groups(view: NodeView) -> tuple[NodeGroup, ...]:
    """Gather nodes with equal allocatable amounts and the same reason, largest group first."""
    snapshot = view.snapshot
    if not len(snapshot.nodes):
        return ()
    keys = np.column_stack((view.verdicts.astype(np.int64), snapshot.nodes.allocatable()))
    kinds, member_of = np.unique(keys, axis=0, return_inverse=True)
    groups = []
    for kind, key in enumerate(kinds):
        rows = np.flatnonzero(member_of == kind).tolist()
        why = reason_number(int(key[0]))
        groups.append(
            NodeGroup(
                code=why.code,
                text=why.text,
                nodes=len(rows),
                allocatable=snapshot.axis.amounts(key[1:]),
                examples=tuple(sorted(snapshot.nodes.names[row] for row in rows)[:_EXAMPLES]),
            )
        )
    return tuple(sorted(groups, key=lambda group: (-group.nodes, group.code, group.examples)))


def holders(view: NodeView, resource: str, without_job: int) -> tuple[Holder, ...]:
    """Return who holds most of a resource on the nodes where the task may go."""
    snapshot, tasks = view.snapshot, view.snapshot.tasks
    column = snapshot.axis.index[resource]
    rows: Rows = np.flatnonzero(np.isin(tasks.status, ALLOCATED_STATUSES) & (tasks.node >= 0)).astype(np.intp)
    rows = rows[view.eligible[tasks.node[rows]] & (tasks.job[rows] != without_job) & (tasks.job[rows] != NO_ROW)]
    held = np.zeros(len(snapshot.jobs), np.int64)
    np.add.at(held, tasks.job[rows], snapshot.classes.requests[tasks.cls[rows], 0, column])
    found = [Holder(snapshot.jobs.records[int(job)].id, resource, int(held[job])) for job in np.flatnonzero(held)]
    return tuple(sorted(found, key=lambda holder: (-holder.amount, holder.job))[:_HOLDERS])


def held_by_job(view: NodeView, job: str) -> Amounts | None:
    """Return what a job holds on each node, as an array like the idle amounts; None when there is no such job."""
    snapshot, tasks = view.snapshot, view.snapshot.tasks
    row = snapshot.jobs.index.get(job)
    if row is None:
        return None
    rows = np.flatnonzero((tasks.job == row) & np.isin(tasks.status, ALLOCATED_STATUSES) & (tasks.node >= 0))
    held = np.zeros_like(view.idle)
    np.add.at(held, tasks.node[rows], snapshot.classes.requests[tasks.cls[rows], 0])
    return held


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


def no_evictions_text(session: Session, job: int) -> str:
    """What each action ran into that looked for victims for a job, with numbers; "" where none looked."""
    ran_into = session.no_evictions.get(job, {}).items()
    return "; ".join(
        f"{action}: {why.reason.text}" + (f" ({why.detail})" if why.detail else "") for action, why in ran_into
    )


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
    """Amounts of some resources; what has no end is no amount."""
    return {name: amounts[name] for name in sorted(amounts) if name in resources and amounts[name] < UNLIMITED}
