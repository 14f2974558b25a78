"""A label topology as HyperNodes, so that it can be drawn like any other tree.

A domain is called by its label values from the widest level on, joined by dots; its tier counts levels from the
narrowest, and the label is the name of the tier. Nodes that lack a label are left out, as the scheduler does.
Callers: the view, for clusters that have one Topology and no HyperNodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.api import HyperNode, Node, ObjectMeta, Topology
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
from muster.snapshot.labels import LabelTopology, NodeLabels, build_label_topology


def label_tree(topology: Topology, nodes: Mapping[str, Node]) -> dict[str, HyperNode]:
    """The domains of a topology over the nodes, by name."""
    listed = [nodes[name] for name in sorted(nodes)]
    levels = [level.node_label for level in topology.spec.levels]
    table = build_label_topology(topology.name, levels, NodeLabels(listed), len(listed))
    made = [_hyper_node(table, domain, listed) for domain in range(1, len(table))]
    return {item.name: item for item in made}


def _hyper_node(table: LabelTopology, domain: int, nodes: list[Node]) -> HyperNode:
    level, depth = int(table.level[domain]), len(table.labels)
    if level == depth:
        members = [_member("Node", nodes[row].name) for row in table.nodes(domain).tolist()]
    else:
        inner = [child for child in table.at_level(level + 1).tolist() if table.parent[child] == domain]
        members = [_member("HyperNode", table.names[child]) for child in inner]
    spec = HyperNodeSpec(tier=depth - level + 1, tier_name=table.level_name(level), members=members)
    return HyperNode(metadata=ObjectMeta(name=table.names[domain]), spec=spec)


def _member(kind: str, name: str) -> Member:
    return Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))
