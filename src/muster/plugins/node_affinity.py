"""Node selectors over all nodes at once: `nodeSelector`, required and preferred node affinity, volumes' affinity.

Callers: predicates (where a pod may go), nodeorder (where it would rather go), topology spread (which nodes
count) and volumes. The rules are those of Kubernetes: terms are alternatives, conditions inside a term must all
hold, a term without conditions matches nothing, and Gt and Lt compare integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.api import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from muster.snapshot import Mask, NodeTable


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


def _by_value(codes: NDArray[np.int32], values: Sequence[str], requirement: NodeSelectorRequirement) -> Mask:
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
