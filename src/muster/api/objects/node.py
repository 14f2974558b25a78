"""Nodes and namespaces, and what pods say about nodes: selectors, affinity to nodes, tolerations.

The rules are those of Kubernetes: terms of a node selector are alternatives, the conditions inside a term must all
hold, and a term without conditions matches nothing. A node that states no allocatable amounts offers its capacity;
decoding fills that in, as the kubelet does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import field

from muster.api.objects.meta import (
    Condition,
    Int32,
    Int64,
    K8sModel,
    KubeObject,
    LabelSelectorRequirement,
    ResourceList,
    Timestamp,
)


class Taint(K8sModel):
    """A reason to keep pods off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Timestamp | None = None


class NodeSpec(K8sModel):
    """What the operator decided about a node."""

    unschedulable: bool = False
    taints: Sequence[Taint] = ()
    provider_id: str = field(default="", name="providerID")


class NodeStatus(K8sModel):
    """What a node has and how it is."""

    allocatable: ResourceList = field(default_factory=dict)
    capacity: ResourceList = field(default_factory=dict)
    conditions: Sequence[Condition] = ()


class Node(KubeObject):
    """A machine that runs pods."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"
    namespaced: ClassVar[bool] = False

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def is_ready(self) -> bool:
        """Whether the Ready condition holds; a node without one (written by hand) counts as ready."""
        return all(c.status == "True" for c in self.status.conditions if c.type == "Ready")


class Namespace(KubeObject):
    """A namespace; its labels matter to namespace selectors."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"
    namespaced: ClassVar[bool] = False


class Toleration(K8sModel):
    """Taints that a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint is covered: an empty effect covers all, an empty key with Exists too."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in {"", "Equal"} and bool(self.key) and self.value == taint.value


_NAME_FIELD = "metadata.name"
_INTEGER = re.compile(r"[+-]?[0-9]+")


def _integer(text: str | None) -> int | None:
    """Read what Kubernetes reads as a number; Python's int() would also take "1_000" and blanks."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


class NodeSelectorRequirement(LabelSelectorRequirement):
    """One condition on one label of a node; knows Gt and Lt besides the operators of label selectors."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the condition; Gt and Lt compare integers."""
        if self.operator not in {"Gt", "Lt"}:
            return LabelSelectorRequirement.matches(self, labels)
        value = _integer(labels.get(self.key))
        limit = _integer(self.values[0]) if len(self.values) == 1 else None
        if value is None or limit is None:
            return False
        return value > limit if self.operator == "Gt" else value < limit


class NodeSelectorTerm(K8sModel):
    """Conditions on labels and on the name of one node, all of which must hold."""

    match_expressions: Sequence[NodeSelectorRequirement] = ()
    match_fields: Sequence[NodeSelectorRequirement] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether the node meets every condition; false when there is none."""
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {_NAME_FIELD: node_name}
        return all(r.matches(labels) for r in self.match_expressions) and all(
            r.matches(fields) for r in self.match_fields
        )


class NodeSelector(K8sModel):
    """Alternatives, one of which must match."""

    node_selector_terms: Sequence[NodeSelectorTerm] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether some term matches the node."""
        return any(term.matches(labels, node_name) for term in self.node_selector_terms)


class PreferredSchedulingTerm(K8sModel):
    """A node selector term that would be nice, and how nice."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(K8sModel):
    """Which nodes a pod may and would rather run on."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Sequence[PreferredSchedulingTerm] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )
