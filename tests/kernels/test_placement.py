"""The placement kernels equal their plain-Python twins on random inputs, also when boards are shared and reused."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.kernels import placement
from muster.kernels.placement import ANYHOW, FREE_FRACTION, FREE_NOW, FUTURE, HI, IDLE, LO, SEEN, WRITTEN
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
    st.tuples(st.integers(0, FREE_FRACTION), st.integers(0, 5), *[st.integers(-3, 3)] * N_RESOURCES), max_size=4
).map(lambda rows: np.array(rows, np.float64).reshape(len(rows), 2 + N_RESOURCES))


def ranges(n_nodes: int) -> st.SearchStrategy[range]:
    """Ranges of node rows: often everything, sometimes nothing, with ends inside, at and across blocks."""
    ends = st.integers(0, n_nodes) | st.sampled_from([0, min(64, n_nodes), n_nodes])
    return st.tuples(ends, ends).map(lambda pair: range(min(pair), max(pair)))


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
    log = np.empty(4096, np.intp)
    written = 0
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    boards = {}
    for number in range(len(classes)):
        fixed = np.where(rng.random(n_nodes) < 0.2, -np.inf, rng.integers(0, 5, n_nodes).astype(float))
        for mode in (IDLE, FUTURE, FREE_NOW, ANYHOW):
            boards[number, mode] = _Board(n_nodes, fixed, mode)
    slow = twin.to_lists(state)
    runs = st.tuples(
        st.integers(0, len(classes) - 1), st.sampled_from((IDLE, FUTURE, FREE_NOW)), st.integers(1, 9), ranges(n_nodes)
    )
    for number, mode, n_tasks, rows in data.draw(st.lists(runs, max_size=8)):
        requests, terms = classes[number]
        board = boards[number, mode]
        placed = np.full(n_tasks, -1, np.intp)
        board.span[WRITTEN] = written
        board.span[[LO, HI]] = rows.start, rows.stop
        count = placement.place_run(state, requests, terms, board.scores, board.block_max, log, board.span, placed)
        written = int(board.span[WRITTEN])

        expected = twin.place_run(
            slow, requests.tolist(), terms.tolist(), board.scores[0].tolist(), mode, rows, n_tasks
        )

        assert placed[:count].tolist() == expected
        assert state.tolist() == slow
        assert board.span[SEEN] == written
        assert log[written - count : written].tolist() == expected


@given(clusters(), requests_of_classes, terms_of_classes)
def test_score_and_fit_of_every_node_equal_the_twin(state: Ints, requests: Ints, terms: NDArray[np.float64]) -> None:
    slow = state.tolist()
    for row in range(state.shape[1]):
        assert placement.score_node(state, requests, terms, row) == twin.score(
            slow, requests.tolist(), terms.tolist(), row
        )
        for mode in (IDLE, FUTURE, FREE_NOW, ANYHOW):
            assert placement.fits(state, requests[0], row, mode) == twin.fits(slow, requests[0].tolist(), row, mode)


@given(clusters(), requests_of_classes, st.sampled_from((IDLE, FUTURE, FREE_NOW)), st.data())
def test_slots_equal_placing_one_after_the_other(state: Ints, requests: Ints, mode: int, data: st.DataObject) -> None:
    request = requests[0]
    request[data.draw(st.integers(0, N_RESOURCES - 1))] = data.draw(st.integers(1, 4))
    n_nodes = state.shape[1]
    banned = data.draw(st.sets(st.integers(0, n_nodes - 1)))
    fixed = np.array([-np.inf if row in banned else 1.0 for row in range(n_nodes)])
    rows = data.draw(ranges(n_nodes))
    before = state.copy()
    slots = np.full(len(rows), -1, np.intp)

    placement.count_slots(state, request, fixed, mode, rows.start, slots)

    assert slots.tolist() == twin.count_slots(state.tolist(), request.tolist(), fixed.tolist(), mode, rows)
    np.testing.assert_array_equal(state, before)


@given(clusters(), requests_of_classes, st.sampled_from((IDLE, FUTURE, FREE_NOW)), st.data())
def test_recounting_changed_nodes_equals_counting_all(
    state: Ints, requests: Ints, mode: int, data: st.DataObject
) -> None:
    request = requests[0]
    request[data.draw(st.integers(0, N_RESOURCES - 1))] = data.draw(st.integers(1, 4))
    n_nodes = state.shape[1]
    fixed = np.array(data.draw(st.lists(st.sampled_from((-np.inf, 1.0)), min_size=n_nodes, max_size=n_nodes)))
    slots = np.zeros(n_nodes, np.intp)
    placement.count_slots(state, request, fixed, mode, 0, slots)
    before = int(slots.sum())
    changed = data.draw(st.lists(st.integers(0, n_nodes - 1), max_size=6))
    for row in changed:
        state[USED, row] += data.draw(st.integers(0, 3))

    more = placement.recount_slots(state, request, fixed, mode, np.array(changed, np.intp), slots)

    assert slots.tolist() == twin.count_slots(state.tolist(), request.tolist(), fixed.tolist(), mode, range(n_nodes))
    assert before + more == int(slots.sum())


def test_a_node_without_a_limit_has_room_for_more_tasks_than_exist() -> None:
    state = np.zeros((N_PLANES, 1, 1), np.int64)
    state[ALLOCATABLE] = 2**61
    slots = np.zeros(1, np.intp)

    placement.count_slots(state, np.ones(1, np.int64), np.zeros(1), IDLE, 0, slots)

    assert slots.tolist() == [2**31 - 1]


@given(
    clusters(),
    st.lists(requests_of_classes, min_size=1, max_size=3),
    st.sampled_from((USED, RELEASING, PIPELINED)),
    st.sampled_from((-1, 1)),
    st.sampled_from((-1, 0, 1)),
    st.data(),
)
def test_moving_tasks_equals_the_twin_and_back_again_leaves_no_trace(
    state: Ints, requests: list[Ints], plane: int, times: int, scored: int, data: st.DataObject
) -> None:
    task = st.tuples(st.integers(0, len(requests) - 1), st.integers(-1, state.shape[1] - 1))
    tasks = data.draw(st.lists(task, max_size=12))
    table = np.array(tasks, np.intp).reshape(len(tasks), 2)
    cls, nodes = table[:, 0].copy(), table[:, 1].copy()
    before, slow, slow_log = state.copy(), state.tolist(), [7]
    log = np.full(1 + 2 * len(tasks), -5, np.intp)
    log[0] = 7
    change = np.array([plane, times, scored], np.int64)
    classes = np.array(requests)

    written = placement.move_tasks(state, classes, cls, nodes, change, log, 1)
    twin.move_tasks(slow, classes.tolist(), tasks, (plane, times, scored), slow_log)

    assert state.tolist() == slow
    assert log[:written].tolist() == slow_log
    change[1:] *= -1
    placement.move_tasks(state, classes, cls, nodes, change, log, written)
    np.testing.assert_array_equal(state, before)
