"""How long a gang is left alone, by queue: what queues say, what they inherit, and the defaults.

Callers: the plugin minruntime. Pure: a queue table and two defaults in, one number of seconds per victim queue out.
A value that is not set differs from zero: a queue that says 0 overrides its parents, one that says nothing asks them.

- Inside a queue (preempt) the first value on the way from the victim's queue to the top counts.
- Between queues (reclaim) the walk begins where the way to the victim leaves the way to the evictor, one step below
  their lowest common ancestor: what is set further down is a matter of siblings there. Queues without a common ancestor
  part at the top. Where the victim's queue is itself an ancestor of the evictor's, the walk begins at the victim's.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import NO_ROW, QueueTable, Rows

#: Seconds per victim queue; one more entry at the end for jobs whose queue does not exist (`NO_ROW`).
Seconds = NDArray[np.float64]


class Method(StrEnum):
    """Where the walk for reclaim begins."""

    #: One step below the lowest common ancestor.
    LCA = "lca"
    #: At the victim's own queue, whoever the evictor is.
    QUEUE = "queue"


class MinRuntimes:
    """Minimum runtimes of one queue tree."""

    def __init__(self, queues: QueueTable, preempt: float, reclaim: float, method: Method = Method.LCA) -> None:
        own = [(record.preempt_min_runtime, record.reclaim_min_runtime) for record in queues.records]
        self._preempt = _inherited(queues, [first for first, _ in own], preempt)
        self._reclaim = _inherited(queues, [second for _, second in own], reclaim)
        self._reclaim_default = reclaim
        self._method = method
        self._lineage, self._depth = _lineages(queues)

    def for_preempt(self) -> Seconds:
        """Against jobs of the same queue."""
        return self._preempt

    def for_reclaim(self, evictor: int) -> Seconds:
        """Against jobs of the queue `evictor`; one that does not exist has to respect the default."""
        if evictor == NO_ROW:
            return np.full_like(self._reclaim, self._reclaim_default)
        if self._method is Method.QUEUE:
            return self._reclaim
        shared = (self._lineage == self._lineage[evictor]) & (self._lineage != NO_ROW)
        n_shared = np.cumprod(shared, axis=1).sum(axis=1)
        begin = self._lineage[np.arange(len(self._depth)), np.minimum(n_shared, self._depth - 1)]
        return np.append(self._reclaim[begin], self._reclaim[-1])


def _inherited(queues: QueueTable, own: Sequence[float | None], default: float) -> Seconds:
    """The first value on the way up from each queue; a negative one counts as zero."""
    found = [next((own[step] for step in path.tolist() if own[step] is not None), default) for path in queues.paths]
    return np.maximum(np.array([*found, default], np.float64), 0.0)


def _lineages(queues: QueueTable) -> tuple[Rows, Rows]:
    """Each queue's ancestors from the top down to itself, filled up with NO_ROW, and how many they are."""
    depth = np.array([len(path) for path in queues.paths], np.int32)
    lineage = np.full((len(depth), int(depth.max(initial=1))), NO_ROW, np.int32)
    for row, path in enumerate(queues.paths):
        lineage[row, : len(path)] = path[::-1]
    return lineage, depth
