"""What queues have been asked for and have promised, summed from the jobs of one session.

Allocations are never kept here: they are read from the snapshot whenever they are needed, because the statement changes
them. Sums over jobs are made when first asked for, as only the admission of waiting jobs needs most of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from muster.api import format_amount
from muster.framework.plugin import Rejection
from muster.framework.points import NO_LIMIT
from muster.framework.reasons import NOT_ADMITTED
from muster.snapshot import (
    ALLOCATED_STATUSES,
    GATED,
    NO_ROW,
    UNLIMITED,
    Amounts,
    JobPhase,
    Mask,
    TaskStatus,
)
from muster.snapshot.columns import summable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.framework.session import Session


_PLAIN: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def is_counted(name: str) -> bool:
    """Is this a resource that pods request, as opposed to the name of a quota (count/pods, requests.cpu)?"""
    if name in _PLAIN or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith(("count/", "requests.", "limits."))


def slots(request: Sequence[int], taken: Sequence[int], limit: Sequence[int], ignored: int) -> int:
    """How many times the request still fits between what is taken and the limit.

    Only resources that the request asks for are looked at, so a queue that is over its limit in one resource
    still serves tasks that do without it. `ignored` is a column that is never looked at (pods).
    """
    fit = NO_LIMIT
    for column, amount in enumerate(request):
        if amount > 0 and column != ignored:
            room = (limit[column] - taken[column]) // amount
            fit = min(fit, room)
    return max(0, fit)


class QueueBooks:
    """Sums over the jobs of a session, per job or per queue."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._axis = session.snapshot.axis
        self._jobs = session.snapshot.jobs
        self.pods_column = self._axis.index["pods"]
        #: Jobs that count: those with a PodGroup (or a lone pod) and a queue.
        self.counted: Mask = self._jobs.live & self._jobs.has_group & (self._jobs.queue != NO_ROW)
        # Jobs state few different minimums: each is laid out once, number 0 being none at all.
        self._numbers: dict[tuple[tuple[str, int], ...], int] = {(): 0}
        self._minimums: list[list[int]] = [[0] * len(self._axis)]

    # -- queues --------------------------------------------------------------------------------------------

    def vector(self, amounts: Mapping[str, int], missing: int = 0) -> Amounts:
        """Amounts in column order, names of quotas left out."""
        return self._axis.vector({name: amount for name, amount in amounts.items() if is_counted(name)}, missing)

    def queues_with_jobs(self) -> list[int]:
        rows: list[int] = np.unique(self._jobs.queue[self.counted]).tolist()
        return rows

    def guarantees(self) -> Amounts:
        """int64[queues, resources]: what is held back for each queue."""
        return self._table([self.vector(record.guarantee) for record in self._snapshot.queues.records])

    def capabilities(self) -> Amounts:
        """int64[queues, resources]: the most each queue may have; a cpu or memory of zero means not set."""
        table = self._table([self.vector(r.capability, int(UNLIMITED)) for r in self._snapshot.queues.records])
        for name in ("cpu", "memory"):
            column = table[:, self._axis.index[name]]
            column[column == 0] = UNLIMITED
        return table

    def entrance_limits(self, limits: Amounts) -> list[list[int]]:
        """Limits for letting jobs in: what pods of others hold counts.

        They may leave, and nodes may come: whoever waits for that is let in, so that its pods exist and can be seen.
        """
        held = self._session.total - self._session.shared_total
        open_to: list[list[int]] = np.minimum(limits + held, self.capabilities()).tolist()
        return open_to

    def _table(self, rows: list[Amounts]) -> Amounts:
        return np.array(rows, np.int64).reshape(len(rows), len(self._axis))

    def by_queue(self, per_job: Amounts) -> Amounts:
        """Sum rows of counted jobs by queue."""
        sums: Amounts = np.zeros((len(self._snapshot.queues), per_job.shape[1]), np.int64)
        np.add.at(sums, self._jobs.queue[self.counted], per_job[self.counted])
        return sums

    # -- jobs ----------------------------------------------------------------------------------------------

    def requests(self) -> Amounts:
        """int64[jobs, resources]: what jobs hold and what their pending tasks ask for."""
        total: Amounts = self._jobs.allocated + self._jobs.pending
        return total

    def refusal(
        self, whose: str, request: Sequence[int], taken: Sequence[int], limit: Sequence[int]
    ) -> Rejection | None:
        """Why a request is not admitted: what of which resource is taken already; None: it fits."""
        for column, amount in enumerate(request):
            if amount > max(0, limit[column] - taken[column]) and column != self.pods_column:
                name = self._axis.names[column]
                held, most, asked = (format_amount(name, max(0, each[column])) for each in (taken, limit, request))
                return Rejection(NOT_ADMITTED, f"{whose}: insufficient {name}: {held} of {most} taken, {asked} wanted")
        return None

    def minimum(self, job: int) -> list[int]:
        """`minResources` of a job in column order."""
        return self._minimums[self._number(self._jobs.records[job].min_resources)]

    def _number(self, amounts: Mapping[str, int] | None) -> int:
        if not amounts:
            return 0
        key = tuple(amounts.items())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._minimums)
            self._minimums.append(self.vector(amounts).tolist())
        return number

    def ungated_minimum(self, job: int) -> list[int]:
        """`minResources` less what pods with scheduling gates ask for, as those cannot start yet."""
        minimum = self.minimum(job)
        if self._gated is None:
            return minimum
        return [max(0, a - b) for a, b in zip(minimum, self._gated[job].tolist(), strict=True)]

    @cached_property
    def minimums(self) -> Amounts:
        """int64[jobs, resources]: `minResources` of every job, zero where there is none."""
        numbers = [self._number(record.min_resources) for record in self._jobs.records]
        return summable(np.array(self._minimums, np.int64)[numbers])

    @cached_property
    def _gated(self) -> Amounts | None:
        """int64[jobs, resources]: requests of tasks with scheduling gates; None: there are no such tasks."""
        tasks = self._snapshot.tasks
        gated = np.flatnonzero(((tasks.flags & GATED) != 0) & (tasks.status == TaskStatus.PENDING) & (tasks.job >= 0))
        if not len(gated):
            return None
        table: Amounts = np.zeros_like(self._jobs.allocated)
        np.add.at(table, tasks.job[gated], self._snapshot.classes.requests[tasks.cls[gated], 0])
        return table

    def elastic(self) -> Amounts:
        """int64[jobs, resources]: what jobs hold beyond their `minResources`."""
        beyond: Amounts = np.maximum(self._jobs.allocated - self.minimums, 0)
        return beyond

    def reserved(self) -> Amounts:
        """int64[jobs, resources]: what admitted jobs have yet to take of their `minResources`.

        A running job counts only while it holds its minimum of tasks: one whose driver is done will not take
        the rest.
        """
        jobs = self._jobs
        admitted = jobs.phase == JobPhase.INQUEUE
        holding = jobs.counts[:, list(ALLOCATED_STATUSES)].sum(axis=1)
        running = (jobs.phase == JobPhase.RUNNING) & (holding >= jobs.min_member)
        left: Amounts = np.maximum(self.minimums - jobs.allocated, 0)
        if self._gated is not None:
            left = np.maximum(left - self._gated, 0)
        kept: Amounts = np.where((admitted | running)[:, None], left, 0)
        return kept
