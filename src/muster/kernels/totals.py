"""Sums of task requests per node, job or queue, exact in int64.

Called by the mirror when it makes a snapshot, and by the statement for evictions.
Plain-Python twins: tests/reference/totals.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.kernels.jit import kernel
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, SCORED, USED

#: What the state of a task means: it holds what it asks for, takes room on its node, leaves it, waits, is not there.
HOLDS, OCCUPIES, LEAVES, WAITS, ABSENT = 1, 2, 4, 8, 16


@kernel
def tally_tasks(
    cls: NDArray[np.intp],
    status: NDArray[np.int8],
    flags: NDArray[np.uint8],
    owners: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]],
    requests: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    marks: NDArray[np.uint8],
    state: NDArray[np.int64],
    counts: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]],
    sums: tuple[NDArray[np.int64], NDArray[np.int64]],
    unwilling: NDArray[np.bool_],
) -> None:
    """Add up what tasks hold and ask for, and count them, in one pass.

    cls, status, flags  [n_tasks]                     IN     class, state and flags of each task
    owners     int64[n_tasks] of job, role, sub-group and node  IN  rows; negative: none
    requests   int64[n_classes, 2, n_resources]       IN
    kinds      uint8[n_states]                        IN     what a state means: HOLDS, OCCUPIES, LEAVES, WAITS, ABSENT
    marks      uint8[3]                               IN     flags: asks for nothing, is held back, may be evicted
    state      int64[N_PLANES, n_nodes, n_resources]  INOUT  USED, SCORED and, for leaving tasks, RELEASING grow
    counts     int64[n_rows, n_states + 1] of jobs, roles, sub-groups  INOUT  by state; last: waits and asks for nothing
    sums       int64[n_jobs, n_resources] of what is held, and asked for by those that wait  INOUT
    unwilling  bool[n_jobs]                           OUT    has a task that may not be evicted
    """
    best_effort, gated, preemptable = marks[0], marks[1], marks[2]
    last = counts[0].shape[1] - 1
    for t in range(cls.shape[0]):
        kind = kinds[status[t]]
        if kind & ABSENT:
            continue
        c, job, node = cls[t], owners[0][t], owners[3][t]
        # Those that are held back cannot be counted on, though they ask for nothing.
        free = int((kind & WAITS) != 0 and (flags[t] & best_effort) != 0 and (flags[t] & gated) == 0)
        for group in range(3):
            row = owners[group][t]
            if row >= 0:
                counts[group][row, status[t]] += 1
                counts[group][row, last] += free
        if job >= 0:
            if not flags[t] & preemptable:
                unwilling[job] = True
            if kind & (HOLDS | WAITS):
                total = sums[0] if kind & HOLDS else sums[1]
                for r in range(requests.shape[2]):
                    total[job, r] += requests[c, 0, r]
        if node >= 0 and kind & OCCUPIES:
            leaving = int((kind & LEAVES) != 0)
            for r in range(requests.shape[2]):
                state[USED, node, r] += requests[c, 0, r]
                state[SCORED, node, r] += requests[c, 1, r]
                state[RELEASING, node, r] += leaving * requests[c, 0, r]


@kernel
def is_countable(
    requests: NDArray[np.int64], allocatable: NDArray[np.int64], n_tasks: int, most: int, ceiling: int, machine: int
) -> bool:
    """Whether sums over tasks and nodes stay below `most`, amounts below `ceiling`, and no class is beyond everything.

    requests     int64[n_classes, 2, n_resources]  IN
    allocatable  int64[n_nodes, n_resources]       IN
    A cheap bound: False means only that somebody has to look closely.
    """
    for r in range(allocatable.shape[1]):
        total, largest, asked = 0.0, np.int64(0), np.int64(0)
        for node in range(allocatable.shape[0]):
            total += allocatable[node, r]
            largest = max(largest, allocatable[node, r])
        for c in range(requests.shape[0]):
            largest = max(largest, requests[c, 0, r], requests[c, 1, r])
            asked = max(asked, requests[c, 0, r])
        if largest > ceiling or total + float(largest) * n_tasks > most or asked > max(total, float(machine)):
            return False
    return True


@kernel
def sum_requests(
    requests: NDArray[np.int64], cls: NDArray[np.intp], group: NDArray[np.intp], totals: NDArray[np.int64]
) -> None:
    """Add the requests of tasks to the totals of their groups.

    requests  int64[n_classes, 2, n_resources]  IN
    cls       int64[n_tasks]                    IN
    group     int64[n_tasks]                    IN     row of `totals`; negative: left out
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
    tasks: NDArray[np.intp],
    cls: NDArray[np.intp],
    job: NDArray[np.intp],
    queue: NDArray[np.intp],
    preemptible: NDArray[np.bool_],
    upward: NDArray[np.intp],
    held: NDArray[np.int64],
    own: NDArray[np.int64],
    tree: NDArray[np.int64],
    tree_firm: NDArray[np.int64],
    sign: int,
) -> None:
    """Add what tasks ask for (sign 1) to what their jobs and queues hold, or take it off (-1).

    requests   int64[n_classes, 2, n_resources]  IN
    tasks      int64[n_moved]                    IN     rows of `cls` and `job`
    cls, job   int64[n_tasks]                    IN     class and job of each task; job negative: counts nowhere
    queue      int64[n_jobs]                     IN     negative: none
    preemptible  bool[n_jobs]                    IN     if not, it counts in `tree_firm` too
    upward     int64[n_queues, depth]            IN     a queue and those above it; negative: no more
    held       int64[n_jobs, n_resources]        INOUT
    own, tree, tree_firm  int64[n_queues, n_resources]  INOUT
    """
    for t in range(tasks.shape[0]):
        owner = job[tasks[t]]
        if owner < 0:
            continue
        leaf = queue[owner]
        for r in range(requests.shape[2]):
            amount = sign * requests[cls[tasks[t]], 0, r]
            held[owner, r] += amount
            if leaf >= 0:
                own[leaf, r] += amount
                for step in range(upward.shape[1]):
                    row = upward[leaf, step]
                    if row < 0:
                        break
                    tree[row, r] += amount
                    if not preemptible[owner]:
                        tree_firm[row, r] += amount


@kernel
def move_counts(
    counts: NDArray[np.intp],
    group: NDArray[np.intp],
    tasks: NDArray[np.intp],
    before: NDArray[np.int8],
    after: int,
    sign: int,
) -> None:
    """Move tasks of groups from their states to another one, or (sign -1) back.

    counts  int64[n_groups, n_states]  INOUT
    group   int64[n_tasks]             IN     row of `counts`; negative: counts nowhere
    tasks   int64[n_moved]             IN     rows of `group`
    before  int8[n_moved]              IN     state that each of them comes from
    """
    for t in range(tasks.shape[0]):
        row = group[tasks[t]]
        if row >= 0:
            counts[row, before[t]] -= sign
            counts[row, after] += sign


@kernel
def add_rows(totals: NDArray[np.int64], group: NDArray[np.intp], amounts: NDArray[np.int64]) -> None:
    """Add rows of amounts to the totals of their groups.

    totals   int64[n_groups, n_resources]  INOUT
    group    int64[n_rows]                 IN     row of `totals`; negative: left out
    amounts  int64[n_rows, n_resources]    IN
    """
    for i in range(group.shape[0]):
        row = group[i]
        if row >= 0:
            for r in range(totals.shape[1]):
                totals[row, r] += amounts[i, r]
