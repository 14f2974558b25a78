"""Sums of task requests per node, job or queue, exact in int64.

Called by the mirror when it makes a snapshot, and by the statement for evictions.
Plain-Python twins: tests/reference/totals.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.kernels.jit import kernel
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, SCORED, USED


@kernel
def book_on_nodes(
    state: NDArray[np.int64],
    requests: NDArray[np.int64],
    cls: NDArray[np.int32],
    node: NDArray[np.int32],
    releasing: NDArray[np.bool_],
) -> None:
    """Add the requests of tasks to the planes of their nodes.

    state      int64[N_PLANES, n_nodes, n_resources]  INOUT  USED, SCORED and, for leaving tasks, RELEASING grow
    requests   int64[n_classes, 2, n_resources]       IN
    cls        int32[n_tasks]                         IN     class of each task
    node       int32[n_tasks]                         IN     node row of each task; negative: on none
    releasing  bool[n_tasks]                          IN
    """
    for t in range(cls.shape[0]):
        row = node[t]
        if row < 0:
            continue
        c = cls[t]
        for r in range(requests.shape[2]):
            state[USED, row, r] += requests[c, 0, r]
            state[SCORED, row, r] += requests[c, 1, r]
            if releasing[t]:
                state[RELEASING, row, r] += requests[c, 0, r]


@kernel
def sum_requests(
    requests: NDArray[np.int64], cls: NDArray[np.int32], group: NDArray[np.int32], totals: NDArray[np.int64]
) -> None:
    """Add the requests of tasks to the totals of their groups.

    requests  int64[n_classes, 2, n_resources]  IN
    cls       int32[n_tasks]                    IN
    group     int32[n_tasks]                    IN     row of `totals`; negative: left out
    totals    int64[n_groups, n_resources]      INOUT
    """
    for t in range(cls.shape[0]):
        row = group[t]
        if row >= 0:
            for r in range(requests.shape[2]):
                totals[row, r] += requests[cls[t], 0, r]


@kernel
def future_total(state: NDArray[np.int64], ready: NDArray[np.bool_], total: NDArray[np.int64]) -> None:
    """Add up what will be free on the ready nodes; a node that is promised more than it has counts as full.

    state  int64[N_PLANES, n_nodes, n_resources]  IN
    ready  bool[n_nodes]                          IN
    total  int64[n_resources]                     INOUT
    """
    for row in range(ready.shape[0]):
        if ready[row]:
            for r in range(total.shape[0]):
                idle = state[ALLOCATABLE, row, r] - state[USED, row, r]
                total[r] += max(idle + state[RELEASING, row, r] - state[PIPELINED, row, r], 0)


@kernel
def move_requests(
    requests: NDArray[np.int64],
    cls: NDArray[np.int32],
    group: NDArray[np.int32],
    totals: NDArray[np.int64],
    sign: int,
) -> None:
    """As `sum_requests`, adding (sign 1) or taking off (-1)."""
    for t in range(cls.shape[0]):
        row = group[t]
        if row >= 0:
            for r in range(requests.shape[2]):
                totals[row, r] += sign * requests[cls[t], 0, r]


@kernel
def move_counts(
    counts: NDArray[np.int32], group: NDArray[np.int32], before: NDArray[np.int8], after: int, sign: int
) -> None:
    """Move tasks of groups from their states to another one, or (sign -1) back.

    counts  int32[n_groups, n_states]  INOUT
    group   int32[n_tasks]             IN     row of `counts`
    before  int8[n_tasks]              IN     state that each task comes from
    """
    for t in range(group.shape[0]):
        row = group[t]
        counts[row, before[t]] -= sign
        counts[row, after] += sign


@kernel
def count_tasks(
    counts: NDArray[np.int32], group: NDArray[np.int32], state: NDArray[np.int8], extra: NDArray[np.bool_]
) -> None:
    """Count tasks by group and state.

    counts  int32[n_groups, n_states + 1]  INOUT
    group   int32[n_tasks]                 IN     row of `counts`; negative: left out
    state   int8[n_tasks]                  IN     negative: left out
    extra   bool[n_tasks]                  IN     counts in the last column too
    """
    last = counts.shape[1] - 1
    for t in range(group.shape[0]):
        row = group[t]
        if row >= 0 and state[t] >= 0:
            counts[row, state[t]] += 1
            if extra[t]:
                counts[row, last] += 1


@kernel
def add_rows(totals: NDArray[np.int64], group: NDArray[np.int32], amounts: NDArray[np.int64]) -> None:
    """Add rows of amounts to the totals of their groups.

    totals   int64[n_groups, n_resources]  INOUT
    group    int32[n_rows]                 IN     row of `totals`; negative: left out
    amounts  int64[n_rows, n_resources]    IN
    """
    for i in range(group.shape[0]):
        row = group[i]
        if row >= 0:
            for r in range(totals.shape[1]):
                totals[row, r] += amounts[i, r]
