"""HyperNodes that follow node labels and managers of switches."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from muster.api import HyperNode, Node, UserError, encode
from muster.api.kinds import decode_as
from muster.api.objects.meta import ObjectMeta
from muster.controllers.contract import Action, Ask, Create, Delete, Patch, Tell, merged
from muster.controllers.hypernodes.controller import HyperNodeController
from muster.controllers.hypernodes.discovery import CONFIG_KEY, ConfigMap, sources_of
from muster.controllers.hypernodes.switches import from_answer
from muster.controllers.hypernodes.wanted import SOURCE
from muster.testing.builders import node

LABELS = """
networkTopologyDiscovery:
  - source: label
    enabled: true
    config:
      networkTopologyTypes:
        Fabric: [{nodeLabel: spine}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]
  - {source: ufm, enabled: false, config: {}}
"""
ASKED = """
networkTopologyDiscovery:
  - source: ufm
    enabled: true
    interval: 10m
    credentials: {secretRef: {name: ufm, namespace: network}}
    config: {endpoint: ufm.example.com/, insecureSkipVerify: true}
  - {source: http, enabled: true, config: {endpoint: "https://switches.example.com/tree"}}
"""


def config(text: str, version: str = "1") -> ConfigMap:
    metadata = ObjectMeta(name="volcano-controller-configmap", namespace="volcano-system", resource_version=version)
    return ConfigMap(metadata=metadata, data={CONFIG_KEY: text})


def placed(name: str, **labels: str) -> Node:
    made = node(name)
    return replace(made, metadata=replace(made.metadata, labels=labels))


class World:
    """A controller, and an API server that does as it is told."""

    def __init__(self, text: str, nodes: Sequence[Node] = ()) -> None:
        self.controller = HyperNodeController("volcano-system/volcano-controller-configmap")
        self.hyper_nodes: dict[str, HyperNode] = {}
        self.now = 0.0
        self.nodes = {each.name: each for each in nodes}
        for each in nodes:
            self.controller.take("ADDED", each, 0.0)
        self.controller.take("ADDED", config(text), 0.0)

    def turn(self) -> list[Action]:
        """Carry out what is asked for, until nothing is; questions stay unanswered."""
        done: list[Action] = []
        while steps := [step for step in self.controller.steps(self.now) if self._carry_out(step.plan.actions, done)]:
            assert len(done) < 100, "it does not come to rest"
            for step in steps:
                self.controller.settle(step.key, self.now)
        return done

    def _carry_out(self, actions: Sequence[Action], done: list[Action]) -> bool:
        for action in actions:
            if isinstance(action, Create):
                self._put(decode_as(action.document, HyperNode), "ADDED")
            elif isinstance(action, Patch):
                document = merged(encode(self.hyper_nodes[action.target.key]), action.merge)
                self._put(decode_as(document, HyperNode), "MODIFIED")
            elif isinstance(action, Delete):
                self.controller.take("DELETED", self.hyper_nodes.pop(action.target.key), self.now)
            done.append(action)
        if not actions:
            for name in ("label", "ufm", "http"):
                self.controller.settle(name, self.now)
        return bool(actions)

    def _put(self, thing: HyperNode, kind: str) -> None:
        self.hyper_nodes[thing.name] = thing
        self.controller.take(kind, thing, self.now)  # type: ignore[arg-type]  # both are kinds of events

    def tree(self) -> dict[str, tuple[int, list[str]]]:
        return {
            name: (each.spec.tier, [member.selector.exact_match.name for member in each.spec.members])  # type: ignore[union-attr]
            for name, each in sorted(self.hyper_nodes.items())
        }


def test_labels_make_a_tier_each_and_are_followed() -> None:
    nodes = [placed("n1", rack="r1", spine="s1"), placed("n2", rack="r1", spine="s1"), placed("n3", rack="r2")]
    world = World(LABELS, nodes)
    world.turn()
    tree = world.tree()
    (rack, other), (spine,) = [sorted(name for name in tree if tree[name][0] == tier) for tier in (1, 2)]
    first, second = (rack, other) if tree[rack][1] == ["n1", "n2"] else (other, rack)
    assert tree == {first: (1, ["n1", "n2"]), second: (1, ["n3"]), spine: (2, [first])}
    assert first.startswith("hypernode-fabric-tier1-")
    made = world.hyper_nodes[first]
    assert (made.metadata.labels, made.spec.tier_name) == ({SOURCE: "label", "rack": "r1"}, "rack")

    world.controller.take("MODIFIED", placed("n2", rack="r2", spine="s1"), 1.0)
    world.controller.take("MODIFIED", placed("n3", rack="r2", spine="s1"), 1.0)
    world.turn()
    assert world.tree() == {first: (1, ["n1"]), second: (1, ["n2", "n3"]), spine: (2, sorted([first, second]))}

    world.controller.take("DELETED", nodes[0], 2.0)
    world.turn()
    assert world.tree() == {second: (1, ["n2", "n3"]), spine: (2, [second])}


def test_nothing_is_asked_for_while_all_is_as_it_should_be() -> None:
    world = World(LABELS, [placed("n1", rack="r1")])
    assert len(world.turn()) == 1
    world.controller.take("MODIFIED", placed("n1", rack="r1", other="x"), 1.0)
    assert world.turn() == []


def test_hypernodes_that_another_controller_made_keep_their_names_and_those_of_people_stay() -> None:
    world = World(LABELS, [placed("n1", rack="r1")])
    theirs = ObjectMeta(name="hypernode-fabric-tier1-abcde", labels={SOURCE: "label", "rack": "r1"})
    world._put(HyperNode(metadata=theirs), "ADDED")
    world._put(HyperNode(metadata=ObjectMeta(name="by-hand")), "ADDED")
    world._put(HyperNode(metadata=ObjectMeta(name="old", labels={SOURCE: "label", "rack": "gone"})), "ADDED")
    world.turn()
    assert set(world.tree()) == {"hypernode-fabric-tier1-abcde", "by-hand"}
    assert world.tree()["hypernode-fabric-tier1-abcde"][1] == ["n1"]


def test_what_somebody_deletes_is_made_again() -> None:
    world = World(LABELS, [placed("n1", rack="r1")])
    world.turn()
    (name,) = world.hyper_nodes
    world.controller.take("DELETED", world.hyper_nodes.pop(name), 1.0)
    world.turn()
    assert set(world.hyper_nodes) == {name}


def test_a_cluster_without_nodes_loses_no_hypernodes() -> None:
    world = World(LABELS)
    world._put(HyperNode(metadata=ObjectMeta(name="kept", labels={SOURCE: "label"})), "ADDED")
    assert world.turn() == []


def test_a_source_that_is_turned_off_leaves_what_it_made() -> None:
    world = World(LABELS, [placed("n1", rack="r1")])
    world.turn()
    world.controller.take("MODIFIED", config("networkTopologyDiscovery: []", "2"), 1.0)
    world.controller.take("MODIFIED", placed("n1", rack="r2"), 1.0)
    assert (world.turn(), len(world.hyper_nodes)) == ([], 1)


# -- managers of switches ------------------------------------------------------------------------------------------


def port(computer: str, switch: str) -> dict[str, object]:
    return {"description": "Computer IB Port", "tier": 4, "system_name": computer, "peer_node_name": switch}


def test_leaf_switches_that_share_computers_are_one_hypernode() -> None:
    pairs = [("n1", "leaf-a"), ("n2", "leaf-a"), ("n2", "leaf-b"), ("n3", "leaf-b"), ("n4", "leaf-c")]
    ports = [*(port(*pair) for pair in pairs), {"description": "Switch IB Port", "system_name": "leaf-a"}]
    found = from_answer("ufm", json.dumps(ports).encode())
    assert [(each.name, each.tier, each.members) for each in found] == [
        ("leaf-hn-0", 1, ("n1", "n2", "n3")),
        ("leaf-hn-1", 1, ("n4",)),
        ("spine-hn", 2, ("leaf-hn-0", "leaf-hn-1")),
    ]


def test_a_switch_late_in_the_list_joins_groups_that_were_apart() -> None:
    pairs = [("n1", "a"), ("n2", "b"), ("n1", "c"), ("n2", "c")]
    found = from_answer("ufm", json.dumps([port(*pair) for pair in pairs]).encode())
    assert [each.members for each in found] == [("n1", "n2"), ("leaf-hn-0",)]


def test_a_tree_of_switches_has_a_tier_for_each_level() -> None:
    leaf = {"name": "leaf-1", "tierName": "rack", "nodes": ["n2", "n1"]}
    tree = {"switches": [{"name": "core", "switches": [{"name": "spine", "switches": [leaf, {"name": "empty"}]}]}]}
    found = from_answer("http", json.dumps(tree).encode())
    assert [(each.name, each.tier, each.members, each.tier_name) for each in found] == [
        ("leaf-1", 1, ("n1", "n2"), "rack"),
        ("spine", 2, ("leaf-1",), ""),
        ("core", 3, ("spine",), ""),
    ]


@pytest.mark.parametrize(
    ("source", "answer", "fault"),
    [
        ("ufm", "{}", "expected a list of ports"),
        ("ufm", "[]", "expected switches with nodes, got none; HyperNodes stay as they are"),
        ("http", "[]", "expected an object with switches"),
        ("http", '{"switches": [{"name": "a", "nodes": ["n"], "switches": [{"name": "b"}]}]}', 'below "a", got both'),
        ("http", '{"switches": [{"name": "a", "nodes": ["n"]}, {"name": "a", "nodes": ["m"]}]}', 'got "a" twice'),
    ],
)
def test_answers_that_describe_no_network_are_refused(source: str, answer: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault.replace("[", r"\[")):
        from_answer(source, answer.encode())


def test_a_source_is_asked_again_after_its_interval() -> None:
    world = World(ASKED)
    asks = {action.source: action for action in world.turn() if isinstance(action, Ask)}
    assert asks["ufm"] == Ask("ufm", "https://ufm.example.com/ufmRest/resources/ports", "network/ufm", verify=False)
    assert asks["http"] == Ask("http", "https://switches.example.com/tree")
    answer = json.dumps([port("n1", "leaf-a")]).encode()
    assert world.controller.answered(asks["ufm"], answer, 5.0) == ""
    world.now = 5.0
    world.turn()
    assert set(world.tree()) == {"leaf-hn-0", "spine-hn"}
    world.now = 604.0
    assert not [action for action in world.turn() if isinstance(action, Ask) and action.source == "ufm"]
    world.now = 605.0
    assert [action for action in world.turn() if isinstance(action, Ask) and action.source == "ufm"] == [asks["ufm"]]
    assert "expected a list of ports" in world.controller.answered(asks["ufm"], b"{}", 606.0)
    assert set(world.tree()) == {"leaf-hn-0", "spine-hn"}


# -- what is configured --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("{", CONFIG_KEY, "expected YAML"),
        ("networkTopologyDiscovery: 7", "networkTopologyDiscovery", "expected a list"),
        ("networkTopologyDiscovery: [{source: x, enabled: true}]", "networkTopologyDiscovery[0].source", 'got "x"'),
        ("networkTopologyDiscovery: [{source: ufm, enabled: true}]", ".config.endpoint", "expected an address"),
        (
            "networkTopologyDiscovery: [{source: ufm, enabled: true, config: {endpoint: u}}]",
            ".credentials.secretRef",
            "expected a Secret",
        ),
        (
            "networkTopologyDiscovery: [{source: http, enabled: true, interval: soon, config: {endpoint: u}}]",
            ".interval",
            "expected a duration",
        ),
        (
            "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: {a: [{}]}}}]",
            ".networkTopologyTypes.a",
            "expected a nodeLabel",
        ),
    ],
)
def test_a_configuration_that_is_wrong_names_the_field(text: str, field: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as fault:
        sources_of(config(text))
    assert field in str(fault.value.field)


def test_a_configuration_that_cannot_be_read_leaves_the_one_in_force_and_says_so() -> None:
    world = World(LABELS, [placed("n1", rack="r1")])
    world.turn()
    world.controller.take("MODIFIED", config("networkTopologyDiscovery: 7", "2"), 1.0)
    world.controller.take("ADDED", placed("n2", rack="r1"), 1.0)
    told = [action for action in world.turn() if isinstance(action, Tell)]
    assert [(each.reason, each.message) for each in told] == [
        ("DiscoveryNotRead", "networkTopologyDiscovery: expected a list, got int")
    ]
    assert [members for _, members in world.tree().values()] == [["n1", "n2"]]
