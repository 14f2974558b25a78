"""How much of each node group the pods of a queue hold, against how much they may.

Made by the plugin `nodegroup` for each queue that has limits. What is held is added up anew whenever it is asked, from
the columns of the queue's own tasks: statements change them, and no second copy can drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from muster.plugins.group_policies import Limits
from muster.snapshot import ALLOCATED_STATUSES, NO_ROW, Amounts, Mask, Rows, Snapshot, TaskStatus

_NO_LIMIT: Final = np.iinfo(np.int64).max
#: Tasks that hold a place, or are promised one.
_HOLDING: Final = [*ALLOCATED_STATUSES, TaskStatus.PIPELINED]


class GroupLimits:
    """The limits of one queue, by row of `groups`."""

    def __init__(self, snapshot: Snapshot, tasks: Rows, limits: Limits, codes: Rows, groups: Sequence[str]) -> None:
        """`tasks` are the queue's own, `codes` the group of every node, -1 where it has none."""
        self._snapshot = snapshot
        self._tasks = tasks
        self._codes = codes
        #: int64[groups, resources]
        self._most: Amounts = np.full((len(groups), len(snapshot.axis)), _NO_LIMIT, np.int64)
        for row, group in enumerate(groups):
            for resource, amount in limits.get(group, {}).items():
                column = snapshot.axis.index.get(resource)
                if column is not None:
                    self._most[row, column] = amount

    def are_full_for(self, task: int) -> Mask:
        """Groups in which the queue would hold too much with one more such task; what it does not ask for is free."""
        request = self._snapshot.request(task)
        over: Mask = (request > 0) & (self._held() > self._most - request)
        full: Mask = np.any(over, axis=1)
        return full

    def _held(self) -> Amounts:
        table = self._snapshot.tasks
        holding = self._tasks[np.isin(table.status[self._tasks], _HOLDING) & (table.node[self._tasks] != NO_ROW)]
        groups = self._codes[table.node[holding]]
        held: Amounts = np.zeros_like(self._most)
        inside = groups >= 0
        np.add.at(held, groups[inside], self._snapshot.classes.requests[table.cls[holding[inside]], 0])
        return held
