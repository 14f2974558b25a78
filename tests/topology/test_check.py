from typing import Any

import pytest

from muster.api import KubeObject, PodGroup, load_text
from muster.testing import node, pod
from muster.topology.check import CODES, Finding, check_topology
from tests.topology.trees import hyper_node, two_racks


def told(*things: KubeObject) -> list[tuple[str, str, str]]:
    return [(found.code, found.subject, found.text) for found in check_topology(things)]


def group(
    *, minimum: int = 1, topology: dict[str, Any] | None = None, policies: list[dict[str, Any]] | None = None
) -> PodGroup:
    spec = {"minMember": minimum, "networkTopology": topology, "subGroupPolicy": policies or []}
    text = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": spec,
    }
    [loaded] = load_text(str(text).replace("None", "null").replace("'", '"')).objects
    assert isinstance(loaded, PodGroup)
    return loaded


def gang(n_pods: int, gpu: int, **labels: str) -> list[KubeObject]:
    return [pod(f"train-{i}", group="train", gpu=gpu, labels=labels) for i in range(n_pods)]


def test_a_sound_tree_has_a_note_at_most() -> None:
    assert told(*two_racks()) == [("outside", "", "1 node is in no HyperNode: n4")]
    assert told(node("n1")) == []


def test_a_node_outside_is_no_error_and_many_are_summed_up() -> None:
    found = check_topology([hyper_node("rack", 1, nodes=["n0"]), *(node(f"n{i}") for i in range(9))])
    assert [(note.level, note.text) for note in found] == [
        ("note", "8 nodes are in no HyperNode: n1, n2, n3, n4, n5 and 3 more")
    ]


@pytest.mark.parametrize(
    ("hyper_nodes", "subject", "text"),
    [
        ([("a", 1, ["b"]), ("b", 2, ["a"])], "HyperNode a", "is inside itself: a in b in a"),
        ([("a", 1, ["a"])], "HyperNode a", "is inside itself: a in a"),
        ([("a", 1, []), ("s", 2, ["a"]), ("t", 2, ["a"])], "HyperNode t", "HyperNode 'a' is a member of 's' already"),
        ([("a", 2, []), ("s", 2, ["a"])], "HyperNode s", "tier 2 is not above tier 2 of its member 'a'"),
        ([("s", 2, ["gone"])], "HyperNode s", "member HyperNode 'gone' does not exist"),
    ],
)
def test_faults_of_the_tree(hyper_nodes: list[tuple[str, int, list[str]]], subject: str, text: str) -> None:
    things = [hyper_node(name, tier, domains=inner, nodes=["n"]) for name, tier, inner in hyper_nodes]
    assert ("fault", subject, text) in told(*things)


def test_an_overlap_is_a_fault_of_both() -> None:
    racks = [hyper_node("r1", 1, pattern="^n"), hyper_node("r2", 1, nodes=["n1", "n2", "n3"])]
    assert told(*racks, *(node(f"n{i}") for i in range(1, 4))) == [
        ("fault", "HyperNode r1", "node 'n1' and 2 more are in 'r2' too"),
        ("fault", "HyperNode r2", "node 'n1' and 2 more are in 'r1' too"),
    ]


def test_a_tier_name_for_two_tiers() -> None:
    things = [node("n"), hyper_node("a", 1, nodes=["n"], tier_name="rack")]
    assert told(*things, hyper_node("b", 2, domains=["a"], tier_name="rack")) == [
        ("fault", "HyperNode b", "tier name 'rack' stands for tier 1 elsewhere and for tier 2 here")
    ]


def test_everything_wrong_with_one_hypernode_is_told() -> None:
    wrong = hyper_node("s", 1, domains=["gone", "lost"], nodes=["n1", "n2", "n"])
    assert [code for code, _, _ in told(node("n"), wrong)] == ["fault", "fault", "no-such-node"]
    assert told(node("n"), wrong)[2] == ("no-such-node", "HyperNode s", "there is no node n1, n2")


def test_a_pattern_that_go_cannot_read_is_told_once() -> None:
    [found] = check_topology([node("n"), hyper_node("r", 1, nodes=["n"], pattern="(?=n)")])
    assert (found.level, found.code, found.subject) == ("error", "invalid", "HyperNode r")
    assert found.text.startswith("spec.members[1].selector.regexMatch.pattern: expected a regular expression in Go's")


def test_a_hypernode_without_nodes_is_a_warning() -> None:
    [found] = check_topology([hyper_node("r", 1, pattern="^x")])
    assert (found.level, found.code, found.text) == ("warning", "empty", "holds no node")


def test_errors_come_first() -> None:
    things = [node("n"), hyper_node("a", 1, pattern="^x"), hyper_node("b", 1, domains=["gone"])]
    levels = [found.level for found in check_topology(things)]
    assert levels == ["error", "warning", "warning", "note"]


@pytest.mark.parametrize(
    ("topology", "code", "text"),
    [
        (
            {"mode": "hard", "highestTierName": "aisle"},
            "tier-unknown",
            'networkTopology: no HyperNode has the tier name "aisle"; known: rack, spine',
        ),
        (
            {"mode": "hard"},
            "tier-missing",
            "networkTopology: mode is hard, but neither highestTierAllowed nor highestTierName is set",
        ),
        (
            {"mode": "hard", "highestTierAllowed": 0},
            "tier-unknown",
            "networkTopology: no HyperNode has tier 0 or below; the lowest is 1",
        ),
    ],
)
def test_constraints_that_cannot_be_resolved(topology: dict[str, Any], code: str, text: str) -> None:
    assert (code, "PodGroup default/train", text) in told(*two_racks(), group(topology=topology))


def too_large(*things: KubeObject) -> list[str]:
    return [text for code, _, text in told(*two_racks(), *things) if code == "too-large"]


def test_a_gang_that_no_rack_could_hold() -> None:
    rack = {"mode": "hard", "highestTierName": "rack"}
    [text] = too_large(group(minimum=3, topology=rack), *gang(3, 8))
    where = "in one domain of tier 1 or below: rack-0 has room for 2, even with nothing else running"
    assert text == f"networkTopology: 3 pods with at least 8 nvidia.com/gpu each {where}"
    assert too_large(group(minimum=2, topology=rack), *gang(3, 8)) == []
    assert too_large(group(minimum=3, topology={**rack, "mode": "soft"}), *gang(3, 8)) == []
    assert too_large(group(minimum=4, topology={"highestTierAllowed": 2}), *gang(4, 8)) == []


def test_the_whole_cluster_counts_when_the_constraint_allows_it() -> None:
    assert too_large(group(minimum=5, topology={"highestTierAllowed": 3}), *gang(5, 8)) == []
    assert len(too_large(group(minimum=6, topology={"highestTierAllowed": 3}), *gang(6, 8))) == 1


def test_room_is_counted_per_node() -> None:
    """Two nodes of 8 GPUs hold 16, but not three pods of 5."""
    assert len(too_large(group(minimum=3, topology={"highestTierAllowed": 1}), *gang(3, 5))) == 1
    assert too_large(group(minimum=2, topology={"highestTierAllowed": 1}), *gang(2, 5)) == []


def test_a_pod_that_fits_on_no_node() -> None:
    [text] = too_large(group(topology={"highestTierAllowed": 1}), *gang(1, 9))
    assert "no node has room for one" in text


def test_totals_count_when_pods_differ() -> None:
    mixed = [pod("train-a", group="train", gpu=1), *(pod(f"train-{i}", group="train", gpu=8) for i in range(2))]
    [text] = too_large(group(minimum=3, topology={"highestTierAllowed": 1}), *mixed)
    assert text == "networkTopology: 17 nvidia.com/gpu needed, at most 16 there is in any domain of tier 1 or below"


def test_what_runs_elsewhere_does_not_count() -> None:
    busy = pod("other", gpu=8, node="n0")
    assert too_large(busy, group(minimum=2, topology={"highestTierAllowed": 1}), *gang(2, 8)) == []


def test_sub_groups_are_measured_by_their_own_size() -> None:
    policy = {
        "name": "worker",
        "subGroupSize": 3,
        "labelSelector": {"matchLabels": {"role": "worker"}},
        "matchLabelKeys": ["part"],
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    [text] = too_large(group(policies=[policy]), *gang(6, 8, role="worker"))
    assert text.startswith("subGroupPolicy worker: networkTopology: 3 pods")
    assert too_large(group(policies=[{**policy, "subGroupSize": 2}]), *gang(6, 8, role="worker")) == []
    assert too_large(group(policies=[policy]), *gang(6, 8, role="master")) == []


def test_constraints_are_measured_on_what_is_in_use() -> None:
    wrong = hyper_node("wrong", 9, domains=["gone", "spine"])
    [text] = too_large(wrong, group(minimum=3, topology={"highestTierAllowed": 1}), *gang(3, 8))
    assert "rack-0 has room for 2" in text
    assert too_large(wrong, group(minimum=3, topology={"highestTierAllowed": 2}), *gang(3, 8)) == []


def test_a_constraint_that_only_faulty_hypernodes_could_hold() -> None:
    wrong = hyper_node("wrong", 0, domains=["gone"])
    [text] = too_large(wrong, group(minimum=1, topology={"highestTierAllowed": 0}), *gang(1, 8))
    assert text == "networkTopology: every HyperNode of tier 0 or below is out of use, such as wrong"


def test_an_object_that_cannot_be_measured_is_told_and_left_out() -> None:
    text = "{apiVersion: v1, kind: Node, metadata: {name: bad}, status: {allocatable: {cpu: '1'}}}"
    [bad] = load_text(text).objects
    bad.metadata.name = "not/valid"
    things = [*two_racks(), bad, group(minimum=1, topology={"highestTierAllowed": 1}), *gang(1, 1)]
    assert [found.code for found in check_topology(things)] == ["invalid", "outside"]


def test_places_are_told_where_they_are_known() -> None:
    text = "\n---\napiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: r}\nspec: {tier: 1}\n"
    [found] = check_topology(load_text(text, "racks.yaml"))
    assert found.place == "racks.yaml:3"
    assert found.to_json() == {
        "level": "warning",
        "code": "empty",
        "subject": "HyperNode r",
        "text": "holds no node",
        "place": "racks.yaml:3",
    }


def test_every_code_is_described() -> None:
    assert all(meaning and level in {"error", "warning", "note"} for level, meaning in CODES.values())
    assert Finding("fault", "", "").level == "error"
