"""The summing kernels equal their plain-Python twins, exactly, also for amounts that floats cannot hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from muster.kernels import totals
from muster.kernels.planes import N_PLANES
from tests.reference import totals as twin

AMOUNTS = st.integers(0, 2**55)
TaskColumns = tuple[list[list[list[int]]], list[tuple[int, int, bool]], int, int]


@st.composite
def task_columns(draw: st.DrawFn) -> TaskColumns:
    n_classes, n_groups, n_resources = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    requests = [
        [draw(st.lists(AMOUNTS, min_size=n_resources, max_size=n_resources)) for _ in range(2)]
        for _ in range(n_classes)
    ]
    tasks = draw(
        st.lists(st.tuples(st.integers(0, n_classes - 1), st.integers(-1, n_groups - 1), st.booleans()), max_size=30)
    )
    return requests, tasks, n_groups, n_resources


@given(task_columns())
def test_requests_are_booked_on_nodes_like_the_twin(columns: TaskColumns) -> None:
    requests, tasks, n_nodes, n_resources = columns
    state = np.zeros((N_PLANES, n_nodes, n_resources), np.int64)
    slow = state.tolist()
    cls, node = [task[0] for task in tasks], [task[1] for task in tasks]
    leaving = [task[2] for task in tasks]

    totals.book_on_nodes(
        state,
        np.array(requests, np.int64),
        np.array(cls, np.int32),
        np.array(node, np.int32),
        np.array(leaving, np.bool_),
    )
    twin.book_on_nodes(slow, requests, cls, node, leaving)

    assert state.tolist() == slow


@given(task_columns())
def test_requests_are_summed_by_group_like_the_twin(columns: TaskColumns) -> None:
    requests, tasks, n_groups, n_resources = columns
    sums = np.zeros((n_groups, n_resources), np.int64)
    slow = sums.tolist()
    cls, group = [task[0] for task in tasks], [task[1] for task in tasks]

    totals.sum_requests(np.array(requests, np.int64), np.array(cls, np.int32), np.array(group, np.int32), sums)
    twin.sum_requests(requests, cls, group, slow)

    assert sums.tolist() == slow


@given(arrays(np.int64, (N_PLANES, 4, 2), elements=AMOUNTS), arrays(np.bool_, 4))
def test_what_will_be_free_is_added_up_like_the_twin(state: NDArray[np.int64], ready: NDArray[np.bool_]) -> None:
    total = np.zeros(2, np.int64)
    slow = [0, 0]

    totals.future_total(state, ready, total)
    twin.future_total(state.tolist(), ready.tolist(), slow)

    assert total.tolist() == slow


@given(task_columns(), st.sampled_from((-1, 1)))
def test_requests_are_moved_between_groups_like_the_twin(columns: TaskColumns, sign: int) -> None:
    requests, tasks, n_groups, n_resources = columns
    sums = np.full((n_groups, n_resources), 2**60, np.int64)
    before, slow = sums.copy(), sums.tolist()
    cls, group = [task[0] for task in tasks], [task[1] for task in tasks]
    arrays = np.array(requests, np.int64), np.array(cls, np.int32), np.array(group, np.int32)

    totals.move_requests(*arrays, sums, sign)
    twin.move_requests(requests, cls, group, slow, sign)

    assert sums.tolist() == slow
    totals.move_requests(*arrays, sums, -sign)
    np.testing.assert_array_equal(sums, before)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12), st.integers(0, 4))
def test_tasks_are_moved_between_states_like_the_twin(tasks: list[tuple[int, int]], after: int) -> None:
    counts = np.full((4, 5), 20, np.int32)
    before, slow = counts.copy(), counts.tolist()
    group, states = [task[0] for task in tasks], [task[1] for task in tasks]
    arrays = np.array(group, np.int32), np.array(states, np.int8)

    totals.move_counts(counts, *arrays, after, 1)
    twin.move_counts(slow, group, states, after, 1)

    assert counts.tolist() == slow
    totals.move_counts(counts, *arrays, after, -1)
    np.testing.assert_array_equal(counts, before)


@given(
    n_groups=st.integers(1, 4),
    tasks=st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.booleans()), max_size=30),
)
def test_tasks_are_counted_like_the_twin(n_groups: int, tasks: list[tuple[int, int, bool]]) -> None:
    kept = [task for task in tasks if task[0] < n_groups]
    group, state = [task[0] for task in kept], [task[1] for task in kept]
    extra = [task[2] for task in kept]
    counts = np.zeros((n_groups, 4), np.int32)
    slow = counts.tolist()

    totals.count_tasks(counts, np.array(group, np.int32), np.array(state, np.int8), np.array(extra, np.bool_))
    twin.count_tasks(slow, group, state, extra)

    assert counts.tolist() == slow


@given(rows=st.lists(st.tuples(st.integers(-1, 2), st.lists(AMOUNTS, min_size=2, max_size=2)), max_size=12))
def test_rows_are_added_by_group_like_the_twin(rows: list[tuple[int, list[int]]]) -> None:
    group, amounts = [row[0] for row in rows], [row[1] for row in rows]
    sums = np.ones((3, 2), np.int64)
    slow = sums.tolist()

    totals.add_rows(sums, np.array(group, np.int32), np.array(amounts, np.int64).reshape(len(rows), 2))
    twin.add_rows(slow, group, amounts)

    assert sums.tolist() == slow
