"""Fair shares of a whole tree of queues: top queues divide the cluster, children divide what their parent gets.

Made once, when a session opens; `FairShares` is what turns, limits and reclaiming go by. Level by level, all parents
and resources are divided at once (`division`). Queues whose parents do not lead to the top are left out and get
nothing. A Volcano queue `root` that says nothing is not there: its children are top queues. Limits bind everybody,
quotas jobs that are not preemptible (`Bounds`), both in every queue up to the top; only resources that are asked for
are looked at, so a queue that is over its limit in one still serves jobs that do without it.

What queues are entitled to is laid out in columns, whichever family they are of. A Volcano queue's weight, deserved and
capability are its over-quota weight, quota and limit. What a queue says nothing about does not bind it: KAI's queues
know cpu, memory and GPUs, and nothing else is divided among them. The number of pods is never shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from muster.api.names import ROOT_QUEUE
from muster.api.resources import CPU, GPU, MEMORY, PODS, unit_of
from muster.framework import NO_LIMIT
from muster.plugins.queues.fairshare.division import Claims, Weights, divide
from muster.plugins.queues.queue_books import is_counted
from muster.snapshot import (
    GATED,
    NO_ROW,
    UNLIMITED,
    Amounts,
    Mask,
    QueueRecord,
    QueueTable,
    ResourceAxis,
    Rows,
    Snapshot,
    TaskStatus,
)

if TYPE_CHECKING:
    from muster.framework.session import Session


#: A queue is over its share when it is so in all of these; where one does not exist, none is.
_CORE: Final = (CPU, MEMORY, GPU)


@dataclass(frozen=True, slots=True)
class Entitlements:
    """What queues say, in columns; what they say nothing about does not bind them."""

    quota: Amounts
    limits: Amounts
    firm_limits: Amounts
    weights: Weights
    #: Where a queue takes part in the division.
    shared: Mask


def counted_columns(axis: ResourceAxis) -> tuple[int, ...]:
    """Columns of resources that are shared; the number of pods is not."""
    return tuple(column for column, name in enumerate(axis.names) if name != PODS and is_counted(name))


def core_columns(axis: ResourceAxis) -> tuple[int, ...]:
    """Columns of cpu, memory and GPUs; empty if one of them does not exist."""
    return tuple(axis.index[name] for name in _CORE) if all(name in axis.index for name in _CORE) else ()


def whole_units(axis: ResourceAxis) -> Amounts:
    """Base units per whole unit: shares of GPUs and other devices are whole, those of cpu and bytes need not be."""
    return np.array([1000 if name != CPU and unit_of(name) == "milli" else 1 for name in axis.names], np.int64)


def read_entitlements(records: Sequence[QueueRecord], axis: ResourceAxis) -> Entitlements:
    """Lay out what queues are guaranteed, may have, and weigh."""
    shape = (len(records), len(axis))
    quota, limits, firm = (np.full(shape, UNLIMITED, np.int64) for _ in range(3))
    said = Entitlements(quota, limits, firm, np.zeros(shape), np.zeros(shape, np.bool_))
    columns = {axis.names[column]: column for column in counted_columns(axis)}
    kai = [row for row, record in enumerate(records) if record.over_quota_weights is not None]
    volcano = [
        row for row, record in enumerate(records) if record.over_quota_weights is None and not is_open_root(record)
    ]
    _read_volcano(said, records, volcano, columns)
    _read_kai(said, records, kai, columns)
    return said


def is_open_root(record: QueueRecord) -> bool:
    """Is this the root of Volcano's tree, with everything left open?"""
    amounts = record.deserved or record.guarantee or record.capability
    return record.name == ROOT_QUEUE and not record.parent and record.over_quota_weights is None and not amounts


def _read_volcano(
    said: Entitlements, records: Sequence[QueueRecord], rows: Sequence[int], columns: Mapping[str, int]
) -> None:
    """Queues with one weight; where they name no quota, jobs that are not preemptible are not bound by any."""
    whole = np.ix_(np.array(rows, np.intp), np.array(list(columns.values()), np.intp))
    said.quota[whole] = 0
    said.shared[whole] = True
    said.weights[whole] = np.array([max(0, records[row].weight) for row in rows], np.float64)[:, None]
    for row in rows:
        record = records[row]
        for name in {**record.deserved, **record.guarantee}:
            if name in columns:
                amount = max(record.deserved.get(name, 0), record.guarantee.get(name, 0))
                said.quota[row, columns[name]] = said.firm_limits[row, columns[name]] = amount
        for name, amount in record.capability.items():
            # A cpu or memory of zero means not set, as in Volcano.
            if name in columns and (amount or name not in (CPU, MEMORY)):
                said.limits[row, columns[name]] = amount


def _read_kai(
    said: Entitlements, records: Sequence[QueueRecord], rows: Sequence[int], columns: Mapping[str, int]
) -> None:
    """Queues that tell quotas and weights by resource; of other resources they may have what they can get."""
    for row in rows:
        record = records[row]
        weights = record.over_quota_weights or {}
        for name in {**weights, **record.deserved, **record.capability}:
            if name in columns:
                at = row, columns[name]
                said.quota[at] = said.firm_limits[at] = record.deserved.get(name, 0)
                said.limits[at] = record.capability.get(name, UNLIMITED)
                said.weights[at] = weights.get(name, 0.0)
                said.shared[at] = True


#: Queue -> resource -> fraction of the cluster.
Usage = Mapping[str, Mapping[str, float]]
#: Rows from a queue up to the top.
Line = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FairShares:
    """What queues are entitled to during one session; rows are queues, columns resources, UNLIMITED: no end."""

    #: Guaranteed, whatever others want.
    quota: Amounts
    limits: Amounts
    #: The most that jobs may hold which are not preemptible.
    firm_limits: Amounts
    fair: Amounts
    #: Capacity that is divided.
    total: Amounts
    #: Rows from each queue up to the top.
    lines: list[Line]
    #: Columns that count.
    columns: tuple[int, ...]
    #: Those of cpu, memory and GPUs; empty if one of them does not exist.
    core: tuple[int, ...]
    #: Base units in a whole unit, per column.
    units: Amounts

    def allocatable(self) -> Amounts:
        """What queues may keep while others want more: quota or fair share, within the limit."""
        kept: Amounts = np.minimum(self.limits, np.maximum(self.quota, self.fair))
        return kept


@dataclass(frozen=True)
class Layout:
    """What follows from queues and resources alone; the same in every session while neither changes."""

    said: Entitlements
    #: Rows from each queue up to the top.
    lines: list[Line]
    #: Columns that count, and those of cpu, memory and GPUs.
    columns: tuple[int, ...]
    core: tuple[int, ...]
    units: Amounts

    @cached_property
    def limits(self) -> Bounds:
        return Bounds(self, self.said.limits)

    @cached_property
    def firm_limits(self) -> Bounds:
        return Bounds(self, self.said.firm_limits)


def layout_of(snapshot: Snapshot) -> Layout:
    """The layout of the queues, made when they were first asked about."""
    queues, axis = snapshot.queues, snapshot.axis
    known = queues.derived.get("fairshare")
    if not isinstance(known, Layout):
        said = read_entitlements(queues.records, axis)
        said.shared[sorted(queues.broken)] = False
        known = Layout(said, lines_of(queues), counted_columns(axis), core_columns(axis), whole_units(axis))
        queues.derived["fairshare"] = known
    return known


def fair_shares(
    session: Session, k: float = 0.0, usage: Weights | None = None, held: Amounts | None = None
) -> FairShares:
    """Divide the cluster of a session among its queues; `k`: how strongly past usage, or another one, counts.

    `held`: what jobs held when the session opened; None: what they hold.
    """
    snapshot = session.snapshot
    queues, layout, total = snapshot.queues, layout_of(snapshot), session.shared_total
    said = layout.said
    demand = tree_sums(_own_demand(snapshot, snapshot.jobs.allocated if held is None else held), layout.lines)
    if k and usage is None:
        usage = past_usage(session)
    fair = divide_tree(queues.records, said, layout.lines, total, demand, layout.units, usage, k)
    fair[sorted(queues.broken)] = 0
    return FairShares(
        said.quota,
        said.limits,
        said.firm_limits,
        fair,
        total,
        layout.lines,
        layout.columns,
        layout.core,
        layout.units,
    )


# -- sums ---------------------------------------------------------------------------------------------------


def past_usage(session: Session) -> Weights:
    """What queues have had, in parts of the cluster; float[queues, resources]."""
    queues, axis = session.snapshot.queues, session.snapshot.axis
    table = np.zeros((len(queues), len(axis)))
    for name, by_resource in session.usage.items():
        for resource, fraction in by_resource.items():
            if name in queues.index and resource in axis.index:
                table[queues.index[name], axis.index[resource]] = fraction
    return table


def lines_of(queues: QueueTable) -> list[Line]:
    """Rows from each queue up to the top; a queue that hangs nowhere has only itself."""
    root = queues.index.get(ROOT_QUEUE, NO_ROW)
    if root != NO_ROW and not is_open_root(queues.records[root]):
        root = NO_ROW
    lines = []
    for row, path in enumerate(queues.paths):
        line = tuple(path.tolist()) if row not in queues.broken else (row,)
        lines.append(line[:-1] if len(line) > 1 and line[-1] == root else line)
    return lines


def _own_demand(snapshot: Snapshot, held: Amounts) -> Amounts:
    """int64[queues, resources]: what the jobs of each queue held, and what their pending tasks asked for."""
    jobs, tasks = snapshot.jobs, snapshot.tasks
    wanted = held + np.where(jobs.has_group[:, None], jobs.pending, 0)
    gated = np.flatnonzero(((tasks.flags & GATED) != 0) & (tasks.status == TaskStatus.PENDING) & (tasks.job >= 0))
    gated = gated[jobs.has_group[tasks.job[gated]]]
    np.subtract.at(wanted, tasks.job[gated], snapshot.classes.requests[tasks.cls[gated], 0])
    rows = np.flatnonzero(jobs.live & (jobs.queue != NO_ROW))
    own = np.zeros_like(snapshot.queues.own_allocated)
    np.add.at(own, jobs.queue[rows], wanted[rows])
    return own


def tree_sums(own: Amounts, lines: list[Line]) -> Amounts:
    """Add what queues have of their own to every queue above them."""
    sums = own.copy()
    for rows, parents in reversed(list(_levels(lines))):
        if parents is not None:
            np.add.at(sums, parents, sums[rows])
    return sums


def _levels(lines: list[Line]) -> Iterator[tuple[Rows, Rows | None]]:
    """Queues by their distance from the top, with their parents; top queues have none."""
    depths = np.array([len(line) for line in lines], np.intp)
    above = np.array([line[1] if len(line) > 1 else NO_ROW for line in lines], np.intp)
    for depth in np.unique(depths).tolist():
        rows = np.flatnonzero(depths == depth).astype(np.intp)
        yield rows, above[rows] if depth > 1 else None


# -- the division ----------------------------------------------------------------------------------------------


def divide_tree(
    records: list[QueueRecord],
    said: Entitlements,
    lines: list[Line],
    total: Amounts,
    demand: Amounts,
    units: Amounts,
    usage: Weights | None = None,
    k: float = 0.0,
) -> Amounts:
    """int64[queues, resources]: everybody's fair share, UNLIMITED where a queue takes no part in the division."""
    fair: Amounts = np.full(demand.shape, UNLIMITED, np.int64)
    rank = np.empty(len(records), np.intp)
    rank[sorted(range(len(records)), key=lambda row: (records[row].created, records[row].name))] = np.arange(len(rank))
    priority = np.array([record.priority for record in records], np.intp)
    able = np.minimum(demand, said.limits)
    for rows, parents in _levels(lines):
        pots = total[None, :] if parents is None else np.minimum(fair[np.unique(parents)], total)
        number = np.zeros(len(rows), np.int64) if parents is None else np.unique(parents, return_inverse=True)[1]
        at, column = np.nonzero(said.shared[rows])
        row = rows[at]
        claims = Claims(
            pot=(number[at] * len(total) + column).astype(np.intp),
            quota=said.quota[row, column],
            demand=able[row, column],
            weight=said.weights[row, column],
            usage=np.zeros(len(row)) if usage is None else usage[row, column],
            priority=priority[row],
            rank=rank[row],
            unit=units[column],
        )
        fair[row, column] = divide(pots.reshape(-1), claims, k)[0]
    return fair


@dataclass(frozen=True, slots=True)
class Excess:
    """The first queue that would be over, and the numbers."""

    queue: int
    column: int
    held: int
    limit: int
    wanted: int


class Bounds:
    """Upper bounds of all queues, of one kind."""

    def __init__(self, queues: FairShares | Layout, bounds: Amounts) -> None:
        self._lines = queues.lines
        self._columns = queues.columns
        self._bounds: list[list[int]] = bounds.tolist()

    def excess(self, queue: int, wanted: Sequence[int], held: Amounts) -> Excess | None:
        """Would `wanted` be too much for the queue or one above it? `held` is what every queue holds now."""
        asked = [column for column in self._columns if wanted[column] > 0]
        for row in self._lines[queue]:
            bound, have = self._bounds[row], held[row].tolist()
            for column in asked:
                if have[column] + wanted[column] > bound[column]:
                    return Excess(row, column, have[column], bound[column], wanted[column])
        return None

    def slots(self, queue: int, request: Sequence[int], held: Amounts) -> int:
        """How many times a request still fits, in the queue and all above it."""
        asked = [column for column in self._columns if request[column] > 0]
        fit = NO_LIMIT
        for row in self._lines[queue]:
            bound, have = self._bounds[row], held[row].tolist()
            for column in asked:
                room = (bound[column] - have[column]) // request[column]
                fit = min(fit, room)
        return max(0, fit)
