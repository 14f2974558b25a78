"""Small trees for the tests of the topology tools, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.api import HyperNode, KubeObject, load_text
from muster.api.objects.meta import LabelSelector, ObjectMeta
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector, RegexMatch
from muster.testing import node

API = "topology.volcano.sh/v1alpha1"


def hyper_node(
    name: str,
    tier: int,
    *,
    domains: Iterable[str] = (),
    nodes: Iterable[str] = (),
    pattern: str = "",
    labels: Mapping[str, str] | None = None,
    tier_name: str = "",
) -> HyperNode:
    """A HyperNode with members of every kind that is given."""
    members = [Member(type="HyperNode", selector=_exact(inner)) for inner in domains]
    members += [Member(type="Node", selector=_exact(inner)) for inner in nodes]
    if pattern:
        members.append(Member(type="Node", selector=MemberSelector(regex_match=RegexMatch(pattern=pattern))))
    if labels:
        selector = MemberSelector(label_match=LabelSelector(match_labels=dict(labels)))
        members.append(Member(type="Node", selector=selector))
    spec = HyperNodeSpec(tier=tier, tier_name=tier_name, members=members)
    return HyperNode(metadata=ObjectMeta(name=name), spec=spec)


def _exact(name: str) -> MemberSelector:
    return MemberSelector(exact_match=ExactMatch(name=name))


def two_racks() -> list[KubeObject]:
    """A spine of two racks with two nodes of eight GPUs each, and a node outside."""
    return [
        *(node(f"n{i}", gpu=8) for i in range(5)),
        hyper_node("rack-0", 1, nodes=["n0", "n1"], tier_name="rack"),
        hyper_node("rack-1", 1, nodes=["n2", "n3"], tier_name="rack"),
        hyper_node("spine", 2, domains=["rack-0", "rack-1"], tier_name="spine"),
    ]


def objects(text: str) -> list[KubeObject]:
    """The objects of a YAML text."""
    return load_text(text).objects
