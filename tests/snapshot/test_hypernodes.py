"""HyperNodes become a forest: members by name, pattern and label; what is wrong is said where it is wrong."""

from __future__ import annotations

import pytest

from muster.api import HyperNode, KubeObject, LabelSelector, Node
from muster.api.objects.meta import LabelSelectorRequirement
from muster.api.objects.topology import Member, MemberSelector
from muster.snapshot import Mirror
from muster.snapshot.hypernodes import HyperNodeForest, build_forest, natural
from muster.testing import node
from tests.snapshot.networks import exact, hyper_node, labelled, regex


def forest(*objects: KubeObject) -> HyperNodeForest:
    return build_forest(
        {item.name: item for item in objects if isinstance(item, HyperNode)},
        {item.name: item for item in objects if isinstance(item, Node)},
    )


def plain(*names: str) -> list[Node]:
    return [node(name) for name in names]


# -- members --------------------------------------------------------------------------------------------------


def test_a_member_by_name_is_that_node_alone() -> None:
    made = forest(*plain("n1", "n10", "n2"), hyper_node("rack", 1, nodes=["n1"]))
    assert made.own_nodes["rack"] == ["n1"]
    assert made.ready


def test_a_pattern_is_found_anywhere_in_the_name() -> None:
    made = forest(
        *plain("gpu-a1", "a1-gpu", "cpu-b1"),
        hyper_node("loose", 1, members=[regex("Node", "a[0-9]")]),
        hyper_node("tight", 1, members=[regex("Node", "^cpu-.*$")]),
    )
    assert sorted(made.own_nodes["loose"]) == ["a1-gpu", "gpu-a1"]
    assert made.own_nodes["tight"] == ["cpu-b1"]


def test_labels_select_nodes_by_value_and_by_expression() -> None:
    nodes = [node(f"n-{rack}", labels={"rack": rack}) for rack in "abc"]
    either = LabelSelectorRequirement(key="rack", operator="In", values=["b", "c"])
    selector = MemberSelector(label_match=LabelSelector(match_expressions=[either]))
    made = forest(
        *nodes,
        hyper_node("one", 1, members=[labelled(rack="a")]),
        hyper_node("others", 1, members=[Member(type="Node", selector=selector)]),
    )
    assert made.own_nodes == {"one": ["n-a"], "others": ["n-b", "n-c"]}


@pytest.mark.parametrize("selector", [MemberSelector(), MemberSelector(label_match=LabelSelector())])
def test_a_selector_that_says_nothing_selects_nothing(selector: MemberSelector) -> None:
    made = forest(*plain("n1"), hyper_node("rack", 1, members=[Member(type="Node", selector=selector)]))
    assert made.own_nodes["rack"] == []
    assert made.ready


def test_a_node_selected_twice_by_one_hypernode_is_one_node() -> None:
    made = forest(*plain("n1", "n2"), hyper_node("rack", 1, nodes=["n2"], members=[regex("Node", "n")]))
    assert sorted(made.own_nodes["rack"]) == ["n1", "n2"]
    assert made.ready


def test_hypernodes_are_members_by_name_and_by_pattern_but_never_of_themselves() -> None:
    made = forest(
        *plain("n1", "n2"),
        hyper_node("rack-1", 1, nodes=["n1"]),
        hyper_node("rack-2", 1, nodes=["n2"]),
        hyper_node("spine-of-rack", 2, members=[regex("HyperNode", "rack")]),
    )
    assert made.children["spine-of-rack"] == ["rack-1", "rack-2"]
    assert made.nodes["spine-of-rack"] == ["n1", "n2"]
    assert made.ready


def test_a_node_that_does_not_exist_is_simply_not_there() -> None:
    made = forest(*plain("n1"), hyper_node("rack", 1, nodes=["n1", "n2"]))
    assert made.own_nodes["rack"] == ["n1"]
    assert made.ready


def test_members_appear_and_vanish_with_their_nodes_and_hypernodes() -> None:
    mirror = Mirror()
    rack, spine = hyper_node("rack", 1, members=[regex("Node", "^r1-")]), hyper_node("spine", 2, inside=["rack"])
    mirror.upsert(spine)
    mirror.upsert(node("r1-a"))

    def now() -> HyperNodeForest:
        return mirror.snapshot().topology.forest

    assert now().faults == {"spine": "member HyperNode 'rack' does not exist"}
    mirror.upsert(rack)
    assert now().nodes == {"rack": ["r1-a"], "spine": ["r1-a"]}
    mirror.upsert(node("r1-b"))
    assert now().nodes["spine"] == ["r1-a", "r1-b"]
    mirror.delete(node("r1-a"))
    assert now().nodes["spine"] == ["r1-b"]
    mirror.delete(rack)
    assert not now().ready
    mirror.delete(spine)
    assert now().ready


def test_a_label_that_changes_moves_a_node_to_another_hypernode() -> None:
    mirror = Mirror()
    for rack in "ab":
        mirror.upsert(hyper_node(rack, 1, members=[labelled(rack=rack)]))
    mirror.upsert(node("n1", labels={"rack": "a"}))
    before = mirror.snapshot().topology
    mirror.upsert(node("n1", labels={"rack": "b"}))
    after = mirror.snapshot().topology
    assert [table.names[table.leaf[0]] for table in (before, after)] == ["a", "b"]


# -- faults -----------------------------------------------------------------------------------------------------


def test_a_member_hypernode_that_does_not_exist() -> None:
    made = forest(hyper_node("spine", 2, inside=["rack"]))
    assert made.faults == {"spine": "member HyperNode 'rack' does not exist"}
    assert not made.ready


def test_a_hypernode_in_two_others() -> None:
    made = forest(hyper_node("rack", 1), hyper_node("s1", 2, inside=["rack"]), hyper_node("s2", 2, inside=["rack"]))
    assert made.faults == {
        "s1": "HyperNode 'rack' is a member of 's2' too",
        "s2": "HyperNode 'rack' is a member of 's1' already",
    }


def test_a_hypernode_named_twice_by_its_parent_is_no_fault() -> None:
    made = forest(hyper_node("rack", 1), hyper_node("s1", 2, inside=["rack"], members=[regex("HyperNode", "rack")]))
    assert made.ready
    assert made.children["s1"] == ["rack"]


def test_hypernodes_in_a_circle() -> None:
    made = forest(
        *plain("n1"),
        hyper_node("a", 1, inside=["c"], nodes=["n1"]),
        hyper_node("b", 2, inside=["a"]),
        hyper_node("c", 3, inside=["b"]),
        hyper_node("tail", 1),
        hyper_node("d", 4, inside=["d"]),
    )
    assert made.faults == {
        "a": "is inside itself: a in b in c in a",
        "b": "is inside itself: b in c in a in b",
        "c": "is inside itself: c in a in b in c",
        "d": "is inside itself: d in d",
    }


def test_what_hangs_on_a_circle_is_not_blamed_for_it() -> None:
    made = forest(hyper_node("leaf", 1), hyper_node("a", 2, inside=["leaf", "b"]), hyper_node("b", 3, inside=["a"]))
    assert sorted(made.faults) == ["a", "b"]


@pytest.mark.parametrize("tier", [1, 2])
def test_a_tier_that_is_not_above_that_of_a_member(tier: int) -> None:
    made = forest(hyper_node("rack", 2), hyper_node("spine", tier, inside=["rack"]))
    assert made.faults == {"spine": f"tier {tier} is not above tier 2 of its member 'rack'"}


def test_a_node_in_two_hypernodes() -> None:
    made = forest(*plain("n1", "n2", "n3"), hyper_node("a", 1, nodes=["n1", "n2"]), hyper_node("b", 1, nodes=["n2"]))
    assert made.faults == {"a": "node 'n2' is in 'b' too", "b": "node 'n2' is in 'a' too"}
    made = forest(
        *plain("n1", "n2", "n3"), hyper_node("a", 1, nodes=["n1", "n2"]), hyper_node("b", 2, nodes=["n1", "n2"])
    )
    assert made.faults["b"] == "node 'n1' and 1 more are in 'a' too"


def test_a_node_named_by_a_hypernode_and_one_inside_it_belongs_to_the_inner_one() -> None:
    made = forest(
        *plain("n1", "n2"), hyper_node("a", 2, inside=["b"], nodes=["n1", "n2"]), hyper_node("b", 1, nodes=["n1"])
    )
    assert made.ready
    assert made.nodes == {"a": ["n1", "n2"], "b": ["n1"]}


def test_two_hypernodes_share_a_node_that_the_one_around_both_names_too() -> None:
    made = forest(
        *plain("n1"),
        hyper_node("a", 2, inside=["b", "c"], nodes=["n1"]),
        hyper_node("b", 1, nodes=["n1"]),
        hyper_node("c", 1, nodes=["n1"]),
    )
    assert made.faults == {"b": "node 'n1' is in 'c' too", "c": "node 'n1' is in 'b' too"}


def test_one_tier_name_for_two_tiers() -> None:
    made = forest(hyper_node("a", 1, tier_name="rack"), hyper_node("b", 2, tier_name="rack"))
    assert made.faults == {"b": "tier name 'rack' stands for tier 1 elsewhere and for tier 2 here"}


def test_a_pattern_that_go_does_not_read() -> None:
    made = forest(*plain("n1"), hyper_node("a", 1, members=[regex("Node", "(?=n)")]))
    assert list(made.faults) == ["a"]
    assert made.faults["a"].startswith('expected a regular expression in Go\'s syntax, got "(?=n)"')


def test_the_first_fault_is_shown_and_all_are_kept() -> None:
    made = forest(hyper_node("a", 1, inside=["x", "y"]))
    assert made.faults == {"a": "member HyperNode 'x' does not exist"}
    assert [text for _, text in made.all_faults] == [
        "member HyperNode 'x' does not exist",
        "member HyperNode 'y' does not exist",
    ]


# -- questions to a forest ----------------------------------------------------------------------------------------


def two_trees() -> HyperNodeForest:
    return forest(
        hyper_node("r1", 1),
        hyper_node("r2", 1),
        hyper_node("s1", 2, inside=["r1", "r2"]),
        hyper_node("top", 3, inside=["s1"]),
        hyper_node("lone", 1),
    )


def test_ancestors_and_the_smallest_hypernode_around_two() -> None:
    made = two_trees()
    assert made.ancestors("r1") == ["r1", "s1", "top"]
    assert made.ancestors("nobody") == []
    assert made.lowest_common_ancestor("r1", "r2") == "s1"
    assert made.lowest_common_ancestor("r1", "top") == "top"
    assert made.lowest_common_ancestor("r1", "r1") == "r1"
    assert made.lowest_common_ancestor("r1", "lone") == ""


def test_leaves_are_the_hypernodes_with_none_inside() -> None:
    made = two_trees()
    assert made.leaves("top") == ["r1", "r2"]
    assert made.leaves("lone") == ["lone"]
    assert made.leaves("nobody") == []


def test_leaves_of_a_circle_end() -> None:
    made = forest(hyper_node("a", 1, inside=["b"]), hyper_node("b", 2, inside=["a", "c"]), hyper_node("c", 1))
    assert made.leaves("a") == ["c"]


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["rack-10", "rack-2", "rack", "10", "rack-02", "9-a", "rack-2a"]
    assert sorted(names, key=natural) == ["9-a", "10", "rack", "rack-02", "rack-2", "rack-2a", "rack-10"]


def test_members_of_both_kinds_in_one_hypernode() -> None:
    made = forest(
        *plain("n1", "n2"),
        hyper_node("rack", 1, nodes=["n1"]),
        hyper_node("mixed", 2, members=[*exact("HyperNode", "rack"), *exact("Node", "n2")]),
    )
    assert made.ready
    assert made.nodes["mixed"] == ["n1", "n2"]
