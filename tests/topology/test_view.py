from muster.snapshot.hypernodes import ROOT
from muster.testing import node, pod
from muster.topology.drawings import view_document
from muster.topology.view import DomainView, Objects, TopologyView, make_view, prune, scarce_resource
from tests.topology.trees import hyper_node, two_racks


def names(domain: DomainView) -> list[str]:
    return [inner.name for inner in domain.domains] + [inner.name for inner in domain.nodes]


def two_rack_view() -> TopologyView:
    running = [pod("a", gpu=3, node="n0"), pod("b", gpu=8, node="n1"), pod("done", gpu=8, node="n2", phase="Succeeded")]
    return make_view(Objects.of([*two_racks(), *running, pod("waits", gpu=8)]))


def test_every_domain_counts_what_is_inside() -> None:
    view = two_rack_view()
    assert (view.resource, view.root.name, view.root.tier) == ("nvidia.com/gpu", ROOT, 3)
    assert names(view.root) == ["spine", "n4"]
    [spine] = view.root.domains
    assert names(spine) == ["rack-0", "rack-1"]
    assert (spine.n_nodes, spine.total, spine.used, spine.free) == (4, 32_000, 11_000, 21_000)
    assert (view.root.n_nodes, view.root.total, view.root.free) == (5, 40_000, 29_000)
    assert [(inner.name, inner.free) for inner in spine.domains[0].nodes] == [("n0", 5_000), ("n1", 0)]
    assert view.tiers == ((2, ("spine",), 1), (1, ("rack",), 2))


def test_domains_and_nodes_are_in_natural_order() -> None:
    things = [node(f"n{i}") for i in (10, 2, 1)] + [hyper_node("r10", 1, nodes=["n10"]), hyper_node("r9", 1)]
    view = make_view(Objects.of([*things, hyper_node("r2", 1, pattern="^n[12]$")]))
    assert names(view.root) == ["r2", "r9", "r10"]
    assert names(view.root.domains[0]) == ["n1", "n2"]


def test_a_node_stands_in_the_smallest_domain_that_holds_it() -> None:
    things = [node("n1"), node("n2"), hyper_node("rack", 1, nodes=["n1"])]
    view = make_view(Objects.of([*things, hyper_node("spine", 2, domains=["rack"], pattern="n")]))
    [spine] = view.root.domains
    assert names(spine) == ["rack", "n2"]
    assert spine.n_nodes == 2


def test_without_hypernodes_there_is_only_the_root() -> None:
    view = make_view(Objects.of([node("n1"), node("n2")]))
    assert (view.root.tier, names(view.root), view.tiers) == (1, ["n1", "n2"], ())


def test_an_empty_cluster_can_be_looked_at() -> None:
    view = make_view(Objects())
    assert (view.resource, view.root.n_nodes, view.root.total) == ("cpu", 0, 0)


def test_the_scarce_resource() -> None:
    assert scarce_resource([node("n")]) == "cpu"
    assert scarce_resource([node("n", others={"rdma/hca": 16})]) == "rdma/hca"
    assert scarce_resource([node("n", gpu=1, others={"rdma/hca": 16})]) == "nvidia.com/gpu"
    assert scarce_resource([node("n", others={"a.com/gpu": 1, "b.com/gpu": 2})]) == "b.com/gpu"


def test_another_resource_can_be_counted() -> None:
    view = make_view(Objects.of([node("n", cpu=4, gpu=8), pod("p", cpu="500m", node="n")]), "cpu")
    assert (view.root.total, view.root.free) == (4_000, 3_500)


def test_what_keeps_pods_away_is_noted() -> None:
    view = make_view(Objects.of([node("a", unschedulable=True), node("b", ready=False), node("c")]))
    assert [inner.note for inner in view.root.nodes] == ["cordoned", "not ready", ""]


def test_a_cycle_is_drawn_once_with_its_faults() -> None:
    loop = [hyper_node("a", 1, domains=["b"], nodes=["n"]), hyper_node("b", 2, domains=["a"])]
    view = make_view(Objects.of([node("n"), *loop, hyper_node("rack", 1)]))
    assert [inner.name for inner in view.root.domains] == ["rack", "a"]
    loop_a = view.root.domains[1]
    assert [inner.name for inner in loop_a.domains] == ["b"]
    assert loop_a.domains[0].domains == ()
    assert "inside itself" in loop_a.faults[0]
    assert "inside itself" in loop_a.domains[0].faults[0]


def test_an_overlap_counts_a_node_once_above() -> None:
    racks = [hyper_node("r1", 1, nodes=["n"]), hyper_node("r2", 1, nodes=["n"])]
    view = make_view(Objects.of([node("n", gpu=8), *racks, hyper_node("s", 2, domains=["r1", "r2"])]))
    [spine] = view.root.domains
    assert (spine.n_nodes, spine.total) == (1, 8_000)
    assert spine.domains[1].faults == ("node 'n' is in 'r1' too",)


def test_every_fault_of_a_hypernode_is_shown() -> None:
    wrong = hyper_node("s", 1, domains=["rack", "nowhere", "neither"])
    view = make_view(Objects.of([hyper_node("rack", 1), wrong]))
    assert view.root.domains[0].faults == (
        "member HyperNode 'nowhere' does not exist",
        "member HyperNode 'neither' does not exist",
        "tier 1 is not above tier 1 of its member 'rack'",
    )


def test_pruning_keeps_totals() -> None:
    pruned = prune(two_rack_view(), 2)
    [spine] = pruned.root.domains
    assert (names(spine), spine.n_nodes, spine.free) == ([], 4, 21_000)
    assert names(pruned.root) == ["spine"]
    assert [tier for tier, _, _ in pruned.tiers] == [2]


def test_the_document_has_everything() -> None:
    document = view_document(two_rack_view())
    assert document["tiers"] == [
        {"tier": 2, "names": ["spine"], "domains": 1},
        {"tier": 1, "names": ["rack"], "domains": 2},
    ]
    rack = document["root"]["domains"][0]["domains"][0]
    assert rack == {
        "name": "rack-0",
        "tier": 1,
        "tierName": "rack",
        "nodeCount": 2,
        "free": "5",
        "total": "16",
        "faults": [],
        "domains": [],
        "nodes": [
            {"name": "n0", "free": "5", "total": "8", "note": ""},
            {"name": "n1", "free": "0", "total": "8", "note": ""},
        ],
    }
