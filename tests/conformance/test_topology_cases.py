"""Cases about the network: objects made from maps, function adapters, scores and spread of binds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.cases import read_cases
from conformance.disagreements import Disagreements
from conformance.functions import ADAPTERS
from conformance.results import FAILED
from conformance.runner import Runner
from conformance.scheduling import read_cycle
from conformance.topology_objects import hyper_node_documents
from conformance.topology_questions import TOPOLOGY_QUESTIONS, binds_per_domain
from muster.actions.allocate import Allocate
from muster.api import HyperNode, decode
from muster.scheduler import builtin_registry
from muster.snapshot.hypernodes import build_forest
from muster.testing import builders
from tests.plugins.networks import network, open_session, partitioned_gang

MAPS: dict[str, Any] = {
    "hyperNodesByTier": {"1": ["a", "b"], "2": ["top"]},
    "hyperNodeRealNodes": {"a": ["n1"], "b": ["n2"], "top": ["n1", "n2", "n3"]},
    "hyperNodeTierNames": {"rack": 1},
}


def rack(name: str, *nodes: str) -> dict[str, Any]:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "members": members},
    }


@pytest.mark.parametrize("recorded", [[], [rack("a", "n1")]])
def test_hyper_nodes_that_are_missing_are_made_from_the_maps(recorded: list[dict[str, Any]]) -> None:
    made = [decode(item) for item in hyper_node_documents({**MAPS, "hyperNodes": recorded})]
    named = {item.name: item for item in made if isinstance(item, HyperNode)}
    forest = build_forest(named, {name: builders.node(name) for name in ("n1", "n2", "n3")})
    assert forest.ready
    assert forest.parents == {"a": "top", "b": "top"}
    assert forest.nodes["top"] == ["n1", "n2", "n3"]
    assert forest.tier_names == {"rack": 1}


def test_recorded_hyper_nodes_are_taken_as_they_are() -> None:
    recorded = [rack("a", "n1", "n2")]
    assert hyper_node_documents({"hyperNodes": recorded, "hyperNodesByTier": {"1": ["a"]}}) == recorded
    assert hyper_node_documents({}) == []


def test_a_tree_grows_step_by_step_and_faults_show() -> None:
    top = {**rack("top"), "spec": {"tier": 2, "members": [_member("a")]}}
    steps = [{"op": "upsert", "object": item} for item in (rack("a", "n1"), top)]
    got = ADAPTERS["hyperNodeTree"]({"steps": steps})
    assert (got["ready"], got["parents"], got["byTier"]) == (True, {"a": "top", "top": ""}, {"1": ["a"], "2": ["top"]})
    second = {**top, "metadata": {"name": "second"}}
    assert ADAPTERS["hyperNodeTree"]({"steps": [*steps, {"op": "upsert", "object": second}]})["errorOccurred"]


def _member(name: str) -> dict[str, Any]:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


def test_domains_for_evictions_come_small_first() -> None:
    given = {"gradients": [["a", "b"], ["c", "d"]], "maxHyperNodesForEviction": 3}
    assert ADAPTERS["networkTopologyAware.reverseAndCapEvictionGradients"](given) == {"gradients": [["a", "b"], ["c"]]}


def test_scores_within_the_tolerance_are_given_in_the_cases_digits() -> None:
    objects = [*network([[1, 1]]), builders.queue("default"), builders.pod("lone", cpu=8)]
    session = open_session(objects, {"network-topology-aware": {}})
    ask = TOPOLOGY_QUESTIONS["batchNodeScores(first pending task)"]
    exact = ask(session, {})
    near = {name: score + 0.05 for name, score in exact.items()}
    assert ask(session, near) == near
    far = {name: score + 0.5 for name, score in exact.items()}
    assert ask(session, far) == exact


def test_binds_are_counted_by_leaf() -> None:
    gang = partitioned_gang("train", [1, 1, 1], tier=2, part_tier=1)
    session = open_session([*network([[2, 1]]), builders.queue("default"), *gang], {"gang": {}})
    Allocate(Allocate.Args()).run(session)
    assert binds_per_domain([], read_cycle(session)) == [1, 2]


def test_every_shared_topology_case_agrees_or_is_decided(shared_conformance: Path) -> None:
    recorded = shared_conformance / "volcano" / "plugin-network-topology-aware.json"
    if recorded.is_file():
        runner = Runner(builtin_registry(third_party=False), Disagreements.load())
        failed = [result.case.id for result in runner.run_all(read_cases(recorded)) if result.outcome == FAILED]
        assert failed == []
