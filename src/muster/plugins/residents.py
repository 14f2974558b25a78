"""Which pods count as sitting on a node at this moment of the session, for rules between pods.

Callers: host ports, pod affinity and topology spread. Tasks that were placed earlier in the session count, also
those that wait for room; tasks that the session evicted are gone; pods that were terminating before it are still
there, except for topology spread, which never counts them. Finished pods and pods without a node do not count.
Nothing is cached: answers are read from the task columns of the moment, for the rows that matter alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import NO_ROW, Mask, Rows, Snapshot, TaskStatus

_PRESENT: Final = (
    TaskStatus.ALLOCATED,
    TaskStatus.PIPELINED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.UNKNOWN,
)
_COUNTS: Final = np.isin(np.arange(len(TaskStatus)), _PRESENT)


class Residents:
    """Made when the session opens, so that it can tell who was terminating before."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._tasks = snapshot.tasks
        self._terminating: Mask = snapshot.tasks.status == TaskStatus.RELEASING

    def nodes_of(self, rows: Rows, *, terminating: bool = True) -> Rows:
        """Node rows on which those of `rows` sit that count, in no particular order."""
        present = _COUNTS[self._tasks.status[rows]]
        if terminating:
            present = present | self._terminating[rows]
        nodes = self._tasks.node[rows[present]]
        placed: Rows = nodes[nodes != NO_ROW]
        return placed

    def per_domain(self, rows: Rows, codes: NDArray[np.int32], *, terminating: bool = True) -> NDArray[np.int64]:
        """How many of `rows` sit in each domain of a coded label column.

        The result has one entry more than there are domains, always 0: nodes without the label have the code
        -1, so that `counts[codes]` is right for them too.
        """
        found = codes[self.nodes_of(rows, terminating=terminating)]
        return np.bincount(found[found >= 0], minlength=int(codes.max(initial=-1)) + 2)
