"""Counting places: it never rules out what could work, and tells what a search step by step would end up with."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.engine.evictions.solver import search
from muster.engine.evictions.solver.places import FreePlaces, Places, forecast
from muster.engine.evictions.solver.pool import Unit
from muster.framework import Session
from tests.engine.evictions.solver.solver_stage import (
    CLASSES,
    evicted,
    gang,
    kai,
    kai_queue,
    nodes,
    open_session,
    promised,
    run,
)
from tests.engine.evictions.solver.worlds import worlds

EACH = pytest.mark.parametrize("action", ["consolidation", "reclaim", "preempt"])


def unit(job: int, **freed: int) -> Unit:
    """A unit of a job: GPUs that go free on nodes a, b, c, …"""
    rows = {ord(name) - ord("a"): amount for name, amount in freed.items()}
    return Unit(job, np.array([job], np.intp), tuple(sorted(rows)), tuple([rows[row]] for row in sorted(rows)))


def places(wanted: int, request: int, *free: int, closed: int | None = None) -> Places:
    """Places for tasks of so many GPUs on nodes with so many free; the node `closed` may not be used."""
    usable = np.array([row != closed for row in range(len(free))], np.bool_)
    have = sum(amount // request for row, amount in enumerate(free) if row != closed)
    return Places([(0, request)], wanted, have, lambda node: [free[node]], usable)


def jobs(chosen: list[Unit] | None) -> list[int] | None:
    return None if chosen is None else [one.job for one in chosen]


def test_nobody_is_needed_where_there_is_room() -> None:
    assert forecast(places(2, 2, 4, 0), [unit(1, a=2)]) == []


def test_units_are_taken_in_their_order_until_there_are_enough_places() -> None:
    line = [unit(1, a=2), unit(2, b=2), unit(3, a=2)]
    assert jobs(forecast(places(2, 2, 0, 0), line)) == [1, 2]
    assert jobs(forecast(places(4, 2, 0, 0), line)) is None


def test_units_that_make_no_place_alone_wait_for_others_on_their_node() -> None:
    line = [unit(1, a=1), unit(2, b=1), unit(3, b=1), unit(4, a=1)]
    assert jobs(forecast(places(1, 2, 0, 0), line)) == [2, 3]
    assert jobs(forecast(places(2, 2, 0, 0), line)) == [2, 3, 1, 4]


def test_a_unit_that_waits_counts_as_soon_as_another_one_opens_its_node() -> None:
    line = [unit(1, b=2), unit(2, a=4, b=2)]
    assert jobs(forecast(places(2, 4, 0, 0), line)) == [2, 1]


def test_nodes_that_the_class_may_not_use_make_no_places() -> None:
    assert jobs(forecast(places(1, 2, 0, 0, closed=0), [unit(1, a=2), unit(2, b=2)])) == [2]


units = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), min_size=1), max_size=6)
frees = st.lists(st.integers(0, 4), min_size=3, max_size=3)


@given(units, frees, st.integers(1, 4), st.integers(1, 6))
def test_a_forecast_finds_enough_places_exactly_when_all_units_together_make_them(
    line: list[dict[str, int]], free: list[int], request: int, wanted: int
) -> None:
    offered = [unit(job, **freed) for job, freed in enumerate(line)]
    total = list(free)
    for one in offered:
        for row, (amount,) in zip(one.nodes, one.freed, strict=True):
            total[row] += amount
    enough = sum(amount // request for amount in total) >= wanted
    chosen = forecast(places(wanted, request, *free), offered)
    assert (chosen is not None) == enough
    if chosen is not None:
        assert len({one.job for one in chosen}) == len(chosen)


@given(units, frees, st.integers(1, 4))
def test_places_follow_what_is_taken_and_would_be_without(
    line: list[dict[str, int]], free: list[int], request: int
) -> None:
    count = places(1, request, *free)
    offered = [unit(job, **freed) for job, freed in enumerate(line)]
    total, seen = list(free), [count.have]
    for one in offered:
        count.take(one)
        for row, (amount,) in zip(one.nodes, one.freed, strict=True):
            total[row] += amount
        seen.append(count.have)
        assert count.have == sum(amount // request for amount in total)
    for taken, have in enumerate(seen):
        assert count.suffice_without(offered[taken:]) == (have >= 1)
    assert count.have == seen[-1]


def served(objects: list[KubeObject], action: str) -> Session:
    return run(open_session(objects, kai(action)))


def without_counting(go: Callable[[], Session]) -> Session:
    """Try everything: what the counts would rule out too."""
    with (
        patch.object(search, "could_suffice", lambda _counts, _node: True),
        patch.object(search, "forecast", lambda _places, _units: []),
        patch.object(FreePlaces, "suffices", lambda _self, _pending: True),
        patch.object(FreePlaces, "reach", lambda _self, pending, _tasks: len(pending)),
        patch.object(FreePlaces, "hold_all", lambda _self, _tasks, _going: True),
    ):
        return go()


@EACH
@given(objects=worlds())
def test_counting_rules_out_nothing_that_works(action: str, objects: list[KubeObject]) -> None:
    tried = without_counting(lambda: served(objects, action))
    with patch.object(search, "forecast", lambda _places, _units: []):
        counted = served(objects, action)
    event(f"served: {bool(tried.committed)}")
    assert promised(counted).keys() == promised(tried).keys()
    assert evicted(counted) == evicted(tried)


def moving(objects: list[KubeObject]) -> Session:
    return run(open_session(objects, kai("consolidation", consolidation={"looksAhead": True})))


@given(objects=worlds())
def test_counting_where_movers_could_go_rules_out_nothing_that_works(objects: list[KubeObject]) -> None:
    with patch.object(FreePlaces, "hold_all", lambda _self, _tasks, _going: True):
        tried = moving(objects)
    counted = moving(objects)
    event(f"moved: {bool(tried.committed)}")
    assert promised(counted) == promised(tried)
    assert evicted(counted) == evicted(tried)


def test_no_dry_run_is_made_where_who_moves_would_have_no_place() -> None:
    """Eight GPUs are free in all, and two that would have to move find no node with as many, or one."""
    q: list[KubeObject] = [*CLASSES, kai_queue("q"), *nodes(3, gpu=8), *gang("c", pending=1, gpu=8)]
    q += [*gang("a", on=["n0"], gpu=2), *gang("b", on=["n1"], gpu=7)]
    session = moving([*q, *gang("d", on=["n2"], gpu=7)])
    assert (session.tallies["consolidation"].dry_runs, promised(session)) == (0, {})
    assert set(promised(moving([*q, *gang("d", on=["n2"], gpu=6)]))) == {"c-0"}


def first_served(session: Session) -> tuple[set[str], list[str]]:
    """Who is promised places by the first commit, and who has to go for it."""
    session.committed[1:] = []
    return {name.rsplit("-", 1)[0] for name in promised(session)}, evicted(session)


@EACH
@given(objects=worlds(alike=True))
def test_a_forecast_ends_where_a_search_step_by_step_does_or_takes_fewer(
    action: str, objects: list[KubeObject]
) -> None:
    winners, victims = first_served(served(objects, action))
    with patch.object(search, "forecast", lambda _places, _units: []):
        winners_by_step, victims_by_step = first_served(served(objects, action))
    event(f"served: {bool(winners_by_step)}, same: {victims == victims_by_step}")
    assert winners == winners_by_step
    assert len(victims) <= len(victims_by_step)
