"""Where a pod may or would rather run: node, pod and pod-anti affinity, tolerations, spread.

Read by the predicates and the node order through `Pod.spec`; node selectors also by persistent volumes.
The matching rules are those of Kubernetes: terms of a node selector are alternatives, the conditions
inside a term must all hold, and a term without conditions matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import field

from muster.api.base import Int32, Int64, K8sModel
from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.node import Taint

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


class PodAffinityTerm(K8sModel):
    """Other pods, and the domain in which to be with them or away from them."""

    label_selector: LabelSelector | None = None
    namespaces: Sequence[str] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: Sequence[str] = ()
    mismatch_label_keys: Sequence[str] = ()


class WeightedPodAffinityTerm(K8sModel):
    """A pod affinity term that would be nice, and how nice."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(K8sModel):
    """Pods to be with; as ``podAntiAffinity``, pods to be away from."""

    required: Sequence[PodAffinityTerm] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Sequence[WeightedPodAffinityTerm] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(K8sModel):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


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


class TopologySpreadConstraint(K8sModel):
    """How evenly pods are spread over the values of a node label."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: Sequence[str] = ()
