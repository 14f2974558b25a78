"""The placement kernel equals its plain-Python twin on random inputs, also when boards are shared and reused."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.kernels import placement
from muster.kernels.placement import FUTURE, IDLE, SEEN, WRITTEN
from muster.kernels.planes import ALLOCATABLE, N_PLANES, PIPELINED, RELEASING, SCORED, USED
from tests.reference import placement as twin

N_RESOURCES = 3
Ints = NDArray[np.int64]


@st.composite
def clusters(draw: st.DrawFn) -> Ints:
    n_nodes = draw(st.integers(1, 140))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    state = np.zeros((N_PLANES, n_nodes, N_RESOURCES), np.int64)
    state[ALLOCATABLE] = rng.integers(0, 20, (n_nodes, N_RESOURCES))
    state[USED] = rng.integers(0, 12, (n_nodes, N_RESOURCES))
    state[RELEASING] = np.minimum(rng.integers(0, 8, (n_nodes, N_RESOURCES)), state[USED])
    state[PIPELINED] = rng.integers(0, 3, (n_nodes, N_RESOURCES))
    state[SCORED] = state[USED] + rng.integers(0, 2, (n_nodes, N_RESOURCES))
    return state


requests_of_classes = st.lists(
    st.lists(st.integers(0, 4), min_size=N_RESOURCES, max_size=N_RESOURCES), min_size=2, max_size=2
).map(lambda rows: np.array(rows, np.int64))

terms_of_classes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5), *[st.integers(0, 3)] * N_RESOURCES), max_size=4
).map(lambda rows: np.array(rows, np.float64).reshape(len(rows), 2 + N_RESOURCES))


class _Board:
    """The arrays of a board, as the statement holds them."""

    def __init__(self, n_nodes: int, fixed: NDArray[np.float64], mode: int) -> None:
        self.scores = np.empty((2, n_nodes))
        self.scores[0] = fixed
        self.block_max = np.empty(-(-n_nodes // placement.BLOCK))
        self.span = np.array([-1, 0, mode, 0, n_nodes], np.int64)


@given(clusters(), st.lists(st.tuples(requests_of_classes, terms_of_classes), min_size=1, max_size=3), st.data())
def test_interleaved_runs_of_several_classes_equal_the_twin(
    state: Ints, classes: list[tuple[Ints, NDArray[np.float64]]], data: st.DataObject
) -> None:
    n_nodes = state.shape[1]
    log = np.empty(4096, np.int32)
    written = 0
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    boards = {}
    for number in range(len(classes)):
        fixed = np.where(rng.random(n_nodes) < 0.2, -np.inf, rng.integers(0, 5, n_nodes).astype(float))
        for mode in (IDLE, FUTURE):
            boards[number, mode] = _Board(n_nodes, fixed, mode)
    slow = twin.to_lists(state)
    for number, mode, n_tasks in data.draw(
        st.lists(
            st.tuples(st.integers(0, len(classes) - 1), st.sampled_from((IDLE, FUTURE)), st.integers(1, 9)), max_size=8
        )
    ):
        requests, terms = classes[number]
        board = boards[number, mode]
        placed = np.full(n_tasks, -1, np.int32)
        board.span[WRITTEN] = written
        count = placement.place_run(state, requests, terms, board.scores, board.block_max, log, board.span, placed)
        written = int(board.span[WRITTEN])

        expected = twin.place_run(slow, requests.tolist(), terms.tolist(), board.scores[0].tolist(), mode, n_tasks)

        assert placed[:count].tolist() == expected
        assert state.tolist() == slow
        assert board.span[SEEN] == written


@given(clusters(), requests_of_classes, terms_of_classes)
def test_score_and_fit_of_every_node_equal_the_twin(state: Ints, requests: Ints, terms: NDArray[np.float64]) -> None:
    slow = state.tolist()
    for row in range(state.shape[1]):
        assert placement.score_node(state, requests, terms, row) == twin.score(
            slow, requests.tolist(), terms.tolist(), row
        )
        for mode in (IDLE, FUTURE):
            assert placement.fits(state, requests[0], row, mode) == twin.fits(slow, requests[0].tolist(), row, mode)
