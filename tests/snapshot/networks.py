"""HyperNodes, and pods and PodGroups with topology constraints, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.api import HyperNode, KubeObject, LabelSelector, NetworkTopology, ObjectMeta, PodGroup, SubGroupPolicy
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector, RegexMatch
from muster.testing import node, pod, pod_group

#: Label that divides pods into sub-groups in these tests.
PART = "part"


def exact(kind: str, *names: str) -> list[Member]:
    return [Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name))) for name in names]


def regex(kind: str, pattern: str) -> Member:
    return Member(type=kind, selector=MemberSelector(regex_match=RegexMatch(pattern=pattern)))


def labelled(**labels: str) -> Member:
    return Member(type="Node", selector=MemberSelector(label_match=LabelSelector(match_labels=labels)))


def hyper_node(
    name: str,
    tier: int,
    *,
    nodes: Iterable[str] = (),
    inside: Iterable[str] = (),
    members: Iterable[Member] = (),
    tier_name: str = "",
) -> HyperNode:
    """Make a HyperNode from nodes and smaller HyperNodes by name, or from any other members."""
    found = [*exact("HyperNode", *inside), *exact("Node", *nodes), *members]
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=found))


def racks(
    sizes: Mapping[str, Sequence[int]], *, gpu: int = 8, tier_names: tuple[str, str] = ("rack", "spine")
) -> list[KubeObject]:
    """Spines of racks of nodes: {"s0": [2, 3]} is a spine s0 with racks s0-r0 (2 nodes) and s0-r1 (3 nodes).

    Nodes are called s0-r0-n0 and so on. Racks are of tier 1, spines of tier 2.
    """
    objects: list[KubeObject] = []
    for spine, counts in sizes.items():
        names = [f"{spine}-r{k}" for k in range(len(counts))]
        for rack, count in zip(names, counts, strict=True):
            members = [f"{rack}-n{k}" for k in range(count)]
            objects += [node(name, gpu=gpu) for name in members]
            objects.append(hyper_node(rack, 1, nodes=members, tier_name=tier_names[0]))
        objects.append(hyper_node(spine, 2, inside=names, tier_name=tier_names[1]))
    return objects


def hard(tier: int | str | None) -> NetworkTopology:
    """A hard constraint by tier, by tier name, or without either."""
    if isinstance(tier, str):
        return NetworkTopology(mode="hard", highest_tier_name=tier)
    return NetworkTopology(mode="hard", highest_tier_allowed=tier)


SOFT = NetworkTopology(mode="soft")


def parts(
    size: int, minimum: int | None = None, topology: NetworkTopology | None = None, *, name: str = "p"
) -> SubGroupPolicy:
    """A policy that makes one sub-group of the pods with the same value of the label `part`."""
    return SubGroupPolicy(
        name=name, match_label_keys=[PART], sub_group_size=size, min_sub_groups=minimum, network_topology=topology
    )


def group(
    name: str,
    minimum: int,
    topology: NetworkTopology | None = None,
    policies: Sequence[SubGroupPolicy] = (),
    **more: Any,
) -> PodGroup:
    """Make an admitted PodGroup."""
    made = pod_group(name, minimum=minimum, phase=more.pop("phase", "Inqueue"), **more)
    made.spec.network_topology = topology
    made.spec.sub_group_policy = list(policies)
    return made


def members(
    job: str,
    count: int,
    *,
    on: Sequence[str] = (),
    part: str = "",
    first: int = 0,
    **more: Any,
) -> list[KubeObject]:
    """Make pods job-0, job-1, ... (with a part: job-part-0, ...); the first ones run on the nodes of `on`."""
    stem = f"{job}-{part}" if part else job
    labels = {PART: part} if part else {}
    return [
        pod(
            f"{stem}-{first + k}",
            group=job,
            node=on[k] if k < len(on) else "",
            labels=labels,
            **more,
        )
        for k in range(count)
    ]
