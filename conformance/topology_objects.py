"""HyperNode objects of a case: the recorded ones, or ones made from what Volcano's test really gave the scheduler.

Some tests have no HyperNode objects, or lack some, and hand the scheduler two maps instead: names by tier, and
nodes by name. Containment of the nodes gives the tree.
"""

from __future__ import annotations

from conformance.cases import Body
from muster.api import HyperNode


def hyper_node_documents(objects: Body) -> list[Body]:
    """Documents of the HyperNodes of a case."""
    recorded: list[Body] = objects.get("hyperNodes") or []
    named = {name for names in (objects.get("hyperNodesByTier") or {}).values() for name in names}
    if named <= {item["metadata"]["name"] for item in recorded}:
        return recorded
    return _from_maps(objects)


def _from_maps(objects: Body) -> list[Body]:
    tiers = {name: int(tier) for tier, names in objects["hyperNodesByTier"].items() for name in names}
    nodes = {name: frozenset(objects["hyperNodeRealNodes"].get(name, ())) for name in tiers}
    tier_names = {tier: name for name, tier in (objects.get("hyperNodeTierNames") or {}).items()}
    documents = []
    for name, tier in sorted(tiers.items()):
        inner = [other for other in sorted(tiers) if _parent(other, tiers, nodes) == name]
        taken = frozenset[str]().union(*(nodes[other] for other in inner))
        members = [_member("HyperNode", other) for other in inner]
        members += [_member("Node", node) for node in sorted(nodes[name] - taken)]
        spec = {"tier": tier, "tierName": tier_names.get(tier, ""), "members": members}
        documents.append(
            {
                "apiVersion": HyperNode.api_version,
                "kind": HyperNode.kind,
                "metadata": {"name": name},
                "spec": spec,
            }
        )
    return documents


def _parent(name: str, tiers: dict[str, int], nodes: dict[str, frozenset[str]]) -> str:
    """The HyperNode of the next tier up that holds all nodes of this one."""
    around = [other for other in tiers if tiers[other] > tiers[name] and nodes[name] <= nodes[other]]
    return min(around, key=lambda other: (tiers[other], other), default="")


def _member(kind: str, name: str) -> Body:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}
