"""Yields: what a victim brings to the one who needs it, and what it costs everybody, as plain numbers.

All scores are relative to what is needed, summed over the resources that are needed; what a victim has beyond that is
waste. Pods are not a resource here: every pod has one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import Amounts, Mask, Snapshot


def missing_amounts(snapshot: Snapshot, requested: Amounts, free: Amounts, scarce: Mask) -> Amounts:
    """What is needed: the request less what is free, without pods.

    When the sums would do and only the places are missing, all that is requested of the scarce resources is needed.
    """
    columns = without_pods(snapshot, requested)
    need: Amounts = np.where(columns, np.maximum(requested - np.maximum(free, 0), 0), 0)
    return need if need.any() else np.where(scarce, requested, 0)


def without_pods(snapshot: Snapshot, requested: Amounts) -> Mask:
    """Resources that count: those requested, and pods only if nothing else is."""
    columns: Mask = requested > 0
    pods = snapshot.axis.index["pods"]
    columns[pods] &= not np.delete(columns, pods).any()
    return columns


def coverage(amounts: Amounts, need: Amounts) -> NDArray[np.float64]:
    """How much of what is needed each row brings, one per resource at most."""
    asked = need > 0
    share: NDArray[np.float64] = (np.minimum(amounts[..., asked], need[asked]) / need[asked]).sum(axis=-1)
    return share


def burden(amounts: Amounts, need: Amounts) -> NDArray[np.float64]:
    """How much each row is in terms of what is needed."""
    asked = need > 0
    share: NDArray[np.float64] = (amounts[..., asked] / need[asked]).sum(axis=-1)
    return share


def waste(amounts: Amounts, requested: Amounts, total: Amounts, pods: int) -> NDArray[np.float64]:
    """How much of what nobody asked for each row holds, against what is requested, both as parts of the cluster.

    One GPU of two, taken for half of the CPUs, is one time the request.
    """
    columns = (requested == 0) & (total > 0)
    columns[pods] = False
    asked = (requested > 0) & (total > 0)
    asked[pods] = False
    size = float((requested[asked] / total[asked]).max()) if asked.any() else 1.0
    share: NDArray[np.float64] = (amounts[..., columns] / total[columns]).sum(axis=-1) / size
    return share


def efficiency(
    local: Amounts, cost: Amounts, need: Amounts, wasted: NDArray[np.float64] | float = 0.0
) -> NDArray[np.float64]:
    """Return on investment: coverage of what is freed in the domain ÷ burden and waste of what is lost everywhere."""
    gain, loss = coverage(local, need), burden(cost, need) + wasted
    ratio: NDArray[np.float64] = np.divide(gain, loss, out=np.full(len(loss), np.inf), where=loss > 0)
    return ratio
