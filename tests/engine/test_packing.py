"""A plan uses as few smaller domains as can be, never more room than there is, and places all it can."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.placing.packing import Packer, Share
from muster.snapshot import Mirror, Rows, TopologyTable
from muster.testing import node
from tests.snapshot.networks import hyper_node, racks


def rows(*values: int) -> Rows:
    return np.array(values, np.intp)


def tree(*sizes: list[int], loose: int = 0) -> TopologyTable:
    """Spines s0, s1, ... with racks of the given numbers of nodes, and nodes outside."""
    mirror = Mirror()
    for item in racks({f"s{k}": racked for k, racked in enumerate(sizes)}):
        mirror.upsert(item)
    for k in range(loose):
        mirror.upsert(node(f"zz{k}"))
    return mirror.snapshot().topology


def plan(table: TopologyTable, domain: int, slots: Rows, own: Rows, tasks: int) -> list[Share]:
    """Shares of tasks in a domain; `slots` are those of its nodes."""
    return Packer(table, int(table.lo[domain]), slots, own).plan(domain, tasks)


@st.composite
def problems(draw: st.DrawFn) -> tuple[TopologyTable, int, Rows, Rows, int]:
    """A tree, a domain of it, slots per node of the domain, nodes of the gang, and a number of tasks."""
    sizes = draw(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=4))
    table = tree(*sizes, loose=draw(st.integers(0, 2)))
    wide = [row for row in range(len(table)) if table.hi[row] > table.lo[row]] or [0]
    domain = draw(st.sampled_from(wide))
    count = int(table.hi[domain] - table.lo[domain])
    slots = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    everywhere = int(table.hi[0])
    own = draw(st.just([]) | st.lists(st.integers(0, everywhere - 1), max_size=3)) if everywhere else []
    return table, domain, rows(*slots), rows(*own), draw(st.integers(1, 20))


def dealt(table: TopologyTable, domain: int, slots: Rows, shares: list[Share]) -> Counter[int]:
    """Tasks per child of the domain; -1: nodes that are in none."""
    found: Counter[int] = Counter()
    for share in shares:
        inside = [
            child for child in table.children[domain] if table.lo[child] <= share.lo and share.hi <= table.hi[child]
        ]
        if inside:
            found[inside[0]] += share.tasks
            continue
        for row in range(share.lo, share.hi):  # a share over several children takes all that there is
            leaf = next((c for c in table.children[domain] if table.lo[c] <= row < table.hi[c]), -1)
            found[leaf] += int(slots[row - table.lo[domain]]) if share.full else 0
        if not share.full:
            found[-1] += share.tasks
    return +found


def parts_of(table: TopologyTable, domain: int, slots: Rows) -> dict[int, int]:
    """Room per child of the domain, -1: the rest; those without room left out."""
    base = int(table.lo[domain])
    room = {c: int(slots[table.lo[c] - base : table.hi[c] - base].sum()) for c in table.children[domain]}
    room[-1] = int(slots.sum()) - sum(room.values())
    return {part: amount for part, amount in room.items() if amount}


@given(problems())
def test_a_plan_places_all_it_can_and_never_more_than_there_is_room(
    problem: tuple[TopologyTable, int, Rows, Rows, int],
) -> None:
    table, domain, slots, own, tasks = problem
    shares = plan(table, domain, slots, own, tasks)
    base = int(table.lo[domain])
    assert sum(share.tasks for share in shares) == min(tasks, int(slots.sum()))
    used: set[int] = set()
    for share in shares:
        room = int(slots[share.lo - base : share.hi - base].sum())
        assert 0 < share.tasks <= room
        assert share.tasks == room or not share.full
        assert used.isdisjoint(range(share.lo, share.hi))
        used.update(range(share.lo, share.hi))
        assert table.lo[domain] <= share.lo < share.hi <= table.hi[domain]


@given(problems())
def test_no_plan_touches_fewer_parts_of_the_domain(problem: tuple[TopologyTable, int, Rows, Rows, int]) -> None:
    table, domain, slots, _, tasks = problem
    room = parts_of(table, domain, slots)
    shares = plan(table, domain, slots, rows(), tasks)
    needed = min(tasks, sum(room.values()))
    fewest = next(
        size
        for size in range(len(room) + 1)
        for chosen in combinations(room, size)
        if sum(room[part] for part in chosen) >= needed
    )
    touched = dealt(table, domain, slots, shares)
    assert len(touched) == fewest
    assert all(amount <= room[part] for part, amount in touched.items())


@given(problems())
def test_parts_where_the_gang_is_already_are_used_first_and_as_few_new_ones_as_can_be(
    problem: tuple[TopologyTable, int, Rows, Rows, int],
) -> None:
    table, domain, slots, own, tasks = problem
    room = parts_of(table, domain, slots)
    known = {
        part
        for part in room
        if any((table.lo[part] <= row < table.hi[part]) for row in own if part >= 0)
        or (part < 0 and any(_is_loose(table, domain, int(row)) for row in own))
    }
    touched = dealt(table, domain, slots, plan(table, domain, slots, own, tasks))
    needed = min(tasks, sum(room.values()))
    new = needed - sum(room[part] for part in known)
    fewest_new = next(
        size
        for size in range(len(room) + 1)
        for chosen in combinations(sorted(set(room) - known), size)
        if sum(room[part] for part in chosen) >= new
    )
    assert len(set(touched) - known) == fewest_new


def _is_loose(table: TopologyTable, domain: int, row: int) -> bool:
    inside = table.lo[domain] <= row < table.hi[domain]
    return bool(inside) and not any(table.lo[c] <= row < table.hi[c] for c in table.children[domain])


# -- by hand ------------------------------------------------------------------------------------------------------


def placed(table: TopologyTable, slots: Rows, own: Rows, tasks: int) -> dict[str, int]:
    """Tasks per spine in a plan for everything."""
    shares = plan(table, 0, slots, own, tasks)
    return {table.names[part]: amount for part, amount in dealt(table, 0, slots, shares).items()}


def test_of_those_that_hold_all_the_one_with_least_room_is_chosen() -> None:
    table = tree([3], [2], [1])
    assert placed(table, rows(1, 1, 1, 1, 1, 1), rows(), 2) == {"s1": 2}


def test_the_rest_goes_where_it_fits_best() -> None:
    table = tree([4], [3], [2], [1])
    assert placed(table, np.ones(10, np.intp), rows(), 5) == {"s0": 4, "s3": 1}


def test_where_the_gang_is_already_comes_before_the_best_fit() -> None:
    table = tree([3], [2], [1])
    assert placed(table, rows(1, 1, 1, 1, 1, 1), rows(0), 2) == {"s0": 2}


def test_where_more_of_the_gang_is_comes_first() -> None:
    table = tree([2], [2], [2])
    assert placed(table, rows(1, 1, 1, 1, 1, 1), rows(0, 2, 2), 2) == {"s1": 2}


def test_several_small_places_of_the_gang_are_filled_before_a_large_new_one() -> None:
    table = tree([3], [3], [2], [2])
    assert placed(table, np.ones(10, np.intp), rows(6, 8), 7) == {"s2": 2, "s3": 2, "s0": 3}


def test_of_equal_spines_the_one_that_needs_fewer_racks_is_chosen() -> None:
    assert placed(tree([1, 1, 1], [3]), np.ones(6, np.intp), rows(), 3) == {"s1": 3}
    assert placed(tree([1, 1, 1, 1], [2, 2]), np.ones(8, np.intp), rows(), 3) == {"s1": 3}


def test_a_gang_over_several_spines_fills_whole_racks_in_the_last_one() -> None:
    table = tree([2, 2, 2], [2, 2, 2], [2, 2, 2])
    shares = plan(table, 0, np.ones(18, np.intp), rows(), 10)
    assert [(share.lo, share.hi, share.tasks, share.full) for share in shares] == [
        (0, 6, 6, True),
        (6, 8, 2, True),
        (8, 10, 2, True),
    ]


def test_full_nodes_and_empty_domains_get_nothing() -> None:
    table = tree([0, 2], [1])
    assert plan(table, 0, rows(0, 0, 0), rows(), 3) == []
    assert plan(table, 0, rows(0, 3, 0), rows(), 9) == [Share(0, 3, 3, full=True)]


def test_nodes_of_no_smaller_domain_are_a_part_like_others() -> None:
    mirror = Mirror()
    for item in (
        *(node(f"n{k}") for k in range(5)),
        hyper_node("rack", 1, nodes=["n4"]),
        hyper_node("spine", 2, inside=["rack"], nodes=["n0", "n1", "n2", "n3"]),
    ):
        mirror.upsert(item)
    table = mirror.snapshot().topology
    spine = table.index["spine"]
    assert plan(table, spine, rows(1, 1, 1, 1, 1), rows(), 3) == [Share(1, 5, 3, full=False)]
    assert plan(table, spine, rows(1, 1, 1, 1, 1), rows(), 1) == [Share(0, 1, 1, full=True)]
