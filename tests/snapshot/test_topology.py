"""Node rows follow the tree: every domain is one range of rows, ranges are nested, and names decide the order."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.snapshot import NO_ROW, Mirror, Snapshot, TopologyTable
from muster.snapshot.hypernodes import ROOT
from muster.testing import node
from tests.reference.trees import nodes_inside, smallest_around
from tests.snapshot.networks import hyper_node, racks


def picture(*objects: KubeObject) -> Snapshot:
    mirror = Mirror()
    for item in objects:
        mirror.upsert(item)
    return mirror.snapshot()


def rows_of(snapshot: Snapshot, domain: str) -> list[str]:
    table = snapshot.topology
    row = table.index[domain]
    return snapshot.nodes.names[table.lo[row] : table.hi[row]]


# -- trees by hand ------------------------------------------------------------------------------------------------


def test_without_hypernodes_there_is_only_the_root_of_tier_one() -> None:
    made = picture(node("n2"), node("n10"), node("n1"))
    assert made.topology.names == [ROOT]
    assert made.topology.root_tier == 1
    assert made.nodes.names == ["n1", "n10", "n2"]
    assert made.topology.leaf.tolist() == [0, 0, 0]


def test_the_root_is_one_tier_above_the_highest() -> None:
    made = picture(*racks({"s0": [1]}), hyper_node("far", 7))
    assert made.topology.root_tier == 8


def test_rows_follow_the_tree_and_numbers_in_names_count_as_numbers() -> None:
    made = picture(
        node("a"),
        node("n10"),
        node("n9"),
        node("outside"),
        hyper_node("r10", 1, nodes=["a"]),
        hyper_node("r2", 1, nodes=["n9", "n10"]),
        hyper_node("s", 2, inside=["r10", "r2"]),
    )
    assert made.nodes.names == ["n9", "n10", "a", "outside"]
    assert made.topology.names == [ROOT, "s", "r2", "r10"]
    assert rows_of(made, "s") == ["n9", "n10", "a"]


def test_nodes_of_no_smaller_domain_come_after_the_smaller_domains() -> None:
    made = picture(
        *(node(f"n{k}") for k in range(4)),
        hyper_node("rack", 1, nodes=["n3"]),
        hyper_node("spine", 2, inside=["rack"], nodes=["n0", "n2"]),
    )
    table = made.topology
    assert made.nodes.names == ["n3", "n0", "n2", "n1"]
    assert [table.names[leaf] for leaf in table.leaf] == ["rack", "spine", "spine", ROOT]


def test_trees_of_different_depth_stand_side_by_side() -> None:
    made = picture(
        *racks({"s0": [1, 1]}),
        *(node(name) for name in ("x", "y")),
        hyper_node("deep", 5, inside=["s0"]),
        hyper_node("flat", 3, nodes=["x"]),
    )
    table = made.topology
    assert table.children[0] == (table.index["deep"], table.index["flat"])
    assert table.lca(table.index["s0-r0"], table.index["s0-r1"]) == table.index["s0"]
    assert table.lca(table.index["s0-r0"], table.index["flat"]) == 0
    assert table.highest_within(table.index["s0-r0"], 4) == table.index["s0"]
    assert table.highest_within(table.index["flat"], 2) == NO_ROW
    assert table.highest_within(table.index["flat"], 99) == 0


def test_a_hypernode_with_a_fault_is_left_out_and_what_is_sound_in_it_stays() -> None:
    bad = hyper_node("bad", 7, inside=["s0", "nobody"], nodes=["lone"])
    made = picture(*racks({"s0": [2]}), node("lone"), bad, hyper_node("top", 9, inside=["bad"]))
    assert made.topology.names == [ROOT, "top", "s0", "s0-r0"]
    assert rows_of(made, "top") == ["s0-r0-n0", "s0-r0-n1", "lone"]
    assert made.topology.root_tier == 10


def test_the_root_stays_above_tiers_that_are_out_of_use() -> None:
    made = picture(*racks({"s0": [1]}), hyper_node("bad", 2147483647, inside=["nobody"]))
    assert made.topology.root_tier == 2147483648


def test_what_two_claim_belongs_to_what_is_around_both() -> None:
    shared = [hyper_node("a", 1, nodes=["n0", "n1"]), hyper_node("b", 1, nodes=["n1", "n2"])]
    pods = [
        hyper_node("pa", 2, inside=["a"]),
        hyper_node("pb", 2, inside=["b"]),
        hyper_node("top", 3, inside=["pa", "pb"]),
    ]
    made = picture(*(node(f"n{k}") for k in range(4)), *shared, *pods)
    assert {name: rows_of(made, name) for name in made.topology.names[1:]} == {
        "top": ["n0", "n2", "n1"],
        "pa": ["n0"],
        "pb": ["n2"],
    }


def test_a_chain_of_hypernodes_may_be_long_and_tiers_may_be_any_numbers() -> None:
    chain = [hyper_node("h1", 5, nodes=["n0"])]
    chain += [hyper_node(f"h{k}", 5 + 1_400_000 * k, inside=[f"h{k - 1}"]) for k in range(2, 1501)]
    table = picture(node("n0"), *chain).topology
    assert len(table) == 1501
    assert len(table.owners_by_tier()) == 1501
    assert table.names[int(table.leaf[0])] == "h1"


def test_a_domain_without_nodes_is_an_empty_range() -> None:
    made = picture(*racks({"s0": [1]}), hyper_node("empty", 1))
    assert rows_of(made, "empty") == []


def test_no_nodes_span_no_domain() -> None:
    assert picture(*racks({"s0": [1]})).topology.domain_of_nodes(np.empty(0, np.intp)) == NO_ROW


# -- random forests -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forest:
    objects: tuple[KubeObject, ...]
    own: dict[str, set[str]]
    children: dict[str, list[str]]


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """HyperNodes that each sit in an earlier one or at the top, nodes anywhere, names in no helpful order."""
    count = draw(st.integers(0, 9))
    salt = draw(st.permutations(range(count)))
    names = [f"h{salt[k]}" for k in range(count)]
    parents = [draw(st.integers(-1, k - 1)) for k in range(count)]
    tiers: list[int] = []
    for parent in parents:
        above = 30 if parent < 0 else tiers[parent]
        tiers.append(above - draw(st.integers(1, 3)))
    children: dict[str, list[str]] = {ROOT: [], **{name: [] for name in names}}
    for name, parent in zip(names, parents, strict=True):
        children[names[parent] if parent >= 0 else ROOT].append(name)
    own: dict[str, set[str]] = {ROOT: set(), **{name: set() for name in names}}
    for k in range(draw(st.integers(0, 14))):
        own[draw(st.sampled_from([ROOT, *names]))].add(f"n{k}")
    objects: list[KubeObject] = [node(name) for group in own.values() for name in sorted(group)]
    for name, tier in zip(names, tiers, strict=True):
        # A parent may also name nodes that a child has: the inner one counts.
        extra = sorted(nodes_inside(own, children, name)) if draw(st.booleans()) else sorted(own[name])
        objects.append(hyper_node(name, tier, nodes=extra, inside=children[name]))
    return Forest(tuple(objects), own, children)


def depths(forest: Forest, name: str = ROOT, depth: int = 0) -> dict[str, int]:
    found = {name: depth}
    for child in forest.children[name]:
        found |= depths(forest, child, depth + 1)
    return found


@given(forests())
def test_every_domain_is_one_range_of_exactly_its_nodes(forest: Forest) -> None:
    made = picture(*forest.objects)
    table = made.topology
    assert table.forest.ready
    assert sorted(table.names) == sorted(forest.own)
    for name in table.names:
        inside = nodes_inside(forest.own, forest.children, name)
        assert len(rows_of(made, name)) == len(inside)
        assert set(rows_of(made, name)) == inside
    assert sorted(made.nodes.names) == sorted(nodes_inside(forest.own, forest.children, ROOT))


@given(forests())
def test_domains_are_numbered_so_that_what_is_inside_follows(forest: Forest) -> None:
    table = picture(*forest.objects).topology
    for row, name in enumerate(table.names):
        inside = {table.names[k] for k in table.inside(row)}
        assert inside == set(depths(forest, name))
        assert sorted(table.names[k] for k in table.children[row]) == sorted(forest.children[name])
        for child in table.children[row]:
            assert table.parent[child] == row
            assert table.lo[row] <= table.lo[child] <= table.hi[child] <= table.hi[row]
            assert table.tier[child] < table.tier[row]
            assert table.contains(row, child)
            assert not table.contains(child, row)


@given(forests())
def test_the_leaf_of_a_node_and_the_domain_of_nodes_are_the_smallest_around_them(forest: Forest) -> None:
    made = picture(*forest.objects)
    table, depth = made.topology, depths(forest)
    sets = {name: nodes_inside(forest.own, forest.children, name) for name in forest.own}
    names = made.nodes.names
    for row, name in enumerate(names):
        assert table.names[table.leaf[row]] == smallest_around(sets, depth, [name])
    pairs = [(a, b) for a in range(len(names)) for b in range(a, len(names))]
    for a, b in pairs:
        found = table.domain_of_nodes(np.array([b, a], np.intp))
        assert table.names[found] == smallest_around(sets, depth, [names[a], names[b]])
    for cut in range(1, len(names) + 1):
        found = table.domain_of_nodes(np.arange(cut, dtype=np.intp))
        assert table.names[found] == smallest_around(sets, depth, names[:cut])


@given(forests(), st.data())
def test_the_smallest_domain_around_two_is_the_first_common_one_on_the_way_up(
    forest: Forest, data: st.DataObject
) -> None:
    table = picture(*forest.objects).topology
    a, b = (data.draw(st.integers(0, len(table) - 1)) for _ in range(2))

    def way_up(row: int) -> list[int]:
        return [row] if table.parent[row] == NO_ROW else [row, *way_up(int(table.parent[row]))]

    expected = next(row for row in way_up(a) if row in way_up(b))
    assert table.lca(a, b) == table.lca(b, a) == expected


@given(forests(), st.integers(0, 40), st.data())
def test_the_highest_domain_within_a_tier_is_the_last_on_the_way_up(
    forest: Forest, limit: int, data: st.DataObject
) -> None:
    table = picture(*forest.objects).topology
    row = data.draw(st.integers(0, len(table) - 1))
    expected, above = NO_ROW, row
    while above != NO_ROW and table.tier[above] <= limit:
        expected, above = above, int(table.parent[above])
    assert table.highest_within(row, limit) == expected


def described(table: TopologyTable) -> dict[str, object]:
    columns = ("tier", "parent", "last", "lo", "hi", "leaf")
    return {"names": table.names, **{name: getattr(table, name).tolist() for name in columns}}


@given(forests(), st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_in_which_objects_came(forest: Forest, random: Random) -> None:
    first = picture(*forest.objects)
    shuffled = list(forest.objects)
    random.shuffle(shuffled)
    other = picture(*shuffled)
    assert first.nodes.names == other.nodes.names
    assert described(first.topology) == described(other.topology)


@st.composite
def careless_trees(draw: st.DrawFn) -> list[KubeObject]:
    """HyperNodes that name whatever they like: missing ones, each other, themselves, shared nodes."""
    names = [f"h{k}" for k in range(draw(st.integers(0, 7)))]
    objects: list[KubeObject] = [node(f"n{k}") for k in range(5)]
    for name in names:
        inside = draw(st.lists(st.sampled_from([*names, "missing"]), max_size=3, unique=True))
        nodes = draw(st.lists(st.sampled_from([f"n{k}" for k in range(5)]), max_size=2, unique=True))
        objects.append(hyper_node(name, draw(st.integers(1, 5)), inside=inside, nodes=nodes))
    return objects


@given(careless_trees())
def test_whatever_is_wrong_the_rest_is_a_tree_and_says_nothing_untrue(objects: list[KubeObject]) -> None:
    made = picture(*objects)
    table, forest = made.topology, made.topology.forest
    assert sorted(table.names) == sorted([ROOT, *(name for name in forest.tiers if name not in forest.faults)])
    assert sorted(made.nodes.names) == [f"n{k}" for k in range(5)]
    for row in range(1, len(table)):
        assert table.tier[row] < table.tier[table.parent[row]]
        assert set(rows_of(made, table.names[row])) <= set(forest.nodes[table.names[row]])
    for row, name in enumerate(made.nodes.names):
        sound = [owner for owner in forest.owners.get(name, ()) if owner not in forest.faults]
        assert not sound or table.names[int(table.leaf[row])] == sound[0]
