"""Rules between pods and nodes, pair by pair, in the plainest Python: what the vectorised plugins must equal.

A world is its nodes and the pods that sit on them. Nothing is cached, nothing is shared with the product but
the object types: label selectors, tolerations and all else are worked out here once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.api import LabelSelector, Node, NodeSelectorTerm, Pod, PodAffinityTerm, Taint, TopologySpreadConstraint


@dataclass(frozen=True)
class Sitting:
    """A pod on a node."""

    pod: Pod
    node: Node
    terminating: bool = False


@dataclass(frozen=True)
class World:
    nodes: Sequence[Node]
    sitting: Sequence[Sitting]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


# -- labels ------------------------------------------------------------------------------------------------


def condition_holds(operator: str, value: str | None, values: Sequence[str]) -> bool:
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and len(values) == 1:
        try:
            left, right = int(value or "none"), int(values[0])
        except ValueError:
            return False
        return left > right if operator == "Gt" else left < right
    return False


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(condition_holds(c.operator, labels.get(c.key), c.values) for c in selector.match_expressions)


# -- nodes -------------------------------------------------------------------------------------------------


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    conditions = [(c, node.metadata.labels.get(c.key)) for c in term.match_expressions]
    conditions += [(c, node.metadata.name if c.key == "metadata.name" else None) for c in term.match_fields]
    return bool(conditions) and all(condition_holds(c.operator, value, c.values) for c, value in conditions)


def node_allowed(pod: Pod, node: Node) -> bool:
    """Node selector and required node affinity."""
    for key, value in pod.spec.node_selector.items():
        if node.metadata.labels.get(key) != value:
            return False
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return True
    return any(term_matches(term, node) for term in affinity.node_affinity.required.node_selector_terms)


def tolerated(pod: Pod, taint: Taint) -> bool:
    for toleration in pod.spec.tolerations:
        same_effect = toleration.effect in ("", taint.effect)
        same_key = toleration.key == taint.key or (toleration.key == "" and toleration.operator == "Exists")
        same_value = toleration.operator == "Exists" or toleration.value == taint.value
        if same_effect and same_key and same_value:
            return True
    return False


def taints_allow(pod: Pod, node: Node) -> bool:
    hard = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(tolerated(pod, taint) for taint in hard)


def discouraging_taints(pod: Pod, node: Node) -> int:
    return sum(1 for t in node.spec.taints if t.effect == "PreferNoSchedule" and not tolerated(pod, t))


# -- pod affinity ------------------------------------------------------------------------------------------


def is_about(world: World, owner: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Is a term of `owner` about the pod `other`?"""
    if term.label_selector is None:
        return False
    in_scope = other.namespace in term.namespaces
    if term.namespace_selector is not None:
        labels = {**world.namespaces.get(other.namespace, {}), "kubernetes.io/metadata.name": other.namespace}
        in_scope = in_scope or selects(term.namespace_selector, labels)
    elif not term.namespaces:
        in_scope = other.namespace == owner.namespace
    same = all(
        other.metadata.labels.get(key) == owner.metadata.labels[key]
        for key in term.match_label_keys
        if key in owner.metadata.labels
    )
    different = all(
        other.metadata.labels.get(key) != owner.metadata.labels[key]
        for key in term.mismatch_label_keys
        if key in owner.metadata.labels
    )
    return in_scope and same and different and selects(term.label_selector, other.metadata.labels)


def same_domain(key: str, left: Node, right: Node) -> bool:
    value = left.metadata.labels.get(key)
    return value is not None and value == right.metadata.labels.get(key)


def required_terms(pod: Pod, *, anti: bool) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    chosen = None if affinity is None else affinity.pod_anti_affinity if anti else affinity.pod_affinity
    return () if chosen is None else chosen.required


def affinity_allows(world: World, pod: Pod, node: Node) -> bool:
    terms = required_terms(pod, anti=False)
    companions = [s for s in world.sitting if all(is_about(world, pod, term, s.pod) for term in terms)]
    if terms:
        if any(term.topology_key not in node.metadata.labels for term in terms):
            return False
        found = all(any(same_domain(t.topology_key, node, s.node) for s in companions) for t in terms)
        somewhere = any(t.topology_key in s.node.metadata.labels for t in terms for s in companions)
        is_first = not somewhere and all(is_about(world, pod, term, pod) for term in terms)
        if not found and not is_first:
            return False
    for sitting in world.sitting:
        for term in required_terms(pod, anti=True):
            if is_about(world, pod, term, sitting.pod) and same_domain(term.topology_key, node, sitting.node):
                return False
        for term in required_terms(sitting.pod, anti=True):
            if is_about(world, sitting.pod, term, pod) and same_domain(term.topology_key, node, sitting.node):
                return False
    return True


def _preferences(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    affinity = pod.spec.affinity
    if affinity is None:
        return []
    pull = affinity.pod_affinity.preferred if affinity.pod_affinity else ()
    push = affinity.pod_anti_affinity.preferred if affinity.pod_anti_affinity else ()
    return [(w.pod_affinity_term, w.weight) for w in pull] + [(w.pod_affinity_term, -w.weight) for w in push]


def affinity_points(world: World, pod: Pod, node: Node, required_weight: int) -> int:
    total = 0
    for sitting in world.sitting:
        for term, weight in _preferences(pod):
            if is_about(world, pod, term, sitting.pod) and same_domain(term.topology_key, node, sitting.node):
                total += weight
        back = _preferences(sitting.pod) + [(t, required_weight) for t in required_terms(sitting.pod, anti=False)]
        for term, weight in back:
            if is_about(world, sitting.pod, term, pod) and same_domain(term.topology_key, node, sitting.node):
                total += weight
    return total


def affinity_scores(world: World, pod: Pod, required_weight: int = 0) -> dict[str, int]:
    """Points stretched to 0..100 over all nodes."""
    points = {node.name: affinity_points(world, pod, node, required_weight) for node in world.nodes}
    low, high = min(points.values()), max(points.values())
    if low == high:
        return dict.fromkeys(points, 0)
    return {name: int(100 * ((value - low) / (high - low))) for name, value in points.items()}


# -- topology spread ---------------------------------------------------------------------------------------


def _constraints(pod: Pod, kind: str) -> list[TopologySpreadConstraint]:
    return [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == kind]


def _is_spread(constraint: TopologySpreadConstraint, owner: Pod, other: Pod) -> bool:
    if constraint.label_selector is None or other.namespace != owner.namespace:
        return False
    keys = [key for key in constraint.match_label_keys if key in owner.metadata.labels]
    same = all(other.metadata.labels.get(key) == owner.metadata.labels[key] for key in keys)
    return same and selects(constraint.label_selector, other.metadata.labels)


def _selects_all(constraint: TopologySpreadConstraint, owner: Pod) -> bool:
    selector = constraint.label_selector
    keys = [key for key in constraint.match_label_keys if key in owner.metadata.labels]
    return selector is not None and not selector.match_labels and not selector.match_expressions and not keys


def _counts(
    constraint: TopologySpreadConstraint, pod: Pod, node: Node, among: Iterable[TopologySpreadConstraint]
) -> bool:
    """Does the node make domains for the constraint?"""
    if any(c.topology_key not in node.metadata.labels for c in among):
        return False
    if constraint.node_affinity_policy == "Honor" and not node_allowed(pod, node):
        return False
    return constraint.node_taints_policy != "Honor" or taints_allow(pod, node)


def _pods_on(world: World, constraint: TopologySpreadConstraint, pod: Pod, nodes: Sequence[Node]) -> int:
    if _selects_all(constraint, pod):
        return 0
    names = {node.name for node in nodes}
    return sum(
        1 for s in world.sitting if not s.terminating and s.node.name in names and _is_spread(constraint, pod, s.pod)
    )


def spread_allows(world: World, pod: Pod, node: Node) -> bool:
    constraints = _constraints(pod, "DoNotSchedule")
    for constraint in constraints:
        key = constraint.topology_key
        if key not in node.metadata.labels:
            return False
        counted = [n for n in world.nodes if _counts(constraint, pod, n, constraints)]
        domains: dict[str, list[Node]] = {}
        for other in counted:
            domains.setdefault(other.metadata.labels[key], []).append(other)
        sizes = {value: _pods_on(world, constraint, pod, members) for value, members in domains.items()}
        least = min(sizes.values(), default=0)
        if len(domains) < (constraint.min_domains or 1):
            least = 0
        own = 1 if _is_spread(constraint, pod, pod) else 0
        if sizes.get(node.metadata.labels[key], 0) + own - least > (constraint.max_skew or 1):
            return False
    return True


def spread_scores(world: World, pod: Pod) -> dict[str, int]:
    """Points of each node, all of them taken as candidates."""
    constraints = _constraints(pod, "ScheduleAnyway")
    rated = [n for n in world.nodes if all(c.topology_key in n.metadata.labels for c in constraints)]
    scores = {node.name: 0 for node in world.nodes}
    if not constraints or not rated:
        return scores
    loads = {}
    for node in rated:
        load = 0.0
        for constraint in constraints:
            key = constraint.topology_key
            if key == "kubernetes.io/hostname":
                count, size = _pods_on(world, constraint, pod, [node]), len(rated)
            else:
                value = node.metadata.labels[key]
                counted = [n for n in world.nodes if _counts(constraint, pod, n, constraints)]
                count = _pods_on(world, constraint, pod, [n for n in counted if n.metadata.labels[key] == value])
                size = len({n.metadata.labels[key] for n in rated})
            load += count * math.log(size + 2) + ((constraint.max_skew or 1) - 1)
        loads[node.name] = math.floor(load + 0.5)
    low, high = min(loads.values()), max(loads.values())
    for name, load in loads.items():
        scores[name] = 100 if high == 0 else 100 * (high + low - load) // high
    return scores


# -- host ports --------------------------------------------------------------------------------------------


def _ports(pod: Pod) -> list[tuple[str, str, int]]:
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return [
        (p.host_ip or "0.0.0.0", p.protocol or "TCP", p.host_port)
        for c in [*pod.spec.containers, *sidecars]
        for p in c.ports
        if p.host_port
    ]


def ports_allow(world: World, pod: Pod, node: Node) -> bool:
    for sitting in world.sitting:
        if sitting.node.name != node.name:
            continue
        for ip, protocol, port in _ports(pod):
            for other_ip, other_protocol, other_port in _ports(sitting.pod):
                same = (protocol, port) == (other_protocol, other_port)
                if same and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):
                    return False
    return True
