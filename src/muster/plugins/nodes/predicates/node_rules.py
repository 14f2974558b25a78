"""What nodes say about themselves, for all nodes at once: node selectors, node affinity, and taints.

The rules are those of Kubernetes: terms are alternatives, conditions inside a term must all hold, a term without
conditions matches nothing, and Gt and Lt compare integers. Nodes with equal taints are asked about once; most have
none and share one answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint
from muster.snapshot import Mask, NodeTable
from muster.snapshot.labels import tolerates

_DISCOURAGING: Final = "PreferNoSchedule"
#: The taint that a cordoned node would have; a pod that tolerates it may go there.
_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def selector_mask(nodes: NodeTable, wanted: Mapping[str, str]) -> Mask:
    """Nodes that have every label of a `nodeSelector`."""
    mask = np.ones(len(nodes), np.bool_)
    for key, value in wanted.items():
        mask &= nodes.labels.is_in(key, (value,))
    return mask


def terms_mask(nodes: NodeTable, selector: NodeSelector) -> Mask:
    """Nodes that match at least one term."""
    mask = np.zeros(len(nodes), np.bool_)
    for term in selector.node_selector_terms:
        mask |= term_mask(nodes, term)
    return mask


def term_mask(nodes: NodeTable, term: NodeSelectorTerm) -> Mask:
    """Nodes that meet every condition of a term."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(nodes), np.bool_)
    mask = np.ones(len(nodes), np.bool_)
    for requirement in term.match_expressions:
        mask &= _on_label(nodes, requirement)
    for requirement in term.match_fields:
        mask &= _on_field(nodes, requirement)
    return mask


def required_affinity(pod: Pod) -> NodeSelector | None:
    """The required node affinity of a pod, None if it has none."""
    affinity = pod.spec.affinity
    return affinity.node_affinity.required if affinity and affinity.node_affinity else None


def required_mask(nodes: NodeTable, pod: Pod) -> Mask:
    """Nodes that the pod's `nodeSelector` and required node affinity allow."""
    mask = selector_mask(nodes, pod.spec.node_selector)
    required = required_affinity(pod)
    return mask if required is None else mask & terms_mask(nodes, required)


def preferred_weights(nodes: NodeTable, pod: Pod) -> NDArray[np.float64] | None:
    """Sum of the weights of the preferred terms that each node matches; None: the pod has no such terms."""
    affinity = pod.spec.affinity
    terms = affinity.node_affinity.preferred if affinity and affinity.node_affinity else ()
    if not terms:
        return None
    total = np.zeros(len(nodes))
    for preferred in terms:
        if preferred.weight:
            total += preferred.weight * term_mask(nodes, preferred.preference)
    return total


def _on_label(nodes: NodeTable, requirement: NodeSelectorRequirement) -> Mask:
    """Nodes whose label meets the condition."""
    key = requirement.key
    match requirement.operator:
        case "In":
            return nodes.labels.is_in(key, requirement.values)
        case "NotIn":
            return ~nodes.labels.is_in(key, requirement.values)
        case "Exists":
            return nodes.labels.codes(key) >= 0
        case "DoesNotExist":
            return nodes.labels.codes(key) < 0
    codes, known = nodes.labels.column(key)
    return _by_value(codes, list(known), requirement)


def _by_value(codes: NDArray[np.intp], values: Sequence[str], requirement: NodeSelectorRequirement) -> Mask:
    """Ask the condition once per distinct value; the last entry stands for nodes without the label (code -1)."""
    answers = [requirement.matches({requirement.key: value}) for value in values]
    answers.append(requirement.matches({}))
    mask: Mask = np.array(answers, np.bool_)[codes]
    return mask


def _on_field(nodes: NodeTable, requirement: NodeSelectorRequirement) -> Mask:
    """Nodes whose field meets the condition; the only field there is is `metadata.name`."""
    if requirement.key != "metadata.name":
        return np.full(len(nodes), requirement.matches({}), np.bool_)
    if requirement.operator not in ("In", "NotIn"):
        return np.zeros(len(nodes), np.bool_)
    named = np.zeros(len(nodes), np.bool_)
    for name in requirement.values:
        row = nodes.index.get(name)
        if row is not None:
            named[row] = True
    return named if requirement.operator == "In" else ~named


class NodeTaints:
    """What the taints of a cluster's nodes, and cordons, say about pods."""

    def __init__(self, nodes: NodeTable) -> None:
        self.cordoned: Mask = nodes.taints.cordoned
        self._taints = nodes.taints
        self._codes = nodes.taints.codes
        self._sets = nodes.taints.sets

    def forbidden(self, pod: Pod) -> Mask:
        """Nodes with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        mask: Mask = self._taints.forbidden(pod)[self._codes]
        return mask

    def barred(self, pod: Pod) -> Mask:
        """Cordoned nodes, unless the pod tolerates cordons."""
        if not self.cordoned.any() or tolerates(pod, _CORDON):
            return np.zeros(len(self.cordoned), np.bool_)
        return self.cordoned

    def discouraging(self, pod: Pod) -> NDArray[np.int64] | None:
        """How many PreferNoSchedule taints of each node the pod does not tolerate; None: no node has any."""
        if not any(t.effect == _DISCOURAGING for taints in self._sets for t in taints):
            return None
        answers = [sum(t.effect == _DISCOURAGING and not tolerates(pod, t) for t in taints) for taints in self._sets]
        counts: NDArray[np.int64] = np.array(answers, np.int64)[self._codes]
        return counts
