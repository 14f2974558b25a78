import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import HyperNode, Node, UserError
from muster.snapshot.hypernodes import build_forest
from muster.testing import node
from muster.topology.check import check_topology
from muster.topology.generate import Generated, domain_names, generate, make_plan

VALID_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def made_from(labels: Mapping[str, Mapping[str, str]], keys: str, **options: str) -> Generated:
    by_label = options.pop("selector", "name") == "label"
    return generate(
        [node(name, labels=own) for name, own in labels.items()], make_plan(keys, **options, by_label=by_label)
    )


def members(hyper_node: HyperNode) -> list[str]:
    found = [member.selector.exact_match for member in hyper_node.spec.members]
    return [match.name for match in found if match is not None]


def shape(made: Generated) -> dict[str, tuple[int, list[str]]]:
    return {found.name: (found.spec.tier, members(found)) for found in made.hyper_nodes}


TWO_SPINES = {
    "n1": {"rack": "r1", "spine": "s1"},
    "n2": {"rack": "r1", "spine": "s1"},
    "n3": {"rack": "r2", "spine": "s1"},
    "n10": {"rack": "r10", "spine": "s2"},
}


def test_one_tier_per_label_the_narrowest_first() -> None:
    made = made_from(TWO_SPINES, "rack,spine")
    assert shape(made) == {
        "r1": (1, ["n1", "n2"]),
        "r2": (1, ["n3"]),
        "r10": (1, ["n10"]),
        "s1": (2, ["r1", "r2"]),
        "s2": (2, ["r10"]),
    }
    assert [found.name for found in made.hyper_nodes] == ["r1", "r2", "r10", "s1", "s2"]
    assert made.lacking == {}


def test_tiers_are_named_after_the_labels_or_as_asked() -> None:
    labels = {"n1": {"example.com/rack": "r1", "example.com/spine": "s1"}}
    keys = "example.com/rack, example.com/spine"
    assert [found.spec.tier_name for found in made_from(labels, keys).hyper_nodes] == ["rack", "spine"]
    named = made_from(labels, keys, tier_names="leaf,core")
    assert [found.spec.tier_name for found in named.hyper_nodes] == ["leaf", "core"]
    clash = made_from({"n1": {"a.com/id": "r1", "b.com/id": "s1"}}, "a.com/id,b.com/id")
    assert [found.spec.tier_name for found in clash.hyper_nodes] == ["a.com/id", "b.com/id"]


def test_the_order_of_the_nodes_does_not_matter() -> None:
    backwards = dict(reversed(TWO_SPINES.items()))
    assert made_from(backwards, "rack,spine").hyper_nodes == made_from(TWO_SPINES, "rack,spine").hyper_nodes


def test_a_node_without_the_narrow_label_hangs_under_the_wide_one() -> None:
    made = made_from({**TWO_SPINES, "n4": {"spine": "s2"}, "n5": {}}, "rack,spine")
    assert shape(made)["s2"] == (2, ["r10", "n4"])
    assert made.lacking == {"rack": ["n4", "n5"], "spine": ["n5"]}


def test_a_rack_that_skips_a_tier_hangs_under_the_next() -> None:
    labels = {"n1": {"rack": "r1", "block": "b1", "zone": "z"}, "n2": {"rack": "r2", "zone": "z"}}
    assert shape(made_from(labels, "rack,block,zone")) == {
        "r1": (1, ["n1"]),
        "r2": (1, ["n2"]),
        "b1": (2, ["r1"]),
        "z": (3, ["r2", "b1"]),
    }


def test_one_node_of_a_rack_with_the_wide_label_is_enough() -> None:
    labels = {"n1": {"rack": "r1"}, "n2": {"rack": "r1", "spine": "s1"}}
    made = made_from(labels, "rack,spine")
    assert shape(made) == {"r1": (1, ["n1", "n2"]), "s1": (2, ["r1"])}
    assert made.lacking == {"spine": ["n1"]}


def test_two_parents_for_one_value_are_an_error_that_names_both() -> None:
    labels = {"n1": {"rack": "r1", "spine": "s1"}, "n2": {"rack": "r1", "spine": "s2"}}
    with pytest.raises(UserError, match=r'rack "r1" is in two places: spine "s1" \(node n1\) and "s2" \(node n2\)'):
        made_from(labels, "rack,spine")


def test_two_parents_are_found_across_a_tier_that_is_skipped() -> None:
    labels = {"n1": {"rack": "r1", "block": "b1", "zone": "z1"}, "n2": {"rack": "r1", "zone": "z2"}}
    with pytest.raises(UserError, match=r'block "b1" is in two places: zone "z1".*"z2"'):
        made_from(labels, "rack,block,zone")


def test_names_are_made_valid() -> None:
    labels = {"n1": {"rack": "Rack_1"}, "n2": {"rack": "a.-b"}, "n3": {"rack": "__"}, "n4": {"rack": "-r."}}
    assert {found.name for found in made_from(labels, "rack").hyper_nodes} == {"rack-1", "a--b", "domain", "r"}


def test_a_value_in_two_tiers_gets_the_tier_into_its_name() -> None:
    labels = {"n1": {"rack": "1", "spine": "1"}, "n2": {"rack": "2", "spine": "1"}}
    assert shape(made_from(labels, "rack,spine")) == {
        "rack-1": (1, ["n1"]),
        "2": (1, ["n2"]),
        "spine-1": (2, ["rack-1", "2"]),
    }


def test_values_that_become_the_same_name_stay_apart() -> None:
    made = made_from({"n1": {"rack": "R1"}, "n2": {"rack": "r1"}}, "rack")
    names = [found.name for found in made.hyper_nodes]
    assert len(set(names)) == 2
    assert all(name.startswith("rack-r1-") for name in names)


def test_a_prefix_stands_before_every_name() -> None:
    assert list(shape(made_from(TWO_SPINES, "spine", prefix="dc1-"))) == ["dc1-s1", "dc1-s2"]


def test_members_by_label_take_new_nodes_in() -> None:
    labels = {**TWO_SPINES, "n4": {"spine": "s2"}}
    made = made_from(labels, "rack,spine", selector="label")
    hyper_nodes = {found.name: found for found in made.hyper_nodes}
    later: dict[str, Node] = {name: node(name, labels=own) for name, own in labels.items()}
    later["n11"] = node("n11", labels={"rack": "r10", "spine": "s2"})
    later["n12"] = node("n12", labels={"spine": "s2"})
    forest = build_forest(hyper_nodes, later)
    assert forest.faults == {}
    assert forest.own_nodes["r10"] == ["n10", "n11"]
    assert forest.own_nodes["s2"] == ["n12", "n4"]


@pytest.mark.parametrize(
    ("keys", "tier_names", "prefix", "message"),
    [
        (" , ", "", "", "--from-labels: expected names"),
        ("a,a", "", "", '--from-labels: "a" stands there twice'),
        ("a,b", "x", "", "--tier-names: expected 2 names, one per label, got 1"),
        ("a,b", "x,x", "", '--tier-names: "x" stands there twice'),
        ("a", "", "Not Valid", "--prefix: expected lower-case"),
    ],
)
def test_wrong_options(keys: str, tier_names: str, prefix: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        make_plan(keys, tier_names, prefix)


VALUES = st.text(alphabet="abAB01-_.", min_size=0, max_size=8)


@given(st.dictionaries(st.tuples(st.integers(0, 2), VALUES), st.none(), max_size=30), st.sampled_from(["", "p"]))
def test_names_are_always_valid_unique_and_independent_of_order(keys: dict[tuple[int, str], None], prefix: str) -> None:
    plan = make_plan("a,b,c", "x,y,z", prefix)
    names = domain_names(keys, plan)
    assert len(set(names.values())) == len(keys)
    assert all(VALID_NAME.fullmatch(name) and len(name) <= 253 for name in names.values())
    assert domain_names(reversed(list(keys)), plan) == names


@st.composite
def labelled_nodes(draw: st.DrawFn) -> list[Node]:
    """Nodes in racks, blocks and zones that nest, with labels missing here and there."""
    nodes = []
    for number in range(draw(st.integers(1, 25))):
        rack = draw(st.integers(0, 11))
        labels = {"rack": f"r{rack}", "block": f"b{rack // 3}", "zone": f"z{rack // 6}"}
        kept = {key: value for key, value in labels.items() if draw(st.integers(0, 4))}
        nodes.append(node(f"n{number}", labels=kept))
    return nodes


@given(labelled_nodes(), st.booleans())
def test_what_is_generated_is_clean(nodes: list[Node], by_label: bool) -> None:
    made = generate(nodes, make_plan("rack,block,zone", by_label=by_label))
    findings = check_topology([*nodes, *made.hyper_nodes])
    assert [found for found in findings if found.level != "note"] == []
    forest = build_forest({found.name: found for found in made.hyper_nodes}, {known.name: known for known in nodes})
    for known in nodes:
        for key in ("rack", "block", "zone"):
            if value := known.metadata.labels.get(key):
                assert known.name in forest.nodes[value]
