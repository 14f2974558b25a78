"""The summing kernels equal their plain-Python twins, exactly, also for amounts that floats cannot hold."""

from __future__ import annotations

from typing import Any

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


ROWS = st.integers(-1, 2)
TASKS = st.fixed_dictionaries(
    {
        "cls": st.integers(0, 2),
        "status": st.integers(0, 3),
        "flags": st.integers(0, 15),
        "job": ROWS,
        "role": ROWS,
        "subgroup": ROWS,
        "node": ROWS,
    }
)


@given(
    tasks=st.lists(TASKS, max_size=30),
    amounts=st.lists(
        st.lists(st.lists(AMOUNTS, min_size=2, max_size=2), min_size=2, max_size=2), min_size=3, max_size=3
    ),
    kinds=st.lists(st.integers(0, 31), min_size=4, max_size=4),
)
def test_tasks_are_tallied_like_the_twin(
    tasks: list[dict[str, int]], amounts: list[list[list[int]]], kinds: list[int]
) -> None:
    def column(name: str, dtype: type[np.generic] = np.intp) -> NDArray[Any]:
        return np.array([task[name] for task in tasks], dtype)

    state = np.zeros((N_PLANES, 3, 2), np.int64)
    counts = {owner: np.zeros((3, 5), np.intp) for owner in ("job", "role", "subgroup")}
    held, wanted = (np.zeros((3, 2), np.int64) for _ in range(2))
    unwilling = np.zeros(3, np.bool_)
    slow = state.tolist(), {owner: table.tolist() for owner, table in counts.items()}, held.tolist(), wanted.tolist()

    totals.tally_tasks(
        column("cls"),
        column("status", np.int8),
        column("flags", np.uint8),
        (column("job"), column("role"), column("subgroup"), column("node")),
        np.array(amounts, np.int64),
        np.array(kinds, np.uint8),
        np.array([2, 4, 8], np.uint8),
        state,
        (counts["job"], counts["role"], counts["subgroup"]),
        (held, wanted),
        unwilling,
    )
    refuse = twin.tally_tasks(tasks, amounts, kinds, *slow)

    assert (state.tolist(), {owner: table.tolist() for owner, table in counts.items()}) == slow[:2]
    assert (held.tolist(), wanted.tolist()) == slow[2:]
    assert set(np.flatnonzero(unwilling).tolist()) == refuse


@given(
    requests=st.lists(
        st.lists(st.lists(AMOUNTS, min_size=2, max_size=2), min_size=2, max_size=2), min_size=1, max_size=3
    ),
    allocatable=st.lists(st.lists(AMOUNTS, min_size=2, max_size=2), min_size=2, max_size=3),
    n_tasks=st.integers(0, 10),
    bounds=st.tuples(*[st.sampled_from([2**20, 2**40, 2**56, 2**60])] * 3),
)
def test_amounts_are_countable_like_the_twin(
    requests: list[list[list[int]]], allocatable: list[list[int]], n_tasks: int, bounds: tuple[int, int, int]
) -> None:
    columns = np.array(requests, np.int64), np.array(allocatable, np.int64)
    assert totals.is_countable(*columns, n_tasks, *bounds) == twin.is_countable(requests, allocatable, n_tasks, *bounds)


@given(task_columns())
def test_requests_are_summed_by_group_like_the_twin(columns: TaskColumns) -> None:
    requests, tasks, n_groups, n_resources = columns
    sums = np.zeros((n_groups, n_resources), np.int64)
    slow = sums.tolist()
    cls, group = [task[0] for task in tasks], [task[1] for task in tasks]

    totals.sum_requests(np.array(requests, np.int64), np.array(cls, np.intp), np.array(group, np.intp), sums)
    twin.sum_requests(requests, cls, group, slow)

    assert sums.tolist() == slow


@given(arrays(np.int64, (N_PLANES, 4, 2), elements=AMOUNTS), arrays(np.bool_, 4))
def test_what_will_be_free_is_added_up_like_the_twin(state: NDArray[np.int64], ready: NDArray[np.bool_]) -> None:
    total = np.zeros(2, np.int64)
    slow = [0, 0]

    totals.future_total(state, ready, total)
    twin.future_total(state.tolist(), ready.tolist(), slow)

    assert total.tolist() == slow


@given(data=st.data(), columns=task_columns(), sign=st.sampled_from((-1, 1)))
def test_requests_are_moved_in_jobs_and_queues_like_the_twin(
    data: st.DataObject, columns: TaskColumns, sign: int
) -> None:
    requests, tasks, n_jobs, n_resources = columns
    n_queues = data.draw(st.integers(1, 3))
    queue = data.draw(st.lists(st.integers(-1, n_queues - 1), min_size=n_jobs, max_size=n_jobs))
    preemptible = data.draw(st.lists(st.booleans(), min_size=n_jobs, max_size=n_jobs))
    upward = [[row, *range(row), *[-1] * (n_queues - 1 - row)] for row in range(n_queues)]
    cls, job = [task[0] for task in tasks], [task[1] for task in tasks]
    moved = [row for row, task in enumerate(tasks) if task[2]]
    held, own, tree, firm = books = [
        np.full((rows, n_resources), 2**60, np.int64) for rows in (n_jobs, n_queues, n_queues, n_queues)
    ]
    before, slow = [book.copy() for book in books], [book.tolist() for book in books]
    tasks_, cls_, job_, queue_ = (np.array(column, np.intp) for column in (moved, cls, job, queue))
    may_go, above = np.array(preemptible, np.bool_), np.array(upward, np.intp)

    def move(sign: int) -> None:
        amounts = np.array(requests, np.int64)
        totals.move_requests(amounts, tasks_, cls_, job_, queue_, may_go, above, held, own, tree, firm, sign)

    move(sign)
    slow_held, slow_own, slow_tree, slow_firm = slow
    twin.move_requests(
        requests, moved, cls, job, queue, preemptible, upward, slow_held, slow_own, slow_tree, slow_firm, sign
    )

    assert [book.tolist() for book in books] == slow
    move(-sign)
    for book, was in zip(books, before, strict=True):
        np.testing.assert_array_equal(book, was)


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 4), st.booleans()), max_size=12), st.integers(0, 4))
def test_tasks_are_moved_between_states_like_the_twin(tasks: list[tuple[int, int, bool]], after: int) -> None:
    counts = np.full((4, 5), 20, np.intp)
    before, slow = counts.copy(), counts.tolist()
    group, moved = [task[0] for task in tasks], [row for row, task in enumerate(tasks) if task[2]]
    states = [tasks[row][1] for row in moved]
    arrays = np.array(group, np.intp), np.array(moved, np.intp), np.array(states, np.int8)

    totals.move_counts(counts, *arrays, after, 1)
    twin.move_counts(slow, group, moved, states, after, 1)

    assert counts.tolist() == slow
    totals.move_counts(counts, *arrays, after, -1)
    np.testing.assert_array_equal(counts, before)


@given(rows=st.lists(st.tuples(st.integers(-1, 2), st.lists(AMOUNTS, min_size=2, max_size=2)), max_size=12))
def test_rows_are_added_by_group_like_the_twin(rows: list[tuple[int, list[int]]]) -> None:
    group, amounts = [row[0] for row in rows], [row[1] for row in rows]
    sums = np.ones((3, 2), np.int64)
    slow = sums.tolist()

    totals.add_rows(sums, np.array(group, np.intp), np.array(amounts, np.int64).reshape(len(rows), 2))
    twin.add_rows(slow, group, amounts)

    assert sums.tolist() == slow
