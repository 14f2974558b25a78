"""Greedy placement of identical tasks: the best node first, and only the touched node is scored again.

A *board* holds the current score of every node for one task class, and the maximum of every block of
`BLOCK` nodes, so that the best node is found in O(nodes / BLOCK) and a touched node costs O(BLOCK).
Boards of different classes live side by side; each catches up with what the others did by reading the
touch log (the rows that changed, in order) from where it last stopped.
Plain-Python twins: tests/reference/placement.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.kernels.jit import kernel
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, SCORED, USED

BLOCK: Final = 64
#: span = [rows of the touch log already seen (-1: board never built), rows written, fit mode, first and last + 1
#: node row that may be used]
SEEN: Final = 0
WRITTEN: Final = 1
MODE: Final = 2
LO: Final = 3
HI: Final = 4
#: Fit modes: on what is free now, or on what will be free once terminating pods are gone.
IDLE: Final = 0
FUTURE: Final = 1
#: Whether it fits is not looked at: ranks nodes on which room is yet to be made.
ANYHOW: Final = 2
#: It must fit on what is free now, and is promised the place all the same: booked as in FUTURE.
FREE_NOW: Final = 3

#: Kinds of score terms; a term row is [kind, weight, weight of resource 0, weight of resource 1, ...].
LEAST_ALLOCATED: Final = 0
MOST_ALLOCATED: Final = 1
BALANCED: Final = 2
BINPACK: Final = 3
#: Free amounts, leaving pods gone and promised places taken: as they are, or as part of the node's capacity.
FREE_AMOUNT: Final = 4
FREE_FRACTION: Final = 5

MAX_NODE_SCORE: Final = 100


@kernel
def fits(state: NDArray[np.int64], request: NDArray[np.int64], row: int, mode: int) -> bool:
    """Tell whether one task fits the node; resources that it does not ask for are not looked at.

    state    int64[N_PLANES, n_nodes, n_resources]  IN
    request  int64[n_resources]                     IN
    """
    for r in range(request.shape[0]):
        need = request[r]
        if need > 0 and mode != ANYHOW:
            idle = state[ALLOCATABLE, row, r] - state[USED, row, r]
            future = idle + state[RELEASING, row, r] - state[PIPELINED, row, r]
            if need > future or (mode != FUTURE and need > idle):
                return False
    return True


@kernel
def _spread_score(state: NDArray[np.int64], wanted: NDArray[np.int64], row: int, term: NDArray[np.float64]) -> float:
    """Least or most allocated: whole points per resource, weighted, rounded down like Kubernetes does."""
    total = 0
    weights = 0
    for r in range(wanted.shape[0]):
        weight = int(term[2 + r])
        capacity = state[ALLOCATABLE, row, r]
        if weight > 0 and capacity > 0:
            requested = state[SCORED, row, r] + wanted[r]
            if term[0] == LEAST_ALLOCATED:
                points = 0 if requested > capacity else (capacity - requested) * MAX_NODE_SCORE // capacity
            else:
                points = MAX_NODE_SCORE if requested > capacity else requested * MAX_NODE_SCORE // capacity
            total += points * weight
            weights += weight
    return float(total // weights) if weights > 0 else 0.0


@kernel
def _balance(
    state: NDArray[np.int64], request: NDArray[np.int64], row: int, term: NDArray[np.float64], tasks: int
) -> int:
    """100 minus the standard deviation of the used fractions with so many more tasks, rounded down.

    What is leaving counts as gone, so that pods which share a node after an eviction are judged by what will be there.
    """
    count = 0
    mean = 0.0
    for r in range(request.shape[0]):
        if term[2 + r] > 0 and state[ALLOCATABLE, row, r] > 0:
            used = state[USED, row, r] - state[RELEASING, row, r] + state[PIPELINED, row, r] + tasks * request[r]
            mean += min(used / state[ALLOCATABLE, row, r], 1.0)
            count += 1
    if count == 0:
        return 0
    mean /= count
    variance = 0.0
    for r in range(request.shape[0]):
        if term[2 + r] > 0 and state[ALLOCATABLE, row, r] > 0:
            used = state[USED, row, r] - state[RELEASING, row, r] + state[PIPELINED, row, r] + tasks * request[r]
            gap = min(used / state[ALLOCATABLE, row, r], 1.0) - mean
            variance += gap * gap
    return int((1.0 - np.sqrt(variance / count)) * MAX_NODE_SCORE)


@kernel
def _balanced_score(state: NDArray[np.int64], request: NDArray[np.int64], row: int, term: NDArray[np.float64]) -> float:
    """Balanced allocation: how much more balanced the node is with the task; 75 if it changes nothing."""
    half = MAX_NODE_SCORE // 2
    gain = _balance(state, request, row, term, 1) - _balance(state, request, row, term, 0)
    # Halves are cut off towards zero, as Kubernetes does.
    return float(half + int((half + gain) / 2))


@kernel
def _binpack_score(state: NDArray[np.int64], request: NDArray[np.int64], row: int, term: NDArray[np.float64]) -> float:
    """Binpack: the used fraction of every requested resource, weighted; a node that would overflow gets 0.

    Where a weight is below zero, the free fraction counts in the place of the used one.
    """
    total = 0.0
    weights = 0.0
    for r in range(request.shape[0]):
        weight = abs(term[2 + r])
        if request[r] > 0 and weight > 0:
            capacity = state[ALLOCATABLE, row, r]
            used = state[USED, row, r] + request[r]
            if capacity > 0:
                if used > capacity:
                    return 0.0
                part = used if term[2 + r] > 0 else capacity - used
                total += part * weight / capacity
            weights += weight
    return total / weights * MAX_NODE_SCORE if weights > 0 else 0.0


@kernel
def _free_score(state: NDArray[np.int64], row: int, term: NDArray[np.float64]) -> float:
    """What will be free, weighted and added up; weights below zero prefer the fuller node."""
    total = 0.0
    for r in range(state.shape[2]):
        weight = term[2 + r]
        capacity = state[ALLOCATABLE, row, r]
        if weight != 0.0 and capacity > 0:
            free = capacity - state[USED, row, r] + state[RELEASING, row, r] - state[PIPELINED, row, r]
            total += weight * free / capacity if term[0] == FREE_FRACTION else weight * free
    return total


@kernel
def score_node(state: NDArray[np.int64], requests: NDArray[np.int64], terms: NDArray[np.float64], row: int) -> float:
    """Sum the weighted score terms of one node for one more task.

    requests  int64[2, n_resources]           IN  the request, and the request as scores count it
    terms     float64[n_terms, 2+n_resources] IN  see the constants above
    """
    total = 0.0
    for t in range(terms.shape[0]):
        kind = terms[t, 0]
        if kind <= MOST_ALLOCATED:
            points = _spread_score(state, requests[1], row, terms[t])
        elif kind == BALANCED:
            points = _balanced_score(state, requests[0], row, terms[t])
        elif kind == BINPACK:
            points = _binpack_score(state, requests[0], row, terms[t])
        else:
            points = _free_score(state, row, terms[t])
        total += points * terms[t, 1]
    return total


@kernel
def _rescore(
    state: NDArray[np.int64],
    requests: NDArray[np.int64],
    terms: NDArray[np.float64],
    board: NDArray[np.float64],
    row: int,
    mode: int,
) -> None:
    base = board[0, row]
    if base == -np.inf or not fits(state, requests[0], row, mode):
        board[1, row] = -np.inf
    else:
        board[1, row] = base + score_node(state, requests, terms, row)


@kernel
def _refresh_block(board: NDArray[np.float64], block_max: NDArray[np.float64], block: int) -> None:
    best = -np.inf
    for row in range(block * BLOCK, min((block + 1) * BLOCK, board.shape[1])):
        best = max(best, board[1, row])
    block_max[block] = best


@kernel
def catch_up(
    state: NDArray[np.int64],
    requests: NDArray[np.int64],
    terms: NDArray[np.float64],
    board: NDArray[np.float64],
    block_max: NDArray[np.float64],
    touch_log: NDArray[np.intp],
    span: NDArray[np.int64],
) -> None:
    """Bring a board up to date with the touch log; arguments as for `place_run`."""
    n_nodes = board.shape[1]
    mode = span[MODE]
    if span[SEEN] < 0 or span[WRITTEN] - span[SEEN] >= n_nodes:
        for row in range(n_nodes):
            _rescore(state, requests, terms, board, row, mode)
        for block in range(block_max.shape[0]):
            _refresh_block(board, block_max, block)
    else:
        for k in range(span[SEEN], span[WRITTEN]):
            row = touch_log[k]
            _rescore(state, requests, terms, board, row, mode)
            _refresh_block(board, block_max, row // BLOCK)
    span[SEEN] = span[WRITTEN]


@kernel
def _best_row(board: NDArray[np.float64], block_max: NDArray[np.float64], lo: int, hi: int) -> int:
    """Find the best row in lo..hi, the smallest among equals; -1 if none fits."""
    best = -np.inf
    best_row = -1
    block = lo // BLOCK
    while block * BLOCK < hi:
        # No row of a block is above its maximum, so this holds for a block that lo or hi cuts, too.
        if block_max[block] > best:
            for row in range(max(lo, block * BLOCK), min(hi, (block + 1) * BLOCK)):
                if board[1, row] > best:
                    best = board[1, row]
                    best_row = row
        block += 1
    return best_row


@kernel
def _slots_on(
    state: NDArray[np.int64], request: NDArray[np.int64], fixed: NDArray[np.float64], mode: int, row: int
) -> np.int64:
    """How many equal tasks one node can still take."""
    room = np.int64(2**31 - 1) if fixed[row] > -np.inf else np.int64(0)
    for r in range(request.shape[0]):
        if request[r] > 0 and room > 0:
            idle = state[ALLOCATABLE, row, r] - state[USED, row, r]
            free = idle + state[RELEASING, row, r] - state[PIPELINED, row, r]
            if mode == IDLE:
                free = min(free, idle)
            elif mode == FREE_NOW and idle < request[r]:
                free = np.int64(0)
            room = min(room, max(free, 0) // request[r])
    return room


@kernel
def count_slots(
    state: NDArray[np.int64],
    request: NDArray[np.int64],
    fixed: NDArray[np.float64],
    mode: int,
    lo: int,
    slots: NDArray[np.intp],
) -> None:
    """Count how many equal tasks the nodes from row `lo` on can still take.

    request  int64[n_resources]  IN   some entry > 0
    fixed    float64[n_nodes]    IN   -inf: the class may not go there
    slots    int64[n_rows]       OUT  for rows lo, lo + 1, ...
    """
    for row in range(lo, lo + slots.shape[0]):
        slots[row - lo] = _slots_on(state, request, fixed, mode, row)


@kernel
def recount_slots(
    state: NDArray[np.int64],
    request: NDArray[np.int64],
    fixed: NDArray[np.float64],
    mode: int,
    rows: NDArray[np.intp],
    slots: NDArray[np.intp],
) -> int:
    """Bring the slots of all nodes up to date where something changed; return how many more there are now.

    request  int64[n_resources]  IN     some entry > 0
    fixed    float64[n_nodes]    IN     -inf: the class may not go there
    rows     int64[n_rows]       IN     nodes that changed; a node may be among them more than once
    slots    int64[n_nodes]      INOUT
    """
    more = 0
    for row in rows:
        room = _slots_on(state, request, fixed, mode, row)
        more += room - slots[row]
        slots[row] = room
    return more


@kernel
def move_tasks(
    state: NDArray[np.int64],
    requests: NDArray[np.int64],
    cls: NDArray[np.intp],
    nodes: NDArray[np.intp],
    change: NDArray[np.int64],
    touch_log: NDArray[np.intp],
    written: int,
) -> int:
    """Change the planes of nodes for one task each; return how long the touch log is now.

    requests   int64[n_classes, 2, n_resources]  IN
    cls        int64[n_tasks]                    IN     class of each task
    nodes      int64[n_tasks]                    IN     negative: on none
    change     int64[3]                          IN     plane, how often the request is added to it, and to SCORED
    touch_log  int64[>= written + n_tasks]       INOUT
    """
    for t in range(nodes.shape[0]):
        row = nodes[t]
        if row >= 0:
            c = cls[t]
            for r in range(requests.shape[2]):
                state[change[0], row, r] += change[1] * requests[c, 0, r]
                state[SCORED, row, r] += change[2] * requests[c, 1, r]
            touch_log[written] = row
            written += 1
    return written


@kernel
def place_run(
    state: NDArray[np.int64],
    requests: NDArray[np.int64],
    terms: NDArray[np.float64],
    board: NDArray[np.float64],
    block_max: NDArray[np.float64],
    touch_log: NDArray[np.intp],
    span: NDArray[np.int64],
    placed: NDArray[np.intp],
) -> int:
    """Place up to len(placed) identical tasks, each on the best node of the moment; return how many fitted.

    state      int64[N_PLANES, n_nodes, n_resources]  INOUT  USED (or PIPELINED) and SCORED grow
    requests   int64[2, n_resources]                  IN     the request, and the request as scores count it
    terms      float64[n_terms, 2+n_resources]        IN     score terms
    board      float64[2, n_nodes]                    INOUT  fixed score (-inf: never), current score (-inf: full)
    block_max  float64[ceil(n_nodes / BLOCK)]         INOUT  maximum of board[1] per block
    touch_log  int64[>= written + len(placed)]        INOUT  rows changed so far, in order
    span       int64[5]                               INOUT  SEEN, WRITTEN, MODE, LO, HI
    placed     int64[n_tasks]                         OUT    node row per task, in task order
    Equal scores: the smaller row wins. O(touched x BLOCK + n_tasks x (n_nodes / BLOCK + BLOCK)).
    """
    catch_up(state, requests, terms, board, block_max, touch_log, span)
    mode = span[MODE]
    plane = USED if mode == IDLE else PIPELINED
    count = 0
    while count < placed.shape[0]:
        row = _best_row(board, block_max, span[LO], span[HI])
        if row < 0:
            break
        for r in range(requests.shape[1]):
            state[plane, row, r] += requests[0, r]
            state[SCORED, row, r] += requests[1, r]
        _rescore(state, requests, terms, board, row, mode)
        _refresh_block(board, block_max, row // BLOCK)
        touch_log[span[WRITTEN]] = row
        span[WRITTEN] += 1
        placed[count] = row
        count += 1
    span[SEEN] = span[WRITTEN]
    return count
