"""Compile the kernels ahead of their first use: `python -m muster.kernels`.

Compiled code is kept beside the sources and found again by every later process; without this step the first command
of a fresh installation would spend seconds on it.
"""

from __future__ import annotations

import numpy as np

from muster.kernels.clearing import clear_nodes
from muster.kernels.placement import HI, catch_up, count_slots, fits, move_tasks, place_run, recount_slots
from muster.kernels.planes import ALLOCATABLE, N_PLANES
from muster.kernels.search import PART_COLUMNS, Gang, make_desk, search_places
from muster.kernels.totals import (
    add_rows,
    future_total,
    is_countable,
    move_counts,
    move_requests,
    sum_requests,
    tally_tasks,
)


def compile_all() -> None:
    """Call every kernel once with the types that the scheduler uses."""
    n_nodes, n_resources = 2, 3
    state = np.zeros((N_PLANES, n_nodes, n_resources), np.int64)
    state[ALLOCATABLE] = 10
    requests = np.ones((1, 2, n_resources), np.int64)
    tasks = np.zeros(1, np.intp)
    log = np.zeros(8, np.intp)
    counts, sums = np.zeros((1, 2), np.intp), np.zeros((1, n_resources), np.int64)
    is_countable(requests, state[ALLOCATABLE], 1, 2**60, 2**56, 2**40)
    tally_tasks(
        tasks,
        np.zeros(1, np.int8),
        np.zeros(1, np.uint8),
        (tasks, tasks, tasks, tasks),
        requests,
        np.zeros(1, np.uint8),
        np.array([2, 4, 8], np.uint8),
        state,
        (counts, counts, counts),
        (sums, sums),
        np.zeros(1, np.bool_),
    )
    sum_requests(requests, tasks, tasks, np.zeros((1, n_resources), np.int64))
    future_total(state, np.ones(n_nodes, np.bool_), np.zeros(n_resources, np.int64))
    held = np.zeros((1, n_resources), np.int64)
    upward = np.zeros((1, 1), np.intp)
    move_requests(requests, tasks, tasks, tasks, tasks, np.ones(1, np.bool_), upward, held, held, held, held, 1)
    move_counts(np.zeros((1, 2), np.intp), tasks, tasks, np.zeros(1, np.int8), 1, 1)
    add_rows(np.zeros((1, n_resources), np.int64), tasks, np.ones((1, n_resources), np.int64))
    starts = np.array([0, 1, 1, 0, 1], np.intp)
    pieces, goal = np.zeros((3, 1), np.intp), np.array([1, -1], np.int64)
    free, cost, chosen = np.zeros((n_nodes, n_resources), np.int64), np.ones(1), np.zeros(1, np.bool_)
    clear_nodes(free, requests[0, 0], pieces, requests[0, :1], starts, cost, chosen, goal)
    board, block_max = np.zeros((2, n_nodes)), np.zeros(1)
    terms = np.array([[kind, 1.0, 1.0, 1.0, 1.0] for kind in range(6)])
    span = np.array([-1, 0, 0, 0, 0], np.int64)
    span[HI] = n_nodes
    catch_up(state, requests[0], terms, board, block_max, log, span)
    place_run(state, requests[0], terms, board, block_max, log, span, tasks)
    fits(state, requests[0, 0], 0, 0)
    count_slots(state, requests[0, 0], board[0], 0, 0, np.zeros(n_nodes, np.intp))
    recount_slots(state, requests[0, 0], board[0], 0, tasks, np.zeros(n_nodes, np.intp))
    move_tasks(state, requests, tasks, tasks, np.array([1, 1, 1], np.int64), log, 0)
    part = np.array([[-1, 0, -1, 0, 1, 0, 1, 0]], np.intp).reshape(1, PART_COLUMNS)
    gang = Gang(
        parts=part,
        kinds=np.array([[0, 0, 1]], np.intp),
        requests=np.ones((1, n_resources), np.int64),
        allowed=np.ones((1, n_nodes), np.bool_),
        cands=np.array([[0, n_nodes, -1]], np.intp),
        cand_nodes=np.arange(n_nodes, dtype=np.intp),
        needs=np.array([1, 0], np.int64),
        nodes=np.zeros((n_nodes, 2), np.intp),
        colors=np.zeros(1, np.int64),
    )
    search_places(gang, make_desk(gang, np.ones((n_nodes, n_resources), np.int64), 10))


if __name__ == "__main__":
    compile_all()
