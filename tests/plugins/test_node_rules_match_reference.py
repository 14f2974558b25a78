"""Node affinity and taints over all nodes at once equal the plain rules, node by node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.api import Affinity, Node, NodeAffinity, Pod, PodSpec, Toleration
from muster.plugins.nodes.predicates.node_rules import NodeTaints, preferred_weights, required_mask
from muster.snapshot import Mirror, NodeTable
from tests.plugins import worlds
from tests.reference import pod_rules


def _table(nodes: list[Node]) -> NodeTable:
    mirror = Mirror()
    for node in nodes:
        mirror.upsert(node)
    return mirror.snapshot().nodes


@given(nodes=worlds.nodes(), pod=worlds.pods("p"))
def test_required_node_affinity(nodes: list[Node], pod: Pod) -> None:
    mask = required_mask(_table(nodes), pod)
    assert mask.tolist() == [pod_rules.node_allowed(pod, node) for node in nodes]


@given(nodes=worlds.nodes(), affinity=worlds.node_affinities)
def test_preferred_node_affinity(nodes: list[Node], affinity: NodeAffinity) -> None:
    pod = Pod(spec=PodSpec(affinity=Affinity(node_affinity=affinity)))
    weights = preferred_weights(_table(nodes), pod)
    expected = [
        sum(p.weight for p in affinity.preferred if pod_rules.term_matches(p.preference, node)) for node in nodes
    ]
    assert (expected if weights is None else weights.tolist()) == expected
    assert (weights is None) == (not affinity.preferred)


@given(nodes=worlds.nodes(), tolerations=st.lists(worlds.tolerations, max_size=3))
def test_taints(nodes: list[Node], tolerations: list[Toleration]) -> None:
    pod = Pod(spec=PodSpec(tolerations=tolerations))
    found = NodeTaints(_table(nodes))
    assert (~found.forbidden(pod)).tolist() == [pod_rules.taints_allow(pod, node) for node in nodes]
    expected = [pod_rules.discouraging_taints(pod, node) for node in nodes]
    counts = found.discouraging(pod)
    assert (expected if counts is None else counts.tolist()) == expected
    if counts is None:
        assert not any(taint.effect == "PreferNoSchedule" for node in nodes for taint in node.spec.taints)
