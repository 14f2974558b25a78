"""Clearing nodes equals its plain-Python twin, and what it answers is enough and not too much."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.kernels.clearing import clear_nodes, count_places
from tests.reference import clearing as twin
from tests.reference.clearing import Problem


@st.composite
def problems(draw: st.DrawFn) -> tuple[Problem, int, int]:
    n_nodes, n_resources = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    amounts = st.lists(st.integers(0, 6), min_size=n_resources, max_size=n_resources)
    free = draw(st.lists(amounts, min_size=n_nodes, max_size=n_nodes))
    request = draw(amounts.filter(any))
    units = draw(
        st.lists(st.dictionaries(st.integers(0, n_nodes - 1), amounts, min_size=1, max_size=n_nodes), max_size=8)
    )
    # Powers of two add up exactly in any order, so that both sides see the same ties.
    cost = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0, np.inf]), min_size=len(units), max_size=len(units)))
    return Problem(free, request, units, cost), draw(st.integers(0, 8)), draw(st.integers(-1, n_nodes - 1))


def run_kernel(problem: Problem, needed: int, first: int) -> tuple[int, list[bool]]:
    n_nodes, n_resources, n_units = len(problem.free), len(problem.request), len(problem.units)
    flat = sorted((node, unit) for unit, held in enumerate(problem.units) for node in held)
    amounts = [problem.units[unit][node] for node, unit in flat]
    by_unit = sorted(range(len(flat)), key=lambda k: (flat[k][1], k))
    pieces = np.array([[unit for _, unit in flat], [node for node, _ in flat], by_unit], np.intp).reshape(3, -1)
    starts = [sum(node < row for node, _ in flat) for row in range(n_nodes + 1)]
    starts += [sum(unit < row for _, unit in flat) for row in range(n_units + 1)]
    chosen = np.zeros(n_units, np.bool_)
    have = clear_nodes(
        np.array(problem.free, np.int64),
        np.array(problem.request, np.int64),
        pieces,
        np.array(amounts, np.int64).reshape(-1, n_resources),
        np.array(starts, np.intp),
        np.array(problem.cost, np.float64),
        chosen,
        np.array([needed, first], np.int64),
    )
    return have, chosen.tolist()


@given(problems())
def test_the_kernel_chooses_like_the_twin(drawn: tuple[Problem, int, int]) -> None:
    problem, needed, first = drawn
    assert run_kernel(problem, needed, first) == twin.clear(problem, needed, first)


@given(problems())
def test_every_chosen_unit_is_needed(drawn: tuple[Problem, int, int]) -> None:
    problem, needed, first = drawn
    have, chosen = run_kernel(problem, needed, first)
    taken = [unit for unit, flag in enumerate(chosen) if flag]
    assert have == twin.total(problem, taken)
    if have >= needed:
        assert all(twin.total(problem, [other for other in taken if other != unit]) < needed for unit in taken)


@given(problems())
def test_a_way_is_found_whenever_there_is_one(drawn: tuple[Problem, int, int]) -> None:
    problem, needed, first = drawn
    everybody = [unit for unit, cost in enumerate(problem.cost) if cost != np.inf]
    assert (run_kernel(problem, needed, first)[0] >= needed) == (twin.total(problem, everybody) >= needed)


def test_places_look_only_at_what_is_asked_for() -> None:
    free, request = np.array([7, -1, 0], np.int64), np.array([2, 0, 0], np.int64)
    assert count_places(free, request) == 3
    assert count_places(np.array([-4, 9, 9], np.int64), request) == 0
