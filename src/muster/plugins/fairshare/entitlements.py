"""What queues are entitled to, in columns, whichever family they are of: quota, limit, and weight beyond the quota.

A Volcano queue's weight, deserved and capability are its over-quota weight, quota and limit. What a queue says nothing
about does not bind it: KAI's queues know cpu, memory and GPUs, and nothing else is divided among them. The number of
pods is never shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.api.names import ROOT_QUEUE
from muster.api.resources import CPU, GPU, MEMORY, PODS, unit_of
from muster.engine.queue_books import is_counted
from muster.plugins.fairshare.division import Weights
from muster.snapshot import UNLIMITED, Amounts, Mask, QueueRecord, ResourceAxis

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
