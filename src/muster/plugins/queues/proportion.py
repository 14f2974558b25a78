"""Proportion: queues share the cluster by weight.

What a queue deserves is fixed when the session opens: its weighted part of the cluster, no more than it asks for or may
have, no less than its guarantee (`water_fill`). From then on the queue is measured by what it holds, read from the
snapshot. Differences from Volcano: what pods of other schedulers hold, or lies behind taints that no pod tolerates, is
not divided, as no queue could ever have it; amounts are whole base units, rounded down; guarantees that add up to more
than the weights allow never make the queues deserve more than the cluster has; a queue's limit counts also for a
resource that other queues' guarantees use up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import numpy as np

from muster.framework.plugin import Arguments, Eviction, Evictor, Plugin, Rejection, Vote
from muster.framework.reasons import QUEUE_CLOSED
from muster.plugins.queues.queue_books import QueueBooks, slots
from muster.snapshot import NO_ROW, Amounts, Rows

if TYPE_CHECKING:
    from muster.framework.session import Session


class ProportionArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the proportion plugin."""

    counts_tainted: Annotated[
        bool,
        msgspec.Meta(description="Share out nodes whose taints no pod tolerates as well, as Volcano does."),
    ] = msgspec.field(default=False, name="countsTaintedNodes")


class Proportion(Plugin):
    """Fair shares of the whole cluster, by queue weight."""

    name = "proportion"
    summary = "Divide the cluster among queues by weight, within their guarantee, capability and demand."
    Args: ClassVar[type[Arguments]] = ProportionArguments
    victim_kinds = frozenset({Eviction.RECLAIM})
    steady_victims = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, ProportionArguments)
        self._counts_tainted = arguments.counts_tainted

    def open(self, session: Session) -> None:
        super().open(session)
        snapshot = session.snapshot
        shared = session.shared_total + (session.behind_taints if self._counts_tainted else 0)
        self._queues = snapshot.queues
        self._books = QueueBooks(session)
        self._pods = self._books.pods_column
        self._open: list[bool] = [record.open for record in snapshot.queues.records]
        self._priority: list[int] = [-record.priority for record in snapshot.queues.records]
        guarantees = self._books.guarantees()
        unreserved = np.maximum(shared - guarantees.sum(axis=0), 0)
        limits = np.minimum(unreserved + guarantees, self._books.capabilities())
        self._entrance = self._books.entrance_limits(limits)
        deserved = self._divide(shared, guarantees, limits)
        #: int64[queues, resources]: what each queue deserves, fixed for the session.
        self.deserved: Amounts = deserved
        self._deserved: list[list[int]] = deserved.tolist()
        self._measures = [
            [(column, amount) for column, amount in enumerate(row) if amount > 0] for row in self._deserved
        ]
        self._reserved: list[list[int]] | None = None

    def _divide(self, shared: Amounts, guarantees: Amounts, limits: Amounts) -> Amounts:
        """Water filling per resource, among the queues that have jobs."""
        deserved: Amounts = np.zeros_like(guarantees)
        rows = self._books.queues_with_jobs()
        weights = [max(0, self._queues.records[row].weight) for row in rows]
        caps = np.minimum(self._books.by_queue(self._books.requests()), limits)
        for column, total in enumerate(shared.tolist()):
            deserved[rows, column] = water_fill(
                total, weights, guarantees[rows, column].tolist(), caps[rows, column].tolist()
            )
        return deserved

    def queue_deserved(self, queue: int) -> Amounts:
        row: Amounts = self.deserved[queue]
        return row

    # -- order and limits ----------------------------------------------------------------------------------

    def queue_order(self, queue: int) -> tuple[int, float]:
        """Higher priority first, then the queue that has the least of what it deserves."""
        allocated = self._queues.own_allocated[queue].tolist()
        share = 0.0
        for column, deserved in self._measures[queue]:
            part = allocated[column] / deserved
            share = max(share, part)
        return self._priority[queue], share

    def overused(self, queue: int) -> bool:
        """Has the queue all it deserves, of every resource?"""
        allocated = self._queues.own_allocated[queue].tolist()
        return all(amount <= allocated[column] for column, amount in self._measures[queue])

    def queue_allocatable(self, queue: int, request: Amounts) -> int:
        if not self._open[queue]:
            return 0
        allocated = self._queues.own_allocated[queue].tolist()
        return slots(request.tolist(), allocated, self._deserved[queue], self._pods)

    def preemptive(self, queue: int, tasks: Rows) -> bool:
        """A queue may take from others while it stays within what it deserves."""
        snapshot = self.session.snapshot
        wanted: Amounts = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0].sum(axis=0)
        return self.queue_allocatable(queue, wanted) > 0

    # -- admission -----------------------------------------------------------------------------------------

    def job_enqueueable(self, job: int) -> Vote | Rejection:
        queue = int(self.session.snapshot.jobs.queue[job])
        if queue == NO_ROW or not self._open[queue]:
            return Rejection(QUEUE_CLOSED, self.session.snapshot.jobs.records[job].queue)
        minimum = self._books.minimum(job)
        if not any(minimum):
            return Vote.PERMIT
        allocated = self._queues.own_allocated[queue].tolist()
        reserved = self._promised()[queue]
        taken = [held + promised for held, promised in zip(allocated, reserved, strict=True)]
        whose = f"queue resource quota insufficient: queue {self._queues.records[queue].name}"
        refusal = self._books.refusal(whose, minimum, taken, self._entrance[queue])
        return Vote.PERMIT if refusal is None else refusal

    def job_enqueued(self, job: int) -> None:
        queue = int(self.session.snapshot.jobs.queue[job])
        if queue == NO_ROW:
            return
        row = self._promised()[queue]
        for column, amount in enumerate(self._books.ungated_minimum(job)):
            row[column] += amount

    def _promised(self) -> list[list[int]]:
        """Per queue: promised to admitted jobs, less what running jobs hold beyond their minimum."""
        if self._reserved is None:
            self._reserved = self._books.by_queue(self._books.reserved() - self._books.elastic()).tolist()
        return self._reserved

    # -- evictions -----------------------------------------------------------------------------------------

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Between queues: tasks of queues that hold more than they deserve of some resource, while that is so."""
        if kind is not Eviction.RECLAIM:
            return None
        snapshot = self.session.snapshot
        requests = snapshot.classes.requests[snapshot.tasks.cls[candidates], 0]
        queues = snapshot.jobs.queue[snapshot.tasks.job[candidates]]
        taken = np.zeros(len(candidates), np.bool_)
        for queue in np.unique(queues[queues != NO_ROW]).tolist():
            mine = np.flatnonzero(queues == queue)
            # What the queue holds only shrinks, so the first that may not go ends it.
            before = self._queues.own_allocated[queue] - np.cumsum(requests[mine], axis=0) + requests[mine]
            over = (before > self.deserved[queue]).any(axis=1)
            taken[mine] = np.logical_and.accumulate(over)
        victims: Rows = candidates[taken]
        return victims


def water_fill(total: int, weights: Sequence[int], floors: Sequence[int], caps: Sequence[int]) -> list[int]:
    """Divide `total` by weight so that every part lies between its floor and its cap (a floor wins).

    As in Volcano, each queue first gets its plain weighted part within its bounds, and what is left is then
    poured on top by weight until caps are reached; a floor above the plain part is therefore not held
    against the queue later. Where the floors push the sum above the total, Volcano promises more than there
    is; here the parts above their floors shrink by weight until the sum fits.
    """
    bounds = [(floor, max(floor, cap)) for floor, cap in zip(floors, caps, strict=True)]
    sum_of_weights = sum(weights)
    if sum_of_weights == 0:
        return [floor for floor, _ in bounds]
    # In parts of a unit until the end: what is rounded off once is missing where two parts make a whole.
    lows, highs = ([bound[side] * sum_of_weights for bound in bounds] for side in (0, 1))
    parts = [min(max(total * weight, low), high) for weight, low, high in zip(weights, lows, highs, strict=True)]
    spare = total * sum_of_weights - sum(parts)
    if spare < 0:
        return _squeeze(total, weights, bounds)
    return [part // sum_of_weights for part in _pour(spare, weights, parts, highs)]


def _pour(spare: int, weights: Sequence[int], parts: list[int], caps: Sequence[int]) -> list[int]:
    """Add `spare` on top of the parts, by weight, none above its cap."""
    open_ = [i for i, weight in enumerate(weights) if weight > 0 and parts[i] < caps[i]]
    while open_ and spare > 0:
        weight = sum(weights[i] for i in open_)
        # The level only rises from here, so whoever is full at the plain division stays full.
        full = [i for i in open_ if (caps[i] - parts[i]) * weight <= spare * weights[i]]
        if not full:
            for i in open_:
                parts[i] += spare * weights[i] // weight
            break
        for i in full:
            spare -= caps[i] - parts[i]
            parts[i] = caps[i]
        open_ = [i for i in open_ if parts[i] < caps[i]]
    return parts


def _squeeze(total: int, weights: Sequence[int], bounds: Sequence[tuple[int, int]]) -> list[int]:
    """Find the level at which the parts, each its weight times the level within its bounds, sum to the total."""
    parts = [floor for floor, _ in bounds]
    if sum(parts) >= total:
        return parts
    open_ = list(range(len(weights)))
    left = total
    while open_:
        weight = sum(weights[i] for i in open_)
        if weight == 0:
            break
        # Amounts times `weight`, so that nothing is rounded while deciding.
        below = {i: gap for i in open_ if (gap := bounds[i][0] * weight - left * weights[i]) > 0}
        above = {i: gap for i in open_ if (gap := left * weights[i] - bounds[i][1] * weight) > 0}
        if not below and not above:
            for i in open_:
                parts[i] = left * weights[i] // weight
            break
        # The side that is further off decides for good: the final level cannot lie on its far side.
        balance = sum(below.values()) - sum(above.values())
        settled = {i: bounds[i][0] for i in below} if balance >= 0 else {}
        if balance <= 0:
            settled.update({i: bounds[i][1] for i in above})
        for i, part in settled.items():
            parts[i] = part
            left -= part
        open_ = [i for i in open_ if i not in settled]
    return parts
