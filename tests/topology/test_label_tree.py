"""A cluster with a Topology and no HyperNodes is drawn by its labels."""

from __future__ import annotations

from muster.api import ObjectMeta, Topology, TopologyLevel, TopologySpec
from muster.testing import node, pod
from muster.topology.drawings import outline, text_lines
from muster.topology.view import Objects, make_view
from tests.topology.trees import hyper_node


def topology(name: str = "network") -> Topology:
    levels = [TopologyLevel(node_label=label) for label in ("zone", "rack")]
    return Topology(metadata=ObjectMeta(name=name), spec=TopologySpec(levels=levels))


NODES = [
    node("n0", gpu=8, labels={"zone": "z0", "rack": "r0"}),
    node("n1", gpu=8, labels={"zone": "z0", "rack": "r1"}),
    node("n2", gpu=8, labels={"zone": "z1", "rack": "r0"}),
    node("n3", gpu=8, labels={"zone": "z1"}),
]


def test_domains_are_drawn_by_their_label_values_with_what_is_free() -> None:
    view = make_view(Objects.of([*NODES, topology(), pod("a", gpu=3, node="n1")]))
    assert view.tiers == ((2, ("zone",), 2), (1, ("rack",), 3))
    first, second = view.root.domains
    assert [(domain.name, domain.n_nodes, domain.free) for domain in (first, *first.domains)] == [
        ("z0", 2, 13_000),
        ("z0.r0", 1, 8_000),
        ("z0.r1", 1, 5_000),
    ]
    assert [domain.name for domain in second.domains] == ["z1.r0"]
    assert [inner.name for inner in view.root.nodes] == ["n3"]


def test_the_drawing_names_the_labels() -> None:
    text = "\n".join(text_lines(outline(make_view(Objects.of([*NODES, topology()])))))
    assert "z0.r1" in text
    assert "rack" in text


def test_labels_are_not_drawn_beside_hyper_nodes_nor_when_topologies_compete() -> None:
    own = hyper_node("mine", 1, nodes=["n0"])
    with_hyper_nodes = make_view(Objects.of([*NODES, topology(), own]))
    assert [domain.name for domain in with_hyper_nodes.root.domains] == ["mine"]
    with_two = make_view(Objects.of([*NODES, topology(), topology("other")]))
    assert with_two.root.domains == ()
