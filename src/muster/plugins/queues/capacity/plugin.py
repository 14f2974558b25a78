"""Capacity: queues say in amounts what they deserve, what is guaranteed to them and what they may have at most.

A queue may grow beyond what it deserves up to its limit while there is room, and gives the surplus back when
others reclaim. With `enableHierarchy` queues form a tree, limits hold for every ancestor too, and only leaves
take jobs (`standing`). Unlike in Volcano a queue that cannot be placed in the tree, or a job in a queue
that is no leaf, stops only itself and not the whole scheduler. What queues hold is read from the snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import numpy as np

from muster.api import UserError
from muster.engine.gangs import requests_of
from muster.framework import NO_LIMIT
from muster.framework.plugin import Arguments, Eviction, Evictor, OrderKey, Plugin, Rejection, Vote
from muster.framework.reasons import QUEUE_BROKEN, QUEUE_CLOSED, QUEUE_MISSING, QUEUE_NOT_A_LEAF
from muster.plugins.queues.capacity.standing import Reclaim, TreeKey, flat_standing, queue_share, tree_standing
from muster.plugins.queues.queue_books import QueueBooks, slots
from muster.snapshot import NO_ROW, Amounts, Rows

if TYPE_CHECKING:
    from muster.framework.session import Session


_NOT_SUPPORTED = "quotas for device classes are not supported yet; remove the argument"


class CapacityArgs(Arguments, frozen=True):
    """Arguments of the capacity plugin."""

    ancestor_reclaim_level: Annotated[
        int,
        msgspec.Meta(
            description="How many levels of ancestors, besides the queue itself, decide whether a queue may "
            "reclaim and may be reclaimed from; below zero counts as zero. Needs enableHierarchy."
        ),
    ] = msgspec.field(default=0, name="ancestorReclaimLevel")
    device_quotas: Annotated[
        bool, msgspec.Meta(description="Accepted; limits on `deviceclass/NAME` always hold for device claims.")
    ] = msgspec.field(default=False, name="capacity.DynamicResourceAllocationEnable")
    device_capacity_quotas: Annotated[
        bool, msgspec.Meta(description="Quotas for capacities inside devices; not supported yet.")
    ] = msgspec.field(default=False, name="capacity.DRAConsumableCapacityEnable")


class Capacity(Plugin):
    """Queues with amounts of their own, flat or as a tree."""

    name = "capacity"
    summary = "Queues have a deserved amount, a guarantee and a limit; enableHierarchy makes them a tree."
    Args: ClassVar[type[Arguments]] = CapacityArgs
    victim_kinds = frozenset({Eviction.RECLAIM})
    steady_victims = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, CapacityArgs)
        if arguments.device_capacity_quotas:
            raise UserError(f"plugin capacity: arguments: capacity.DRAConsumableCapacityEnable: {_NOT_SUPPORTED}")
        self._levels = max(0, arguments.ancestor_reclaim_level)

    def open(self, session: Session) -> None:
        super().open(session)
        queues = session.snapshot.queues
        self._queues = queues
        self._books = QueueBooks(session)
        self._pods = self._books.pods_column
        self._is_tree = session.is_hierarchical(self.name)
        standing = (tree_standing if self._is_tree else flat_standing)(session, self._books)
        self._standing = standing
        self._priority = [-record.priority for record in queues.records]
        self._deserved: list[list[int]] = standing.deserved.tolist()
        self._limits: list[list[int]] = standing.limits.tolist()
        self._entrance = self._books.entrance_limits(standing.limits)
        self._best_effort = [
            not any(amount for column, amount in enumerate(row) if column != self._pods) for row in self._deserved
        ]
        self._accepts = [
            record.open and standing.is_leaf[row] and not (self._is_tree and row in queues.broken)
            for row, record in enumerate(queues.records)
        ]
        self._chains = [[row, *line] for row, line in enumerate(standing.ancestors)]
        self._promises: list[list[int]] | None = None

    @property
    def deserved(self) -> Amounts:
        """int64[queues, resources]: what each queue deserves."""
        return self._standing.deserved

    def queue_deserved(self, queue: int) -> Amounts:
        row: Amounts = self._standing.deserved[queue]
        return row

    @property
    def limits(self) -> Amounts:
        """int64[queues, resources]: the most each queue may have."""
        return self._standing.limits

    def _held(self, queue: int) -> list[int]:
        """What a queue holds now, with all queues below it in a tree."""
        held: list[int]
        if not self._is_tree:
            held = self._queues.own_allocated[queue].tolist()
        elif queue == self._standing.root and self._standing.adopted:
            tops = [queue, *self._standing.adopted]
            held = self._queues.tree_allocated[tops].sum(axis=0).tolist()
        else:
            held = self._queues.tree_allocated[queue].tolist()
        return held

    # -- order and limits ----------------------------------------------------------------------------------

    def _rank(self, queue: int) -> tuple[float, bool]:
        """Share, and at equal shares queues that deserve something first."""
        share = queue_share(self._deserved[queue], self._held(queue), self._pods)
        return share, self._best_effort[queue]

    def queue_order(self, queue: int) -> OrderKey:
        if not self._is_tree:
            return self._priority[queue], self._rank(queue)
        rows = [row for row in reversed(self._chains[queue]) if row != self._standing.root]
        is_inner = not self._standing.is_leaf[queue]
        return self._priority[queue], is_inner, TreeKey(rows, [self._rank(row) for row in rows])

    def victim_queue_order(self, queue: int, reclaimer: int) -> OrderKey:
        """Queues that are closer relatives of the reclaimer give first, then the one that is most over its share."""
        shared = set(self._chains[reclaimer])
        line = [row for row in reversed(self._chains[queue]) if row not in shared]
        shares = [self._rank(row) for row in line]
        return -self._standing.depth_shared(queue, reclaimer), -self._priority[queue], [(-a, not b) for a, b in shares]

    def queue_allocatable(self, queue: int, request: Amounts) -> int:
        if not self._accepts[queue]:
            return 0
        wanted: list[int] = request.tolist()
        fit = NO_LIMIT
        for row in self._chains[queue]:
            fit = min(fit, slots(wanted, self._held(row), self._limits[row], self._pods))
        return fit

    # -- admission -----------------------------------------------------------------------------------------

    def job_enqueueable(self, job: int) -> Vote | Rejection:
        queue = int(self.session.snapshot.jobs.queue[job])
        if queue == NO_ROW or not self._accepts[queue]:
            return self._not_accepted(queue, self.session.snapshot.jobs.records[job].queue)
        minimum = self._books.minimum(job)
        if not any(minimum):
            return Vote.PERMIT
        promises, queues = self._promised(), self.session.snapshot.queues
        for row in self._chains[queue]:
            taken = [held + promised for held, promised in zip(self._held(row), promises[row], strict=True)]
            whose = f"queue resource quota insufficient: queue {queues.records[row].name}"
            refusal = self._books.refusal(whose, minimum, taken, self._entrance[row])
            if refusal is not None:
                return refusal
        return Vote.PERMIT

    def _not_accepted(self, queue: int, name: str) -> Rejection:
        """Why a queue takes no jobs."""
        queues = self.session.snapshot.queues
        if queue == NO_ROW or not queues.records[queue].open:
            return Rejection(QUEUE_CLOSED if queue != NO_ROW else QUEUE_MISSING, name)
        if queue in queues.broken:
            return Rejection(QUEUE_BROKEN, queues.broken[queue])
        return Rejection(QUEUE_NOT_A_LEAF, name)

    def job_enqueued(self, job: int) -> None:
        queue = int(self.session.snapshot.jobs.queue[job])
        if queue == NO_ROW:
            return
        promises = self._promised()
        for row in self._chains[queue]:
            for column, amount in enumerate(self._books.ungated_minimum(job)):
                promises[row][column] += amount

    def _promised(self) -> list[list[int]]:
        """Per queue: promised to admitted jobs, less what running jobs hold beyond their minimum."""
        if self._promises is None:
            own = self._books.by_queue(self._books.reserved() - self._books.elastic())
            total = own.copy()
            for queue, line in enumerate(self._standing.ancestors):
                total[line] += own[queue]
            self._promises = total.tolist()
        return self._promises

    # -- evictions -----------------------------------------------------------------------------------------

    def preemptive(self, queue: int, tasks: Rows) -> bool:
        """May the queue reclaim: within its limit, and within what it (or an ancestor) deserves of a resource?"""
        record = self._queues.records[queue]
        if not record.open or (self._is_tree and queue in self._queues.broken):
            return False
        snapshot = self.session.snapshot
        wanted: list[int] = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0].sum(axis=0).tolist()
        if not slots(wanted, self._held(queue), self._limits[queue], self._pods):
            return False
        line = self._standing.ancestors[queue][: self._levels]
        return any(self._deserves(row, wanted) for row in (queue, *line) if row != self._standing.root)

    def _deserves(self, queue: int, wanted: list[int]) -> bool:
        """Would the queue still be within what it deserves, of one of the resources wanted?"""
        held, deserved = self._held(queue), self._deserved[queue]
        return any(
            amount > 0 and column != self._pods and held[column] + amount <= deserved[column]
            for column, amount in enumerate(wanted)
        )

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Between queues: tasks of queues that hold more than they deserve; equal tasks in a row are asked at once."""
        snapshot = self.session.snapshot
        queue = int(snapshot.jobs.queue[evictor.job])
        if kind is not Eviction.RECLAIM:
            return None
        classes = snapshot.tasks.cls[candidates]
        sources = snapshot.jobs.queue[snapshot.tasks.job[candidates]]
        starts = np.flatnonzero((np.diff(classes, prepend=-1) != 0) | (np.diff(sources, prepend=-2) != 0))
        wanted = requests_of(snapshot, evictor.tasks)
        reclaim = self._reclaim()
        taken = np.zeros(len(candidates), np.bool_)
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(candidates)], strict=True):
            source, offered = int(sources[start]), snapshot.classes.requests[classes[start], 0]
            if NO_ROW not in (source, queue):
                taken[start : start + reclaim.takes_many(queue, wanted, source, offered, end - start)] = True
        victims: Rows = candidates[taken]
        return victims

    def _reclaim(self) -> Reclaim:
        levels = self._levels if self._is_tree else 0
        return Reclaim(self._standing, levels, self._pods, lambda row: np.array(self._held(row)))
