"""Sums that cannot wrap: what very large amounts count in the columns of a cycle.

Amounts of objects fit 64 bits (see `muster.api.resources`), sums over a cluster need not. So that nobody who adds
up has to ask, the columns are made such that no sum passes 2^60:

- An amount counts up to `CEILING`; no machine comes near it.
- If what all pods ask for and all nodes offer of a resource still comes to more than `MAX_SUM`, each amount of that
  resource counts up to an equal part of `MAX_SUM`. With 100,000 pods that is 10 TiB of memory: everybody but the ones
  who made the sum absurd is counted exactly.
- A node with more counts as one with just as much; a pod that asks for more fits on no node.
- What queues deserve, and what jobs state as their minimum, has a total of its own, by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from muster.snapshot.axis import Amounts
from muster.snapshot.rows import Mask, Rows

#: Scores multiply amounts by a hundred.
CEILING: Final = 2**56
#: Half of `UNLIMITED`, so that no sum is taken for one without end.
MAX_SUM: Final = 2**60
#: More than one machine has of anything but bytes, and a terabyte.
_ANY_MACHINE: Final = 2**40


def limit_columns(requests: Amounts, classes: Rows, allocatable: Amounts) -> None:
    """Cut the requests of classes and the capacity of nodes down, in place, to amounts that may be added up.

    requests     int64[n_classes, 2, n_resources]
    classes      int32[n_tasks]                    class of each task that there is
    allocatable  int64[n_nodes, n_resources]
    """
    counts = np.bincount(classes, minlength=len(requests)).astype(np.float64)
    asked = np.tensordot(counts, requests.astype(np.float64), axes=1).max(axis=0)
    total = asked + allocatable.sum(axis=0, dtype=np.float64)
    equal_part = MAX_SUM // max(len(classes) + len(allocatable), 1)
    ceiling = np.where(total > MAX_SUM, min(equal_part, CEILING), CEILING).astype(np.int64)
    np.minimum(requests, ceiling + 1, out=requests)
    np.minimum(allocatable, ceiling, out=allocatable)


def impossible(requests: Amounts, allocatable: Amounts) -> Mask:
    """Classes that ask for more than the whole cluster has, and than any machine: such pods run nowhere.

    Somebody may still say that one does. It takes its node's room, but it does not count as what its queue holds.
    """
    most = np.maximum(allocatable.sum(axis=0), _ANY_MACHINE)
    return np.asarray((requests[:, 0] > most).any(axis=1), np.bool_)


def summable(table: Amounts) -> Amounts:
    """The rows of a table, cut down to amounts that may be added up."""
    if len(table) == 0 or table.sum(axis=0, dtype=np.float64).max(initial=0) <= MAX_SUM:
        return table
    return np.minimum(table, MAX_SUM // len(table))


def common_ceiling(lists: Iterable[Mapping[str, int]], most: int) -> int:
    """How far amounts of these resource lists count, so that the sum of none of their resources passes `MAX_SUM`.

    `most` and more has no end and is in no sum.
    """
    sums: dict[str, int] = {}
    count = 0
    for amounts in lists:
        count += 1
        for name, amount in amounts.items():
            if amount < most:
                sums[name] = sums.get(name, 0) + amount
    return most if max(sums.values(), default=0) <= MAX_SUM else MAX_SUM // count


def cut(amounts: Mapping[str, int], ceiling: int, most: int) -> dict[str, int]:
    """The amounts, each up to a ceiling; what has no end stays so."""
    return {name: amount if amount >= most else min(amount, ceiling) for name, amount in amounts.items()}
