"""Volcano's HyperNode, ``topology.volcano.sh/v1alpha1``: a domain of the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.base import Int32, Int64, K8sModel
from muster.api.meta import Condition, KubeObject, LabelSelector


class ExactMatch(K8sModel):
    """One member, by name."""

    name: str = ""


class RegexMatch(K8sModel):
    """Members whose name matches a pattern."""

    pattern: str = ""


class MemberSelector(K8sModel):
    """How members are found; exactly one of the three is set."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(K8sModel):
    """Nodes or smaller HyperNodes inside a HyperNode."""

    type: str = ""
    selector: MemberSelector = field(default_factory=MemberSelector)


class HyperNodeSpec(K8sModel):
    """The tier (lower is closer together) and the members."""

    tier: Int32 = 0
    tier_name: str = ""
    members: Sequence[Member] = ()


class HyperNodeStatus(K8sModel):
    """How many nodes were found."""

    conditions: Sequence[Condition] = ()
    node_count: Int64 = 0


class HyperNode(KubeObject):
    """A domain of the network: nodes that reach each other equally well."""

    api_version: ClassVar[str] = "topology.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "HyperNode"
    namespaced: ClassVar[bool] = False

    spec: HyperNodeSpec = field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = field(default_factory=HyperNodeStatus)
