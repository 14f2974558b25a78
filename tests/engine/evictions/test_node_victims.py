"""How many victims a node gives: enough, in order, and none too many."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.engine.evictions.task.offers import NodeOffers, fewest_victims, share_out

Ints = NDArray[np.int64]


def offers(free: list[list[int]], held: list[list[list[int]]]) -> NodeOffers:
    """`held[node][k]` is what the k-th victim of a node holds."""
    where = [node for node, victims in enumerate(held) for _ in victims]
    rows = [amounts for victims in held for amounts in victims]
    width = len(free[0])
    return NodeOffers(
        np.array(free, np.int64),
        np.arange(len(rows), dtype=np.intp),
        np.array(rows, np.int64).reshape(len(rows), width),
        np.array(where, np.int64),
    )


def chosen(made: NodeOffers, request: list[int], counts: list[int]) -> list[int]:
    return np.flatnonzero(fewest_victims(made, np.array(request), np.array(counts))).tolist()


def test_victims_go_in_order_until_there_is_enough() -> None:
    assert chosen(offers([[1]], [[[2], [2], [2]]]), [4], [1]) == [0, 1]


def test_nobody_goes_where_there_is_room() -> None:
    assert chosen(offers([[4]], [[[2], [2]]]), [4], [1]) == []


def test_a_victim_that_turns_out_not_to_be_needed_stays() -> None:
    # The first is too small, the second is enough alone.
    assert chosen(offers([[0]], [[[1], [4]]]), [4], [1]) == [1]


def test_the_dearest_is_let_off_first() -> None:
    # One of three can stay: the last in order is the dearest.
    assert chosen(offers([[0, 0]], [[[2, 0], [2, 0], [0, 4], [2, 4]]]), [4, 4], [1]) == [0, 1, 2]


def test_resources_that_are_not_asked_for_do_not_matter() -> None:
    assert chosen(offers([[0, 0]], [[[4, 0], [4, 8]]]), [4, 0], [1]) == [0]


def test_nodes_are_independent_of_each_other() -> None:
    made = offers([[0], [3], [0]], [[[1], [4]], [[1]], [[2], [2], [2]]])
    assert chosen(made, [4], [1, 1, 1]) == [1, 2, 3, 4]
    assert chosen(made, [4], [0, 1, 0]) == [2]


def test_tasks_are_shared_out_node_by_node() -> None:
    assert share_out(np.array([2, 0, 3, 1]), 4).tolist() == [2, 0, 2, 0]
    assert share_out(np.array([2, 0, 3, 1]), 9).tolist() == [2, 0, 3, 1]


amounts = st.lists(st.integers(0, 4), min_size=2, max_size=2)


@given(
    st.lists(st.tuples(amounts, st.lists(amounts, max_size=5)), min_size=1, max_size=4),
    st.tuples(st.integers(1, 4), st.integers(0, 4)),
)
def test_the_choice_is_enough_and_minimal(
    nodes: list[tuple[list[int], list[list[int]]]], wanted: tuple[int, int]
) -> None:
    made = offers([free for free, _ in nodes], [held for _, held in nodes])
    request = np.array(wanted, np.int64)
    counts = np.minimum(made.slots(request), 2)
    goes = fewest_victims(made, request, counts)
    for node in range(len(nodes)):
        mine = np.flatnonzero(made.where == node)
        needed = counts[node] * request

        def is_enough(without: int = -1, mine: Ints = mine, node: int = node, needed: Ints = needed) -> bool:
            freed = sum((made.held[k] for k in mine.tolist() if goes[k] and k != without), np.zeros(2, np.int64))
            return bool(((made.free[node] + freed >= needed) | (request == 0)).all())

        if counts[node]:
            assert is_enough()
            assert not any(is_enough(without=k) for k in mine[goes[mine]].tolist())
        else:
            assert not goes[mine].any()
